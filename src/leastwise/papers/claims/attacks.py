"""Claims about attacks and what they meet: C7 to C13."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from leastwise.audit.evidence import Evidence
from leastwise.data.classes import Groups
from leastwise.insight.accuracy_drop import percentile_interval
from leastwise.insight.agreement import rank_correlation
from leastwise.insight.confusion import count_confusions, count_inside_groups, cvc
from leastwise.insight.homing import estimate_homing_gain, measure_homing
from leastwise.papers.claims.base import (
    PERCENT,
    POINTS,
    Accuracies,
    Claim,
    ClaimFinding,
    above,
    average,
    below,
    bootstrap_change,
    bootstrap_statistic,
    share_images,
)
from leastwise.statistics.intervals import CONFIDENCE, wilson_interval
from leastwise.statistics.paired import compare_paired

DRAWS = 1000


def gains_on_weak_classes(weaker: tuple[Evidence, str], stronger: tuple[Evidence, str]) -> tuple[ClaimFinding, ...]:
    """C7, C8: slope over classes of what the stronger attack gains on how robust a class is; negative if on weak ones.

    Robustness is the mean of both attacks (Oldham 1962): a regression on either of them would have its noise on both
    sides and a slope from that alone.
    """

    def slope(a: Accuracies, _: "np.ndarray") -> "np.ndarray":
        a = a[..., ~np.isnan(a).all(axis=tuple(range(a.ndim - 1)))]
        gain, robust = a[..., 0, :] - a[..., 1, :], (a[..., 0, :] + a[..., 1, :]) / 2
        robust = robust - robust.mean(-1, keepdims=True)
        return np.asarray((gain * robust).sum(-1) / (robust**2).sum(-1))

    what = f"slope of what {stronger[1]} gains over {weaker[1]} on class robustness"
    return (below(what, *bootstrap_statistic(share_images(weaker, stronger), slope)),)


def temperature_gains_where_smooth(
    evidence: Evidence, pgd: str, tpgd: str, *, natural: str = "clean", member: int | None = None
) -> tuple[ClaimFinding, ...]:
    """C9: Temperature-PGD leaves less accuracy than PGD, and the less the smoother a class's confidence.

    `member` is one temperature of a grid: the worst of several attacks image by image would be stronger than PGD even
    if none of them is.
    """
    same, what = share_images((evidence, pgd), (evidence, tpgd)), tpgd
    if member is not None:
        survived = ((evidence.conditions[tpgd].each >> member) & 1) == 0
        same, what = replace(same, hits=(same.hits[0], survived)), f"{tpgd}, {evidence.members(tpgd)[member]}"
    a, b = same.accuracies()
    found = rank_correlation(b - a, cvc(evidence, natural))
    return (
        below(f"accuracy under {what} minus under {pgd}", *bootstrap_change(same, average), unit=POINTS),
        above("rank correlation of that change with CVC", found.rho, found.low, found.high, p=found.p),
    )


def confidence_is_smoother(
    evidence: Evidence, condition: str, smoother: tuple[int, ...], *, steeper: tuple[int, ...]
) -> tuple[ClaimFinding, ...]:
    """C10: mean CVC of some classes minus that of others; normal interval over images."""
    squared, labels, k = evidence.conditions[condition].p_squared.astype(np.float64), evidence.labels, evidence.k

    def group(classes: tuple[int, ...]) -> tuple[float, float]:
        parts = [squared[labels == c] for c in classes if (labels == c).sum() > 1]
        if not parts:
            raise ValueError(f"none of the classes {classes} has two images: audit more")
        mean = float(np.mean([part.mean() for part in parts]))
        return mean, float(sum(part.var(ddof=1) / len(part) for part in parts)) / len(parts) ** 2

    (a, a_variance), (b, b_variance) = group(smoother), group(steeper)
    # CVC is Σp²/k − 1/k²: the constant cancels.
    difference, half = (a - b) / k, float(ndtri((1 + CONFIDENCE) / 2)) * float(np.sqrt(a_variance + b_variance)) / k
    return (below("difference of CVC", difference, difference - half, difference + half),)


def homing_is_common_and_pairwise(
    full: Evidence, without: Mapping[int, Evidence], condition: str
) -> tuple[ClaimFinding, ...]:
    """C11: images come home more often without their confound class than without another; and mostly from one class.

    Concentration: of the images of a class that come home, the share of its main confound class, mean over classes. It
    is compared with what an even spread over the other classes would give, whose largest share is above 1/(k − 1) too.
    """
    gain = estimate_homing_gain(full, without, condition)
    homed = np.nan_to_num(measure_homing(full, without, condition).homed).astype(np.int64)
    homed = homed[homed.sum(1) > 0]
    coming = above("coming home minus coming right without another class", gain.value, gain.low, gain.high, unit=POINTS)
    if not len(homed):
        nan = float("nan")
        return coming, above("share of the main confound class", nan, nan, nan, unit=PERCENT)
    rng = np.random.default_rng(0)
    anywhere = np.full(full.k - 1, 1 / (full.k - 1))
    even = float(np.mean([largest_share(rng.multinomial(n, anywhere, DRAWS)).mean() for n in homed.sum(1)]))
    drawn = np.mean([largest_share(rng.multinomial(row.sum(), row / row.sum(), DRAWS)) for row in homed], axis=0)
    what = f"share of the main confound class (even: {100 * even:.1f} %)"
    return coming, above(
        what, float(largest_share(homed).mean()), *percentile_interval(drawn), threshold=even, unit=PERCENT
    )


def largest_share(counts: "np.ndarray") -> "np.ndarray":
    """The share of the largest count in each row."""
    return np.asarray(counts.max(-1) / counts.sum(-1))


def class_is_lifted(before: Evidence, after: Evidence, condition: str, *, cls: int) -> tuple[ClaimFinding, ...]:
    """C12: paired difference on the images of one class."""
    same = share_images((before, condition), (after, condition))
    rows = same.labels == cls
    found = compare_paired(same.hits[0][rows], same.hits[1][rows])
    what = f"change of {before.names[cls]} under {condition}"
    return (above(what, found.difference, found.low, found.high, p=found.p, unit=POINTS),)


def backgrounds_drive_adversarial_confusion(
    evidence: Evidence, natural: str, attacked: str, *, groups: Groups = ()
) -> tuple[ClaimFinding, ...]:
    """C13: share of confusions inside a colour group under attack minus without one; Newcombe's interval (1998)."""
    groups = groups or evidence.groups
    what = "share of confusions inside colours, attacked minus natural"
    a, b = (count_inside_groups(count_confusions(evidence, condition), groups) for condition in (natural, attacked))
    if not (a.mistakes and b.mistakes):
        nan = float("nan")
        return (above(what, nan, nan, nan, unit=POINTS),)
    (p_low, q_low), (p_high, q_high) = wilson_interval(
        np.array([a.inside, b.inside]), np.array([a.mistakes, b.mistakes])
    )
    p, q = a.share, b.share
    low = (q - p) - float(np.hypot(q - q_low, p_high - p))
    high = (q - p) + float(np.hypot(q_high - q, p - p_low))
    return (above(what, q - p, low, high, unit=POINTS),)


