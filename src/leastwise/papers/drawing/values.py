"""The numbers that papers print, from which images were right: value, low, high, in the papers' units (percent).

Intervals are of other test images: Wilson's for proportions, exact bounds for the worst and the best class, a bootstrap
over images for the rest.
"""

from collections.abc import Callable, Sequence

import numpy as np

from leastwise.audit.evidence import Evidence
from leastwise.papers.claims.base import (
    AccuracyStatistic,
    SharedImages,
    average,
    bootstrap_change,
    bootstrap_statistic,
    deviation,
    gap,
    share_images,
)
from leastwise.papers.drawing.inputs import CellValue, DrawingInput, Estimate, value_or_reason
from leastwise.papers.results import AuditedCondition, MissingResult
from leastwise.statistics.accuracy import compare_paired, wilson_interval
from leastwise.statistics.spread import class_variance, measure_spread, variance_bounds, worst_accuracy
from leastwise.statistics.worst_class import estimate_discrepancy, estimate_worst

SeriesCounts = tuple["np.ndarray", "np.ndarray"]


CellStatistic = Callable[[SharedImages], Estimate]  # what a cell of a table shows of an audit


def pair_alone(audited: AuditedCondition) -> SharedImages:
    """One audit as if it were several of the same images."""
    return share_images(audited)


def compute_cell(inputs: DrawingInput, statistic: CellStatistic, role: str, *begin: str, end: str = "") -> CellValue:
    """A statistic of a role under the condition that begins so, or why there is none."""
    return value_or_reason(lambda: statistic(pair_alone(inputs.audit(role, *begin, end=end))))


def grid_member(audited: AuditedCondition, number: int) -> SharedImages:
    """What survived one member of a grid of attacks."""
    evidence, name = audited
    hits = ((evidence.conditions[name].each >> number) & 1) == 0
    return SharedImages((hits,), evidence.labels.astype(np.int64), evidence.k)


def pair_hits(first: SharedImages, second: SharedImages) -> SharedImages:
    """Two that saw the same images, for paired differences."""
    assert np.array_equal(first.labels, second.labels)
    return SharedImages((first.hits[0], second.hits[0]), first.labels, first.k)


def count_correct(same: SharedImages) -> SeriesCounts:
    """Right answers and images by class."""
    return np.bincount(same.labels[same.hits[0]], minlength=same.k), same.n


def proportion(correct: int, n: int) -> Estimate:
    """A share in percent with Wilson's interval."""
    if not n:
        raise MissingResult("no images")
    low, high = wilson_interval(np.array([correct]), np.array([n]))
    return 100 * correct / n, 100 * float(low[0]), 100 * float(high[0])


def overall(same: SharedImages) -> Estimate:
    """The accuracy over all images."""
    return proportion(int(same.hits[0].sum()), len(same.labels))


def of_class(same: SharedImages, c: int) -> Estimate:
    """The accuracy of one class."""
    correct, n = count_correct(same)
    return proportion(int(correct[c]), int(n[c]))


def class_accuracy(c: int) -> CellStatistic:
    """The statistic that gives the accuracy of a class."""
    return lambda same: of_class(same, c)


def worst(same: SharedImages) -> Estimate:
    """The accuracy of the lowest class, with exact bounds of the true minimum."""
    found = estimate_worst(*count_correct(same))
    return 100 * found.plug_in, 100 * found.low, 100 * found.high


def best(same: SharedImages) -> Estimate:
    """The lowest share of mistakes, from above."""
    correct, n = count_correct(same)
    found = estimate_worst(n - correct, n)
    return 100 * (1 - found.plug_in), 100 * (1 - found.high), 100 * (1 - found.low)


def variance(a: "np.ndarray", _: "np.ndarray") -> "np.ndarray":
    """The variance over classes."""
    return class_variance(a)


def of_first(statistic: AccuracyStatistic) -> AccuracyStatistic:
    """The same statistic of the first audit."""
    return lambda a, n: statistic(a[..., 0, :], n)


def bootstrap(same: SharedImages, statistic: AccuracyStatistic, times: float) -> Estimate:
    """A statistic of one audit with its bootstrap interval, times a factor."""
    value, low, high = bootstrap_statistic(same, of_first(statistic), 0)
    return times * value, times * low, times * high


def cv(same: SharedImages) -> Estimate:
    """As printed: with the noise of sampling in it. Percent squared."""
    value, low, high = bootstrap(same, variance, 1e4)
    return value, max(0.0, low), high


