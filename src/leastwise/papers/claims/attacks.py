"""Claims about attacks and what they meet: C7 to C13, C26, C27."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from leastwise.audit.evidence import Evidence, count_confusions, cvc
from leastwise.data.classes import Groups
from leastwise.insight.agreement import percentile_interval, rank_correlation
from leastwise.insight.confusion import count_inside_groups
from leastwise.insight.homing import estimate_homing_gain, measure_homing
from leastwise.papers.claims.base import (
    PERCENT,
    POINTS,
    Accuracies,
    AccuracyStatistic,
    Claim,
    ClaimDecision,
    ClaimFinding,
    SharedImages,
    above,
    average,
    below,
    bootstrap_change,
    bootstrap_statistic,
    deviation,
    share_images,
)
from leastwise.papers.claims.trainings import TrainingPair, rises
from leastwise.statistics.accuracy import CONFIDENCE, compare_paired, wilson_interval

DRAWS = 1000
LEAST = 0.001  # accuracies nearer to 0 or 1 have no log-odds to speak of
UNCHANGED = 0.05


def loss_in_points(a: Accuracies) -> "np.ndarray":
    """What the stronger attack takes beyond the weaker one, in accuracy."""
    return np.asarray(a[..., 0, :] - a[..., 1, :])


def relative_loss(a: Accuracies) -> "np.ndarray":
    """The same as a share of what the weaker attack left."""
    return loss_in_points(a) / np.maximum(a[..., 0, :], LEAST)


def loss_in_log_odds(a: Accuracies) -> "np.ndarray":
    """The same in log-odds."""
    odds = np.log(np.clip(a, LEAST, 1 - LEAST) / (1 - np.clip(a, LEAST, 1 - LEAST)))
    return np.asarray(odds[..., 0, :] - odds[..., 1, :])


def slope_on_robustness(loss: Callable[[Accuracies], "np.ndarray"]) -> AccuracyStatistic:
    """The slope over classes of a loss on how robust a class is: the mean of both attacks (Oldham 1962).

    A regression on either of them would have its noise on both sides and a slope from that alone.
    """

    def slope(a: Accuracies, _: "np.ndarray") -> "np.ndarray":
        a = a[..., ~np.isnan(a).all(axis=tuple(range(a.ndim - 1)))]
        robust = (a[..., 0, :] + a[..., 1, :]) / 2
        robust = robust - robust.mean(-1, keepdims=True)
        with np.errstate(invalid="ignore"):  # classes that are all alike have no slope: NaN decides nothing
            return np.asarray((loss(a) * robust).sum(-1) / (robust**2).sum(-1))

    return slope


def gains_on_weak_classes(weaker: tuple[Evidence, str], stronger: tuple[Evidence, str]) -> tuple[ClaimFinding, ...]:
    """C7, C8: slope of what the stronger attack gains, in points; negative if it gains on weak classes.

    On the images that both attacks saw. Relative losses and log-odds are told beside it and decide nothing.
    """
    same = share_images(weaker, stronger)
    others = [
        name + f" {value:.2f} [{low:.2f}, {high:.2f}]".replace("-", "−")
        for name, loss in (("relative", relative_loss), ("in log-odds", loss_in_log_odds))
        for value, low, high in [bootstrap_statistic(same, slope_on_robustness(loss))]
    ]
    most = max(len(evidence.ids) for evidence, _ in (weaker, stronger))
    fewer = f", on the {len(same.labels):,} images that both saw" if len(same.labels) < most else ""
    what = f"slope of what {stronger[1]} gains over {weaker[1]} on class robustness{fewer}; {'; '.join(others)}"
    return (below(what, *bootstrap_statistic(same, slope_on_robustness(loss_in_points))),)


def share_with_member(evidence: Evidence, pgd: str, tpgd: str, *, member: int | None) -> tuple[SharedImages, str]:
    """What PGD and Temperature-PGD, or one temperature of a grid, left right, and what the latter is called.

    The worst of several temperatures image by image would be stronger than PGD even if none of them is.
    """
    same, what = share_images((evidence, pgd), (evidence, tpgd)), tpgd
    if member is not None:
        survived = ((evidence.conditions[tpgd].each >> member) & 1) == 0
        same, what = replace(same, hits=(same.hits[0], survived)), f"{tpgd}, {evidence.members(tpgd)[member]}"
    return same, what


def temperature_is_stronger(
    evidence: Evidence, pgd: str, tpgd: str, *, member: int | None = None
) -> tuple[ClaimFinding, ...]:
    """C9, first part: Temperature-PGD leaves less accuracy than PGD."""
    same, what = share_with_member(evidence, pgd, tpgd, member=member)
    return (below(f"accuracy under {what} minus under {pgd}", *bootstrap_change(same, average), unit=POINTS),)


def temperature_gains_where_smooth(
    evidence: Evidence, pgd: str, tpgd: str, *, natural: str = "clean", member: int | None = None
) -> tuple[ClaimFinding, ...]:
    """C9, second part: it leaves the less, the smoother a class's confidence; classes are the sample."""
    a, b = share_with_member(evidence, pgd, tpgd, member=member)[0].accuracies()
    found = rank_correlation(b - a, cvc(evidence, natural))
    return (above("rank correlation of the change with CVC", found.rho, found.low, found.high, p=found.p),)


