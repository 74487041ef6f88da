"""The facts of several models: whether they find the same classes hard, and which classes paid for the change."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from leastwise.core.files import with_nulls
from leastwise.insight.agreement import compare_profiles, drop_shares
from leastwise.report.explain.facts import ExplainFacts, with_nans

SURE = 1.96  # standard errors


def compare_facts(models: Mapping[str, ExplainFacts]) -> dict[str, Any]:
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
        found = compare_profiles(np.array([with_nans(one["accuracy"][one[what]]) for one in models.values()]))
        made[kind] = {
            "conditions": conditions,
            "cosine": with_nulls(found.cosine.tolist()),
            "p": with_nulls(found.p.tolist()),
        }
    (_, first), *others = models.items()
    shares = {name: drop_shares_between(first, one) for name, one in others}
    made["drop_share"] = {name: one for name, one in shares.items() if one is not None}
    return made


def drop_shares_between(first: ExplainFacts, other: ExplainFacts) -> list[float | None] | None:
    """Shares of the classes in the fall of clean accuracy from one model to the other; nothing if a fall is not sure.

    The images need not be the same: errors are those of independent samples, which are the larger ones.
    """
    n = [np.array(one["images"], dtype=float) for one in (first, other)]
    a, b = (with_nans(one["accuracy"][one["clean"]]) for one in (first, other))
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(np.nansum(a * (1 - a) / n[0] + b * (1 - b) / n[1]))
    return with_nulls(drop_shares(a, b).tolist()) if float(np.nansum(a - b)) > SURE * error else None
