"""Do models find the same classes hard? And does what is hard without an attack stay hard under one?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri, stdtrit

from leastwise.insight.confusion import SHUFFLES
from leastwise.statistics.accuracy import CONFIDENCE, ClassValues, Hits, OneRun

Profiles = Float[np.ndarray, "m k"]  # class accuracies of several models
MoreProfiles = Float[np.ndarray, "others k"]
ModelPairs = Float[np.ndarray, "m m"]
Splits = Float[np.ndarray, "s k"]  # something of each class, once for each way to split its images
DRAWS = 2000  # of the bootstrap
RESIDUE = 1e-9  # what rounding may leave of a sum that is 0, for each class


@dataclass(frozen=True)
class IntervalEstimate:
    """A number with the interval that covers its true value."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class ProfileSimilarity:
    """How alike the class accuracies of every two models are, and how likely that is by chance."""

    cosine: (
        ModelPairs  # of the deviations from the class mean (Benz 2021): Pearson's correlation; NaN without direction
    )
    p: ModelPairs  # of a cosine this high if the classes of one model were in any order; NaN on the diagonal

    @property
    def mean(self) -> float:
        """The mean cosine over the pairs of different models; NaN for a single one."""
        return mean_pair(self.cosine)


def compare_profiles(accuracy: Profiles, seed: int = 0, shuffles: int = SHUFFLES) -> ProfileSimilarity:
    """Cosines of the deviations of every two models with a permutation null, over the classes that all models have."""
    d = deviations(accuracy)
    m, k = d.shape
    found = cosine_matrix(d)
    rng = np.random.default_rng(seed)
    as_high = np.zeros((m, m))
    for _ in range(shuffles):
        shuffled = d @ d[:, rng.permutation(k)].T
        as_high += scale_products(shuffled, d) >= found - 1e-12
    # Which of two models is shuffled makes no difference but for chance: both ways are averaged.
    p = (1 + (as_high + as_high.T) / 2) / (1 + shuffles)
    return ProfileSimilarity(found, np.where(np.isnan(found) | np.eye(m, dtype=bool), np.nan, p))


def deviations(accuracy: Profiles) -> Profiles:
    """Class accuracies minus their mean, over the classes that no model lacks."""
    common = accuracy[:, ~np.isnan(accuracy).any(0)]
    if common.shape[1] < 2:
        raise ValueError(f"profiles need two classes that all models have, but saw {common.shape[1]}: audit more")
    return common - common.mean(1, keepdims=True)


def cosine_matrix(d: Profiles) -> ModelPairs:
    """The cosine of every two rows of deviations."""
    return scale_products(d @ d.T, d)


def scale_products(products: ModelPairs, d: Profiles) -> ModelPairs:
    """Products of rows of deviations, divided by the lengths of the rows."""
    norms = np.sqrt((d**2).sum(1))
    # Equal accuracies leave rounding residue after the subtraction; it is no direction.
    norms = np.where(norms > 1e-12, norms, np.nan)
    return products / np.outer(norms, norms)


def mean_pair(cosine: ModelPairs) -> float:
    """The mean over pairs of different models; NaN without a pair."""
    pairs = cosine[np.triu_indices(len(cosine), 1)]
    return float(pairs.mean()) if len(pairs) else float("nan")


def mean_agreement(accuracy: Profiles, confidence: float = CONFIDENCE) -> IntervalEstimate:
    """Mean cosine of every two models, with an interval for other classes of the same kind.

    Student's interval on the scale of atanh with the jackknife's error over classes. Percentiles of a bootstrap are too
    narrow for ten classes: they covered 87 to 93 % where this covers 94 to 96. Fewer than four classes say nothing.
    """
    d = deviations(accuracy)
    k = d.shape[1]
    value = mean_pair(cosine_matrix(d))
    if k < 4 or np.isnan(value):
        return IntervalEstimate(value, -1.0, 1.0)
    fewer = (np.delete(d, c, axis=1) for c in range(k))
    left = np.array([mean_pair(cosine_matrix(part - part.mean(1, keepdims=True))) for part in fewer])
    if np.isnan(left).any():
        return IntervalEstimate(value, -1.0, 1.0)
    most = 1 - 1e-12  # atanh 1 is infinite
    scaled = np.arctanh(np.clip(left, -most, most))
    error = np.sqrt((k - 1) / k * ((scaled - scaled.mean()) ** 2).sum())
    centre, half = np.arctanh(np.clip(value, -most, most)), float(stdtrit(k - 2, (1 + confidence) / 2)) * error
    return IntervalEstimate(value, float(np.tanh(centre - half)), float(np.tanh(centre + half)))


