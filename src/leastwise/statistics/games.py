"""Games with costs: what an attacker gains who picks the class, or the pair of classes, where a mistake costs most."""

import numpy as np
from jaxtyping import Float, Int

from leastwise.statistics.accuracy import CONFIDENCE, lower_bound, upper_bound
from leastwise.statistics.worst_class import GameValue, play_rows

ConfusionCounts = Int[np.ndarray, "k k"]  # rows true, columns predicted under attack
Costs = Float[np.ndarray, "k k"]  # of taking the row's class for the column's


def source_game(confusion: ConfusionCounts, cost: Costs, confidence: float = CONFIDENCE) -> GameValue:
    """max_c Σ_j P(j | c)·cost[c, j]. With cost 1 for every mistake this is 1 − the worst class's accuracy.

    A class's expected cost is the sum over its distinct costs of (step in cost)·P(cost at least so high), each
    probability bounded exactly and Bonferroni over the steps: bounds that hold at any sample size, and
    Clopper-Pearson's where there is one step. Over classes as in `minimum_bounds`, mirrored.
    """
    check_costs(cost, len(confusion))
    rows = np.flatnonzero(confusion.sum(1) > 0)
    return play_rows({int(c): (confusion[c], cost[c]) for c in rows}, confidence)


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


def check_costs(cost: Costs, k: int) -> None:
    """Refuse a cost matrix of another size, or with entries that are negative or not finite."""
    if cost.shape != (k, k) or not np.isfinite(cost).all() or (cost < 0).any():
        raise ValueError(
            f"a cost matrix of {k} classes is {k} × {k} numbers of at least 0 (rows true, columns predicted), "
            f"and this one is {' × '.join(map(str, cost.shape))}: write one cost for every pair"
        )
