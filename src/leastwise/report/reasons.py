"""Evidence and features -> explain.json: what weak classes have in common, as plain values for pages and programs."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from leastwise.evidence import Evidence
from leastwise.frame import Tally
from leastwise.geometry import (
    Moments,
    cvc,
    drop_shares,
    entropy,
    explain,
    extremes,
    homing,
    homing_gain,
    inter_class_similarity,
    intra_class_variance,
    most_similar,
    overfitting,
    profile_similarity,
)
from leastwise.report.curves import clean as clean_conditions
from leastwise.report.fairness import number
from leastwise.report.table import pick

SCHEMA = 1
FILE = "explain.json"
SQUARES = 200  # classes up to which whole matrices are written
PER_CLASS = 60  # points of a class in a plane
EXTREMES = 5  # most and least robust images of each class


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
    chosen = condition or pick(evidence).condition
    if chosen not in evidence.conditions:
        raise ValueError(f"there is no condition {chosen!r}: choose {', '.join(evidence.conditions)}")
    one = explain(evidence, chosen, base, found)
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
        "accuracy": {name: listed(evidence.tally(name).accuracy.numpy()) for name in both},
        "confusion": one.confusion.tolist() if small else None,
        "in_flow": listed(one.in_flow),
        "attractor": None if one.attractor is None else evidence.names[one.attractor],
        "symmetry": {"pairs": one.symmetry.pairs, "score": number(one.symmetry.score), "p": number(one.symmetry.p)},
        "inside": None
        if one.inside is None
        else {
            "mistakes": one.inside.mistakes,
            "share": number(one.inside.share),
            "expected": number(one.inside.expected),
        },
        "communities": None
        if one.communities is None
        else {
            "found": [
                [evidence.names[c] for c in np.flatnonzero(one.communities.found == p)]
                for p in sorted(set(one.communities.found.tolist()))
            ],
            "modularity": number(one.communities.modularity),
            "of_superclasses": number(one.communities.of_groups),
            "agreement": number(one.communities.agreement),
        },
        "logit_similarity": [listed(row) for row in one.logit_similarity] if small else None,
        "entropy": {name: listed(entropy(evidence, name)) for name in both},
        "cvc": {name: listed(cvc(evidence, name)) for name in both},
        "drop_share": listed(drop_shares(before, after)) if chosen != base else None,
        "predicts": {}
        if chosen == base
        else {
            name: {"n": r.n, "rho": number(r.rho), "low": number(r.low), "high": number(r.high), "p": number(r.p)}
            for name, r in one.predicts.items()
        },
        "extremes": {evidence.names[c]: ends(evidence, chosen, c) for c in sorted(set(evidence.labels.tolist()))},
        "features": None if found is None else features(found, evidence.names),
        "plane": None if plane is None else points(evidence, plane),
        "homing": None,
        "overfitting": None,
        "sheet": None,
    }
    return made


def listed(values: "np.ndarray") -> list[float | None]:
    """JSON has no NaN: what is missing is null."""
    return [number(float(v)) for v in values]


def ends(evidence: Evidence, condition: str, c: int) -> dict[str, list[int]]:
    most, least = extremes(evidence, condition, c, EXTREMES)
    return {"most_robust": most.tolist(), "least_robust": least.tolist()}


def features(found: Moments, names: Sequence[str]) -> dict[str, Any]:
    return {
        "similarity": listed(inter_class_similarity(found.means)),
        "most_similar": [names[c] for c in most_similar(found.means)],
        "variance": listed(intra_class_variance(found)),
        "variance_pooled": listed(intra_class_variance(found, pooled=True)),
        "dimensions": int(found.centre.shape[1]),
    }


def points(evidence: Evidence, plane: Float[np.ndarray, "n 2"]) -> list[list[float | int]]:
    """x, y and class of the first images of each class."""
    rows = np.concatenate([np.flatnonzero(evidence.labels == c)[:PER_CLASS] for c in range(evidence.k)])
    return [[float(f"{plane[i, 0]:.4g}"), float(f"{plane[i, 1]:.4g}"), int(evidence.labels[i])] for i in rows]


def homed(evidence: Evidence, without: Mapping[int, Evidence], condition: str) -> dict[str, Any]:
    """Who comes right when the class it was taken for is gone from training, beside who comes right anyway."""
    found, gain = homing(evidence, without, condition), homing_gain(evidence, without, condition)
    return {
        "removed": [evidence.names[c] for c in sorted(without)],
        "misclassified": found.misclassified.tolist(),
        "homed": [listed(row) for row in found.homed],
        "share": number(found.share),
        "gain": {"value": number(gain.value), "low": number(gain.low), "high": number(gain.high)},
    }


def overfitted(folder: Path) -> dict[str, Any]:
    """Class-wise robust overfitting from the record of a training: its test images, or else its validation images."""
    path = folder / "epochs.jsonl"
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        part = next(name for name in ("test", "valid") if any(name in line for line in lines))
        seen = [line for line in lines if part in line]
        train, test = ([attacked(one) for one in some] for some in (seen, [line[part] for line in seen]))
    except StopIteration:
        raise ValueError(f"{path} has neither test nor validation images: train with --test-at or a split") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(
            f"there is no record of a training in {folder}: give a folder that `leastwise train` wrote"
        ) from None
    found = overfitting(train, test)
    return {
        "images": part,
        "epochs": [int(line["epoch"]) for line in seen],
        "best_epoch": int(seen[found.epoch]["epoch"]),
        "lost": listed(found.lost),
        "own_best_epoch": [int(seen[int(e)]["epoch"]) for e in found.own_epoch],
        "own_lost": listed(found.own_lost),
        "gap": listed(found.gap),
    }


def attacked(part: Mapping[str, Any]) -> Tally:
    """Under attack, or clean for a training without one."""
    counts = part["robust"] if sum(part["robust"]["n"]) else part["clean"]
    return Tally(*(torch.tensor(counts[name], dtype=torch.int64) for name in ("n", "correct")))


def across(models: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Several models of the same classes: do they find the same ones hard, and which paid for the change?"""
    names = list(models)
    classes = [tuple(made["classes"]) for made in models.values()]
    if len(set(classes)) > 1:
        raise ValueError("models of different classes cannot be compared: explain them one by one")
    made: dict[str, Any] = {"models": names}
    for what in ("clean", "condition"):
        accuracy = np.array([filled(one["accuracy"][one[what]]) for one in models.values()])
        found = profile_similarity(accuracy)
        made["natural" if what == "clean" else "attacked"] = {
            "conditions": [one[what] for one in models.values()],
            "cosine": [listed(row) for row in found.cosine],
            "p": [listed(row) for row in found.p],
        }
    first = next(iter(models.values()))
    start = filled(first["accuracy"][first["clean"]])
    made["drop_share"] = {
        name: listed(drop_shares(start, filled(one["accuracy"][one["clean"]])))
        for name, one in list(models.items())[1:]
    }
    return made


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
