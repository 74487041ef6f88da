"""Claims about how unequal classes are: C1, C2, C14, C15, C22, C23, C24."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import ndtri

from leastwise.audit.evidence import Evidence
from leastwise.insight.accuracy_drop import joint_share
from leastwise.papers.claims.base import (
    PERCENT,
    PERCENT_SQUARED,
    POINTS,
    Accuracies,
    Claim,
    ClaimDecision,
    ClaimFinding,
    FindingUnit,
    above,
    average,
    below,
    bootstrap_change,
    bootstrap_statistic,
    class_counts,
    deviation,
    gap,
    share_images,
    worst,
)
from leastwise.statistics.intervals import CONFIDENCE
from leastwise.statistics.spread import homogeneity, measure_spread, variance_bounds
from leastwise.statistics.worst_class import probability_worst

NAN = float("nan")
ALIKE = 0.01  # a standard deviation over classes below one point counts as none
SMALL_COST = 0.05  # the paper's own were 1.8, 3.9 and 8.6 points
ALMOST_HALF = 0.4
FLAT = 0.01  # a gain of less than a point is none
PER_RADIUS = FindingUnit("points per 1/255 of eps", 100.0)


def classes_differ(evidence: Evidence, condition: str) -> tuple[ClaimFinding, ...]:
    """C1: standard deviation over classes without sampling noise, and a test of equal accuracy.

    Where an attack leaves (almost) nothing to differ in, such as PGD of a standard network, nothing is decided.
    """
    correct, n = class_counts(evidence, condition)
    low, high = (float(np.sqrt(v)) for v in variance_bounds(correct, n))
    p = homogeneity(correct, n)
    alike = high < ALIKE and correct.sum() >= ALIKE * n.sum()
    verdict: ClaimDecision = "holds" if p <= 1 - CONFIDENCE and low > 0 else "does not hold" if alike else "undecided"
    what = f"deviation over classes under {condition}, without noise"
    return (ClaimFinding(what, measure_spread(correct, n).sd, low, high, verdict, p, POINTS),)


def spread_widens(before: tuple[Evidence, str], after: tuple[Evidence, str]) -> tuple[ClaimFinding, ...]:
    """C2: difference of the de-biased CV and of the MCD.

    The errors of both CV are added as if the images were different ones, which only widens the interval.
    """
    a, b = measure_spread(*class_counts(*before)), measure_spread(*class_counts(*after))
    difference = b.debiased - a.debiased
    half = float(ndtri((1 + CONFIDENCE) / 2)) * float(np.hypot(a.error, b.error))
    return (
        above(
            "difference of CV, without noise", difference, difference - half, difference + half, unit=PERCENT_SQUARED
        ),
        above("difference of MCD", *bootstrap_change(share_images(before, after), gap), unit=POINTS),
    )


def radius_trends(
    models: Mapping[float, Evidence], clean: str, robust: str, *, saturates: float
) -> tuple[ClaimFinding, ...]:
    """C14: slopes over the radius of training, in 1/255; robustness gained up to `saturates`, and beyond."""
    radii = np.array(sorted(models))
    if saturates not in models or not (radii > saturates).any() or not (radii < saturates).any():
        raise ValueError(
            f"a saturation at {saturates:g} needs a model trained there, one below and one beyond: add them"
        )
    t = radii - radii.mean()

    def slope(values: "np.ndarray") -> "np.ndarray":
        return np.asarray(values @ t / (t @ t))

    ordered = [models[eps] for eps in radii.tolist()]
    natural = share_images(*((evidence, clean) for evidence in ordered))
    attacked = share_images(*((evidence, robust) for evidence in ordered))

    def gain(a: Accuracies, n: "np.ndarray") -> "np.ndarray":
        over = average(a, n)
        return np.asarray(over[..., radii > saturates].mean(-1) - over[..., radii == saturates].mean(-1))

    def rise(a: Accuracies, n: "np.ndarray") -> "np.ndarray":
        over = average(a, n)
        return np.asarray(over[..., radii == saturates].mean(-1) - over[..., 0])

    return (
        below(
            "slope of clean accuracy", *bootstrap_statistic(natural, lambda a, n: slope(average(a, n))), unit=PER_RADIUS
        ),
        above(
            "slope of the deviation of clean accuracy",
            *bootstrap_statistic(natural, lambda a, n: slope(deviation(a, n))),
            unit=PER_RADIUS,
        ),
        above(
            "slope of the deviation of robustness",
            *bootstrap_statistic(attacked, lambda a, n: slope(deviation(a, n))),
            unit=PER_RADIUS,
        ),
        above(
            f"robustness gained from eps {radii[0]:g}/255 to {saturates:g}/255",
            *bootstrap_statistic(attacked, rise),
            unit=POINTS,
        ),
        below(
            f"robustness gained beyond eps {saturates:g}/255",
            *bootstrap_statistic(attacked, gain),
            threshold=FLAT,
            unit=POINTS,
        ),
    )


def average_for_spread(base: Evidence, fair: Evidence, condition: str) -> tuple[ClaimFinding, ...]:
    """C15: paired differences of average, worst class and deviation; the average is said to fall."""
    same = share_images((base, condition), (fair, condition))
    return (
        below(f"change of the average under {condition}", *bootstrap_change(same, average), unit=POINTS),
        above(f"change of the worst class under {condition}", *bootstrap_change(same, worst), unit=POINTS),
        below(f"change of the deviation under {condition}", *bootstrap_change(same, deviation), unit=POINTS),
    )


def few_classes_carry_the_drop(
    standard: Evidence, adversarial: Evidence, condition: str, *, classes: tuple[int, ...]
) -> tuple[ClaimFinding, ...]:
    """C22: the share of the named classes in the fall of accuracy; "almost half" is read as 40 % or more."""
    same = share_images((standard, condition), (adversarial, condition))
    before, after = same.hits
    found = joint_share(before, after, same.labels, k=same.k, classes=classes)
    names = " and ".join(standard.names[c] for c in classes)
    return (
        above(f"share of {names} in the fall", found.value, found.low, found.high, threshold=ALMOST_HALF, unit=PERCENT),
    )


def fair_weights_narrow(base: Evidence, fair: Evidence, condition: str) -> tuple[ClaimFinding, ...]:
    """C23: the deviation falls, and the average by less than five points."""
    same = share_images((base, condition), (fair, condition))
    return (
        below(f"change of the deviation under {condition}", *bootstrap_change(same, deviation), unit=POINTS),
        above(
            f"change of the average under {condition}",
            *bootstrap_change(same, average),
            threshold=-SMALL_COST,
            unit=POINTS,
        ),
    )


def weakest_class_changes(evidence: Evidence, base: str, conditions: Sequence[str]) -> tuple[ClaimFinding, ...]:
    """C24: for each condition the posterior probability that its worst class is not the worst one of `base`."""
    at_base = probability_worst(*class_counts(evidence, base))
    found = []
    for condition in conditions:
        same = float(np.nansum(at_base * probability_worst(*class_counts(evidence, condition))))
        differs = 1 - same
        verdict: ClaimDecision = (
            "holds" if differs >= CONFIDENCE else "does not hold" if differs <= 1 - CONFIDENCE else "undecided"
        )
        found.append(
            ClaimFinding(
                f"chance that the worst class under {condition} is another", differs, NAN, NAN, verdict, unit=PERCENT
            )
        )
    return tuple(found)


CLASSES_DIFFER = Claim(
    "C1",
    ("benz2021", "tian2021"),
    "Classes differ even where the data are balanced.",
    "deviation over classes without sampling noise; test of equal accuracy",
    (classes_differ,),
)
TRAINING_WIDENS_SPREAD = Claim(
    "C2",
    ("benz2021", "tian2021"),
    "Adversarial training widens the spread of the classes.",
    "differences of de-biased CV and of MCD: robust or natural after, natural before",
    (spread_widens,),
)
RADIUS_WIDENS_SPREAD = Claim(
    "C14",
    ("ahn",),
    "With the radius of training clean accuracy falls and the spread rises; robustness rises up to 8/255 only.",
    "slopes over the radius; robustness gained up to 8/255, and beyond",
    (radius_trends,),
)
FAIRNESS_COSTS_AVERAGE = Claim(
    "C15",
    ("ahn",),
    "FRL and CFA give average accuracy for a smaller spread.",
    "paired differences of average, worst class and deviation",
    (average_for_spread,),
)
TWO_CLASSES_CARRY_THE_DROP = Claim(
    "C22",
    ("tradeoff2022",),
    "Two classes carry almost half of the fall of accuracy.",
    "share of bird and cat with a bootstrap interval",
    (few_classes_carry_the_drop,),
)
FAIR_WEIGHTS_NARROW_SPREAD = Claim(
    "C23",
    ("benz2021",),
    "Fair weights narrow the spread at a small cost on average.",
    "paired differences of deviation and average",
    (fair_weights_narrow,),
)
CORRUPTIONS_CHANGE_WEAKEST_CLASS = Claim(
    "C24",
    ("benz2021",),
    "Under corruptions another class is the weakest.",
    "probability that the worst class is another",
    (weakest_class_changes,),
)

SPREAD_CLAIMS = (
    CLASSES_DIFFER,
    TRAINING_WIDENS_SPREAD,
    RADIUS_WIDENS_SPREAD,
    FAIRNESS_COSTS_AVERAGE,
    TWO_CLASSES_CARRY_THE_DROP,
    FAIR_WEIGHTS_NARROW_SPREAD,
    CORRUPTIONS_CHANGE_WEAKEST_CLASS,
)
