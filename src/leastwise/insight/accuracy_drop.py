"""What a training costs each class, with intervals from images that both models saw."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from leastwise.statistics.intervals import CONFIDENCE, ClassValues, Hits, OneRun

DRAWS = 2000  # of the bootstrap
RESIDUE = 1e-9  # what rounding may leave of a sum that is 0, for each class


@dataclass(frozen=True)
class IntervalEstimate:
    """A number with the interval that covers its true value."""

    value: float
    low: float
    high: float


def drop_shares(before: ClassValues, after: ClassValues) -> ClassValues:
    """Each class's share of the fall of accuracy (tradeoff2022, Fig. 1c): sums to 1, negative for a class that gained.

    NaN everywhere if nothing was lost on the whole; a missing class stays missing and does not count.
    """
    lost = before - after
    total = float(np.nansum(lost))
    return lost / total if total > RESIDUE * len(lost) else np.full(len(lost), np.nan)


def joint_share(
    before: Hits,
    after: Hits,
    labels: Int[np.ndarray, " n"],
    *,
    k: int,
    classes: tuple[int, ...],
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> IntervalEstimate:
    """The share of the fall that some classes carry together, with a bootstrap interval over the same images."""
    shares = drop_shares(class_accuracies(before, labels, k), class_accuracies(after, labels, k))
    drawn_again = resample_accuracies([before, after], labels, k, seed=seed)
    lost = drawn_again[:, 0] - drawn_again[:, 1]
    total = np.nansum(lost, axis=1)
    fell = total > RESIDUE * k
    drawn = lost[:, list(classes)].sum(1)[fell] / total[fell]
    return IntervalEstimate(float(shares[list(classes)].sum()), *percentile_interval(drawn, confidence))


def class_accuracies(hits: Hits, labels: Int[np.ndarray, " n"], k: int) -> ClassValues:
    """The share of right answers in each class; NaN without images."""
    n = np.bincount(labels, minlength=k)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.bincount(labels[hits], minlength=k) / n


def resample_accuracies(
    hits: Sequence[OneRun], labels: Int[np.ndarray, " n"], k: int, *, seed: int = 0, draws: int = DRAWS
) -> Float[np.ndarray, "draws m k"]:
    """Class accuracies of several models on images drawn again with replacement, class by class, the same for all.

    Images that the same models get right are alike, so a draw is a multinomial over these few kinds and no image is
    touched. NaN for classes without images.
    """
    if any(len(one) != len(labels) for one in hits):
        raise ValueError("models can be paired only on the same images: audit all on the same data")
    rng = np.random.default_rng(seed)
    stacked = np.stack(hits)
    found = np.full((draws, len(hits), k), np.nan)
    for c in np.unique(labels):
        kinds, sizes = np.unique(stacked[:, labels == c], axis=1, return_counts=True)
        n = int(sizes.sum())
        found[:, :, c] = rng.multinomial(n, sizes / n, size=draws) @ kinds.T / n
    return found


def percentile_interval(values: Float[np.ndarray, " n"], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The middle share of draws; NaN without any."""
    if not len(values):
        return float("nan"), float("nan")
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)
