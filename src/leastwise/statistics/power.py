"""How many images per class? Normal approximations; tests hold them against the exact power of the tests used here."""

from math import ceil, log, sqrt

import numpy as np
from scipy.special import ndtri, rel_entr

from leastwise.statistics.accuracy import CONFIDENCE, sidak
from leastwise.statistics.race import PRIOR
from leastwise.statistics.two_phase import sample_for_width

POWER = 0.8


def images_between_classes(
    p: float, difference: float, power: float = POWER, *, confidence: float = CONFIDENCE, tests: int = 1
) -> int:
    """Images per class to tell accuracies p and p + difference apart (two classes, or two models on different images).

    (z_α·√(2·m(1−m)) + z_β·√(p(1−p) + q(1−q)))² / d² plus 2/|d|, a continuity correction for Fisher's test, with
    q = p + d and m their mean. `tests` is how many comparisons share the error.
    """
    q = p + difference
    check_request(difference, power, confidence, tests, p, q)
    z_alpha, z_beta = quantiles(power, confidence, tests)
    mean = (p + q) / 2
    root = z_alpha * sqrt(2 * mean * (1 - mean)) + z_beta * sqrt(p * (1 - p) + q * (1 - q))
    return ceil(root**2 / difference**2 + 2 / abs(difference))


def images_on_same_images(
    difference: float, disagreement: float, power: float = POWER, *, confidence: float = CONFIDENCE, tests: int = 1
) -> int:
    """Images per class to see two models differ on the same images; on a share `disagreement` just one is right.

    (z_α·√ψ + z_β·√(ψ − d²))² / d² for McNemar's test, plus 1/|d| because the exact test is used, which is that
    much slower (a continuity correction).
    """
    check_request(difference, power, confidence, tests, disagreement, abs(difference))
    if disagreement < abs(difference):
        raise ValueError(
            f"models that differ by {abs(difference):g} disagree on at least that share of images, "
            f"and {disagreement:g} was given: raise the disagreement"
        )
    z_alpha, z_beta = quantiles(power, confidence, tests)
    root = z_alpha * sqrt(disagreement) + z_beta * sqrt(disagreement - difference**2)
    return ceil(root**2 / difference**2 + 1 / abs(difference))


def images_against_threshold(
    p: float, threshold: float, power: float = POWER, *, confidence: float = CONFIDENCE, tests: int = 1
) -> int:
    """Images of one class of accuracy p for its exact interval to clear a threshold.

    (z_α·√(t(1−t)) + z_β·√(p(1−p)))² / (p − t)² plus 1/|p − t|, a continuity correction for the exact interval.
    """
    difference = p - threshold
    check_request(difference, power, confidence, tests, p, threshold)
    z_alpha, z_beta = quantiles(power, confidence, tests)
    root = z_alpha * sqrt(threshold * (1 - threshold)) + z_beta * sqrt(p * (1 - p))
    return ceil(root**2 / difference**2 + 1 / abs(difference))


def images_in_race(
    p: float, difference: float, power: float = POWER, *, confidence: float = CONFIDENCE, tests: int = 1
) -> int:
    """Images of each class until a race about the population has told accuracies p and p + difference apart.

    After n images of each the log wealth is about n·D − log(1 + n/8), with D the relative entropy to the accuracy in
    the middle and the logarithm the price of learning both accuracies; it varies with √(2·n·D). `tests` do not share
    the error: a race gives all of it to each class. On one test set the answer comes earlier, and at the end at last.
    """
    q = p + difference
    check_request(difference, power, confidence, tests, p, q)
    middle = (p + q) / 2
    gain = relative_entropy(p, middle) + relative_entropy(q, middle)
    limit, z_beta = log(1 / (1 - confidence)), float(ndtri(power))

    def is_enough(n: int) -> bool:
        return n * gain - log(1 + n / PRIOR) / 2 - z_beta * sqrt(2 * n * gain) >= limit

    enough = 1
    while not is_enough(enough):
        enough *= 2
    few = enough // 2
    while enough - few > 1:
        middle_n = (few + enough) // 2
        few, enough = (few, middle_n) if is_enough(middle_n) else (middle_n, enough)
    return enough


def relative_entropy(q: float, p: float) -> float:
    """Of one share of right answers to another."""
    return float(rel_entr(q, p) + rel_entr(1 - q, 1 - p))


def images_in_second_phase(
    width: float, share: float, images: int, *, confidence: float = CONFIDENCE, tests: int = 1
) -> int:
    """Survivors of a class to try so that its interval is no wider; a first phase leaves a share of `images` images.

    `tests` is the number of classes whose intervals hold together.
    """
    if images < 1 or not 0 <= share <= 1:
        raise ValueError(f"two phases need images and a share that survives the first, but saw {images} and {share:g}")
    survivors = np.array([round(share * images)])
    return int(sample_for_width(width, survivors, np.array([images]), confidence=sidak(confidence, tests))[0])


def quantiles(power: float, confidence: float, tests: int) -> tuple[float, float]:
    """The normal quantiles of a two-sided test whose error is shared, and of its power."""
    return float(ndtri(1 - (1 - confidence) / (2 * tests))), float(ndtri(power))


def check_request(difference: float, power: float, confidence: float, tests: int, *shares: float) -> None:
    """Refuse differences, shares, powers and confidences that mean nothing."""
    if difference == 0:
        raise ValueError("no number of images shows a difference of 0: ask for the smallest that matters")
    for share in shares:
        if not 0 <= share <= 1:
            raise ValueError(f"accuracies and shares are fractions in [0, 1], and {share:g} is not: 3 points are 0.03")
    if not (0 < power < 1 and 0 < confidence < 1 and tests >= 1):
        raise ValueError(
            f"power {power:g} and confidence {confidence:g} must lie between 0 and 1, and {tests} tests be at least 1"
        )
