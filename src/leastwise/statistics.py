"""Intervals and tests: pure functions of counts.

Wilson is for display; exact (Clopper-Pearson) wherever a decision hangs on it, because Wilson's
coverage dips near 0, which is where weak classes live.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import bdtr, betaincinv, ndtri

CONFIDENCE = 0.95

Counts = Int[np.ndarray, "..."]
Bounds = tuple[Float[np.ndarray, "..."], Float[np.ndarray, "*shape"]]


def wilson(correct: Counts, n: Counts, confidence: float = CONFIDENCE) -> Bounds:
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


def exact(correct: Counts, n: Counts, confidence: float = CONFIDENCE) -> Bounds:
    """Clopper and Pearson's interval: covers at least `confidence` whatever the proportion; NaN where n is 0."""
    tail = (1 - confidence) / 2
    wrong = n - correct
    low = np.where(correct == 0, 0.0, betaincinv(np.maximum(correct, 1), wrong + 1, tail))
    high = np.where(wrong == 0, 1.0, betaincinv(correct + 1, np.maximum(wrong, 1), 1 - tail))
    return np.where(n > 0, low, np.nan), np.where(n > 0, high, np.nan)


@dataclass(frozen=True)
class Paired:
    """Two models on the same images: B minus A."""

    n: int
    gained: int  # right under B only
    lost: int  # right under A only
    difference: float  # in accuracy
    low: float
    high: float
    p: float  # exact McNemar test of no difference, two-sided


def paired(a: "np.ndarray", b: "np.ndarray", confidence: float = CONFIDENCE) -> Paired:
    """Compare which of the same images A and B get right (boolean arrays).

    The interval is Bonett and Price's adjusted Wald interval for paired proportions (Statistics in
    Medicine 2012): one imaginary image is added to each kind of disagreement.
    """
    n, gained, lost = len(a), int((b & ~a).sum()), int((a & ~b).sum())
    z = ndtri((1 + confidence) / 2)
    p_gain, p_loss = (gained + 1) / (n + 2), (lost + 1) / (n + 2)
    centre = p_gain - p_loss
    half = z * np.sqrt((p_gain + p_loss - centre**2) / (n + 2))
    disagreements = gained + lost
    p = min(1.0, 2 * float(bdtr(min(gained, lost), disagreements, 0.5))) if disagreements else 1.0
    difference = (gained - lost) / n if n else float("nan")
    return Paired(n, gained, lost, difference, max(-1.0, float(centre - half)), min(1.0, float(centre + half)), p)
