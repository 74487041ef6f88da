"""Claims about features and entropy: C18, C20, C21."""

from collections.abc import Mapping

import numpy as np
from scipy.special import bdtrc, ndtri

from leastwise.audit.evidence import Evidence
from leastwise.insight.accuracy_drop import resample_accuracies
from leastwise.papers.claims.base import (
    NATS,
    PERCENT,
    POINTS,
    Claim,
    ClaimFinding,
    above,
    average,
    bootstrap_change,
    share_images,
    worst,
)
from leastwise.statistics.intervals import CONFIDENCE, ClassValues, exact_interval


def sign_test(what: str, rises: "np.ndarray") -> ClaimFinding:
    """Sign test: the share of classes for which it is so, with an exact interval; holds if more than half for sure."""
    n, so = len(rises), int(rises.sum())
    low, high = exact_interval(np.array([so]), np.array([n]))
    p = min(1.0, 2 * float(bdtrc(max(so, n - so) - 1, n, 0.5)))
    return above(what, so / n if n else float("nan"), float(low[0]), float(high[0]), threshold=0.5, p=p, unit=PERCENT)


def similarity_rises_and_variance_falls(
    similarity: tuple[ClassValues, ClassValues], variance: tuple[ClassValues, ClassValues]
) -> tuple[ClaimFinding, ...]:
    """C18: (standard, adversarial) of each; sign tests over classes.

    Variances of two networks are compared as they are, as the paper does, although their scale is the network's own.
    """
    return (
        *similarity_rises(similarity),
        sign_test("share of classes whose variance falls", class_changes(*variance) < 0),
    )


def similarity_rises(similarity: tuple[ClassValues, ClassValues]) -> tuple[ClaimFinding, ...]:
    """C18 where only similarity is spoken of: classes that are attacked alone."""
    return (sign_test("share of classes whose similarity rises", class_changes(*similarity) > 0),)


def class_changes(before: ClassValues, after: ClassValues) -> ClassValues:
    """Over the classes that both have and that changed at all."""
    difference = after - before
    return difference[~np.isnan(difference) & (difference != 0)]


def smoothing_lowers(
    similarity: tuple[ClassValues, ClassValues], variance: tuple[ClassValues, ClassValues]
) -> tuple[ClaimFinding, ...]:
    """C20, first half: (without, with) smoothing or entropy: similarity and variance fall."""
    return (
        sign_test("share of classes whose similarity falls", class_changes(*similarity) < 0),
        sign_test("share of classes whose variance falls", class_changes(*variance) < 0),
    )


def worst_class_rises(base: Evidence, smoothed: Evidence, condition: str) -> tuple[ClaimFinding, ...]:
    """C20, second half: the worst class with smoothing or entropy against the worst without, whichever they are."""
    same = share_images((base, condition), (smoothed, condition))
    return (above(f"change of the worst class under {condition}", *bootstrap_change(same, worst), unit=POINTS),)


def entropy_is_higher(base: Evidence, other: Evidence, condition: str) -> tuple[ClaimFinding, ...]:
    """C21, first half: mean entropy of the second minus the first over the same images; normal interval."""
    ids, at, there = np.intersect1d(base.ids, other.ids, return_indices=True)
    if len(ids) < 2:
        raise ValueError("the audits share fewer than two images: audit both on the same data")
    d = other.conditions[condition].entropy[there].astype(np.float64) - base.conditions[condition].entropy[at]
    mean, half = float(d.mean()), float(ndtri((1 + CONFIDENCE) / 2)) * float(d.std(ddof=1)) / np.sqrt(len(d))
    return (above(f"difference of entropy under {condition}", mean, mean - float(half), mean + float(half), unit=NATS),)


def allows_a_larger_weight(
    plain: Mapping[float, Evidence], regularised: Mapping[float, Evidence], condition: str, *, seed: int = 0
) -> tuple[ClaimFinding, ...]:
    """C21, second half: the most robust weight of the second method minus that of the first.

    Percentiles over images drawn again, the same for all networks: how sure the two maxima are where they are.
    """
    groups = [sorted(plain), sorted(regularised)]
    audits = [(models[w], condition) for models, order in zip((plain, regularised), groups, strict=True) for w in order]
    same = share_images(*audits)
    cut = len(groups[0])

    def difference(overall: "np.ndarray") -> "np.ndarray":
        first = np.array(groups[0])[overall[..., :cut].argmax(-1)]
        return np.asarray(np.array(groups[1])[overall[..., cut:].argmax(-1)] - first)

    drawn = difference(average(resample_accuracies(same.hits, same.labels, same.k, seed=seed), same.n))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    value = float(difference(average(same.accuracies(), same.n)))
    return (above("difference of the most robust weights", value, float(low), float(high)),)


SIMILARITY_RISES = Claim(
    "C18",
    ("tradeoff2022",),
    "Adversarial training raises the similarity of classes, class by class, and lowers their variance.",
    "sign tests over classes",
    (similarity_rises_and_variance_falls, similarity_rises),
)
SMOOTHING_LIFTS_WORST_CLASS = Claim(
    "C20",
    ("tradeoff2022",),
    "Label smoothing and maximum entropy lower similarity and variance and lift the worst class.",
    "sign tests over classes; paired difference of the worst class",
    (smoothing_lowers, worst_class_rises),
)
ENTROPY_ALLOWS_LARGER_WEIGHT = Claim(
    "C21",
    ("tradeoff2022",),
    "TRADES has a higher entropy than PGD-AT, and maximum entropy allows a larger lambda.",
    "difference of mean entropy; difference of the most robust lambdas",
    (entropy_is_higher, allows_a_larger_weight),
)

FEATURES_CLAIMS = (
    SIMILARITY_RISES,
    SMOOTHING_LIFTS_WORST_CLASS,
    ENTROPY_ALLOWS_LARGER_WEIGHT,
)
