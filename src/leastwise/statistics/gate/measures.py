"""What gates measure, each with an interval for its true value, for one result or for many at once (rows).

Fixed bounds hold for one look at a number of images fixed beforehand; anytime bounds hold for every look together.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from leastwise.statistics.accuracy import ClassCounts, lower_bound, sidak, upper_bound
from leastwise.statistics.gate.macro import macro_bounds
from leastwise.statistics.race import mixture_bounds
from leastwise.statistics.spread import measure_spread, variance_bounds, worst_class

# Below this many images in a class the approximate interval of cv misses up to 9 % on one side where it says 2.5; from
# here on it keeps 2.5 % if it is given a third of the error.
FEW_FOR_VARIANCE = 60
VARIANCE_SHARE = 1 / 3
# Where the normal mixture for a mean of unequal classes is narrowest, in images.
TYPICAL_IMAGES = 1000.0
BISECTIONS = 50

CountRows = Int[np.ndarray, "rows k"]
Values = Float[np.ndarray, " rows"]


@dataclass(frozen=True)
class GateEstimate:
    """The value of a measure and an interval for its true value."""

    value: float
    low: float
    high: float
    index: int | None = None  # the class it is about; None when it is about all


@dataclass(frozen=True)
class MeasureBounds:
    """Values of a measure and their intervals, one for each row of counts."""

    value: Values
    low: Values
    high: Values


@dataclass(frozen=True)
class Look:
    """How sure the bounds must be, and whether they must stay so however often one looks."""

    confidence: float
    anytime: bool = False

    @property
    def tail(self) -> float:
        """The confidence of each of two sides."""
        return (1 + self.confidence) / 2

    def low(self, correct: CountRows, n: ClassCounts, confidence: float) -> Float[np.ndarray, "rows k"]:
        """Each class's accuracy is at least this."""
        return ever(correct, n, confidence)[0] if self.anytime else lower_bound(correct, n, confidence)

    def high(self, correct: CountRows, n: ClassCounts, confidence: float) -> Float[np.ndarray, "rows k"]:
        """Each class's accuracy is at most this."""
        return ever(correct, n, confidence)[1] if self.anytime else upper_bound(correct, n, confidence)


def ever(correct: CountRows, n: ClassCounts, confidence: float) -> tuple["np.ndarray", "np.ndarray"]:
    """Limits of each class that hold after any number of its images together (Robbins' mixture)."""
    sizes = np.broadcast_to(n, correct.shape)
    low, high = mixture_bounds(correct.ravel(), sizes.ravel(), float(-np.log1p(-confidence)))
    return low.reshape(correct.shape), high.reshape(correct.shape)


def bound_worst(correct: CountRows, n: ClassCounts, look: Look) -> MeasureBounds:
    """The lowest class accuracy, with bounds of the true minimum (as `minimum_bounds`)."""
    low = look.low(correct, n, look.tail).min(-1)
    return MeasureBounds((correct / n).min(-1), low, look.high(correct, n, sidak(look.tail, len(n))).min(-1))


def bound_overall(correct: CountRows, n: ClassCounts, look: Look) -> MeasureBounds:
    """Clopper-Pearson on all images: holds, as classes of fixed sizes vary less than one binomial (Hoeffding 1956).

    Anytime this is the mixture for all images, which holds if the classes grow in proportion.
    """
    right, total = correct.sum(-1, keepdims=True), n.sum(keepdims=True)
    low, high = look.low(right, total, look.tail), look.high(right, total, look.tail)
    return MeasureBounds(right[..., 0] / total[0], low[..., 0], high[..., 0])


def bound_macro(correct: CountRows, n: ClassCounts, look: Look) -> MeasureBounds:
    """The mean of the classes: `macro_bounds`; anytime a normal mixture if the classes are not of one size."""
    if look.anytime and (n == n[0]).all():
        return bound_overall(correct, n, look)
    value = (correct / n).mean(-1)
    if not look.anytime:
        return MeasureBounds(value, *macro_bounds(value, n, look.confidence))
    # In units of the variance that shares of [0, 1] can have at most, 1/4 for an image.
    time, start = 4 / ((1 / n).sum() / len(n) ** 2), 4 * TYPICAL_IMAGES
    half = np.sqrt((time + start) * (np.log((time + start) / start) - 2 * np.log1p(-look.confidence))) / time
    return MeasureBounds(value, np.maximum(0.0, value - half), np.minimum(1.0, value + half))


