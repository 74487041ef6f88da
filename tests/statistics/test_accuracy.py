"""Intervals against statsmodels and textbook values; coverage summed exactly over the binomial, or simulated."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from leastwise.statistics.accuracy import (
    exact_interval,
    lower_bound,
    simultaneous_intervals,
    upper_bound,
    wilson_interval,
)

N = np.array([1, 1, 2, 10, 100, 100, 200, 1000, 1000, 1000])
CORRECT = np.array([0, 1, 1, 0, 2, 100, 60, 300, 999, 0])


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.999])
@pytest.mark.parametrize(("ours", "name"), [(wilson_interval, "wilson"), (exact_interval, "beta")])
def test_intervals_equal_statsmodels(ours: object, name: str, confidence: float) -> None:
    low, high = ours(CORRECT, N, confidence)
    expected = [proportion_confint(c, n, 1 - confidence, name) for c, n in zip(CORRECT, N, strict=True)]
    assert low.tolist() == pytest.approx([max(0, e[0]) for e in expected], abs=1e-12)
    assert high.tolist() == pytest.approx([min(1, e[1]) for e in expected], abs=1e-12)


def test_wilson_at_the_printed_examples() -> None:
    """30 % of 1000 is [27.2, 32.9]; 30 % of 200 is [24.1, 36.7]; 2 % of 100 is [0.6, 7.0]."""
    low, high = wilson_interval(np.array([300, 60, 2]), np.array([1000, 200, 100]))
    assert (100 * low).round(1).tolist() == [27.2, 24.1, 0.6]
    assert (100 * high).round(1).tolist() == [32.9, 36.7, 7.0]


@pytest.mark.parametrize("interval", [wilson_interval, exact_interval])
def test_a_class_without_examples_has_no_interval(interval: object) -> None:
    low, high = interval(np.array([0, 5]), np.array([0, 10]))
    assert np.isnan(low[0]) and np.isnan(high[0]) and 0 < low[1] < 0.5 < high[1] < 1


def coverage(interval: object, n: int, p: "np.ndarray") -> "np.ndarray":
    """Probability that the interval holds p, summed over all outcomes: no simulation."""
    counts = np.arange(n + 1)
    low, high = interval(counts, np.full(n + 1, n))
    inside = (low[:, None] <= p) & (p <= high[:, None])
    return (stats.binom.pmf(counts[:, None], n, p) * inside).sum(0)


LOW = np.concatenate([np.linspace(0.001, 0.02, 39), np.linspace(0.02, 0.5, 60)])
EVERY = np.concatenate([LOW, 1 - LOW])


@pytest.mark.parametrize("n", [1, 20, 80, 100, 1000])
def test_exact_intervals_cover_at_least_what_they_say(n: int) -> None:
    assert coverage(exact_interval, n, EVERY).min() >= 0.95


@pytest.mark.parametrize("n", [100, 1000])
def test_wilson_covers_95_on_average_but_dips_near_0(n: int) -> None:
    assert coverage(wilson_interval, n, np.linspace(0.05, 0.95, 901)).mean() == pytest.approx(0.95, abs=0.005)
    assert coverage(wilson_interval, n, np.linspace(0.05, 0.95, 901)).min() > 0.92
    edge = wilson_interval(np.array([1]), np.array([n]))[0] * 0.999  # just below the interval of a single hit
    assert coverage(wilson_interval, n, edge)[0] == pytest.approx(0.838, abs=0.002)  # the dip the docstring warns of


def test_one_sided_bounds_are_the_ends_of_the_two_sided_interval() -> None:
    low, high = exact_interval(CORRECT, N, 0.9)
    assert (
        lower_bound(CORRECT, N, 0.95).tolist() == low.tolist()
        and upper_bound(CORRECT, N, 0.95).tolist() == high.tolist()
    )


@pytest.mark.parametrize("k", [1, 10, 100])
def test_simultaneous_bands_hold_for_all_classes_together(k: int) -> None:
    rng = np.random.default_rng(1)
    p, n = rng.random(k), rng.integers(1, 400, k)
    runs = rng.binomial(n, p, size=(2000, k))
    inside = [((low <= p) & (p <= high)).all() for low, high in (simultaneous_intervals(run, n) for run in runs)]
    assert np.mean(inside) >= 0.95
    alone = [((low <= p) & (p <= high)).all() for low, high in (exact_interval(run, n) for run in runs)]
    assert k == 1 or np.mean(alone) < (0.85 if k == 10 else 0.1)


def test_bands_are_of_the_present_classes_only() -> None:
    correct, n = np.array([3, 0, 5]), np.array([10, 0, 10])
    low, high = simultaneous_intervals(correct, n)
    expected = exact_interval(correct[[0, 2]], n[[0, 2]], 0.95**0.5)
    assert low[[0, 2]].tolist() == expected[0].tolist() and high[[0, 2]].tolist() == expected[1].tolist()
    assert np.isnan([low[1], high[1]]).all()
