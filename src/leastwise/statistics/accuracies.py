"""Numbers that follow from class accuracies alone. The last axis has the classes; a missing class (NaN) is skipped.

The worst class, the gap (MCD), variance (CV) and deviation are defined here and called everywhere else; for tables of
counts as tensors `leastwise.core.counts.ClassFrame` has the same. What chance adds to them is in `spread` and
`worst_class`.
"""

import numpy as np
from jaxtyping import Float, Int

from leastwise.statistics.intervals import ClassValues

AccuracyRows = Float[np.ndarray, "*rows k"]  # one row of class accuracies, or many


def worst_accuracy(accuracy: AccuracyRows) -> Float[np.ndarray, "..."]:
    """The accuracy of the weakest class."""
    return np.asarray(np.nanmin(accuracy, axis=-1))


def worst_class(accuracy: ClassValues) -> int:
    """The number of the weakest class; the first of equals."""
    return int(np.nanargmin(accuracy))


def class_gap(accuracy: AccuracyRows) -> Float[np.ndarray, "..."]:
    """Best minus worst class: MCD (Tian Def. 4.2), the range that GF-Score calls RDI."""
    return np.asarray(np.nanmax(accuracy, axis=-1) - np.nanmin(accuracy, axis=-1))


def class_variance(accuracy: AccuracyRows) -> Float[np.ndarray, "..."]:
    """Population variance over the classes: CV (Tian Def. 4.1), there in percent squared."""
    return np.asarray(np.nanvar(accuracy, axis=-1))


def class_deviation(accuracy: AccuracyRows) -> Float[np.ndarray, "..."]:
    """Population standard deviation over the classes."""
    return np.asarray(np.nanstd(accuracy, axis=-1))


def gini(accuracy: ClassValues) -> float:
    """Gini's coefficient Σ|a_i − a_j| / (2·C²·mean): 0 for equal classes, 1 − 1/C when one class has everything."""
    a = np.sort(accuracy[~np.isnan(accuracy)])
    c = len(a)
    if not a.sum():
        return float("nan")
    return float((2 * np.arange(1, c + 1) - c - 1) @ a / (c * a.sum()))


def nsd_error(accuracy: ClassValues) -> float:
    """Standard deviation over the mean of the class *errors* (Xu et al., FRL); NaN when nothing is wrong."""
    return ratio(float(class_deviation(accuracy)), 1 - float(np.nanmean(accuracy)))


def nsd_accuracy(accuracy: ClassValues) -> float:
    """Standard deviation over the mean of the class *accuracies* (ABSLD); NaN when nothing is right."""
    return ratio(float(class_deviation(accuracy)), float(np.nanmean(accuracy)))


def worst_k_mean(accuracy: ClassValues, k: int) -> float:
    """Mean accuracy of the k worst classes (of all, if there are fewer)."""
    if k < 1:
        raise ValueError(f"the worst {k} classes have no mean: ask for at least one")
    return float(np.sort(accuracy[~np.isnan(accuracy)])[:k].mean())


def cvar(accuracy: ClassValues, share: float = 0.2) -> float:
    """Mean accuracy of the worst `share` of classes (CFOL); the class at the edge counts with its fraction."""
    if not 0 < share <= 1:
        raise ValueError(f"a share of classes lies in (0, 1], and {share} does not: 0.2 is the worst fifth")
    a = np.sort(accuracy[~np.isnan(accuracy)])
    mass = share * len(a)
    weight = np.clip(mass - np.arange(len(a)), 0.0, 1.0)
    return float(weight @ a / mass)


def rho(worst: float, average: float, base_worst: float, base_average: float) -> float:
    """ρ (WAT): relative gain of the worst class minus relative loss of the average, against a baseline."""
    return ratio(worst - base_worst, base_worst) - ratio(base_average - average, base_average)


def boundary_error(clean: ClassValues, robust: ClassValues) -> ClassValues:
    """FRL's R_bndy = clean − robust accuracy. Negative where an attack turned wrong answers into right ones."""
    return clean - robust


def false_positive_rate(confusion: Int[np.ndarray, "k k"]) -> ClassValues:
    """Of the images of all other classes, the share predicted as this one (rows true, columns predicted).

    The in-flow that a Class False-Positive Score measures: a class is also exposed by what is taken for it.
    """
    flows_in = confusion.sum(0) - np.diag(confusion)
    others = confusion.sum() - confusion.sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return flows_in / others


def ratio(part: float, whole: float) -> float:
    """The quotient; NaN where it would divide by 0."""
    return part / whole if whole else float("nan")
