"""The facts: evidence and features -> explain.json, what weak classes of one model have in common, as plain values."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import bdtrc

from leastwise.audit.evidence import EXPLAIN_FILE, Evidence, cvc, entropy
from leastwise.core.counts import Tally
from leastwise.core.files import finite_or_none, with_nulls
from leastwise.insight.agreement import RankCorrelation, drop_shares, joint_share, rank_correlation
from leastwise.insight.confusion import find_extremes
from leastwise.insight.dynamics import measure_overfitting
from leastwise.insight.explain import Explanation, explain_classes
from leastwise.insight.features import Moments, inter_class_similarity, intra_class_variance, most_similar
from leastwise.insight.homing import estimate_homing_gain, measure_homing
from leastwise.jobs.folder import ANSWERS, digest_answers
from leastwise.report.condition_stats import clean_conditions, find_attackers_pick

SCHEMA = 2
SQUARES = 200  # classes up to which whole matrices are written
PER_CLASS = 60  # points of a class in a plane
EXTREMES = 5  # most and least robust images of each class
ExplainFacts = Mapping[str, Any]  # explain.json: plain JSON values
FEATURES = {"similarity to another class": "similarity", "variance of features": "variance"}


def collect_facts(
    evidence: Evidence,
    condition: str = "",
    *,
    moments: Moments | None = None,
    plane: Float[np.ndarray, "n 2"] | None = None,
) -> dict[str, Any] | None:
    """Everything that one audit says about why classes are weak; None without images that nobody attacked.

    `condition` is the one where the worst class is lowest unless given; `moments` are those of the features, and
    `plane` has two of them per image in the order of the evidence.
    """
    natural = [name for name in clean_conditions(evidence) if name in evidence.conditions]
    if not natural:
        return None
    base = natural[0]
    chosen = condition or usual_condition(evidence)
    if chosen not in evidence.conditions:
        raise ValueError(f"there is no condition {chosen!r}: choose {', '.join(evidence.conditions)}")
    found = explain_classes(evidence, chosen, base, found=moments)
    both = dict.fromkeys((base, chosen))
    return {
        "schema": SCHEMA,
        "key": evidence.key,
        "condition": chosen,
        "clean": base,
        "classes": list(evidence.names),
        "images": np.bincount(evidence.labels, minlength=evidence.k).tolist(),
        "accuracy": {name: with_nulls(evidence.tally(name).accuracy.numpy().tolist()) for name in both},
        **confusion_facts(found, evidence),
        "entropy": {name: with_nulls(entropy(evidence, name).tolist()) for name in both},
        "cvc": {name: with_nulls(cvc(evidence, name).tolist()) for name in both},
        **drop_facts(evidence, base, chosen),
        "predicts": {} if chosen == base else {name: correlation_facts(r) for name, r in found.predicts.items()},
        "extremes": {
            evidence.names[c]: extreme_images(evidence, chosen, c) for c in sorted(set(evidence.labels.tolist()))
        },
        "features": None if moments is None else feature_facts(moments, evidence.names),
        "plane": None if plane is None else plane_points(evidence, plane),
        "homing": None,
        "overfitting": None,
        "sheet": None,
    }


def confusion_facts(found: Explanation, evidence: Evidence) -> dict[str, Any]:
    """Where mistakes end, whether they are mutual, and whether they stay inside superclasses."""
    small = evidence.k <= SQUARES
    inside, communities = found.inside, found.communities
    return {
        "confusion": found.confusion.tolist() if small else None,
        "in_flow": with_nulls(found.in_flow.tolist()),
        "attractor": None if found.attractor is None else evidence.names[found.attractor],
        "symmetry": {
            "pairs": found.symmetry.pairs,
            "score": finite_or_none(found.symmetry.score),
            "p": finite_or_none(found.symmetry.p),
        },
        "inside": None
        if inside is None
        else {
            "mistakes": inside.mistakes,
            "share": finite_or_none(inside.share),
            "expected": finite_or_none(inside.expected),
        },
        "communities": None
        if communities is None
        else {
            "found": [
                [evidence.names[c] for c in np.flatnonzero(communities.found == p)]
                for p in sorted(set(communities.found.tolist()))
            ],
            "modularity": finite_or_none(communities.modularity),
            "of_superclasses": finite_or_none(communities.of_groups),
            "agreement": finite_or_none(communities.agreement),
        },
        "logit_similarity": with_nulls(found.logit_similarity.tolist()) if small else None,
    }


def drop_facts(evidence: Evidence, base: str, chosen: str) -> dict[str, Any]:
    """The shares of the classes in the fall of accuracy; nothing where nothing was attacked."""
    if chosen == base:
        return {"drop_share": None, "drop_top": None}
    before, after = (evidence.tally(name).accuracy.numpy() for name in (base, chosen))
    return {
        "drop_share": with_nulls(drop_shares(before, after).tolist()),
        "drop_top": top_two_shares(evidence, base, chosen),
    }


def usual_condition(evidence: Evidence) -> str:
    """The condition that is explained unless another one is named: where the worst class is lowest."""
    return find_attackers_pick(evidence).condition


def keep_earlier_facts(made: dict[str, Any], kept: ExplainFacts | None) -> dict[str, Any]:
    """With what an earlier explanation of the same evidence found and this one did not look for.

    Features and the course of training belong to every condition, homing and the sheet to the one they were made of.
    """
    if kept is None:
        return made
    same = made["condition"] == kept["condition"]
    parts = ("features", "plane", "overfitting", *(("homing", "sheet") if same else ()))
    made = made | {name: kept[name] for name in parts if made[name] is None}
    if made["predicts"] and made["features"]:
        robust = with_nans(made["accuracy"][made["condition"]])
        for name, column in FEATURES.items():
            made["predicts"][name] = correlation_facts(rank_correlation(with_nans(made["features"][column]), robust))
    return made


def correlation_facts(r: RankCorrelation) -> dict[str, Any]:
    """A rank correlation as plain values."""
    return {
        "n": r.n,
        "rho": finite_or_none(r.rho),
        "low": finite_or_none(r.low),
        "high": finite_or_none(r.high),
        "p": finite_or_none(r.p),
    }


def top_two_shares(evidence: Evidence, base: str, chosen: str) -> dict[str, Any] | None:
    """The two classes with the largest shares of the fall, together; nothing if a fall is not sure."""
    before, after = evidence.correct(base), evidence.correct(chosen)
    labels = evidence.labels.astype(np.int64)
    shares = drop_shares(*(evidence.tally(name).accuracy.numpy() for name in (base, chosen)))
    known = np.flatnonzero(~np.isnan(shares))
    if len(known) < 2 or not is_sure_fall(before, after):
        return None
    two = known[np.argsort(-shares[known], kind="stable")[:2]]
    found = joint_share(before, after, labels, k=evidence.k, classes=tuple(two.tolist()))
    return {"classes": [evidence.names[c] for c in two], "value": found.value, "low": found.low, "high": found.high}


def is_sure_fall(before: "np.ndarray", after: "np.ndarray") -> bool:
    """Whether accuracy is lower for sure: McNemar's test, one-sided at 2.5 %."""
    lost, won = int((before & ~after).sum()), int((after & ~before).sum())
    return lost > won and float(bdtrc(lost - 1, lost + won, 0.5)) <= 0.025


