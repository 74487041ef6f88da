"""A claim is a statement, a statistic and a test; a test gives findings, each with an interval and a verdict.

What is sampled (images, classes or trainings), on which scale, and how each claim is decided is fixed in
docs/decisions/0021-claims-on-principle.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from leastwise.audit.evidence import Evidence
from leastwise.insight.agreement import resample_accuracies
from leastwise.statistics.accuracy import CONFIDENCE
from leastwise.statistics.spread import class_deviation, class_gap, worst_accuracy

ClaimDecision = Literal["holds", "does not hold", "undecided"]

Accuracies = Float[np.ndarray, "... k"]
AccuracyStatistic = Callable[[Accuracies, Int[np.ndarray, " k"]], "np.ndarray"]  # of class accuracies and class sizes


class FindingUnit(NamedTuple):
    """The unit that a reader wants, and what the number of a finding, a share, is multiplied by to be in it."""

    name: str = ""
    times: float = 1.0


NO_UNIT = FindingUnit()
PERCENT = FindingUnit("%", 100.0)
POINTS = FindingUnit("points", 100.0)
PERCENT_SQUARED = FindingUnit("%²", 1e4)
NATS = FindingUnit("nats")


@dataclass(frozen=True)
class ClaimFinding:
    """One number that speaks to a claim."""

    what: str
    value: float
    low: float
    high: float
    verdict: ClaimDecision
    p: float | None = None
    unit: FindingUnit = NO_UNIT  # that a reader wants


@dataclass(frozen=True)
class Claim:
    """A statement of the papers, what is measured to decide it, and the tests that do."""

    id: str  # C and a number
    papers: tuple[str, ...]
    statement: str
    statistic: str
    tests: tuple[Callable[..., tuple[ClaimFinding, ...]], ...]
    parts: tuple[str, ...] = ("",)  # what is decided apart: "similarity rises", "variance falls"

    @property
    def number(self) -> int:
        """What claims are sorted by."""
        return int(self.id.removeprefix("C"))


def above(
    what: str,
    value: float,
    low: float,
    high: float,
    *,
    threshold: float = 0.0,
    p: float | None = None,
    unit: FindingUnit = NO_UNIT,
) -> ClaimFinding:
    """Claims more than a threshold: decided only if the whole interval is on one side of it."""
    verdict: ClaimDecision = "holds" if low > threshold else "does not hold" if high < threshold else "undecided"
    return ClaimFinding(what, value, low, high, verdict, p, unit)


def below(
    what: str,
    value: float,
    low: float,
    high: float,
    *,
    threshold: float = 0.0,
    p: float | None = None,
    unit: FindingUnit = NO_UNIT,
) -> ClaimFinding:
    """Claims less than a threshold: decided only if the whole interval is on one side of it."""
    verdict: ClaimDecision = "holds" if high < threshold else "does not hold" if low > threshold else "undecided"
    return ClaimFinding(what, value, low, high, verdict, p, unit)


def combine_decisions(findings: Sequence[ClaimFinding]) -> ClaimDecision:
    """A claim holds if all of it does, and does not as soon as one part does not."""
    verdicts = {one.verdict for one in findings}
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if verdicts == {"holds"} else "undecided"


def class_counts(evidence: Evidence, condition: str) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"]]:
    """Right answers and images by class."""
    tally = evidence.tally(condition)
    return tally.correct.numpy(), tally.n.numpy()


@dataclass(frozen=True, eq=False)
class SharedImages:
    """What several audits got right of the images they share."""

    hits: tuple[Bool[np.ndarray, " n"], ...]
    labels: Int[np.ndarray, " n"]
    k: int

    @property
    def n(self) -> Int[np.ndarray, " k"]:
        return np.bincount(self.labels, minlength=self.k)

    def accuracies(self) -> Float[np.ndarray, "m k"]:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.stack([np.bincount(self.labels[hit], minlength=self.k) / self.n for hit in self.hits])


def share_images(*audits: tuple[Evidence, str]) -> SharedImages:
    """Audits of one data set, paired by the ids of their images; those that one of them lacks are left out."""
    first = audits[0][0]
    ids = first.ids
    for evidence, _ in audits[1:]:
        if evidence.names != first.names:
            raise ValueError("models of different classes cannot be paired: audit all on the same data")
        ids = np.intersect1d(ids, evidence.ids)
    if not len(ids):
        raise ValueError("the audits share no image: audit all on the same data")
    at = [np.searchsorted(evidence.ids, ids) for evidence, _ in audits]
    labels = first.labels[at[0]]
    if any((evidence.labels[rows] != labels).any() for (evidence, _), rows in zip(audits, at, strict=True)):
        raise ValueError("the audits have different labels for the same ids: audit all on the same data")
    hits = tuple(evidence.correct(condition)[rows] for (evidence, condition), rows in zip(audits, at, strict=True))
    return SharedImages(hits, labels.astype(np.int64), first.k)


# Statistics of class accuracies, for one row or many.


def average(a: Accuracies, n: Int[np.ndarray, " k"]) -> "np.ndarray":
    """Over images."""
    return np.asarray(np.nansum(a * n, axis=-1) / n.sum())


def worst(a: Accuracies, _: Int[np.ndarray, " k"]) -> "np.ndarray":
    """The accuracy of the lowest class."""
    return worst_accuracy(a)


def deviation(a: Accuracies, _: Int[np.ndarray, " k"]) -> "np.ndarray":
    """Standard deviation over classes."""
    return class_deviation(a)


def gap(a: Accuracies, _: Int[np.ndarray, " k"]) -> "np.ndarray":
    """The highest class minus the lowest: MCD."""
    return class_gap(a)


def bootstrap_change(same: SharedImages, statistic: AccuracyStatistic, seed: int = 0) -> tuple[float, float, float]:
    """A statistic of the second audit minus that of the first, with a paired bootstrap interval."""
    return bootstrap_statistic(same, lambda a, n: statistic(a[..., 1, :], n) - statistic(a[..., 0, :], n), seed)


def bootstrap_statistic(same: SharedImages, statistic: AccuracyStatistic, seed: int = 0) -> tuple[float, float, float]:
    """A statistic of all audits together, with a bootstrap interval over images.

    Each end is the farther one of the percentile and of the basic interval (2·value − quantile): noise makes a
    minimum lower and a spread wider, in the draws as in the data, and where all classes are alike the basic interval
    alone covers 91 %. Of changes of worst class, deviation and gap (6 classes of 200 images, 300 trials) the wider of
    both covered 94 to 96 % where classes differ and more than 99 % where they do not.
    """
    value = float(statistic(same.accuracies(), same.n))
    drawn = statistic(resample_accuracies(same.hits, same.labels, same.k, seed=seed), same.n)
    tail = (1 - CONFIDENCE) / 2
    low, high = (float(q) for q in np.quantile(drawn, [tail, 1 - tail]))
    return value, min(low, 2 * value - high), max(high, 2 * value - low)
