"""Evidence -> summary.json: the class-wise numbers, ready to read by any program."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from leastwise.audit.evidence import Evidence
from leastwise.audit.masking import cautions
from leastwise.core.counts import ClassFrame
from leastwise.core.files import finite_or_none, with_nulls
from leastwise.data.classes import Groups
from leastwise.report.fairness import measure_fairness
from leastwise.report.leaderboard import make_leaderboard
from leastwise.report.security_curves import Curve, make_curves, nearest_mistakes
from leastwise.statistics.intervals import CONFIDENCE, wilson_interval

SCHEMA = 2  # 2: the leaderboard's flat keys, fairness, provenance


def summarise(
    evidence: Evidence, run: Mapping[str, Any] | None = None, cost: "np.ndarray | None" = None
) -> dict[str, Any]:
    """Fractions in [0, 1]; `cv` in percent squared, `mcd` and `std` in points; null for a class without examples.

    `run` is what else is known of the audit (run.json and manifest.json), `cost` what mistakes cost. The keys of
    RobustBench's files are at the top, in its units. docs/guide/results.md explains every key; summary.schema.json
    beside this file is the contract.
    """
    frame = evidence.frame()
    known = {} if run is None else dict(run)
    return make_leaderboard(evidence, known) | {
        "schema": SCHEMA,
        "key": evidence.key,
        "classes": list(evidence.names),
        "interval": {"method": "wilson", "confidence": CONFIDENCE},
        "warnings": list(cautions(evidence)),
        "groups": {name: [evidence.names[c] for c in classes] for name, classes in evidence.groups},
        "conditions": {
            name: condition_numbers(frame, row, evidence.groups)
            | grid_numbers(evidence, name)
            | eight_bit_numbers(evidence, name)
            | nearest_distances(evidence, name)
            for row, name in enumerate(frame.conditions)
        },
        "curves": {one.attack: curve_numbers(one) for one in make_curves(evidence)},
        "fairness": {name: measure_fairness(evidence, name, cost) for name in frame.conditions},
        "provenance": describe_provenance(evidence) | known,
    }


def describe_provenance(evidence: Evidence) -> dict[str, Any]:
    """What determined the evidence, and what it cost."""
    recipe = json.loads(evidence.recipe)
    passes = {name: {"forwards": r.forwards, "backwards": r.backwards} for name, r in evidence.conditions.items()}
    return {
        "images": len(evidence.ids),
        "model_digest": recipe.get("model"),
        "data_digest": recipe.get("data"),
        "seed": recipe.get("seed"),
        "passes": passes,
        "recipe": recipe,
    }


def condition_numbers(frame: ClassFrame, row: int, groups: Groups = ()) -> dict[str, Any]:
    """Counts, accuracies, intervals and spread of one condition."""
    n, correct = frame.n[row].numpy(), frame.correct[row].numpy()
    low, high = wilson_interval(correct, n)
    accuracy = [finite_or_none(a) for a in frame.accuracy[row].tolist()]
    worst = int(frame.worst[row])
    return {
        "n": n.tolist(),
        "correct": correct.tolist(),
        "accuracy": accuracy,
        "low": [finite_or_none(v) for v in low.tolist()],
        "high": [finite_or_none(v) for v in high.tolist()],
        "overall": finite_or_none(float(frame.overall[row])),
        "macro": finite_or_none(float(frame.macro[row])),
        "worst": {
            "index": worst,
            "class": frame.names[worst],
            "accuracy": accuracy[worst],
            "low": finite_or_none(float(low[worst])),
            "high": finite_or_none(float(high[worst])),
        },
        "cv": finite_or_none(1e4 * float(frame.variance[row])),
        "mcd": finite_or_none(100 * float(frame.gap[row])),
        "std": finite_or_none(100 * float(frame.std[row])),
        "groups": {name: group_numbers(n[list(classes)], correct[list(classes)]) for name, classes in groups},
    }


def grid_numbers(evidence: Evidence, name: str) -> dict[str, Any]:
    """Of a grid of attacks: each member on all images."""
    frames = {
        member: ClassFrame.of({name: evidence.against(name, number)}, evidence.names)
        for number, member in enumerate(evidence.members(name))
    }
    return {"members": {member: condition_numbers(frame, 0) for member, frame in frames.items()}} if frames else {}


def eight_bit_numbers(evidence: Evidence, name: str) -> dict[str, Any]:
    """What survives if attacked images are rounded to 8 bits, where that was asked for."""
    found = evidence.in_8_bits(name)
    if found is None:
        return {}
    return {"in_8_bits": {"n": found.n.tolist(), "correct": found.correct.tolist(), "overall": found.overall}}


def nearest_distances(evidence: Evidence, name: str) -> dict[str, Any]:
    """Median distances to the nearest mistake; null where most of a class survived."""
    found = nearest_mistakes(evidence, name)
    return {} if found is None else {"median_distance": with_nulls(found.tolist())}


def curve_numbers(one: Curve) -> dict[str, Any]:
    """A security curve: accuracy at each radius, and where a class is half lost."""
    return {
        "eps": list(one.radii),
        "conditions": list(one.conditions),
        "accuracy": with_nulls(one.accuracy.tolist()),
        "overall": with_nulls(one.overall.tolist()),
        "half_lost_at": with_nulls(one.half.tolist()),
        "half_lost_between": with_nulls(one.between.tolist()),
    }


def group_numbers(n: "np.ndarray", correct: "np.ndarray") -> dict[str, Any]:
    """The examples of all classes of a superclass together."""
    low, high = wilson_interval(correct.sum(keepdims=True), n.sum(keepdims=True))
    total = int(n.sum())
    accuracy = int(correct.sum()) / total if total else None
    return {
        "n": total,
        "accuracy": accuracy,
        "low": finite_or_none(float(low[0])),
        "high": finite_or_none(float(high[0])),
    }
