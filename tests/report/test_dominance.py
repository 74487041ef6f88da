"""Who is called dominated: seldom an equal, surely one that is worse."""

import numpy as np
import torch

from leastwise.core.counts import Tally
from leastwise.report.dominance import surely_dominated

K, EACH = 10, 100


def draw_side(p: "np.ndarray", rng: np.random.Generator) -> "np.ndarray":
    """Which images a model gets right, class after class."""
    return rng.random(K * EACH) < np.repeat(p, EACH)


def judge_sides(hits: list["np.ndarray"]) -> list[bool]:
    """Dominated or not by overall and worst accuracy, each side one training."""
    counts = [one.reshape(K, EACH).sum(1) for one in hits]
    scores = np.array([[one.mean(), (c / EACH).min()] for one, c in zip(hits, counts, strict=True)])
    n = torch.full((K,), EACH)
    tallies = [[Tally(n, torch.from_numpy(c.astype(np.int64)))] for c in counts]
    return surely_dominated(scores, [{"pgd20": [one]} for one in hits], tallies)


def test_equal_models_are_seldom_dominated() -> None:
    """By the observed numbers alone 28 % of equal pairs were."""
    rng = np.random.default_rng(0)
    p = np.linspace(0.3, 0.8, K)
    assert np.mean([any(judge_sides([draw_side(p, rng), draw_side(p, rng)])) for _ in range(300)]) <= 0.05


def test_a_model_that_is_worse_everywhere_is_dominated_and_a_trade_is_not() -> None:
    rng = np.random.default_rng(1)
    good, bad = np.linspace(0.5, 0.9, K), np.linspace(0.3, 0.7, K)
    assert judge_sides([draw_side(good, rng), draw_side(bad, rng)]) == [False, True]
    steep, fair = np.linspace(0.3, 0.98, K), np.full(K, 0.6)  # a better worst class, a lower average
    assert judge_sides([draw_side(steep, rng), draw_side(fair, rng)]) == [False, False]


def test_a_far_better_worst_class_is_proof_enough() -> None:
    rng = np.random.default_rng(2)
    low = np.append(0.1, np.full(K - 1, 0.7))
    high = np.append(0.5, np.full(K - 1, 0.7))
    a, b = draw_side(low, rng), draw_side(high, rng)
    b[EACH:] = a[EACH:]
    assert judge_sides([a, b]) == [True, False]


def test_several_trainings_are_compared_as_groups() -> None:
    rng = np.random.default_rng(3)
    sides = [[draw_side(np.full(K, p), rng) for _ in range(3)] for p in (0.5, 0.7)]
    counts = [[one.reshape(K, EACH).sum(1) for one in side] for side in sides]
    scores = np.array([[np.mean(side), 0.4 + 0.1 * i] for i, side in enumerate(sides)])
    n = torch.full((K,), EACH)
    tallies = [[Tally(n, torch.from_numpy(c.astype(np.int64))) for c in side] for side in counts]
    assert surely_dominated(scores, [{"pgd20": side} for side in sides], tallies) == [True, False]
