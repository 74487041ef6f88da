"""Claims about features and entropy: C18, C20, C21, C28, C29."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import bdtrc

from leastwise.audit.evidence import Evidence
from leastwise.insight.agreement import resample_accuracies
from leastwise.papers.claims.base import (
    NATS,
    PERCENT,
    Claim,
    ClaimDecision,
    ClaimFinding,
    above,
    average,
    class_counts,
    share_images,
    worst,
)
from leastwise.papers.claims.trainings import TrainingPair, rises
from leastwise.statistics.accuracy import CONFIDENCE, ClassValues, exact_interval
from leastwise.statistics.worst_class import probability_worst

DIGITS = 9  # after the point, to which similarities are equal


def sign_test(what: str, changes: ClassValues, up: bool) -> ClaimFinding:
    """Sign test over distinct values: the share of which it is so, with an exact interval; more than half for sure.

    The similarity of a class is that to its nearest class, so two mutual neighbours have one value, which counts once.
    """
    distinct = np.unique(np.round(changes, DIGITS))
    n, so = len(distinct), int(((distinct > 0) if up else (distinct < 0)).sum())
    low, high = exact_interval(np.array([so]), np.array([n]))
    p = min(1.0, 2 * float(bdtrc(max(so, n - so) - 1, n, 0.5)))
    value = so / n if n else float("nan")
    return above(
        f"{what} ({n} distinct values)", value, float(low[0]), float(high[0]), threshold=0.5, p=p, unit=PERCENT
    )


def class_changes(before: Sequence[ClassValues], after: Sequence[ClassValues]) -> ClassValues:
    """Means over seeds, over the classes that both have and that changed at all."""
    difference = np.mean(after, axis=0) - np.mean(before, axis=0)
    return np.asarray(difference[~np.isnan(difference) & (difference != 0)])


def similarity_changes(
    before: Sequence[ClassValues], after: Sequence[ClassValues], up: bool
) -> tuple[ClaimFinding, ...]:
    """C18, C20: whether the similarity of classes rises, or falls, class by class."""
    seeds = f"{len(before)} and {len(after)} seeds"
    what = f"share of classes whose similarity {'rises' if up else 'falls'}, {seeds}"
    return (sign_test(what, class_changes(before, after), up),)


def variance_falls(before: Sequence[ClassValues], after: Sequence[ClassValues]) -> tuple[ClaimFinding, ...]:
    """C18, C20: whether the variance of classes falls.

    Variances of two networks are compared as they are, as the paper does, although their scale is the network's own.
    """
    seeds = f"{len(before)} and {len(after)} seeds"
    return (sign_test(f"share of classes whose variance falls, {seeds}", class_changes(before, after), False),)


def worst_class_rises(pair: TrainingPair) -> tuple[ClaimFinding, ...]:
    """C20, third part: the worst class with smoothing or entropy against the worst without, whichever they are."""
    return rises("change of the worst class", pair.change(worst))


def average_rises(pair: TrainingPair) -> tuple[ClaimFinding, ...]:
    """C29: the average with maximum entropy against that without."""
    return rises("change of the average", pair.change(average))


def entropy_is_higher(pair: TrainingPair) -> tuple[ClaimFinding, ...]:
    """C21, first part: mean entropy of the second way of training minus the first, over the same images."""
    (base, condition), (other, _) = pair.before[0], pair.after[0]
    ids, at, there = np.intersect1d(base.ids, other.ids, return_indices=True)
    if len(ids) < 2:
        raise ValueError("the audits share fewer than two images: audit both on the same data")
    d = other.conditions[condition].entropy[there].astype(np.float64) - base.conditions[condition].entropy[at]
    change = pair.change_of(mean_entropy, float(d.std(ddof=1) / np.sqrt(len(d))))
    return rises(f"difference of entropy under {condition}", change, unit=NATS)


def mean_entropy(evidence: Evidence, condition: str) -> float:
    return float(evidence.conditions[condition].entropy.astype(np.float64).mean())


def hardest_is_most_similar(evidence: Evidence, condition: str, similarity: ClassValues) -> tuple[ClaimFinding, ...]:
    """C28, first part: the chance that the worst class is one of those with the largest similarity: it and its like."""
    most = np.flatnonzero(similarity >= np.nanmax(similarity) - 10.0**-DIGITS)
    what = f"among the most similar classes ({', '.join(evidence.names[c] for c in most)})"
    return (chance_of_worst(evidence, condition, most, what=what),)


def hardest_varies_less(evidence: Evidence, condition: str, variance: ClassValues) -> tuple[ClaimFinding, ...]:
    """C28, second part: the chance that the worst class is not the one with the largest variance."""
    most = int(np.nanargmax(variance))
    others = np.flatnonzero(np.arange(len(variance)) != most)
    what = f"not the one with the largest variance ({evidence.names[most]})"
    return (chance_of_worst(evidence, condition, others, what=what),)


def chance_of_worst(evidence: Evidence, condition: str, classes: "np.ndarray", *, what: str) -> ClaimFinding:
    """The posterior probability that the worst class is one of some."""
    chance = float(np.nansum(probability_worst(*class_counts(evidence, condition))[classes]))
    verdict: ClaimDecision = (
        "holds" if chance >= CONFIDENCE else "does not hold" if chance <= 1 - CONFIDENCE else "undecided"
    )
    nan = float("nan")
    return ClaimFinding(
        f"chance that the worst class under {condition} is {what}", chance, nan, nan, verdict, unit=PERCENT
    )


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
    (similarity_changes, variance_falls),
    parts=("similarity rises", "variance falls"),
)
SMOOTHING_LIFTS_WORST_CLASS = Claim(
    "C20",
    ("tradeoff2022",),
    "Label smoothing and maximum entropy lower similarity and variance and lift the worst class.",
    "sign tests over classes; difference of the worst class over seeds",
    (similarity_changes, variance_falls, worst_class_rises),
    parts=("similarity falls", "variance falls", "worst class rises"),
)
ENTROPY_ALLOWS_LARGER_WEIGHT = Claim(
    "C21",
    ("tradeoff2022",),
    "TRADES has a higher entropy than PGD-AT, and maximum entropy allows a larger lambda.",
    "difference of mean entropy; difference of the most robust lambdas",
    (entropy_is_higher, allows_a_larger_weight),
    parts=("entropy is higher", "larger lambda"),
)
SIMILARITY_MARKS_WEAKEST_CLASS = Claim(
    "C28",
    ("tradeoff2022",),
    "The hardest class is the most similar one, and has not the largest variance.",
    "probability of being the worst class under PGD",
    (hardest_is_most_similar, hardest_varies_less),
    parts=("most similar", "not most varied"),
)
ENTROPY_LIFTS_AVERAGE = Claim(
    "C29",
    ("tradeoff2022",),
    "Maximum entropy lifts the average of adversarial training.",
    "differences of averages over seeds",
    (average_rises,),
)

FEATURES_CLAIMS = (
    SIMILARITY_RISES,
    SMOOTHING_LIFTS_WORST_CLASS,
    ENTROPY_ALLOWS_LARGER_WEIGHT,
    SIMILARITY_MARKS_WEAKEST_CLASS,
    ENTROPY_LIFTS_AVERAGE,
)
