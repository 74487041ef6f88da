"""Changes of the worst class, the gap, CV and ρ between two models on the same images: coverage over truths."""

import numpy as np
import pytest

from leastwise.statistics.extremes import (
    MinimumChange,
    PairedCounts,
    change_of_gap,
    change_of_minimum,
    change_of_rho,
    change_of_variance,
)

EVEN = np.full(10, 0.5)
TRUTHS = {
    "equal": (EVEN, EVEN),
    "another worst": (np.array([0.3, 0.5, 0.7, 0.6]), np.array([0.6, 0.35, 0.7, 0.6])),
    "two": (np.array([0.2, 0.8]), np.array([0.5, 0.5])),
    "clusters": (np.repeat([0.2, 0.8], 5), np.repeat([0.3, 0.7], 5)),
    "edges": (np.array([0.0, 1.0, 0.5]), np.array([1.0, 1.0, 0.02])),
    "reversed": (np.linspace(0.2, 0.8, 6), np.linspace(0.8, 0.2, 6)),
}
SIZES = {"large": 400, "small": 5}


def draw(truth: tuple["np.ndarray", "np.ndarray"], n: "np.ndarray", rng: "np.random.Generator") -> PairedCounts:
    """Two models on the same images, which are right about the same ones as far as their accuracies allow."""
    labels = np.repeat(np.arange(len(n)), n)
    difficulty = rng.random(len(labels))
    own = rng.random(len(labels)) < 0.3  # on some images B has its own luck
    second = np.where(own, rng.random(len(labels)), difficulty)
    return PairedCounts.count(difficulty < truth[0][labels], second < truth[1][labels], labels, k=len(n))


def truths(truth: tuple["np.ndarray", "np.ndarray"], n: "np.ndarray") -> dict[object, float]:
    a, b = truth
    average = [v @ n / n.sum() for v in truth]
    ratio = np.divide(b.min(), a.min(), out=np.full((), np.inf), where=a.min() > 0)
    return {
        change_of_minimum: b.min() - a.min(),
        change_of_gap: np.ptp(b) - np.ptp(a),
        change_of_variance: b.var() - a.var(),
        change_of_rho: ratio + average[1] / average[0] - 2,
    }


def check_coverage(truth: tuple["np.ndarray", "np.ndarray"], size: int, runs: int) -> None:
    rng = np.random.default_rng(0)
    n = np.full(len(truth[0]), size)
    n[-1] = max(2, size // 4)  # unequal
    missed = dict.fromkeys(truths(truth, n), 0)
    for _ in range(runs):
        found = draw(truth, n, rng)
        for change, true in truths(truth, n).items():
            one = change(found) if change is change_of_rho else change(found, tested=False)  # type: ignore[operator]
            missed[change] += not (one.low - 1e-12 <= true <= one.high + 1e-12)
    assert max(missed.values()) / runs <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize("truth", ["another worst", "edges"])
def test_intervals_of_changes_cover(truth: str) -> None:
    check_coverage(TRUTHS[truth], 100, 20)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
def test_intervals_of_changes_cover_over_a_grid(truth: tuple["np.ndarray", "np.ndarray"], size: int) -> None:
    check_coverage(truth, size, 150)


def test_a_clear_lift_is_found_and_p_is_where_the_interval_meets_zero() -> None:
    truth = (np.array([0.3, 0.5, 0.7, 0.6]), np.array([0.45, 0.5, 0.7, 0.6]))
    found = draw(truth, np.full(4, 1000), np.random.default_rng(0))
    lift: MinimumChange = change_of_minimum(found)
    assert 0 < lift.low < 0.15 < lift.high and lift.p < 0.001
    weak = draw((truth[0], np.array([0.33, 0.5, 0.7, 0.6])), np.full(4, 400), np.random.default_rng(3))
    p = change_of_minimum(weak).p
    low, high = (change_of_minimum(weak, 1 - f * p) for f in (0.7, 1.4))
    assert low.low <= 0 <= low.high and (high.low > 0 or high.high < 0 or p == 1.0)
    assert change_of_rho(found).low < change_of_rho(found).value < change_of_rho(found).high


def test_classes_without_images_are_left_out_and_a_base_of_zero_has_no_ratio() -> None:
    labels = np.repeat([0, 2], 50)
    a, b = labels == 2, np.ones(100, dtype=bool)
    found = PairedCounts.count(a, b, labels, k=4)
    lift = change_of_minimum(found)
    assert lift.value == 1.0 and lift.low > 0.8
    assert np.isinf(change_of_rho(found).high)