def extreme_images(evidence: Evidence, condition: str, c: int) -> dict[str, list[int]]:
    """The ids of the most and the least robust images of a class."""
    most, least = find_extremes(evidence, condition, c, count=EXTREMES)
    return {"most_robust": most.tolist(), "least_robust": least.tolist()}


def feature_facts(found: Moments, names: Sequence[str]) -> dict[str, Any]:
    """Similarity and variance of the features of each class."""
    return {
        "similarity": with_nulls(inter_class_similarity(found.means).tolist()),
        "most_similar": [names[c] for c in most_similar(found.means)],
        "variance": with_nulls(intra_class_variance(found).tolist()),
        "variance_pooled": with_nulls(intra_class_variance(found, pooled=True).tolist()),
        "dimensions": int(found.centre.shape[1]),
    }


def plane_points(evidence: Evidence, plane: Float[np.ndarray, "n 2"]) -> list[list[float | int]]:
    """x, y and class of the first images of each class."""
    rows = np.concatenate([np.flatnonzero(evidence.labels == c)[:PER_CLASS] for c in range(evidence.k)])
    return [[float(f"{plane[i, 0]:.4g}"), float(f"{plane[i, 1]:.4g}"), int(evidence.labels[i])] for i in rows]


def homing_facts(evidence: Evidence, without: Mapping[int, Evidence], condition: str) -> dict[str, Any]:
    """Who comes right when the class it was taken for is gone from training, beside who comes right anyway."""
    found, gain = measure_homing(evidence, without, condition), estimate_homing_gain(evidence, without, condition)
    return {
        "removed": [evidence.names[c] for c in sorted(without)],
        "misclassified": found.misclassified.tolist(),
        "homed": with_nulls(found.homed.tolist()),
        "share": finite_or_none(found.share),
        "gain": {
            "value": finite_or_none(gain.value),
            "low": finite_or_none(gain.low),
            "high": finite_or_none(gain.high),
        },
    }