STRONGER_ATTACKS_GAIN_ON_WEAK = Claim(
    "C7",
    ("tian2021",),
    "Stronger white-box attacks gain mostly on weak classes.",
    "slope of (FGSM − PGD) on class robustness",
    (gains_on_weak_classes,),
)
QUERIES_GAIN_ON_WEAK = Claim(
    "C8",
    ("tian2021",),
    "Query attacks beat transfer mostly on weak classes.",
    "slope of (transfer − NAttack) on class robustness",
    (gains_on_weak_classes,),
)
TEMPERATURE_IS_STRONGER = Claim(
    "C9",
    ("tian2021",),
    "Temperature-PGD is stronger than PGD, mostly where confidence is smooth.",
    "paired difference; rank correlation of its classes with CVC",
    (temperature_gains_where_smooth,),
)
ANIMALS_ARE_SMOOTHER = Claim(
    "C10",
    ("tian2021",),
    "Confidence is smoother for animals than for vehicles.",
    "difference of mean CVC",
    (confidence_is_smoother,),
)
IMAGES_COME_HOME = Claim(
    "C11",
    ("tian2021",),
    "Many misclassified images come home when their confound class is removed, and it is mostly one class.",
    "coming home against coming right without another class; share of the main confound class",
    (homing_is_common_and_pairwise,),
)
SMALL_BETA_OF_DOG_LIFTS_CAT = Claim(
    "C12",
    ("tian2021",),
    "A smaller beta for dog lifts cat.",
    "paired difference on cats",
    (class_is_lifted,),
)
BACKGROUNDS_DRIVE_CONFUSION = Claim(
    "C13",
    ("tian2021",),
    "Backgrounds drive adversarial, not natural, confusion.",
    "share of confusions inside colour groups, attacked minus natural",
    (backgrounds_drive_adversarial_confusion,),
)

ATTACKS_CLAIMS = (
    STRONGER_ATTACKS_GAIN_ON_WEAK,
    QUERIES_GAIN_ON_WEAK,
    TEMPERATURE_IS_STRONGER,
    ANIMALS_ARE_SMOOTHER,
    IMAGES_COME_HOME,
    SMALL_BETA_OF_DOG_LIFTS_CAT,
    BACKGROUNDS_DRIVE_CONFUSION,
)