def bound_gap(correct: CountRows, n: ClassCounts, look: Look) -> MeasureBounds:
    """Best minus worst class.

    Upper: it is exceeded only if the bound of the truly best or of the truly worst class fails, so two bounds
    share the error. Lower: any two classes prove a gap, so all bounds must hold (Šidák), above and below.
    """
    accuracy = correct / n
    tail = 1 - (1 - look.confidence) / 4
    high = look.high(correct, n, tail).max(-1) - look.low(correct, n, tail).min(-1)
    every = sidak(tail, len(n))
    low = look.low(correct, n, every).max(-1) - look.high(correct, n, every).min(-1)
    return MeasureBounds(accuracy.max(-1) - accuracy.min(-1), np.maximum(0.0, low), np.minimum(1.0, high))


def bound_variance(correct: CountRows, n: ClassCounts, look: Look) -> MeasureBounds:
    """De-biased CV with the approximate `variance_bounds`; with a class of fewer than 60 images, or anytime, with
    all variances that accuracies inside simultaneous exact limits can have."""
    spreads = [measure_spread(row, n) for row in correct]
    if spreads[0].used < 2:
        raise ValueError("a variance over classes needs two classes with at least two images each: audit more")
    value = np.array([one.debiased for one in spreads])
    if look.anytime or n.min() < FEW_FOR_VARIANCE:
        every = sidak(look.tail, len(n))
        low, high = variance_in_box(look.low(correct, n, every), look.high(correct, n, every))
    else:
        surer = 1 - VARIANCE_SHARE * (1 - look.confidence)
        found = np.array([variance_bounds(row, n, surer) for row in correct])
        low, high = found[:, 0], found[:, 1]
    return MeasureBounds(value, low, high)


def variance_in_box(low: "np.ndarray", high: "np.ndarray") -> tuple["np.ndarray", "np.ndarray"]:
    """Bounds of the variance of numbers that lie between limits: least and most mean square distance from one centre.

    Both are convex in the centre, so ternary search finds them. The second is at least the largest variance.
    """

    def least(centre: "np.ndarray") -> "np.ndarray":
        return ((np.clip(centre[:, None], low, high) - centre[:, None]) ** 2).mean(-1)

    def most(centre: "np.ndarray") -> "np.ndarray":
        return (np.maximum(np.abs(low - centre[:, None]), np.abs(high - centre[:, None])) ** 2).mean(-1)

    found = []
    for distance in (least, most):
        a, b = np.zeros(len(low)), np.ones(len(low))
        for _ in range(BISECTIONS):
            one, two = a + (b - a) / 3, b - (b - a) / 3
            left = distance(one) <= distance(two)
            a, b = np.where(left, a, one), np.where(left, two, b)
        found.append(distance((a + b) / 2))
    return found[0], found[1]


def bound_accuracy(correct: CountRows, n: ClassCounts, look: Look) -> MeasureBounds:
    """The accuracy of the only class given."""
    low, high = look.low(correct, n, look.tail), look.high(correct, n, look.tail)
    return MeasureBounds(correct[..., 0] / n[0], low[..., 0], high[..., 0])


MEASURES = {
    "worst": bound_worst,
    "overall": bound_overall,
    "macro": bound_macro,
    "gap": bound_gap,
    "cv": bound_variance,
    "accuracy": bound_accuracy,
}


def bound_measure(measure: str, correct: CountRows, n: ClassCounts, *, look: Look) -> MeasureBounds:
    """Any measure by its name, over the classes that have images, for each row of counts."""
    present = n > 0
    return MEASURES[measure](correct[..., present], n[present], look)


def estimate_measure(
    measure: str, correct: ClassCounts, n: ClassCounts, *, confidence: float, anytime: bool = False
) -> GateEstimate:
    """Any measure of one result by its name; the class it is about, if it is about one."""
    found = bound_measure(measure, correct[None], n, look=Look(confidence, anytime))
    with np.errstate(invalid="ignore", divide="ignore"):
        index = worst_class(correct / n) if measure == "worst" else None
    return GateEstimate(float(found.value[0]), float(found.low[0]), float(found.high[0]), index)
