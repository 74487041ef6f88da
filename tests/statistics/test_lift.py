"""Choosing among changed networks, and the verdict: brute force, and simulations with known truth."""

import numpy as np
import pytest

from leastwise.statistics.extremes import PairedCounts
from leastwise.statistics.lift import (
    change_of_aim,
    change_of_average,
    find_pareto,
    is_confirmed,
    is_hopeless,
    judge_lift,
    list_changes,
    pick_best,
    score_classes,
)
from leastwise.statistics.spread import homogeneity


def draw(rng: np.random.Generator, p: np.ndarray, q: np.ndarray, n: np.ndarray, share: float = 0.85) -> PairedCounts:
    """Images of two networks with class accuracies p and q that agree on most images."""
    labels = np.repeat(np.arange(len(p)), n)
    u = rng.random(len(labels))
    v = np.where(rng.random(len(labels)) < share, u, rng.random(len(labels)))
    return PairedCounts.count(u < p[labels], v < q[labels], labels, k=len(p))


def test_scores_are_those_of_the_aims() -> None:
    a = np.array([0.5, 0.2, np.nan, 0.9, 0.4])
    assert score_classes(a, "worst") == 0.2 and score_classes(a, "gap") == pytest.approx(-0.7)
    many = np.linspace(0, 1, 20)
    assert score_classes(many, "cvar10") == pytest.approx(many[:2].mean())


def test_the_pareto_set_against_brute_force() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, s = rng.integers(0, 6, 9) / 5, rng.integers(0, 6, 9) / 5
        slow = [
            not any((a[j] >= a[i] and s[j] >= s[i]) and (a[j] > a[i] or s[j] > s[i]) for j in range(9))
            for i in range(9)
        ]
        assert find_pareto(a.tolist(), s.tolist()).tolist() == slow


def test_the_best_is_picked_within_the_limit_and_the_network_as_it_is_where_nothing_is_better() -> None:
    assert pick_best([0.5, 0.495, 0.47], [0.2, 0.25, 0.4], give_up=0.01) == 1
    assert pick_best([0.5, 0.495, 0.47], [0.2, 0.25, 0.4], give_up=0.05) == 2
    assert pick_best([0.5, 0.4], [0.2, 0.9], give_up=0.01) == 0
    assert pick_best([0.5, 0.5, 0.51], [0.2, 0.3, 0.3], give_up=0.0) == 2


@pytest.mark.parametrize("aim", ["worst", "cvar10", "gap"])
def test_intervals_of_a_lift_hold_for_uneven_classes_of_uneven_size(aim: str) -> None:
    rng, misses, runs = np.random.default_rng(1), 0, 120
    p = np.array([0.15, 0.2, 0.4, 0.5, 0.6, 0.7, 0.2, 0.5, 0.8, 0.3])
    q = p + np.array([0.06, 0.0, -0.02, -0.03, 0.0, -0.05, 0.02, 0.0, 0.0, 0.01])
    n = np.array([60, 100, 200, 40, 100, 80, 120, 100, 30, 100])
    truth = score_classes(q, aim) - score_classes(p, aim)  # type: ignore[arg-type]
    for _ in range(runs):
        found = change_of_aim(draw(rng, p, q, n), aim)  # type: ignore[arg-type]
        misses += not found.low <= truth <= found.high
    assert misses <= 0.05 * runs + 2


def test_the_interval_of_the_average_holds() -> None:
    rng, p, q = np.random.default_rng(2), np.array([0.3, 0.6, 0.5]), np.array([0.35, 0.55, 0.52])
    n = np.array([150, 300, 90])
    truth = float((n * (q - p)).sum() / n.sum())
    misses = 0
    for _ in range(200):
        found = change_of_average(draw(rng, p, q, n))
        misses += not found.low <= truth <= found.high
    assert misses <= 16


