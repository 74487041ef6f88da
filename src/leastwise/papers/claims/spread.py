"""Claims about how unequal classes are: C1, C2, C14, C15, C22, C23, C24, C30, C32."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import stdtrit

from leastwise.audit.evidence import Evidence
from leastwise.insight.agreement import IntervalEstimate, joint_share
from leastwise.papers.claims.base import (
    PERCENT,
    PERCENT_SQUARED,
    POINTS,
    Accuracies,
    AccuracyStatistic,
    Claim,
    ClaimDecision,
    ClaimFinding,
    FindingUnit,
    above,
    average,
    class_counts,
    deviation,
    gap,
    share_images,
    worst,
)
from leastwise.papers.claims.trainings import (
    ENOUGH,
    SeededAudits,
    SeedSpread,
    TrainingChange,
    TrainingPair,
    compare_seeds,
    falls,
    fit_slope,
    rises,
)
from leastwise.statistics.accuracy import CONFIDENCE
from leastwise.statistics.spread import homogeneity, measure_spread, variance_bounds
from leastwise.statistics.worst_class import probability_worst

NAN = float("nan")
ALIKE = 0.01  # a standard deviation over classes below one point counts as none
SMALL_COST = 0.03  # the paper calls 1.8 points small
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


def debiased_variance(a: Accuracies, n: "np.ndarray") -> "np.ndarray":
    """CV without what sampling adds: ((k − 1)/k²)·Σ a(1 − a)/(n − 1), over classes with two images or more."""
    there = n > 1
    a, n = a[..., there], n[there]
    k = len(n)
    noise = (k - 1) / k**2 * (a * (1 - a) / (n - 1)).sum(-1)
    return np.asarray(np.var(a, axis=-1) - noise)


def spread_widens(pair: TrainingPair) -> tuple[ClaimFinding, ...]:
    """C2: difference of the de-biased CV, adversarial training minus standard; that of the MCD beside it."""
    return (
        *rises("difference of CV, without noise", pair.change(debiased_variance), unit=PERCENT_SQUARED),
        *rises("difference of MCD", pair.change(gap)),
    )


def accuracy_falls_with_radius(models: Mapping[float, Evidence], clean: str) -> tuple[ClaimFinding, ...]:
    """C14, first part: the slope of clean accuracy over the radius of training, in 1/255."""
    return falls("slope of clean accuracy", slope_over_radii(models, clean, average), unit=PER_RADIUS)


def spread_rises_with_radius(models: Mapping[float, Evidence], clean: str, robust: str) -> tuple[ClaimFinding, ...]:
    """C14, second part: slopes of the deviation over classes, of clean and of robust accuracy."""
    return (
        *rises("slope of the deviation of clean accuracy", slope_over_radii(models, clean, deviation), unit=PER_RADIUS),
        *rises("slope of the deviation of robustness", slope_over_radii(models, robust, deviation), unit=PER_RADIUS),
    )


def slope_over_radii(models: Mapping[float, Evidence], condition: str, statistic: AccuracyStatistic) -> TrainingChange:
    """A statistic of the class accuracies over the radius of training."""
    radii = sorted(models)
    images = [share_images((models[eps], condition)) for eps in radii]
    return fit_slope(radii, [float(statistic(one.accuracies()[0], one.n)) for one in images])


def robustness_saturates(
    models: Mapping[float, Evidence], robust: str, *, saturates: float, spread: SeedSpread | None
) -> tuple[ClaimFinding, ...]:
    """C14, third part: robustness gained up to `saturates`, and beyond, by the spread between seeds."""
    radii = sorted(models)
    lower, beyond = [eps for eps in radii if eps < saturates], [eps for eps in radii if eps > saturates]
    if saturates not in models or not lower or not beyond:
        raise ValueError(
            f"a saturation at {saturates:g} needs a model trained there, one below and one beyond: add them"
        )
    shared = share_images(*((models[eps], robust) for eps in radii))
    at = {eps: float(average(a, shared.n)) for eps, a in zip(radii, shared.accuracies(), strict=True)}
    error = float(np.sqrt(2 * at[saturates] * (1 - at[saturates]) / shared.n.sum()))
    up = compare_seeds([at[radii[0]]], [at[saturates]], spread=spread, error=error)
    more = compare_seeds([at[saturates]], [at[eps] for eps in beyond], spread=spread, error=error)
    return (
        *rises(f"robustness gained from eps {radii[0]:g}/255 to {saturates:g}/255", up),
        *falls(f"robustness gained beyond eps {saturates:g}/255", more, threshold=FLAT),
    )


def fair_method_narrows(clean: TrainingPair, robust: TrainingPair) -> tuple[ClaimFinding, ...]:
    """C15, first part: the variance over classes falls, clean and robust, and the worst clean class rises.

    The variance without noise: noise alone keeps the deviation of a nearly even model up, and its interval then covers
    the true change in seven of ten audits only.
    """
    return (
        *falls("change of CV of clean accuracy, without noise", clean.change(debiased_variance), unit=PERCENT_SQUARED),
        *falls("change of CV of robustness, without noise", robust.change(debiased_variance), unit=PERCENT_SQUARED),
        *rises("change of the worst clean class", clean.change(worst)),
    )


def fair_method_costs(pairs: Mapping[str, TrainingPair]) -> tuple[ClaimFinding, ...]:
    """C15, second part: the averages that the text says fall."""
    return tuple(
        one for name, pair in pairs.items() for one in falls(f"change of the average, {name}", pair.change(average))
    )


def few_classes_carry_the_drop(
    standard: SeededAudits, adversarial: SeededAudits, *, classes: tuple[int, ...]
) -> tuple[ClaimFinding, ...]:
    """C22: the share of the named classes in the fall of accuracy; "almost half" is read as 40 % or more.

    With three seeds of each: their mean over pairs of seeds, with Student's interval; else an interval over images.
    """
    shares = [share_of_drop(before, after, classes) for before, after in zip(standard, adversarial, strict=False)]
    names = " and ".join(standard[0][0].names[c] for c in classes)
    found, basis = shares[0], "one pair of trainings, over images"
    value, low, high = found.value, found.low, found.high
    if len(shares) >= ENOUGH:
        values = np.array([one.value for one in shares])
        half = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * float(values.std(ddof=1) / np.sqrt(len(values)))
        images = (high - low) / 2
        value, basis = float(values.mean()), f"{len(values)} pairs of seeds"
        low, high = value - float(np.hypot(half, images)), value + float(np.hypot(half, images))
    return (above(f"share of {names} in the fall ({basis})", value, low, high, threshold=ALMOST_HALF, unit=PERCENT),)


def share_of_drop(
    before: tuple[Evidence, str], after: tuple[Evidence, str], classes: tuple[int, ...]
) -> IntervalEstimate:
    """Of one pair of trainings."""
    same = share_images(before, after)
    first, second = same.hits
    return joint_share(first, second, same.labels, k=same.k, classes=classes)


def fair_weights_narrow(pair: TrainingPair) -> tuple[ClaimFinding, ...]:
    """C23, first part: the variance over classes, without noise, falls."""
    return falls("change of CV, without noise", pair.change(debiased_variance), unit=PERCENT_SQUARED)


def fair_weights_cost_little(pair: TrainingPair) -> tuple[ClaimFinding, ...]:
    """C23, second part: the average falls by less than three points."""
    return rises("change of the average", pair.change(average), threshold=-SMALL_COST)


def weight_lifts_its_class(audits: Mapping[float, tuple[Evidence, str]], cls: int) -> tuple[ClaimFinding, ...]:
    """C30, first part: the slope of the class's accuracy over the logarithm of its weight."""
    accuracy = [float(evidence.tally(name).accuracy[cls]) for evidence, name in audits.values()]
    found = fit_slope(np.log(list(audits)).tolist(), accuracy)
    return rises("slope of its accuracy over the logarithm of its weight", found)


