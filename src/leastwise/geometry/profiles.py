"""Do models find the same classes hard? And does what is hard without an attack stay hard under one?"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import rankdata

from leastwise.geometry.change import CONFIDENCE, DRAWS, Estimate, percentiles
from leastwise.geometry.confusion import SHUFFLES
from leastwise.geometry.features import PerClass

Profiles = Float[np.ndarray, "m k"]  # class accuracies of several models
MoreProfiles = Float[np.ndarray, "others k"]
Pairs = Float[np.ndarray, "m m"]


@dataclass(frozen=True, eq=False)
class ProfileSimilarity:
    cosine: Pairs  # of the deviations from the class mean (Benz 2021): Pearson's correlation; NaN without direction
    p: Pairs  # of a cosine this high if the classes of one model were in any order; NaN on the diagonal

    @property
    def mean(self) -> float:
        """Over the pairs of different models; NaN for a single one."""
        return mean_pair(self.cosine)


def profile_similarity(accuracy: Profiles, seed: int = 0, shuffles: int = SHUFFLES) -> ProfileSimilarity:
    """Cosines of the deviations of every two models with a permutation null, over the classes that all models have."""
    d = deviations(accuracy)
    m, k = d.shape
    found = cosine_matrix(d)
    rng = np.random.default_rng(seed)
    as_high = np.zeros((m, m))
    for _ in range(shuffles):
        shuffled = d @ d[:, rng.permutation(k)].T
        as_high += scaled(shuffled, d) >= found - 1e-12
    # Which of two models is shuffled makes no difference but for chance: both ways are averaged.
    p = (1 + (as_high + as_high.T) / 2) / (1 + shuffles)
    return ProfileSimilarity(found, np.where(np.isnan(found) | np.eye(m, dtype=bool), np.nan, p))


def deviations(accuracy: Profiles) -> Profiles:
    """Class accuracies minus their mean, over the classes that no model lacks."""
    common = accuracy[:, ~np.isnan(accuracy).any(0)]
    if common.shape[1] < 2:
        raise ValueError(f"profiles need two classes that all models have, but saw {common.shape[1]}: audit more")
    return common - common.mean(1, keepdims=True)


def cosine_matrix(d: Profiles) -> Pairs:
    return scaled(d @ d.T, d)


def scaled(products: Pairs, d: Profiles) -> Pairs:
    norms = np.sqrt((d**2).sum(1))
    # Equal accuracies leave rounding residue after the subtraction; it is no direction.
    norms = np.where(norms > 1e-12, norms, np.nan)
    return products / np.outer(norms, norms)


def mean_pair(cosine: Pairs) -> float:
    pairs = cosine[np.triu_indices(len(cosine), 1)]
    return float(pairs.mean()) if len(pairs) else float("nan")


def mean_agreement(accuracy: Profiles, confidence: float = CONFIDENCE, seed: int = 0, draws: int = DRAWS) -> Estimate:
    """Mean cosine of every two models, with a bootstrap interval over classes."""
    return over_classes(deviations(accuracy), lambda d: mean_pair(cosine_matrix(d)), confidence, seed, draws)


def agreement_difference(
    a: Profiles, b: MoreProfiles, confidence: float = CONFIDENCE, seed: int = 0, draws: int = DRAWS
) -> Estimate:
    """Mean cosine within group B minus within group A, with a bootstrap interval over the classes they share."""
    m = len(a)

    def difference(d: Profiles) -> float:
        return mean_pair(cosine_matrix(d[m:])) - mean_pair(cosine_matrix(d[:m]))

    return over_classes(deviations(np.concatenate([a, b])), difference, confidence, seed, draws)


def over_classes(
    d: Profiles, statistic: Callable[[Profiles], float], confidence: float, seed: int, draws: int
) -> Estimate:
    """Percentiles of a statistic over classes drawn again; draws in which some model has no direction do not count."""
    k = d.shape[1]
    some = (d[:, classes] for classes in np.random.default_rng(seed).integers(0, k, (draws, k)))
    drawn = np.array([statistic(again - again.mean(1, keepdims=True)) for again in some])
    return Estimate(statistic(d), *percentiles(drawn[~np.isnan(drawn)], confidence))


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's ρ over classes."""

    n: int
    rho: float
    low: float
    high: float
    p: float  # two-sided, by permutation


def rank_correlation(
    x: PerClass, y: PerClass, confidence: float = CONFIDENCE, seed: int = 0, shuffles: int = SHUFFLES
) -> RankCorrelation:
    """Does x predict the order of y? With Bonett and Wright's interval (2000): tanh(atanh ρ ± z·√((1 + ρ²/2)/(n − 3))).

    The classes are the sample: the interval says what other classes of the same kind would give. Noise in x and y
    pulls ρ towards 0. Classes that either lacks are left out.
    """
    both = ~(np.isnan(x) | np.isnan(y))
    x, y = x[both], y[both]
    n = len(x)
    nan = float("nan")
    if n < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return RankCorrelation(n, nan, nan, nan, nan)
    d = deviations(np.stack([rankdata(x), rankdata(y)]))
    rho = float(cosine_matrix(d)[0, 1])
    rng = np.random.default_rng(seed)
    drawn = np.array([d[0] @ d[1][rng.permutation(n)] for _ in range(shuffles)]) / np.sqrt((d**2).sum(1).prod())
    p = (1 + int((np.abs(drawn) >= abs(rho) - 1e-12).sum())) / (1 + shuffles)
    if n <= 3:
        return RankCorrelation(n, rho, -1.0, 1.0, p)
    half = float(ndtri((1 + confidence) / 2)) * np.sqrt((1 + rho**2 / 2) / (n - 3))
    centre = np.arctanh(np.clip(rho, -1 + 1e-15, 1 - 1e-15))
    return RankCorrelation(n, rho, float(np.tanh(centre - half)), float(np.tanh(centre + half)), p)