def test_equal_classes_are_not_lifted_by_luck() -> None:
    """Twelve changes that only shuffle answers: the best on validation images is judged on test images."""
    rng, lifted, even, runs = np.random.default_rng(3), 0, 0, 150
    p, n, m = np.full(10, 0.4), np.full(10, 100), np.full(10, 200)
    for _ in range(runs):
        base = draw(rng, p, p, n)
        even += homogeneity(base.a, base.n) > 0.05
        found = [draw(rng, p, p, n) for _ in range(12)]
        score = [float((base.a / n).min()), *(float((one.b / n).min()) for one in found)]
        average = [0.4, *(one.b.sum() / one.n.sum() for one in found)]
        chosen = pick_best(average, score, give_up=0.01)
        if chosen:
            verdict = judge_lift(draw(rng, p, p, m), "worst", give_up=0.01, weakest=int((base.a / n).argmin()))
            lifted += verdict.outcome == "lifted"
    assert lifted <= 0.05 * runs and even >= 0.88 * runs


def test_a_clear_lift_is_seen_and_one_that_costs_too_much_is_none() -> None:
    rng, n = np.random.default_rng(4), np.full(10, 400)
    p = np.r_[0.15, np.full(9, 0.5)]
    good, dear = np.r_[0.3, np.full(9, 0.495)], np.r_[0.3, np.full(9, 0.4)]
    assert judge_lift(draw(rng, p, good, n), "worst", give_up=0.01, weakest=0).outcome == "lifted"
    assert judge_lift(draw(rng, p, dear, n), "worst", give_up=0.01, weakest=0).outcome == "not lifted"
    small = judge_lift(draw(rng, p, np.r_[0.2, np.full(9, 0.5)], np.full(10, 40)), "worst", give_up=0.01, weakest=0)
    assert small.outcome == "undecided"


def test_the_images_that_would_decide_do_so_in_most_cases() -> None:
    rng, p = np.random.default_rng(5), np.r_[0.15, np.full(4, 0.5)]
    q = np.r_[0.22, np.full(4, 0.5)]
    asked = [judge_lift(draw(rng, p, q, np.full(5, 100)), "worst", give_up=0.02, weakest=0) for _ in range(40)]
    wanted = int(np.median([one.images_needed for one in asked if one.images_needed]))
    seen = [judge_lift(draw(rng, p, q, np.full(5, wanted)), "worst", give_up=0.02, weakest=0) for _ in range(60)]
    assert 100 < wanted < 2000 and np.mean([one.lift.low > 0 for one in seen]) >= 0.7


def test_a_candidate_is_hopeless_only_if_it_surely_is() -> None:
    rng, n = np.random.default_rng(6), np.full(10, 60)
    p = np.r_[0.2, np.full(9, 0.5)]
    best = draw(rng, p, np.r_[0.3, np.full(9, 0.5)], n)
    alike = [is_hopeless(draw(rng, p, np.r_[0.3, np.full(9, 0.5)], n), best, give_up=0.01) for _ in range(200)]
    assert np.mean(alike) <= 0.07
    assert is_hopeless(draw(rng, p, np.r_[0.0, np.full(9, 0.5)], n), best, give_up=0.01)
    assert is_hopeless(draw(rng, p, np.full(10, 0.35), n), best, give_up=0.01)


def test_a_lift_that_vanishes_is_not_confirmed() -> None:
    rng, n = np.random.default_rng(7), np.full(5, 300)
    p, up = np.r_[0.2, np.full(4, 0.6)], np.r_[0.4, np.full(4, 0.6)]
    seen = judge_lift(draw(rng, p, up, n), "worst", give_up=0.01).lift
    assert is_confirmed(seen, seen)
    assert not is_confirmed(judge_lift(draw(rng, p, p, n), "worst", give_up=0.01).lift, seen)


def test_changes_of_all_classes_hold_together_and_missing_ones_are_missing() -> None:
    rng, misses = np.random.default_rng(8), 0
    p, q, n = np.array([0.2, 0.5, 0.7, 0.4]), np.array([0.3, 0.45, 0.7, 0.4]), np.array([80, 120, 60, 0])
    for _ in range(200):
        rows = list_changes(draw(rng, p, q, n))
        misses += any(not low <= q[c] - p[c] <= high for c, (_, low, high) in enumerate(rows[:3]))
    assert misses <= 16 and all(np.isnan(value) for value in rows[3])
