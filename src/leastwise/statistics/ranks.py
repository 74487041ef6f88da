"""Which class is the worst, and which rank each has: probabilities and intervals that hold for few images, too.

Averages over what the true accuracies may be (`leastwise.statistics.posterior`).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from leastwise.statistics.intervals import CONFIDENCE, ClassCounts, ClassValues
from leastwise.statistics.posterior import draw_accuracies, infer_accuracies, weigh_worst

# Of the probability, for a set that holds the worst class in 95 of 100 audits: the probabilities are right within a few
# points only, and in simulations of 100 similar classes a set of 95 % held it 92 times.
HELD = 0.97


def probability_worst(correct: ClassCounts, n: ClassCounts) -> ClassValues:
    """Each class's posterior probability of having the lowest accuracy; NaN without images."""
    found = np.full(len(n), np.nan)
    if (n > 0).any():
        posterior = infer_accuracies(correct, n)
        found[posterior.classes] = weigh_worst(posterior)[0]
        # Classes of equal counts have equal chances; sums in another order may differ in the last digit.
        found = np.round(found, 12)
    return found


def likely_worst(probability: ClassValues) -> tuple[int, ...]:
    """The likeliest worst classes, likeliest first: as few as hold the worst class in 95 of 100 audits."""
    known = np.nan_to_num(probability)
    order = np.argsort(-np.nan_to_num(probability, nan=-1.0), kind="stable")
    return tuple(int(c) for c in order[: int(np.searchsorted(known[order].cumsum(), HELD)) + 1])


@dataclass(frozen=True, eq=False)
class ClassRanks:
    """The rank of every class, 1 for the worst; NaN for classes without images."""

    mean: ClassValues
    low: ClassValues
    high: ClassValues  # `low` to `high` holds the true rank with the probability that was asked for


def estimate_ranks(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> ClassRanks:
    """Mean rank and credible interval of the rank of every class."""
    mean, low, high = (np.full(len(n), np.nan) for _ in range(3))
    there = n > 0
    if there.any():
        drawn = draw_accuracies(infer_accuracies(correct, n))
        ranks: Float[np.ndarray, "d c"] = 1.0 + drawn.argsort(1).argsort(1)
        mean[there] = ranks.mean(0)
        tail = (1 - confidence) / 2
        low[there] = np.quantile(ranks, tail, axis=0, method="lower")
        high[there] = np.quantile(ranks, 1 - tail, axis=0, method="higher")
    return ClassRanks(mean, low, high)
