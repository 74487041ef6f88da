"""The worst class, without the winner's curse: the lowest of many noisy numbers is lower than the lowest true one."""

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc, betainc, betaincinv

from leastwise.statistics.accuracies import worst_accuracy, worst_class
from leastwise.statistics.intervals import CONFIDENCE, ClassCounts, ClassValues, lower_bound, sidak, upper_bound
from leastwise.statistics.spread import measure_spread

GRID = 2000  # points of the numerical integrals; 20,000 change no probability by more than 1e-5


@dataclass(frozen=True)
class WorstClass:
    """The lowest class accuracy. `low` to `high` covers the true minimum, whichever class has it."""

    index: int  # of the class that looks worst; the first of equals
    plug_in: float
    corrected: float  # plug-in minus its estimated selection bias
    low: float
    high: float
    confidence: float


def estimate_worst(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> WorstClass:
    """Plug-in, corrected estimate and interval of the true minimum over the present classes."""
    if not (n > 0).any():
        raise ValueError("no class has an image, so there is no worst class: audit at least one")
    present = np.flatnonzero(n > 0)
    k, m = correct[present], n[present]
    accuracy = k / m
    low, high = minimum_bounds(k, m, confidence)
    plug_in = float(worst_accuracy(accuracy))
    q = shrink_spread(k, m)
    bias = expected_minimum(q, m) - float(q.min())
    corrected = min(max(plug_in - bias, 0.0), 1.0)
    return WorstClass(int(present[worst_class(accuracy)]), plug_in, corrected, low, high, confidence)


@dataclass(frozen=True)
class Discrepancy:
    """Best minus worst class (MCD). `low` to `high` covers the true difference, whichever classes make it."""

    plug_in: float
    corrected: float  # without what chance adds at both ends
    low: float
    high: float


def estimate_discrepancy(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> Discrepancy:
    """The best class is the one with the lowest share of mistakes; both ends share the error (Bonferroni)."""
    each = (1 + confidence) / 2
    lowest, fewest = estimate_worst(correct, n, each), estimate_worst(n - correct, n, each)
    return Discrepancy(
        1 - fewest.plug_in - lowest.plug_in,
        max(0.0, 1 - fewest.corrected - lowest.corrected),
        max(0.0, 1 - fewest.high - lowest.high),
        1 - fewest.low - lowest.low,
    )


def minimum_bounds(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Bounds of min p_c over classes that all have images, half of the error on each side.

    Lower: the least of the classes' own one-sided bounds, with nothing added for their number. It exceeds the true
    minimum only if the bound of the truly worst class does. Upper: the minimum lies below every p_c, hence
    below the least upper bound if all of them hold, so these share the error (Šidák).
    """
    tail = (1 + confidence) / 2
    return float(lower_bound(correct, n, tail).min()), float(upper_bound(correct, n, sidak(tail, len(n))).min())


def shrink_spread(correct: ClassCounts, n: ClassCounts) -> ClassValues:
    """Class accuracies drawn together so that their variance is the de-biased one: noise spreads the observed ones."""
    p = correct / n
    found = measure_spread(correct, n)
    if not found.plug_in > 0:  # equal accuracies, or fewer than two classes with two images
        return p
    return p.mean() + (p - p.mean()) * np.sqrt(min(1.0, max(0.0, found.debiased) / found.plug_in))


def expected_minimum(p: ClassValues, n: ClassCounts) -> float:
    """E[min_c X_c/n_c] for independent binomials, as ∫ Π_c P(X_c/n_c > t) dt; exact for equally large classes."""
    steps = int(n[0]) if (n == n[0]).all() else max(GRID, int(n.max()))
    t = (np.arange(steps) + 0.5) / steps
    survival = np.ones(steps)
    for one_p, one_n in zip(p, n, strict=True):
        survival *= bdtrc(np.floor(t * one_n), int(one_n), float(one_p))
    return float(survival.mean())


def probability_worst(correct: ClassCounts, n: ClassCounts) -> ClassValues:
    """Each class's posterior probability of having the lowest accuracy; NaN without images.

    Independent Beta(right + ½, wrong + ½) posteriors (Jeffreys): ∫ f_c(t)·Π_{d≠c} (1 − F_d(t)) dt on a grid.
    """
    found = np.full(len(n), np.nan)
    present = n > 0
    if not present.any():
        return found
    a, b = correct[present] + 0.5, (n - correct)[present] + 0.5
    # The minimum lies below every class, so nothing happens beyond the least of the upper ends.
    start, end = betaincinv(a, b, 1e-9).min(), betaincinv(a, b, 1 - 1e-9).min()
    edges = np.linspace(start, end, GRID + 1)
    # Of 1000 classes with 50 images each most have the same counts: each pair of counts is integrated once.
    pairs, pair_of = np.unique(np.stack([a, b]), axis=1, return_inverse=True)
    cdf = betainc(pairs[0][:, None], pairs[1][:, None], edges)[pair_of]
    with np.errstate(divide="ignore"):
        log_above = np.log1p(-(cdf[:, 1:] + cdf[:, :-1]) / 2)
    mass = np.diff(cdf, axis=1)
    weight = (mass * np.exp(log_above.sum(0) - log_above)).sum(1)
    found[present] = weight / weight.sum()
    return found
