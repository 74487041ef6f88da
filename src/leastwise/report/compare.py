"""Two or more models, or groups of seeds of them, on the same images: what differs, and what only chance made.

A side is one model or several trainings of it. Single models are paired image by image (McNemar's exact test, Holm over
the classes). With several trainings the interval also covers another training: its share is shown apart from the test
images'. Differences are later side minus first side, in fractions.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from leastwise.audit.masking import cautions
from leastwise.core.files import finite_or_none
from leastwise.report.class_changes import different_attacks
from leastwise.report.dominance import surely_dominated
from leastwise.report.sides import Side
from leastwise.statistics.accuracy import CONFIDENCE, PairedComparison, adjust_holm, compare_class_wise, compare_paired
from leastwise.statistics.differences import not_worse_p
from leastwise.statistics.extremes import (
    MinimumChange,
    PairedCounts,
    change_of_gap,
    change_of_minimum,
    change_of_rho,
    change_of_variance,
)
from leastwise.statistics.seeds import (
    GroupDifference,
    compare_class_groups,
    compare_groups,
    measure_agreement,
    training_interval,
)
from leastwise.statistics.spread import rho, worst_accuracy, worst_class
from leastwise.statistics.worst_class import estimate_worst

CLEAN = "clean"


def shared_conditions(found: Sequence[Side]) -> list[str]:
    """The conditions that all models of all sides were audited under."""
    every = [model.evidence for side in found for model in side.models]
    return [name for name in every[0].conditions if all(name in one.conditions for one in every)]


def check_alike(found: Sequence[Side], conditions: Sequence[str]) -> None:
    """One name may stand for attacks of different strength; those are not compared."""
    first = found[0].first
    for side in found:
        for model in side.models:
            apart = different_attacks(first, model.evidence)
            for name in conditions:
                if name in apart:
                    raise ValueError(
                        f"{name} of {found[0].name} and {name} of {side.name} are different attacks ({apart[name]}): "
                        f"audit both alike, or choose another --condition"
                    )


def choose_condition(found: Sequence[Side], condition: str = "") -> str:
    """The condition to compare under: as asked, or the one with the lowest mean accuracy of those that all have."""
    shared = shared_conditions(found)
    if condition and condition not in shared:
        raise ValueError(f"not all results have {condition!r}: choose {', '.join(shared) or 'results that share one'}")
    if not shared:
        raise ValueError("the results share no condition: audit the models under the same attacks")
    attacked = [name for name in shared if name != CLEAN] or shared
    return condition or min(attacked, key=lambda name: sum(side.accuracy(name)[side.present].mean() for side in found))


def compare_sides(found: Sequence[Side], condition: str, *, margin: float | None = None) -> dict[str, Any]:
    """Everything the terminal shows, as plain values. Stars are corrected for classes times models (Holm)."""
    shown = [name for name in dict.fromkeys((CLEAN, condition)) if name in shared_conditions(found)]
    check_alike(found, shown)
    first, names = found[0], found[0].first.names
    others = len(found) - 1
    changes = {name: [change_numbers(first, side, name, others=others) for side in found[1:]] for name in shown}
    for made in changes.values():
        correct_over_models(made)
    if margin is not None:
        for name in shown:
            add_margin(first, found[1:], name, made=changes[name], margin=margin)
    return {
        "condition": condition,
        "margin": margin,
        "images": len(first.first.ids),
        "classes": list(names),
        "warnings": {side.name: list_warnings(side) for side in found},
        "models": pareto_rows(found, shown, condition),
        "changes": [
            {
                "from": first.name,
                "to": side.name,
                "speaks_of": scope(first, side),
                "conditions": {name: changes[name][i] for name in shown},
            }
            for i, side in enumerate(found[1:])
        ],
        "agreement": [
            {"models": [a.name, b.name], "conditions": {name: profile_agreement(a, b, name) for name in shown}}
            for i, a in enumerate(found)
            for b in found[i + 1 :]
        ],
    }


def list_warnings(side: Side) -> list[str]:
    """What has to be known of the audits of a side before they are compared with others."""
    return list(dict.fromkeys(said for model in side.models for said in cautions(model.evidence)))


def pareto_rows(found: Sequence[Side], shown: Sequence[str], condition: str) -> list[dict[str, Any]]:
    """Clean, robust and worst-class accuracy of each side; ρ (WAT) against the first; whom another side dominates:
    it is at least as good in each of these and better in one beyond chance."""
    rows: list[dict[str, Any]] = []
    for side in found:
        accuracy = side.accuracy(condition)
        overall = {name: float(np.mean([m.evidence.tally(name).overall for m in side.models])) for name in shown}
        tallies = [model.evidence.tally(condition) for model in side.models]
        lowest = [estimate_worst(t.correct.numpy(), t.n.numpy()) for t in tallies]
        rows.append(
            {
                "name": side.name,
                "trainings": len(side.models),
                "overall": overall,
                "worst_class": side.first.names[worst_class(accuracy)],
                # The named class, whose mean over the trainings is lowest. The attacker who sees a training picks its
                # own worst class: with several these may differ, and their mean is lower.
                "worst": float(worst_accuracy(accuracy)),
                "worst_of_each": float(np.mean([w.plug_in for w in lowest])),
                "worst_corrected": float(np.mean([w.corrected for w in lowest])),
            }
        )
    base = rows[0]
    for row in rows:
        row["rho"] = finite_or_none(
            rho(
                row["worst"],
                row["overall"][condition],
                base_worst=base["worst"],
                base_average=base["overall"][condition],
            )
        )
    scores = np.array([[*row["overall"].values(), row["worst"]] for row in rows])
    hits = [{name: side.hits(name) for name in shown} for side in found]
    tallies_of = [[model.evidence.tally(condition) for model in side.models] for side in found]
    for row, beaten in zip(rows, surely_dominated(scores, hits, tallies_of), strict=True):
        row["dominated"] = beaten
    return rows


ONE_TRAINING = "these two trainings on other test images; it cannot speak of other trainings of the same methods"
SEVERAL_TRAININGS = "other trainings and other test images"


def scope(a: Side, b: Side) -> str:
    """What the intervals of a comparison cover."""
    return ONE_TRAINING if len(a.models) == len(b.models) == 1 else SEVERAL_TRAININGS


def change_numbers(a: Side, b: Side, condition: str, *, others: int = 1) -> dict[str, Any]:
    """What side B changes against side A: overall, class by class, and of the worst class, gap, CV and ρ."""
    x, y, labels, k = a.hits(condition), b.hits(condition), a.first.labels, a.first.k
    if len(x) == len(y) == 1:
        by_class = compare_class_wise(x[0], y[0], labels, k=k)
        whole = compare_paired(x[0], y[0])
        both = PairedCounts.count(x[0], y[0], labels, k=k)
        return {
            "overall": pair_block(whole, whole.p),
            "classes": [None if one is None else pair_block(one, one.p) for one in by_class.classes],
            "extremes": {name: extreme_block(change(both)) for name, change in EXTREMES.items()},
        }
    # Groups have no exact test: a class is marked if its interval, widened for the number of classes, excludes 0.
    present = int((np.bincount(labels, minlength=k) > 0).sum()) * others
    plain, wide = (
        compare_class_groups(x, y, labels, k=k),
        compare_class_groups(x, y, labels, k=k, confidence=1 - (1 - CONFIDENCE) / present),
    )
    whole_group = compare_groups(x, y)
    spread = [training_interval(np.stack(hits).astype(np.float64)) for hits in (x, y)]
    decisive = compare_groups(x, y, 1 - (1 - CONFIDENCE) / others)
    overall = group_block(whole_group, decisive) | {
        "training_sd_intervals": [[finite_or_none(end) for end in ends] for ends in spread]
    }
    return {
        "overall": overall,
        "classes": [
            None if one is None or all_one is None else group_block(one, all_one)
            for one, all_one in zip(plain, wide, strict=True)
        ],
    }


def correct_over_models(made: Sequence[dict[str, Any]]) -> None:
    """Holm over the classes of all single models together: five models have five times the chances of a star.

    Each question about a whole model (overall, worst class, gap, CV) is corrected for the number of models.
    """
    of_classes = [one for change in made for one in change["classes"] if one is not None]
    families = [of_classes, [change["overall"] for change in made]]
    families += [[change["extremes"][name] for change in made if "extremes" in change] for name in EXTREMES]
    for family in families:
        blocks = [one for one in family if one.get("p_adjusted") is not None]
        for one, p in zip(blocks, adjust_holm(np.array([one["p_adjusted"] for one in blocks])), strict=True):
            one["p_adjusted"], one["significant"] = float(p), bool(p < 1 - CONFIDENCE)


def add_margin(
    first: Side, others: Sequence[Side], condition: str, *, made: Sequence[dict[str, Any]], margin: float
) -> None:
    """Which classes of single models are shown to have lost less than a margin, Holm over classes and models."""
    blocks, chances = [], []
    for side, change in zip(others, made, strict=True):
        if len(first.models) == len(side.models) == 1:
            both = PairedCounts.count(
                first.hits(condition)[0], side.hits(condition)[0], first.first.labels, k=first.first.k
            )
            blocks += [one for one in change["classes"] if one is not None]
            some = both.pick(np.flatnonzero(both.n > 0))
            chances.append(not_worse_p(some.lost, some.gained, some.n, margin=margin))
    if not blocks:
        raise ValueError("a margin is tested for single models, and here are several trainings: compare one of each")
    for one, p in zip(blocks, adjust_holm(np.concatenate(chances)), strict=True):
        one["not_worse_p"], one["not_worse"] = float(p), bool(p < 1 - CONFIDENCE)


EXTREMES = {
    "worst": change_of_minimum,
    "gap": change_of_gap,
    "cv": change_of_variance,
    "rho": change_of_rho,
}


def extreme_block(found: MinimumChange) -> dict[str, Any]:
    """A change of the worst class, gap, CV or ρ as plain values; None where an end is infinite."""
    told = {name: finite_or_none(getattr(found, name)) for name in ("value", "low", "high", "p")}
    return told | {"p_adjusted": told["p"], "significant": found.p < 1 - CONFIDENCE if found.p == found.p else None}


def pair_block(found: PairedComparison, p: float) -> dict[str, Any]:
    """The difference of two single models as plain values."""
    return {
        "n": found.n,
        "difference": finite_or_none(found.difference),
        "low": found.low,
        "high": found.high,
        "gained": found.gained,
        "lost": found.lost,
        "p_adjusted": p,
        "significant": p < 1 - CONFIDENCE,
    }


def group_block(found: GroupDifference, decisive: GroupDifference) -> dict[str, Any]:
    """The difference of two groups of trainings as plain values; `decisive` is the wider interval that marks it."""
    return {
        "n": found.n,
        "difference": finite_or_none(found.difference),
        "low": finite_or_none(found.low),
        "high": finite_or_none(found.high),
        "training_sd": [finite_or_none(found.training_a), finite_or_none(found.training_b)],
        "test_error": finite_or_none(found.test),
        "significant": bool(decisive.low > 0 or decisive.high < 0),
    }


def profile_agreement(a: Side, b: Side, condition: str) -> dict[str, Any]:
    """How alike two sides order the classes."""
    found = measure_agreement(a.accuracy(condition), b.accuracy(condition))
    return {
        "kendall": finite_or_none(found.kendall),
        "spearman": finite_or_none(found.spearman),
        "cosine": finite_or_none(found.cosine),
    }
