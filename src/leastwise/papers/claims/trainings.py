"""Ways of training compared: trainings are the sample, and two runs of one recipe are the yardstick (decision 21)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from leastwise.audit.evidence import Evidence
from leastwise.papers.claims.base import (
    POINTS,
    AccuracyStatistic,
    ClaimFinding,
    FindingUnit,
    SharedImages,
    above,
    below,
    bootstrap_change,
    share_images,
)
from leastwise.statistics.accuracy import CONFIDENCE

MANY = 1e6  # degrees of freedom, from which Student's t is normal
ENOUGH = 3  # seeds on each side for an interval of their own

SeededAudits = tuple[tuple[Evidence, str], ...]  # one recipe under one condition, a seed each
AuditStatistic = Callable[[Evidence, str], float]


class SeedSpread(NamedTuple):
    """How far a number lies apart between seeds of one recipe, pooled over recipes with enough of them."""

    deviation: float
    freedom: int
    recipes: int


class TrainingChange(NamedTuple):
    """The second way of training minus the first, with an interval, and what the interval rests on."""

    value: float
    low: float
    high: float
    basis: str


def pool_spread(groups: Iterable[Sequence[float]]) -> SeedSpread | None:
    """From the numbers of several recipes, a seed each; None where no recipe has enough seeds."""
    several = [np.asarray(group, dtype=np.float64) for group in groups if len(group) >= ENOUGH]
    if not several:
        return None
    freedom = sum(len(group) - 1 for group in several)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in several)
    return SeedSpread(float(np.sqrt(squares / freedom)), freedom, len(several))


def compare_seeds(
    before: Sequence[float], after: Sequence[float], *, spread: SeedSpread | None, error: float
) -> TrainingChange:
    """Difference of means: Welch's interval over seeds, or, with few seeds on a side, by the spread of other recipes.

    `error` is the standard error that the choice of test images leaves in the difference; it is added in both.
    """
    a, b = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    value = float(b.mean() - a.mean())
    if min(len(a), len(b)) >= ENOUGH:
        parts = [group.var(ddof=1) / len(group) for group in (a, b)]
        trained, doubt = sum(parts), sum(p**2 / (len(g) - 1) for p, g in zip(parts, (a, b), strict=True))
        basis = f"{len(a)} and {len(b)} seeds"
    elif spread is not None:
        trained = spread.deviation**2 * (1 / len(a) + 1 / len(b))
        doubt = trained**2 / spread.freedom
        recipes = f"{spread.recipes} other recipe{'s' if spread.recipes > 1 else ''}"
        basis = f"{len(a)} and {len(b)} seeds, by the spread between {spread.freedom + spread.recipes} of {recipes}"
    else:
        raise ValueError(
            f"trainings differ from seed to seed, and {len(a)} and {len(b)} of them tell nothing: train more"
        )
    total = float(trained + error**2)
    # Satterthwaite's: what images leave is known from thousands of them, what seeds do from few.
    freedom = min(total**2 / doubt, MANY) if doubt > 0 else MANY
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * float(np.sqrt(total))
    return TrainingChange(value, value - half, value + half, basis)


@dataclass(frozen=True, eq=False)
class TrainingPair:
    """Two ways of training under one condition each, and all recipes on the same data that have several seeds."""

    before: SeededAudits
    after: SeededAudits
    others: tuple[tuple[SeededAudits, ...], tuple[SeededAudits, ...]]  # under the condition of each side

    def change(self, statistic: AccuracyStatistic) -> TrainingChange:
        """The change of a statistic of the class accuracies."""

        def of(evidence: Evidence, condition: str) -> float:
            one = share_images((evidence, condition))
            return float(statistic(one.accuracies()[0], one.n))

        _, low, high = bootstrap_change(self.first_images(), statistic)
        return self.change_of(of, (high - low) / 2 / float(ndtri((1 + CONFIDENCE) / 2)))

    def change_of(self, statistic: AuditStatistic, error: float) -> TrainingChange:
        """The change of any number of an audit, with the standard error that images leave in it."""
        before, after = ([statistic(*one) for one in side] for side in (self.before, self.after))
        # The wider of the spreads under the two conditions: they are the same where the condition is.
        spreads = [pool_spread([statistic(*one) for one in group] for group in side) for side in self.others]
        there = [one for one in spreads if one is not None]
        spread = max(there, key=lambda one: one.deviation) if len(there) == len(spreads) else None
        return compare_seeds(before, after, spread=spread, error=error)

    def first_images(self) -> SharedImages:
        """What the first seed of each side got right."""
        return share_images(self.before[0], self.after[0])


def rises(
    what: str, change: TrainingChange, *, threshold: float = 0.0, unit: FindingUnit = POINTS
) -> tuple[ClaimFinding, ...]:
    """A finding that claims a change above a threshold."""
    return (above(f"{what} ({change.basis})", *change[:3], threshold=threshold, unit=unit),)


def falls(
    what: str, change: TrainingChange, *, threshold: float = 0.0, unit: FindingUnit = POINTS
) -> tuple[ClaimFinding, ...]:
    """A finding that claims a change below a threshold."""
    return (below(f"{what} ({change.basis})", *change[:3], threshold=threshold, unit=unit),)


def fit_slope(x: Sequence[float], y: Sequence[float]) -> TrainingChange:
    """The slope of a line through trainings, whose scatter about it is what another seed would do, among the rest."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(a) < ENOUGH:
        raise ValueError(f"a slope with an interval needs {ENOUGH} trainings or more, but saw {len(a)}")
    t = a - a.mean()
    slope = float(t @ b / (t @ t))
    scatter = b - b.mean() - slope * t
    freedom = len(a) - 2
    error = float(np.sqrt((scatter @ scatter) / freedom / (t @ t)))
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return TrainingChange(slope, slope - half, slope + half, f"{len(a)} trainings about a line")