def has_counts(side: Mapping[str, Any], kind: str) -> bool:
    """Whether images were counted; versions before 0.2 called robust what was trained on, and it is not taken."""
    return (
        kind in side
        and sum(side[kind]["n"]) > 0
        and not (kind == "robust" and "loss" in side and "attacked" not in side)
    )


def overfitting_facts(folder: Path) -> dict[str, Any]:
    """Class-wise overfitting from the record of a training: of its test or its validation images, whichever were
    looked at more often; under attack if both sides were attacked, and else without.
    """
    path = folder / "epochs.jsonl"
    try:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        part = max(("test", "valid"), key=lambda name: sum(name in line for line in lines))
        seen = [line for line in lines if part in line]
        sides = seen, [line[part] for line in seen]
        kind = next((k for k in ("robust", "clean") if all(has_counts(one, k) for some in sides for one in some)), "")
        train, test = ([read_tally(one[kind]) for one in some] for some in sides) if kind else ([], [])
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(
            f"there is no record of a training in {folder}: give a folder that `leastwise train` wrote"
        ) from None
    if len(seen) < 2:
        epochs = "one epoch" if seen else "no epoch"
        raise ValueError(
            f"{path} has test or validation images of {epochs}, and overfitting shows from two on: train longer, with "
            "a validation split or with --test-at"
        )
    if not train:
        raise ValueError(f"{path} has attacks on one side only, training or {part} images: nothing can be compared")
    found = measure_overfitting(train, test)
    return {
        "kind": kind,
        "images": part,
        "epochs": [int(line["epoch"]) for line in seen],
        "best_epoch": int(seen[found.epoch]["epoch"]),
        "lost": with_nulls(found.lost.tolist()),
        "own_best_epoch": [int(seen[int(e)]["epoch"]) for e in found.own_epoch],
        "own_lost": with_nulls(found.own_lost.tolist()),
        "gap": with_nulls(found.gap.tolist()),
    }


def read_tally(counts: Mapping[str, Any]) -> Tally:
    """Counts as a record of a training has them."""
    return Tally(*(torch.tensor(counts[name], dtype=torch.int64) for name in ("n", "correct")))


def with_nans(values: Sequence[float | None]) -> "np.ndarray":
    """Numbers of a JSON file as an array: null is NaN."""
    return np.array([np.nan if v is None else v for v in values])


def read_facts(folder: Path, evidence: Evidence) -> dict[str, Any] | None:
    """What `leastwise explain` left beside this evidence; nothing if it was of other evidence or cannot be read."""
    try:
        made = json.loads((folder / EXPLAIN_FILE).read_text("utf-8"))
        fits = made["schema"] == SCHEMA and made["key"] == evidence.key and made["classes"] == list(evidence.names)
        answers = digest_answers(folder)
        fits = fits and made.get(ANSWERS, answers) == answers  # earlier versions did not write down whose they are
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return made if fits else None
