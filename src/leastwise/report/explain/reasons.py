"""Evidence and features -> explain.json: what weak classes have in common, as plain values for pages and programs."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import bdtrc

from leastwise.audit.evidence import Evidence
from leastwise.core.counts import Tally
from leastwise.core.json_values import finite_or_none, with_nulls
from leastwise.insight.accuracy_drop import drop_shares, joint_share
from leastwise.insight.agreement import RankCorrelation, compare_profiles, rank_correlation
from leastwise.insight.dynamics import measure_overfitting
from leastwise.insight.explain import explain_classes
from leastwise.insight.features import Moments, inter_class_similarity, intra_class_variance, most_similar
from leastwise.insight.homing import estimate_homing_gain, measure_homing
from leastwise.insight.outputs import cvc, entropy, find_extremes
from leastwise.report.security_curves import clean as clean_conditions
from leastwise.report.terminal.table import find_attackers_pick

SCHEMA = 2
FILE = "explain.json"
SQUARES = 200  # classes up to which whole matrices are written
PER_CLASS = 60  # points of a class in a plane
EXTREMES = 5  # most and least robust images of each class
FEATURES = {"similarity to another class": "similarity", "variance of features": "variance"}
SURE = 1.96  # standard errors


def reasons(
    evidence: Evidence,
    condition: str = "",
    found: Moments | None = None,
    plane: Float[np.ndarray, "n 2"] | None = None,
) -> dict[str, Any] | None:
    """Everything that one audit says about why classes are weak; None without images that nobody attacked.

    `condition` is the one where the worst class is lowest unless given; `plane` is in the order of the evidence.
    """
    natural = [name for name in clean_conditions(evidence) if name in evidence.conditions]
    if not natural:
        return None
    base = natural[0]
    chosen = condition or usual(evidence)
    if chosen not in evidence.conditions:
        raise ValueError(f"there is no condition {chosen!r}: choose {', '.join(evidence.conditions)}")
    one = explain_classes(evidence, chosen, base, found)
    both = dict.fromkeys((base, chosen))
    before, after = (evidence.tally(name).accuracy.numpy() for name in (base, chosen))
    small = evidence.k <= SQUARES
    made = {
        "schema": SCHEMA,
        "key": evidence.key,
        "condition": chosen,
        "clean": base,
        "classes": list(evidence.names),
        "images": np.bincount(evidence.labels, minlength=evidence.k).tolist(),
        "accuracy": {name: with_nulls(evidence.tally(name).accuracy.numpy().tolist()) for name in both},
        "confusion": one.confusion.tolist() if small else None,
        "in_flow": with_nulls(one.in_flow.tolist()),
        "attractor": None if one.attractor is None else evidence.names[one.attractor],
        "symmetry": {
            "pairs": one.symmetry.pairs,
            "score": finite_or_none(one.symmetry.score),
            "p": finite_or_none(one.symmetry.p),
        },
        "inside": None
        if one.inside is None
        else {
            "mistakes": one.inside.mistakes,
            "share": finite_or_none(one.inside.share),
            "expected": finite_or_none(one.inside.expected),
        },
        "communities": None
        if one.communities is None
        else {
            "found": [
                [evidence.names[c] for c in np.flatnonzero(one.communities.found == p)]
                for p in sorted(set(one.communities.found.tolist()))
            ],
            "modularity": finite_or_none(one.communities.modularity),
            "of_superclasses": finite_or_none(one.communities.of_groups),
            "agreement": finite_or_none(one.communities.agreement),
        },
        "logit_similarity": with_nulls(one.logit_similarity.tolist()) if small else None,
        "entropy": {name: with_nulls(entropy(evidence, name).tolist()) for name in both},
        "cvc": {name: with_nulls(cvc(evidence, name).tolist()) for name in both},
        "drop_share": with_nulls(drop_shares(before, after).tolist()) if chosen != base else None,
        "drop_top": top_two(evidence, base, chosen) if chosen != base else None,
        "predicts": {} if chosen == base else {name: correlation(r) for name, r in one.predicts.items()},
        "extremes": {evidence.names[c]: ends(evidence, chosen, c) for c in sorted(set(evidence.labels.tolist()))},
        "features": None if found is None else features(found, evidence.names),
        "plane": None if plane is None else points(evidence, plane),
        "homing": None,
        "overfitting": None,
        "sheet": None,
    }
    return made


def usual(evidence: Evidence) -> str:
    """The condition that is explained unless another one is named: where the worst class is lowest."""
    return find_attackers_pick(evidence).condition


def carried(made: dict[str, Any], kept: Mapping[str, Any] | None) -> dict[str, Any]:
    """With what an earlier explanation of the same evidence found and this one did not look for.

    Features and the course of training belong to every condition, homing and the sheet to the one they were made of.
    """
    if kept is None:
        return made
    same = made["condition"] == kept["condition"]
    parts = ("features", "plane", "overfitting", *(("homing", "sheet") if same else ()))
    made = made | {name: kept[name] for name in parts if made[name] is None}
    if made["predicts"] and made["features"]:
        robust = filled(made["accuracy"][made["condition"]])
        for name, column in FEATURES.items():
            made["predicts"][name] = correlation(rank_correlation(filled(made["features"][column]), robust))
    return made


def correlation(r: RankCorrelation) -> dict[str, Any]:
    return {
        "n": r.n,
        "rho": finite_or_none(r.rho),
        "low": finite_or_none(r.low),
        "high": finite_or_none(r.high),
        "p": finite_or_none(r.p),
    }


def top_two(evidence: Evidence, base: str, chosen: str) -> dict[str, Any] | None:
    """The two classes with the largest shares of the fall, together; nothing if a fall is not sure."""
    before, after = evidence.correct(base), evidence.correct(chosen)
    labels = evidence.labels.astype(np.int64)
    shares = drop_shares(*(evidence.tally(name).accuracy.numpy() for name in (base, chosen)))
    known = np.flatnonzero(~np.isnan(shares))
    if len(known) < 2 or not falls(before, after):
        return None
    two = known[np.argsort(-shares[known], kind="stable")[:2]]
    found = joint_share(before, after, labels, evidence.k, tuple(two.tolist()))
    return {"classes": [evidence.names[c] for c in two], "value": found.value, "low": found.low, "high": found.high}


def falls(before: "np.ndarray", after: "np.ndarray") -> bool:
    """Whether accuracy is lower for sure: McNemar's test, one-sided at 2.5 %."""
    lost, won = int((before & ~after).sum()), int((after & ~before).sum())
    return lost > won and float(bdtrc(lost - 1, lost + won, 0.5)) <= 0.025


