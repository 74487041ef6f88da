"""What gates measure, each with an interval for its true value. All but cv's hold exactly, at any number of images."""

from dataclasses import dataclass

import numpy as np

from leastwise.statistics.intervals import ClassCounts, exact_interval, lower_bound, sidak, upper_bound
from leastwise.statistics.spread import class_gap, measure_spread, variance_bounds, worst_accuracy, worst_class
from leastwise.statistics.worst_class import minimum_bounds


@dataclass(frozen=True)
class GateEstimate:
    """The value of a measure and an interval for its true value."""

    value: float
    low: float
    high: float
    index: int | None = None  # the class it is about; None when it is about all


@dataclass(frozen=True, eq=False)
class ClassFalls:
    """What each class lost: first/first_n − second/second_n.

    Unpaired these are the accuracies before and after; paired, the shares of the same images that were right only
    before and only after.
    """

    first: ClassCounts
    first_n: ClassCounts
    second: ClassCounts
    second_n: ClassCounts
    paired: bool

    def scale(self, times: float) -> "ClassFalls":
        """The same falls on `times` as many images."""
        return ClassFalls(
            *scale_counts(self.first, self.first_n, times),
            *scale_counts(self.second, self.second_n, times),
            paired=self.paired,
        )


def scale_counts(correct: ClassCounts, n: ClassCounts, times: float) -> tuple[ClassCounts, ClassCounts]:
    """The same shares of `times` as many images."""
    more = np.ceil(n * times).astype(np.int64)
    return np.rint(correct / np.maximum(n, 1) * more).astype(np.int64), more


def estimate_worst_accuracy(correct: ClassCounts, n: ClassCounts, confidence: float) -> GateEstimate:
    """The lowest class accuracy, with bounds of the true minimum."""
    low, high = minimum_bounds(correct, n, confidence)
    accuracy = correct / n
    return GateEstimate(float(worst_accuracy(accuracy)), low, high, worst_class(accuracy))


def estimate_overall(correct: ClassCounts, n: ClassCounts, confidence: float) -> GateEstimate:
    """Clopper-Pearson on all images: holds, as classes of fixed sizes vary less than one binomial (Hoeffding 1956)."""
    low, high = exact_interval(correct.sum(keepdims=True), n.sum(keepdims=True), confidence)
    return GateEstimate(float(correct.sum() / n.sum()), float(low[0]), float(high[0]))


def estimate_macro(correct: ClassCounts, n: ClassCounts, confidence: float) -> GateEstimate:
    """Bounds as of `overall` for equally large classes, else Hoeffding's √(ln(2/α)/2·Σ 1/(C²·n_c))."""
    if (n == n[0]).all():
        return estimate_overall(correct, n, confidence)
    value = float((correct / n).mean())
    half = float(np.sqrt(np.log(2 / (1 - confidence)) / 2 * (1 / n).sum() / len(n) ** 2))
    return GateEstimate(value, max(0.0, value - half), min(1.0, value + half))


def estimate_gap(correct: ClassCounts, n: ClassCounts, confidence: float) -> GateEstimate:
    """Best minus worst class.

    Upper: it is exceeded only if the bound of the truly best or of the truly worst class fails, so two bounds
    share the error. Lower: any two classes prove a gap, so all bounds must hold (Šidák), above and below.
    """
    accuracy = correct / n
    tail = 1 - (1 - confidence) / 4
    high = upper_bound(correct, n, tail).max() - lower_bound(correct, n, tail).min()
    every = sidak(tail, len(n))
    low = lower_bound(correct, n, every).max() - upper_bound(correct, n, every).min()
    return GateEstimate(float(class_gap(accuracy)), max(0.0, float(low)), min(1.0, float(high)))


def estimate_variance(correct: ClassCounts, n: ClassCounts, confidence: float) -> GateEstimate:
    """De-biased CV with `variance_bounds`: the one interval here that is approximate."""
    found = measure_spread(correct, n)
    if found.used < 2:
        raise ValueError("a variance over classes needs two classes with at least two images each: audit more")
    low, high = variance_bounds(correct, n, confidence)
    return GateEstimate(found.debiased, low, high)


def estimate_accuracy(correct: ClassCounts, n: ClassCounts, confidence: float) -> GateEstimate:
    """The accuracy of the only class given, with its exact interval."""
    low, high = exact_interval(correct, n, confidence)
    return GateEstimate(float(correct[0] / n[0]), float(low[0]), float(high[0]))


MEASURES = {
    "worst": estimate_worst_accuracy,
    "overall": estimate_overall,
    "macro": estimate_macro,
    "gap": estimate_gap,
    "cv": estimate_variance,
    "accuracy": estimate_accuracy,
}


def estimate_measure(measure: str, correct: ClassCounts, n: ClassCounts, *, confidence: float) -> GateEstimate:
    """Any measure by its name, over the classes that have images."""
    present = np.flatnonzero(n > 0)
    found = MEASURES[measure](correct[present], n[present], confidence)
    return found if found.index is None else GateEstimate(found.value, found.low, found.high, int(present[found.index]))


def estimate_largest_fall(falls: ClassFalls, confidence: float) -> GateEstimate:
    """The largest fall of any class, negative if all rose.

    Each class's fall is bounded by two exact bounds that share the error. Over classes: above it fails only if the
    class that truly fell most fails; below all must hold (Bonferroni).
    """
    present = np.flatnonzero((falls.first_n > 0) & (falls.second_n > 0))
    if not len(present):
        raise ValueError("the two results share no class with images: compare audits of the same data")
    x, x_n, y, y_n = (v[present] for v in (falls.first, falls.first_n, falls.second, falls.second_n))
    miss = (1 - confidence) / 4
    every = miss / len(present)
    high = (upper_bound(x, x_n, 1 - miss) - lower_bound(y, y_n, 1 - miss)).max()
    low = (lower_bound(x, x_n, 1 - every) - upper_bound(y, y_n, 1 - every)).max()
    value = x / x_n - y / y_n
    return GateEstimate(float(value.max()), float(low), float(high), int(present[value.argmax()]))