def agreement_difference(
    a: Profiles, b: MoreProfiles, confidence: float = CONFIDENCE, *, seed: int = 0, draws: int = DRAWS
) -> IntervalEstimate:
    """Mean cosine within group B minus within group A, with a bootstrap interval over the classes they share."""
    m = len(a)

    def difference(d: Profiles) -> float:
        return mean_pair(cosine_matrix(d[m:])) - mean_pair(cosine_matrix(d[:m]))

    return bootstrap_classes(deviations(np.concatenate([a, b])), difference, confidence, seed=seed, draws=draws)


def bootstrap_classes(
    d: Profiles, statistic: Callable[[Profiles], float], confidence: float, *, seed: int, draws: int
) -> IntervalEstimate:
    """Percentiles of a statistic over classes drawn again; draws in which some model has no direction do not count."""
    k = d.shape[1]
    some = (d[:, classes] for classes in np.random.default_rng(seed).integers(0, k, (draws, k)))
    drawn = np.array([statistic(again - again.mean(1, keepdims=True)) for again in some])
    return IntervalEstimate(statistic(d), *percentile_interval(drawn[~np.isnan(drawn)], confidence))


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's ρ over classes."""

    n: int
    rho: float
    low: float
    high: float
    p: float  # two-sided, by permutation


def rank_correlation(
    x: ClassValues, y: ClassValues, confidence: float = CONFIDENCE, *, seed: int = 0, shuffles: int = SHUFFLES
) -> RankCorrelation:
    """Does x predict the order of y? Both must come from different images, or noise that they share correlates them.

    The classes are the sample: the interval says what other classes of the same kind would give. Classes that either
    lacks are left out.
    """
    return mean_rank_correlation(x[None], y[None], confidence, seed=seed, shuffles=shuffles)


def mean_rank_correlation(
    x: Splits, y: Splits, confidence: float = CONFIDENCE, *, seed: int = 0, shuffles: int = SHUFFLES
) -> RankCorrelation:
    """The mean of Spearman's ρ over several ways to split the images into those for x and those for y.

    With Bonett and Wright's interval (2000): tanh(atanh ρ ± z·√((1 + ρ²/2)/(n − 3))), and a permutation of the classes
    that is the same in all splits. Fewer images in a half pull ρ towards 0 and never away from it.
    """
    both = ~(np.isnan(x) | np.isnan(y)).any(0)
    x, y = x[:, both], y[:, both]
    n = x.shape[1]
    nan = float("nan")
    if n < 2:
        return RankCorrelation(n, nan, nan, nan, nan)
    from scipy.stats import rankdata  # takes a second to import

    a, b = (rank_directions(rankdata(part, axis=1)) for part in (x, y))
    if not (a.any(1) & b.any(1)).any():
        return RankCorrelation(n, nan, nan, nan, nan)
    rho = float(np.einsum("sk,sk->s", a, b).mean())
    rng = np.random.default_rng(seed)
    products = np.einsum("sj,sk->jk", a, b) / len(a)
    rows = np.arange(n)
    drawn = np.array([products[rows, rng.permutation(n)].sum() for _ in range(shuffles)])
    p = (1 + int((np.abs(drawn) >= abs(rho) - 1e-12).sum())) / (1 + shuffles)
    if n <= 3:
        return RankCorrelation(n, rho, -1.0, 1.0, p)
    half = float(ndtri((1 + confidence) / 2)) * np.sqrt((1 + rho**2 / 2) / (n - 3))
    # Of n different ranks none but the perfect order comes closer to 1 than this; atanh 1 would have no width.
    most = 1 - 12 / (n**3 - n)
    centre = np.arctanh(np.clip(rho, -most, most))
    return RankCorrelation(n, rho, min(rho, float(np.tanh(centre - half))), max(rho, float(np.tanh(centre + half))), p)


def rank_directions(ranks: Splits) -> Splits:
    """Ranks minus their mean, of length 1; 0 where all are tied: such a split says nothing of any order."""
    d = ranks - ranks.mean(1, keepdims=True)
    norms = np.sqrt((d**2).sum(1, keepdims=True))
    return np.where(norms > 1e-12, d / np.maximum(norms, 1e-12), 0.0)


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