def cv_without_noise(same: SharedImages) -> Estimate:
    """The variance over classes without the noise of sampling. Percent squared."""
    correct, n = count_correct(same)
    low, high = variance_bounds(correct, n)
    return 1e4 * measure_spread(correct, n).debiased, 1e4 * low, 1e4 * high


def mcd(same: SharedImages) -> Estimate:
    """The highest class minus the lowest, as printed: with the noise of sampling in it. Points."""
    value, low, high = bootstrap(same, gap, 100.0)
    return value, max(0.0, low), min(100.0, high)


def mcd_without_noise(same: SharedImages) -> Estimate:
    """Chance raises the best class and lowers the worst."""
    found = estimate_discrepancy(*count_correct(same))
    return 100 * found.corrected, 100 * found.low, 100 * found.high


def sd(same: SharedImages) -> Estimate:
    """The standard deviation over classes, as printed. Points."""
    value, low, high = bootstrap(same, deviation, 100.0)
    return value, max(0.0, low), high


def sd_without_noise(same: SharedImages) -> Estimate:
    """The standard deviation over classes without the noise of sampling. Points."""
    correct, n = count_correct(same)
    low, high = variance_bounds(correct, n)
    return 100 * measure_spread(correct, n).sd, 100 * float(np.sqrt(low)), 100 * float(np.sqrt(high))


def worst_deviation(same: SharedImages) -> Estimate:
    """The lowest class minus the overall accuracy."""
    return bootstrap(same, lambda a, n: worst_accuracy(a) - average(a, n), 100.0)


def statistic_difference(pair: SharedImages, statistic: AccuracyStatistic, times: float = 100.0) -> Estimate:
    """The second minus the first."""
    value, low, high = bootstrap_change(pair, statistic)
    return times * value, times * low, times * high


def accuracy_difference(pair: SharedImages, c: int | None = None) -> Estimate:
    """The second minus the first in points, of one class or of all images, with the paired interval."""
    rows = slice(None) if c is None else pair.labels == c
    found = compare_paired(pair.hits[0][rows], pair.hits[1][rows])
    if not found.n:
        raise MissingResult("no images")
    return 100 * found.difference, 100 * found.low, 100 * found.high


def keep_classes(same: SharedImages, classes: tuple[int, ...]) -> SharedImages:
    """Only some classes."""
    rows = np.isin(same.labels, classes)
    return SharedImages(tuple(hit[rows] for hit in same.hits), same.labels[rows], same.k)


def pair_cosine(audits: Sequence[AuditedCondition], least: bool) -> Estimate:
    """The smallest, or the mean, cosine of the deviations of two models, with a bootstrap interval over images."""
    if len(audits) < 2:
        raise MissingResult("fewer than two of the networks are there")

    def statistic(a: "np.ndarray", _: "np.ndarray") -> "np.ndarray":
        a = a[..., ~np.isnan(a).all(axis=tuple(range(a.ndim - 1)))]
        d = a - a.mean(-1, keepdims=True)
        length = np.sqrt((d**2).sum(-1, keepdims=True))
        d = np.divide(d, length, out=np.zeros_like(d), where=length > 0)
        i, j = np.triu_indices(len(audits), 1)
        cosine = np.einsum("...pk,...pk->...p", d[..., i, :], d[..., j, :])
        return np.asarray(cosine.min(-1) if least else cosine.mean(-1))

    value, low, high = bootstrap_statistic(share_images(*audits), statistic)
    return value, max(-1.0, low), min(1.0, high)


def count_of(evidence: Evidence, name: str, *, true: int, predicted: int) -> Estimate:
    """Images of a class that are taken for another; as a count, with Wilson's interval of the share."""
    rows = evidence.labels == true
    n, found = int(rows.sum()), int((evidence.conditions[name].predicted[rows] == predicted).sum())
    share = proportion(found, n)
    return float(found), n * share[1] / 100, n * share[2] / 100


def count_taken_for(inputs: DrawingInput, role: str, begin: str, *, true: int, predicted: int) -> CellValue:
    """How many images of a class are taken for another, or why that is not known."""
    return value_or_reason(lambda: count_of(*inputs.audit(role, begin), true=true, predicted=predicted))


SPREAD_STATISTICS: dict[str, CellStatistic] = {
    "CV": cv,
    "MCD": mcd,
    "CV without noise": cv_without_noise,
    "MCD without noise": mcd_without_noise,
}
SPREAD_UNITS = {"CV": "%²", "MCD": "points", "CV without noise": "%²", "MCD without noise": "points"}
