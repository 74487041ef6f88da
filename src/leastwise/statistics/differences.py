"""Differences of two proportions, one class at a time: of independent images, or of the same images at every look.

Bounds square and add the distances of exact limits, as `upper_paired` does (Zou and Donner's MOVER): narrower than both
limits at once, and with the skewness that a normal approximation loses. Summed over all outcomes, a bound is missed no
more often than it says (tests hold it against 1 to 430 images and truths from 0 to 1).
"""

import numpy as np
from scipy.special import logsumexp, ndtri

from leastwise.statistics.accuracy import (
    FEW_OUTCOMES,
    AnyCounts,
    Fractions,
    lower_bound,
    share_error,
    upper_bound,
    upper_paired,
)

# Bets against a limit, as shares of the largest that cannot ruin: their mean is a bet nobody has to tune.
BETS = np.geomspace(1e-3, 0.99, 20)
BISECTIONS = 26


def upper_difference(x: AnyCounts, x_n: AnyCounts, *, y: AnyCounts, y_n: AnyCounts, confidence: float) -> Fractions:
    """P(x) − P(y) is at most this, from independent images; NaN without images."""
    with np.errstate(invalid="ignore", divide="ignore"):
        above, below = upper_bound(x, x_n, confidence) - x / x_n, y / y_n - lower_bound(y, y_n, confidence)
        found = x / x_n - y / y_n + np.hypot(above, below)
    few = FEW_OUTCOMES * float(ndtri(confidence)) ** 2
    safe = (x_n - x >= few) & (y >= few)
    return np.minimum(1.0, np.where(safe, found, share_error(x, x_n, y=y, y_n=y_n, confidence=confidence)))


def lower_difference(x: AnyCounts, x_n: AnyCounts, *, y: AnyCounts, y_n: AnyCounts, confidence: float) -> Fractions:
    """P(x) − P(y) is at least this, from independent images."""
    return -upper_difference(y, y_n, y=x, y_n=x_n, confidence=confidence)


def not_worse_p(lost: AnyCounts, gained: AnyCounts, n: AnyCounts, *, margin: float) -> Fractions:
    """p-value of "this class lost at least `margin`": the least error at which `upper_paired` stays below it."""
    low, high = np.zeros(np.shape(n)), np.ones(np.shape(n))  # of log-error, as a share of the way from 1e-12 to 1
    error = np.ones(np.shape(n))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        error = 1e-12 ** (1 - middle)
        below = per_error(lost, gained, n, error=error) < margin
        low, high = np.where(below, low, middle), np.where(below, middle, high)
    return np.where(n > 0, np.where(high >= 1, 1.0, 1e-12 ** (1 - high)), np.nan)


def per_error(lost: AnyCounts, gained: AnyCounts, n: AnyCounts, *, error: Fractions) -> Fractions:
    """`upper_paired` with an error of its own for each class."""
    found = np.empty(len(n))
    for c in range(len(n)):
        one = slice(c, c + 1)
        found[c] = upper_paired(lost[one], gained[one], n[one], confidence=1 - float(error[c]))[0]
    return found


def log_evidence_below(lost: AnyCounts, gained: AnyCounts, n: AnyCounts, *, limit: Fractions) -> Fractions:
    """Log of an e-process against "what is lost is at least `limit`", from the same images under two models.

    An image counts D = 1 if lost, −1 if gained, else 0. A bet wins 1 + λ·(limit − D), on average at most 1 if
    the fall is at least the limit: Π over images, averaged over bets λ, ever reaches 1/α with
    probability at most α (Ville), however often one looks.
    """
    t = np.asarray(limit)[..., None]
    bets = BETS / np.maximum(1 - t, 1e-9)
    counts = [np.asarray(v)[..., None] for v in (lost, gained, n - lost - gained)]
    with np.errstate(divide="ignore", invalid="ignore"):
        wealth = sum(
            np.where(count > 0, count * np.log1p(np.maximum(bets * (t - d), -1.0)), 0.0)
            for count, d in zip(counts, (1.0, -1.0, 0.0), strict=True)
        )
    return np.asarray(logsumexp(wealth, axis=-1) - np.log(len(BETS)))


def anytime_upper_paired(lost: AnyCounts, gained: AnyCounts, n: AnyCounts, *, confidence: float) -> Fractions:
    """As `upper_paired`, and it holds after any number of images together."""
    needed = -np.log1p(-confidence)
    inside = np.where(n > 0, (lost - gained) / np.maximum(n, 1), 0.0).astype(np.float64)
    outside = np.ones(np.shape(n))
    closed = log_evidence_below(lost, gained, n, limit=np.full(np.shape(n), 1.0 - 1e-9)) >= needed
    for _ in range(BISECTIONS):
        middle = (inside + outside) / 2
        beyond = log_evidence_below(lost, gained, n, limit=middle) >= needed
        inside, outside = np.where(beyond, inside, middle), np.where(beyond, middle, outside)
    return np.where(closed, outside, 1.0)
