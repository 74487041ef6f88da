"""Do models agree on which classes are weak, and which models are beaten in everything?"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from leastwise.statistics.intervals import PerClass


@dataclass(frozen=True)
class Agreement:
    """Of two models' class accuracies, over the classes both have; NaN where a model's classes are all equal."""

    classes: int
    kendall: float  # τ-b
    spearman: float
    cosine: float  # of the deviations from the class mean (Benz): Pearson's correlation


def agreement(a: PerClass, b: PerClass) -> Agreement:
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        nan = float("nan")
        return Agreement(len(a), nan, nan, nan)
    from scipy.stats import kendalltau, rankdata  # takes a second to import

    kendall, spearman = float(kendalltau(a, b).statistic), correlation(rankdata(a), rankdata(b))
    return Agreement(len(a), kendall, spearman, correlation(a, b))


def dominated(scores: Float[np.ndarray, "m s"]) -> Bool[np.ndarray, " m"]:
    """Which models another one equals or beats in every score and beats in one (clean, robust, worst)."""
    at_least = np.all(scores[:, None] <= scores[None], axis=-1)
    better = np.any(scores[:, None] < scores[None], axis=-1)
    return np.asarray(np.any(at_least & better, axis=1))


def correlation(a: "np.ndarray", b: "np.ndarray") -> float:
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))
