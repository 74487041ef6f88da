"""The worst class, without the winner's curse: the lowest of many noisy numbers is lower than the lowest true one."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import bdtrc, betainc, betaincinv

from leastwise.statistics.intervals import CONFIDENCE, ClassCounts, ClassValues, lower_bound, sidak, upper_bound
from leastwise.statistics.spread import measure_spread, worst_accuracy, worst_class

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


ConfusionCounts = Int[np.ndarray, "k k"]  # rows true, columns predicted under attack
Costs = Float[np.ndarray, "k k"]  # of taking the row's class for the column's
BoundFunction = Callable[["np.ndarray", "np.ndarray", float], "np.ndarray"]


@dataclass(frozen=True)
class GameValue:
    """The worst expected cost; `low` to `high` covers the true maximum, whichever class or pair has it."""

    source: int
    target: int | None  # None when the attacker chooses only the source
    value: float
    low: float
    high: float


def source_game(confusion: ConfusionCounts, cost: Costs, confidence: float = CONFIDENCE) -> GameValue:
    """max_c Σ_j P(j | c)·cost[c, j]. With cost 1 for every mistake this is 1 − the worst class's accuracy.

    A class's expected cost is the sum over its distinct costs of (step in cost)·P(cost at least so high), each
    probability bounded exactly and Bonferroni over the steps: bounds that hold at any sample size, and
    Clopper-Pearson's where there is one step. Over classes as in `minimum_bounds`, mirrored.
    """
    check_costs(cost, len(confusion))
    tail = (1 + confidence) / 2
    rows = np.flatnonzero(confusion.sum(1) > 0)
    if not len(rows):
        raise ValueError("no class has an image, so the game has no value: audit at least one")
    each = sidak(tail, len(rows))
    means = {int(c): float(confusion[c] @ cost[c] / confusion[c].sum()) for c in rows}
    source = max(means, key=lambda c: means[c])
    low = max(expected_cost(confusion[c], cost[c], each, bound=lower_bound) for c in rows)
    high = max(expected_cost(confusion[c], cost[c], tail, bound=upper_bound) for c in rows)
    return GameValue(source, None, means[source], low, high)


def pair_game(
    reached: ConfusionCounts, n: Int[np.ndarray, " k"], cost: Costs, *, confidence: float = CONFIDENCE
) -> GameValue:
    """max over pairs i ≠ j of cost[i, j]·(share of class i's images that can be turned into j).

    `reached[i, j]` counts images of class i out of `n[i]`; one image may be turned into many classes, so the pairs
    of a source are dependent and the lower bounds share the error by Bonferroni.
    """
    check_costs(cost, len(reached))
    pairs = np.argwhere((n[:, None] > 0) & ~np.eye(len(n), dtype=bool))
    if not len(pairs):
        raise ValueError("there is no pair of classes to attack: audit at least one class of two")
    i, j = pairs.T
    tail = (1 + confidence) / 2
    gains = cost[i, j] * reached[i, j] / n[i]
    best = int(gains.argmax())
    low = (cost[i, j] * lower_bound(reached[i, j], n[i], 1 - (1 - tail) / len(pairs))).max()
    high = (cost[i, j] * upper_bound(reached[i, j], n[i], tail)).max()
    return GameValue(int(i[best]), int(j[best]), float(gains[best]), float(low), float(high))


def expected_cost(counts: "np.ndarray", costs: "np.ndarray", confidence: float, *, bound: BoundFunction) -> float:
    """A bound of a class's expected cost, from bounds of the probabilities of costing at least so much."""
    levels = np.unique(costs)
    steps = np.diff(levels)
    at_least = np.array([counts[costs >= level].sum() for level in levels[1:]], dtype=np.int64)
    if not len(steps):
        return float(levels[0])
    each = 1 - (1 - confidence) / len(steps)
    return float(levels[0] + steps @ bound(at_least, np.full(len(steps), counts.sum()), each))


def check_costs(cost: Costs, k: int) -> None:
    """Refuse a cost matrix of another size, or with entries that are negative or not finite."""
    if cost.shape != (k, k) or not np.isfinite(cost).all() or (cost < 0).any():
        raise ValueError(
            f"a cost matrix of {k} classes is {k} × {k} numbers of at least 0 (rows true, columns predicted), "
            f"and this one is {' × '.join(map(str, cost.shape))}: write one cost for every pair"
        )