def ends(evidence: Evidence, condition: str, c: int) -> dict[str, list[int]]:
    most, least = find_extremes(evidence, condition, c, EXTREMES)
    return {"most_robust": most.tolist(), "least_robust": least.tolist()}


def features(found: Moments, names: Sequence[str]) -> dict[str, Any]:
    return {
        "similarity": with_nulls(inter_class_similarity(found.means).tolist()),
        "most_similar": [names[c] for c in most_similar(found.means)],
        "variance": with_nulls(intra_class_variance(found).tolist()),
        "variance_pooled": with_nulls(intra_class_variance(found, pooled=True).tolist()),
        "dimensions": int(found.centre.shape[1]),
    }


def points(evidence: Evidence, plane: Float[np.ndarray, "n 2"]) -> list[list[float | int]]:
    """x, y and class of the first images of each class."""
    rows = np.concatenate([np.flatnonzero(evidence.labels == c)[:PER_CLASS] for c in range(evidence.k)])
    return [[float(f"{plane[i, 0]:.4g}"), float(f"{plane[i, 1]:.4g}"), int(evidence.labels[i])] for i in rows]


def homed(evidence: Evidence, without: Mapping[int, Evidence], condition: str) -> dict[str, Any]:
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


def overfitted(folder: Path) -> dict[str, Any]:
    """Class-wise overfitting from the record of a training: of its test or its validation images, whichever were
    looked at more often; under attack if both sides were attacked, and else without.
    """
    path = folder / "epochs.jsonl"
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        part = max(("test", "valid"), key=lambda name: sum(name in line for line in lines))
        seen = [line for line in lines if part in line]
        sides = seen, [line[part] for line in seen]
        kind = next(
            (k for k in ("robust", "clean") if all(sum(one[k]["n"]) for some in sides for one in some)), "nothing"
        )
        train, test = ([counted(one[kind]) for one in some] for some in sides) if kind != "nothing" else ([], [])
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


def counted(counts: Mapping[str, Any]) -> Tally:
    return Tally(*(torch.tensor(counts[name], dtype=torch.int64) for name in ("n", "correct")))


def across(models: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Several models of the same classes: do they find the same ones hard, and which paid for the change?"""
    names = list(models)
    classes = [tuple(made["classes"]) for made in models.values()]
    if len(set(classes)) > 1:
        raise ValueError("models of different classes cannot be compared: explain them one by one")
    made: dict[str, Any] = {"models": names}
    for kind, what in (("natural", "clean"), ("attacked", "condition")):
        conditions = [one[what] for one in models.values()]
        if kind == "attacked" and (len(set(conditions)) > 1 or conditions[0] == next(iter(models.values()))["clean"]):
            made[kind] = None  # different attacks, or none: their class accuracies say nothing about each other
            continue
        found = compare_profiles(np.array([filled(one["accuracy"][one[what]]) for one in models.values()]))
        made[kind] = {
            "conditions": conditions,
            "cosine": with_nulls(found.cosine.tolist()),
            "p": with_nulls(found.p.tolist()),
        }
    (_, first), *others = models.items()
    made["drop_share"] = {name: shares for name, one in others if (shares := lost_between(first, one)) is not None}
    return made


def lost_between(first: Mapping[str, Any], other: Mapping[str, Any]) -> list[float | None] | None:
    """Shares of the classes in the fall of clean accuracy from one model to the other; nothing if a fall is not sure.

    The images need not be the same: errors are those of independent samples, which are the larger ones.
    """
    n = [np.array(one["images"], dtype=float) for one in (first, other)]
    a, b = (filled(one["accuracy"][one["clean"]]) for one in (first, other))
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(np.nansum(a * (1 - a) / n[0] + b * (1 - b) / n[1]))
    return with_nulls(drop_shares(a, b).tolist()) if float(np.nansum(a - b)) > SURE * error else None


def filled(values: Sequence[float | None]) -> "np.ndarray":
    return np.array([math.nan if v is None else v for v in values])


def beside(folder: Path, evidence: Evidence) -> dict[str, Any] | None:
    """What `leastwise explain` left beside this evidence; nothing if it was of other evidence or cannot be read."""
    try:
        made = json.loads((folder / FILE).read_text())
        fits = made["schema"] == SCHEMA and made["key"] == evidence.key and made["classes"] == list(evidence.names)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return made if fits else None