def temperature_widens_spread(
    evidence: Evidence, pgd: str, tpgd: str, *, member: int | None = None
) -> tuple[ClaimFinding, ...]:
    """C26: the deviation over classes under Temperature-PGD minus that under PGD."""
    same, what = share_with_member(evidence, pgd, tpgd, member=member)
    return (above(f"deviation under {what} minus under {pgd}", *bootstrap_change(same, deviation), unit=POINTS),)


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


def images_come_home(full: Evidence, without: Mapping[int, Evidence], condition: str) -> tuple[ClaimFinding, ...]:
    """C11, first part: images come home more often without their confound class than without another."""
    gain = estimate_homing_gain(full, without, condition)
    what = "coming home minus coming right without another class"
    return (above(what, gain.value, gain.low, gain.high, unit=POINTS),)


def homing_is_pairwise(full: Evidence, without: Mapping[int, Evidence], condition: str) -> tuple[ClaimFinding, ...]:
    """C11, second part: of the images of a class that come home, the share of its main confound class; their mean.

    It is compared with what an even spread over the other classes would give, whose largest share is above 1/(k − 1).
    """
    homed = np.nan_to_num(measure_homing(full, without, condition).homed).astype(np.int64)
    homed = homed[homed.sum(1) > 0]
    if not len(homed):
        raise ValueError("no image came home")
    rng = np.random.default_rng(0)
    anywhere = np.full(full.k - 1, 1 / (full.k - 1))
    even = float(np.mean([largest_share(rng.multinomial(n, anywhere, DRAWS)).mean() for n in homed.sum(1)]))
    drawn = np.mean([largest_share(rng.multinomial(row.sum(), row / row.sum(), DRAWS)) for row in homed], axis=0)
    what = f"share of the main confound class (even: {100 * even:.1f} %)"
    value = float(largest_share(homed).mean())
    return (above(what, value, *percentile_interval(drawn), threshold=even, unit=PERCENT),)


def largest_share(counts: "np.ndarray") -> "np.ndarray":
    """The share of the largest count in each row."""
    return np.asarray(counts.max(-1) / counts.sum(-1))


def class_is_lifted(pair: TrainingPair, *, cls: int) -> tuple[ClaimFinding, ...]:
    """C12: the accuracy of one class, the second way of training minus the first."""

    def of_class(a: Accuracies, _: "np.ndarray") -> "np.ndarray":
        return np.asarray(a[..., cls])

    evidence, condition = pair.before[0]
    return rises(f"change of {evidence.names[cls]} under {condition}", pair.change(of_class))


def white_background_helps(before: tuple[Evidence, str], after: tuple[Evidence, str]) -> tuple[ClaimFinding, ...]:
    """C27, first part: more images withstand the attack on white; the same images and network, paired."""
    first, second = share_images(before, after).hits
    found = compare_paired(first, second)
    return (above("change on white, attacked", found.difference, found.low, found.high, p=found.p, unit=POINTS),)


def white_background_spares_natural(
    before: tuple[Evidence, str], after: tuple[Evidence, str]
) -> tuple[ClaimFinding, ...]:
    """C27, second part: natural accuracy changes by less than five points either way."""
    first, second = share_images(before, after).hits
    found = compare_paired(first, second)
    inside = found.low > -UNCHANGED and found.high < UNCHANGED
    verdict: ClaimDecision = (
        "holds" if inside else "does not hold" if found.high < -UNCHANGED or found.low > UNCHANGED else "undecided"
    )
    return (ClaimFinding("change on white, natural", found.difference, found.low, found.high, verdict, unit=POINTS),)


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
    (temperature_is_stronger, temperature_gains_where_smooth),
    parts=("stronger", "where smooth"),
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
    (images_come_home, homing_is_pairwise),
    parts=("come home", "from one class"),
)
SMALL_BETA_OF_DOG_LIFTS_CAT = Claim(
    "C12",
    ("tian2021",),
    "A smaller beta for dog lifts cat.",
    "difference on cats over seeds",
    (class_is_lifted,),
)
BACKGROUNDS_DRIVE_CONFUSION = Claim(
    "C13",
    ("tian2021",),
    "Backgrounds drive adversarial, not natural, confusion.",
    "share of confusions inside colour groups, attacked minus natural",
    (backgrounds_drive_adversarial_confusion,),
)
TEMPERATURE_WIDENS_SPREAD = Claim(
    "C26",
    ("tian2021",),
    "Temperature-PGD widens the spread of the classes.",
    "paired difference of the deviation over classes",
    (temperature_widens_spread,),
)
WHITE_BACKGROUND_HELPS = Claim(
    "C27",
    ("tian2021",),
    "On a white background more cats withstand the attack, while natural answers stay.",
    "paired differences on the same cats",
    (white_background_helps, white_background_spares_natural),
    parts=("attacked", "natural"),
)

ATTACKS_CLAIMS = (
    STRONGER_ATTACKS_GAIN_ON_WEAK,
    QUERIES_GAIN_ON_WEAK,
    TEMPERATURE_IS_STRONGER,
    ANIMALS_ARE_SMOOTHER,
    IMAGES_COME_HOME,
    SMALL_BETA_OF_DOG_LIFTS_CAT,
    BACKGROUNDS_DRIVE_CONFUSION,
    TEMPERATURE_WIDENS_SPREAD,
    WHITE_BACKGROUND_HELPS,
)
