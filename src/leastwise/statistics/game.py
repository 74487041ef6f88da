"""What an attacker gains who may choose the class, or the pair of classes, after seeing the model."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from leastwise.statistics.intervals import CONFIDENCE, lower_bound, sidak, upper_bound

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
    low = max(expected_cost(confusion[c], cost[c], each, lower_bound) for c in rows)
    high = max(expected_cost(confusion[c], cost[c], tail, upper_bound) for c in rows)
    return GameValue(source, None, means[source], low, high)


def pair_game(
    reached: ConfusionCounts, n: Int[np.ndarray, " k"], cost: Costs, confidence: float = CONFIDENCE
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


def expected_cost(counts: "np.ndarray", costs: "np.ndarray", confidence: float, bound: BoundFunction) -> float:
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
