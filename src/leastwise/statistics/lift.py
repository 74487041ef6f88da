"""Choosing among changed networks: how good each is, who is hopeless, which ones nobody beats, and the last verdict.

A change is chosen on some images and judged on others. Its aim is the worst class, the mean of the lowest tenth of the
classes, or the gap, under attack; what it may cost is the average.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

from leastwise.statistics.accuracy import CONFIDENCE, ClassValues, lower_paired, sidak, upper_paired
from leastwise.statistics.extremes import MinimumChange, PairedCounts, change_of_gap, change_of_minimum
from leastwise.statistics.spread import class_gap, cvar, worst_accuracy

LiftAim = Literal["worst", "cvar10", "gap"]
Verdict = Literal["lifted", "not lifted", "undecided"]
LOWEST = 0.1  # of the classes: what cvar10 is the mean of
HOPELESS = 0.95  # how sure it must be that a candidate is worse than what there is, before it is dropped
KEPT = 0.5  # the share of a lift that must be left under the attack that verifies it


def score_classes(accuracy: ClassValues, aim: LiftAim) -> float:
    """How good class accuracies are by an aim; higher is better. Classes without images (NaN) are left out."""
    known = accuracy[~np.isnan(accuracy)]
    if aim == "worst":
        return float(worst_accuracy(known))
    return cvar(known, LOWEST) if aim == "cvar10" else -float(class_gap(known))


def find_pareto(average: Sequence[float], score: Sequence[float]) -> Bool[np.ndarray, " n"]:
    """Which candidates nobody beats in both average and score."""
    a, s = np.asarray(average), np.asarray(score)
    no_worse = (a[None] >= a[:, None]) & (s[None] >= s[:, None])
    better = (a[None] > a[:, None]) | (s[None] > s[:, None])
    return np.asarray(~(no_worse & better).any(axis=1))


def pick_best(average: Sequence[float], score: Sequence[float], give_up: float) -> int:
    """The candidate with the best score whose average falls by no more than `give_up` below that of the first one,
    which is the network as it is; among equals the higher average."""
    allowed = [i for i, one in enumerate(average) if one >= average[0] - give_up]
    return max(allowed, key=lambda i: (score[i], average[i], -i))


def is_hopeless(found: PairedCounts, best: PairedCounts, *, give_up: float) -> bool:
    """Whether a candidate is surely out: its average falls by more than is given up, or no class of it can be as good
    as the best candidate's worst. Counts are of the same images, against the network as it is."""
    if change_of_average(found, 2 * HOPELESS - 1).high < -give_up:
        return True
    some = found.n > 0
    rival = float((best.b[some] / best.n[some]).min())
    each = sidak(HOPELESS, int(some.sum()))
    top = found.b[some] / found.n[some] + float(ndtri(each)) * np.sqrt(0.25 / found.n[some])
    return bool(top.min() < rival)


@dataclass(frozen=True)
class LiftVerdict:
    """What a change did to images that it was not chosen on."""

    outcome: Verdict
    lift: MinimumChange  # of the aim
    average: MinimumChange  # of the average accuracy
    images_needed: int  # of each class, to see a lift of this size in four of five cases; 0 if it is seen, or is none


def judge_lift(
    found: PairedCounts, aim: LiftAim, *, give_up: float, weakest: int | None = None, confidence: float = CONFIDENCE
) -> LiftVerdict:
    """Lifted: the whole interval of the aim's change is above zero and the average falls by no more than `give_up`.

    Not lifted: the whole interval is below zero, or the average surely falls by more. `weakest` is the class of the
    network as it was that looked worst on other images.
    """
    lift = change_of_aim(found, aim, confidence, weakest=weakest)
    average = change_of_average(found, confidence)
    if lift.low > 0 and average.value >= -give_up:
        outcome: Verdict = "lifted"
    elif lift.high <= 0 or average.high < -give_up:
        outcome = "not lifted"
    else:
        outcome = "undecided"
    return LiftVerdict(outcome, lift, average, 0 if lift.low > 0 else count_needed(found, lift))


def change_of_aim(
    found: PairedCounts, aim: LiftAim, confidence: float = CONFIDENCE, *, weakest: int | None = None
) -> MinimumChange:
    """B minus A of an aim, with an interval."""
    if aim == "worst":
        return change_of_minimum(found, confidence, against=weakest)
    if aim == "gap":
        gap = change_of_gap(found, confidence)
        return MinimumChange(-gap.value, -gap.high, -gap.low, gap.p)
    some = found.pick(np.flatnonzero(found.n > 0))
    each = sidak(confidence, 2 * len(some.n))
    # With w the weights of B's lowest classes, cvar(B) = w·B and cvar(A) <= w·A: the change is at least w·(B - A), so
    # at least the mean of the lowest of all changes; and the same with A for B.
    low = cvar(lower_paired(some.gained, some.lost, some.n, confidence=each), LOWEST)
    high = -cvar(-upper_paired(some.gained, some.lost, some.n, confidence=each), LOWEST)
    return MinimumChange(cvar(some.b / some.n, LOWEST) - cvar(some.a / some.n, LOWEST), low, high, float("nan"))


def change_of_average(found: PairedCounts, confidence: float = CONFIDENCE) -> MinimumChange:
    """B minus A of the accuracy of all images, with an interval."""
    n, lost, gained = (v.sum(keepdims=True) for v in (found.n, found.lost, found.gained))
    tail = (1 + confidence) / 2
    low, high = (float(bound(gained, lost, n, confidence=tail)[0]) for bound in (lower_paired, upper_paired))
    return MinimumChange(float((gained - lost)[0] / n[0]), low, high, float("nan"))


def count_needed(found: PairedCounts, lift: MinimumChange) -> int:
    """Images of each class with which a lift of this size would be seen: intervals shrink with their root."""
    if lift.value <= 0:
        return 0
    known = found.n[found.n > 0]
    power = 1 + float(ndtri(0.8)) / float(ndtri(0.975))
    return int(np.ceil(known.min() * (power * (lift.value - lift.low) / lift.value) ** 2))


def is_confirmed(verified: MinimumChange, seen: MinimumChange) -> bool:
    """Whether a lift is left under a stronger attack on the same images: at least half of it."""
    return verified.value > 0 and verified.value >= KEPT * seen.value


def list_changes(found: PairedCounts, confidence: float = CONFIDENCE) -> list[tuple[float, float, float]]:
    """The change of every class with an interval that holds for all classes together; NaN without images."""
    each = sidak(confidence, int((found.n > 0).sum()))
    tail = (1 + each) / 2
    n: Float[np.ndarray, " k"] = np.where(found.n > 0, found.n, np.nan)
    value = (found.b - found.a) / n
    some = found.n > 0
    low, high = np.full(len(n), np.nan), np.full(len(n), np.nan)
    low[some] = lower_paired(found.gained[some], found.lost[some], found.n[some], confidence=tail)
    high[some] = upper_paired(found.gained[some], found.lost[some], found.n[some], confidence=tail)
    return list(zip(value.tolist(), low.tolist(), high.tolist(), strict=True))
