"""Two models on the same images: what changes of the worst class, the gap, the variance and ρ, with intervals.

The worst class of each model is picked for being lowest, and may be another one in each. The bounds allow for both.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from scipy.special import ndtri

from leastwise.statistics.accuracy import (
    CONFIDENCE,
    FEW_OUTCOMES,
    ClassCounts,
    OneRun,
    exact_interval,
    lower_bound,
    lower_paired,
    sidak,
    upper_bound,
)
from leastwise.statistics.gate.measures import FEW_FOR_VARIANCE, VARIANCE_SHARE, variance_in_box
from leastwise.statistics.spread import measure_spread, rho, variance_bounds

LARGEST_RATIO = 1e3
BISECTIONS = 24
LEAST_ERROR = 1e-6


@dataclass(frozen=True, eq=False)
class PairedCounts:
    """Of each class: images, those that A gets right, those that B does, and those that just one does."""

    n: ClassCounts
    a: ClassCounts
    b: ClassCounts
    lost: ClassCounts
    gained: ClassCounts

    @classmethod
    def count(cls, a: OneRun, b: OneRun, labels: Int[np.ndarray, " _"], *, k: int) -> "PairedCounts":
        """Classes without images are left out."""
        n, *rest = (
            np.bincount(labels[which], minlength=k) for which in (np.ones(len(a), dtype=bool), a, b, a & ~b, b & ~a)
        )
        return cls(n, *rest)

    def pick(self, classes: "np.ndarray") -> "PairedCounts":
        """The same of some classes."""
        return PairedCounts(*(v[classes] for v in (self.n, self.a, self.b, self.lost, self.gained)))

    def swap(self) -> "PairedCounts":
        """A for B."""
        return PairedCounts(self.n, self.b, self.a, self.gained, self.lost)

    def mistakes(self) -> "PairedCounts":
        """Wrong for right."""
        return PairedCounts(self.n, self.n - self.a, self.n - self.b, self.gained, self.lost)


@dataclass(frozen=True)
class MinimumChange:
    """B minus A (or ρ), with an interval, and the error at which it still excludes 0; NaN if that was not asked for."""

    value: float
    low: float
    high: float
    p: float


def change_of_minimum(
    found: PairedCounts, confidence: float = CONFIDENCE, *, against: int | None = None, tested: bool = True
) -> MinimumChange:
    """min_c B_c − min_c A_c. `against` is a class of A that was picked on other images; all are tried unless given.

    Below: B's true minimum is that of some class b, and A's is at most the accuracy of every class c, so the change
    is at least min_b max_c (B_b − A_c), with bounds that hold for the true b and all c tried. Above: the same with A
    for B.
    """
    present = np.flatnonzero(found.n > 0)
    some = found.pick(present)
    place = None if against is None else int(np.flatnonzero(present == against)[0])
    value = float((some.b / some.n).min() - (some.a / some.n).min())

    def bounds(level: float) -> tuple[float, float]:
        tail = (1 + level) / 2
        return lower_minimum(some, tail, against=place), -lower_minimum(some.swap(), tail)

    return MinimumChange(value, *bounds(confidence), smallest_error(bounds) if tested else float("nan"))


def lower_minimum(some: PairedCounts, tail: float, *, ratio: float = 1.0, against: int | None = None) -> float:
    """min B − ratio·min A is at least this."""
    k = len(some.n)
    tried = np.arange(k) if against is None else np.array([against])
    each = 1 - (1 - tail) / len(tried)
    few = FEW_OUTCOMES * float(ndtri(each)) ** 2
    p, q = some.b / some.n, some.a[tried] / some.n[tried]
    down, up = p - lower_bound(some.b, some.n, each), upper_bound(some.a[tried], some.n[tried], each) - q
    found = p[:, None] - ratio * q - np.hypot(down[:, None], ratio * up)
    # Few right ones of B, or few mistakes of A: both limits at once, each with half of the error.
    half = (1 + each) / 2
    both = lower_bound(some.b, some.n, half)[:, None] - ratio * upper_bound(some.a[tried], some.n[tried], half)
    safe = (some.b >= few)[:, None] & (some.n[tried] - some.a[tried] >= few)
    found = np.where(safe, found, both)
    if ratio == 1.0:  # the same class: the same images
        lost, gained, n = some.lost[tried], some.gained[tried], some.n[tried]
        found[tried, np.arange(len(tried))] = lower_paired(gained, lost, n, confidence=each)
    return float(found.max(1).min())


def smallest_error(bounds: Callable[[float], tuple[float, float]]) -> float:
    """The p-value of "no change": the least error at which the interval still excludes 0, down to 1e-6."""
    low, high = np.log(LEAST_ERROR), 0.0
    for _ in range(12):
        middle = (low + high) / 2
        bottom, top = bounds(1 - float(np.exp(middle)))
        low, high = (low, middle) if bottom > 0 or top < 0 else (middle, high)
    return float(np.exp(high))


def change_of_gap(found: PairedCounts, confidence: float = CONFIDENCE, *, tested: bool = True) -> MinimumChange:
    """Change of best minus worst (MCD): the changes of both ends, which share the error."""
    some = found.pick(np.flatnonzero(found.n > 0))
    gap = [float(np.ptp(v / some.n)) for v in (some.a, some.b)]

    def bounds(level: float) -> tuple[float, float]:
        each = 1 - (1 - level) / 4
        worst = lower_minimum(some, each), -lower_minimum(some.swap(), each)
        wrong = some.mistakes()
        best = lower_minimum(wrong.swap(), each), -lower_minimum(wrong, each)
        return best[0] - worst[1], best[1] - worst[0]

    return MinimumChange(gap[1] - gap[0], *bounds(confidence), smallest_error(bounds) if tested else float("nan"))


def change_of_variance(found: PairedCounts, confidence: float = CONFIDENCE, *, tested: bool = True) -> MinimumChange:
    """Change of the de-biased CV: both intervals with half of the error each, which holds however A and B depend."""
    some = found.pick(np.flatnonzero(found.n > 1))
    if len(some.n) < 2:
        nan = float("nan")
        return MinimumChange(nan, nan, nan, nan)
    value = measure_spread(some.b, some.n).debiased - measure_spread(some.a, some.n).debiased

    def bounds(level: float) -> tuple[float, float]:
        (a_low, a_high), (b_low, b_high) = (safe_variance(v, some.n, (1 + level) / 2) for v in (some.a, some.b))
        return b_low - a_high, b_high - a_low

    return MinimumChange(value, *bounds(confidence), smallest_error(bounds) if tested else float("nan"))


def safe_variance(correct: ClassCounts, n: ClassCounts, confidence: float) -> tuple[float, float]:
    """The interval of one CV, as gates have it."""
    if n.min() >= FEW_FOR_VARIANCE:
        return variance_bounds(correct, n, 1 - VARIANCE_SHARE * (1 - confidence))
    low, high = exact_interval(correct[None], n, sidak(confidence, len(n)))
    least, most = variance_in_box(low, high)
    return float(least[0]), float(most[0])


def change_of_rho(found: PairedCounts, confidence: float = CONFIDENCE) -> MinimumChange:
    """ρ (WAT) of B against A, worst ratio + average ratio − 2, whose two ratios share the error; ∞ where A may be 0."""
    some = found.pick(np.flatnonzero(found.n > 0))
    images = some.n.sum()
    worst = [float((v / some.n).min()) for v in (some.a, some.b)]
    average = [float(v.sum() / images) for v in (some.a, some.b)]
    value = rho(worst[1], average[1], base_worst=worst[0], base_average=average[0])
    whole = PairedCounts(*(v.sum(keepdims=True) for v in (some.n, some.a, some.b, some.lost, some.gained)))

    def bounds(level: float) -> tuple[float, float]:
        each = 1 - (1 - level) / 4
        lows = [largest_ratio(one, each) for one in (some, whole)]
        highs = [1 / r if (r := largest_ratio(one.swap(), each)) > 0 else np.inf for one in (some, whole)]
        return sum(lows) - 2, sum(highs) - 2

    low, high = bounds(confidence)
    return MinimumChange(value, low, high, float("nan"))  # its interval is the test: another 20 would take a second


def largest_ratio(some: PairedCounts, tail: float) -> float:
    """min B is at least this many times min A: the largest ratio at which their difference is still positive."""
    if lower_minimum(some, tail, ratio=0.0) <= 0:
        return 0.0
    low, high = np.log(1 / LARGEST_RATIO), np.log(LARGEST_RATIO)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if lower_minimum(some, tail, ratio=float(np.exp(middle))) > 0 else (low, middle)
    return float(np.exp(low))
