"""Intervals for proportions: one at a time, and all classes together.

Wilson is for display; exact (Clopper-Pearson) wherever a decision hangs on it, because Wilson's
coverage dips near 0, which is where weak classes live (to 84 % at n = 100 and p = 0.0018).
"""

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import betaincinv, ndtri

CONFIDENCE = 0.95

AnyCounts = Int[np.ndarray, "..."]
Bounds = tuple[Float[np.ndarray, "..."], Float[np.ndarray, "*shape"]]
ClassCounts = Int[np.ndarray, " k"]
ClassValues = Float[np.ndarray, " k"]
Hits = Bool[np.ndarray, " n"]  # which images were right
OneRun = Bool[np.ndarray, " _"]  # the same, of one of several models


def wilson_interval(correct: AnyCounts, n: AnyCounts, confidence: float = CONFIDENCE) -> Bounds:
    """Wilson's score interval for a proportion; NaN where n is 0."""
    z = ndtri((1 + confidence) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = correct / n
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * np.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
        # The ends are exactly 0 and 1 at none and all; rounding would leave 1e-17 there.
        low = np.where(correct == 0, 0.0, centre - half)
        high = np.where(correct == n, 1.0, centre + half)
    return np.where(n > 0, low, np.nan), np.where(n > 0, high, np.nan)


def exact_interval(correct: AnyCounts, n: AnyCounts, confidence: float = CONFIDENCE) -> Bounds:
    """Clopper and Pearson's interval: covers at least `confidence` whatever the proportion; NaN where n is 0."""
    one_sided = (1 + confidence) / 2
    return lower_bound(correct, n, one_sided), upper_bound(correct, n, one_sided)


def lower_bound(correct: AnyCounts, n: AnyCounts, confidence: float = CONFIDENCE) -> Float[np.ndarray, "..."]:
    """Exact one-sided bound: the proportion is at least this; NaN where n is 0."""
    low = np.where(correct == 0, 0.0, betaincinv(np.maximum(correct, 1), n - correct + 1, 1 - confidence))
    return np.where(n > 0, low, np.nan)


def upper_bound(correct: AnyCounts, n: AnyCounts, confidence: float = CONFIDENCE) -> Float[np.ndarray, "..."]:
    """Exact one-sided bound: the proportion is at most this; NaN where n is 0."""
    wrong = n - correct
    high = np.where(wrong == 0, 1.0, betaincinv(correct + 1, np.maximum(wrong, 1), confidence))
    return np.where(n > 0, high, np.nan)


def sidak(confidence: float, count: int) -> float:
    """The confidence each of `count` independent bounds needs so that all hold together: c^(1/count)."""
    return float(confidence ** (1 / max(count, 1)))


def simultaneous_intervals(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> Bounds:
    """Exact intervals that hold for all present classes together; NaN for classes without examples.

    Classes share no image, so Šidák's product rule holds with equality and nothing is given away to Bonferroni.
    """
    return exact_interval(correct, n, sidak(confidence, int((n > 0).sum())))