def weight_costs_average(audits: Mapping[float, tuple[Evidence, str]]) -> tuple[ClaimFinding, ...]:
    """C30, second part: the slope of the average over the logarithm of the weight."""
    overall = [evidence.tally(name).overall for evidence, name in audits.values()]
    return falls(
        "slope of the average over the logarithm of the weight", fit_slope(np.log(list(audits)).tolist(), overall)
    )


def easy_class_is_spared(pair: TrainingPair, *, easy: int, hard: int) -> tuple[ClaimFinding, ...]:
    """C32: what the hard class loses of its accuracy minus what the easy one loses."""

    def ahead(a: Accuracies, _: "np.ndarray") -> "np.ndarray":
        return np.asarray(a[..., easy] - a[..., hard])

    names = pair.before[0][0].names
    return rises(f"what {names[hard]} loses minus what {names[easy]} loses", pair.change(ahead))


def weakest_class_changes(
    evidence: Evidence, base: str, corruptions: Mapping[str, Sequence[str]]
) -> tuple[ClaimFinding, ...]:
    """C24: of several corruptions, the share under which the weakest class is surely another than that of `base`.

    A corruption is one condition or several, its severities: then accuracies are means over them. Holds if more than
    half are surely another, does not if more than half are surely the same (at 95 % each).
    """
    at_base = probability_worst(*class_counts(evidence, base))
    found, sure = [], {"another": 0, "the same": 0}
    for name, conditions in corruptions.items():
        counts = [class_counts(evidence, condition) for condition in conditions]
        correct, n = (np.sum([one[part] for one in counts], axis=0) for part in (0, 1))
        # Severities share their images, so that they count as one of them and not as five.
        mean = probability_worst(np.round(correct / len(counts)).astype(np.int64), n // len(counts))
        differs = 1 - float(np.nansum(at_base * mean))
        sure["another"] += differs >= CONFIDENCE
        sure["the same"] += differs <= 1 - CONFIDENCE
        found.append((name, differs))
    share = sure["another"] / len(found)
    verdict: ClaimDecision = (
        "holds" if share > 0.5 else "does not hold" if sure["the same"] > len(found) / 2 else "undecided"
    )
    told = ", ".join(f"{name} {100 * differs:.0f} %" for name, differs in found)
    what = f"share of {len(found)} corruptions under which the weakest class is surely another (chances: {told})"
    return (ClaimFinding(what, share, NAN, NAN, verdict, unit=PERCENT),)


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
    "differences of de-biased CV and of MCD over seeds: robust or natural after, natural before",
    (spread_widens,),
    parts=("of natural accuracy", "of robustness"),
)
RADIUS_WIDENS_SPREAD = Claim(
    "C14",
    ("ahn",),
    "With the radius of training clean accuracy falls and the spread rises; robustness rises up to 8/255 only.",
    "slopes over the radii; robustness gained up to 8/255, and beyond",
    (accuracy_falls_with_radius, spread_rises_with_radius, robustness_saturates),
    parts=("accuracy falls", "spread rises", "robustness saturates"),
)
FAIRNESS_COSTS_AVERAGE = Claim(
    "C15",
    ("ahn",),
    "CFA on PGD and FRL on TRADES narrow the spread at the cost of the average.",
    "differences of de-biased CV and of the worst clean class; of averages",
    (fair_method_narrows, fair_method_costs),
    parts=("narrower", "at a cost"),
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
    "differences of de-biased CV and of average over seeds",
    (fair_weights_narrow, fair_weights_cost_little),
    parts=("narrower", "small cost"),
)
CORRUPTIONS_CHANGE_WEAKEST_CLASS = Claim(
    "C24",
    ("benz2021",),
    "Under most corruptions another class is the weakest.",
    "share of corruptions whose weakest class is surely another",
    (weakest_class_changes,),
)
IMPORTANT_CLASS_COSTS_AVERAGE = Claim(
    "C30",
    ("benz2021",),
    "A larger weight of one class lifts it and lowers the average.",
    "slopes over the logarithm of the weight",
    (weight_lifts_its_class, weight_costs_average),
    parts=("lifts the class", "lowers the average"),
)
EASY_CLASS_IS_SPARED = Claim(
    "C32",
    ("ahn",),
    "Adversarial training spares the easy class (chair) and not the hard one (fox).",
    "what fox loses of its clean accuracy minus what chair loses",
    (easy_class_is_spared,),
)

SPREAD_CLAIMS = (
    CLASSES_DIFFER,
    TRAINING_WIDENS_SPREAD,
    RADIUS_WIDENS_SPREAD,
    FAIRNESS_COSTS_AVERAGE,
    TWO_CLASSES_CARRY_THE_DROP,
    FAIR_WEIGHTS_NARROW_SPREAD,
    CORRUPTIONS_CHANGE_WEAKEST_CLASS,
    IMPORTANT_CLASS_COSTS_AVERAGE,
    EASY_CLASS_IS_SPARED,
)
