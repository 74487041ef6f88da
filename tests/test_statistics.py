"""Intervals against statsmodels and textbook values; paired tests against statsmodels."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from leastwise.statistics import exact, paired, wilson

N = np.array([1, 1, 2, 10, 100, 100, 200, 1000, 1000, 1000])
CORRECT = np.array([0, 1, 1, 0, 2, 100, 60, 300, 999, 0])


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.999])
@pytest.mark.parametrize(("ours", "name"), [(wilson, "wilson"), (exact, "beta")])
def test_intervals_equal_statsmodels(ours: object, name: str, confidence: float) -> None:
    low, high = ours(CORRECT, N, confidence)
    expected = [proportion_confint(c, n, 1 - confidence, name) for c, n in zip(CORRECT, N, strict=True)]
    assert low.tolist() == pytest.approx([max(0, e[0]) for e in expected], abs=1e-12)
    assert high.tolist() == pytest.approx([min(1, e[1]) for e in expected], abs=1e-12)


def test_wilson_at_the_printed_examples() -> None:
    """30 % of 1000 is [27.2, 32.9]; 30 % of 200 is [24.1, 36.7]; 2 % of 100 is [0.6, 7.0]."""
    low, high = wilson(np.array([300, 60, 2]), np.array([1000, 200, 100]))
    assert (100 * low).round(1).tolist() == [27.2, 24.1, 0.6]
    assert (100 * high).round(1).tolist() == [32.9, 36.7, 7.0]


@pytest.mark.parametrize("interval", [wilson, exact])
def test_a_class_without_examples_has_no_interval(interval: object) -> None:
    low, high = interval(np.array([0, 5]), np.array([0, 10]))
    assert np.isnan(low[0]) and np.isnan(high[0]) and 0 < low[1] < 0.5 < high[1] < 1


def test_exact_intervals_cover_at_least_what_they_say() -> None:
    """Coverage computed exactly, by summing the binomial distribution, not simulated."""
    n = 80
    counts = np.arange(n + 1)
    low, high = exact(counts, np.full(n + 1, n))
    for p in (0.001, 0.01, 0.05, 0.3, 0.5, 0.9, 0.999):
        assert stats.binom.pmf(counts, n, p)[(low <= p) & (p <= high)].sum() >= 0.95


def arrays(gained: int, lost: int, n: int) -> tuple["np.ndarray", "np.ndarray"]:
    a, b = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    b[:gained] = True
    a[gained : gained + lost] = True
    both = slice(gained + lost, gained + lost + (n - gained - lost) // 2)
    a[both] = b[both] = True
    return a, b


@pytest.mark.parametrize(("gained", "lost", "n"), [(0, 0, 10), (5, 0, 20), (30, 12, 200), (12, 30, 200), (7, 7, 50)])
def test_paired_difference_and_exact_mcnemar(gained: int, lost: int, n: int) -> None:
    a, b = arrays(gained, lost, n)
    found = paired(a, b)
    assert (found.n, found.gained, found.lost) == (n, gained, lost)
    assert found.difference == pytest.approx(b.mean() - a.mean())
    table = [[(a & b).sum(), lost], [gained, (~a & ~b).sum()]]
    assert found.p == pytest.approx(mcnemar(table, exact=True).pvalue if gained + lost else 1.0)
    assert -1 <= found.low <= found.difference <= found.high <= 1


def test_paired_interval_by_hand() -> None:
    """n = 200, 30 gained, 12 lost: (31 - 13)/202 ± 1.959964·sqrt((31/202 + 13/202 - (18/202)²)/202)."""
    found = paired(*arrays(30, 12, 200))
    assert (found.low, found.high) == pytest.approx((0.025931, 0.152287), abs=1e-5)


def test_paired_interval_covers_the_true_difference() -> None:
    rng = np.random.default_rng(0)
    for p_gain, p_loss in ((0.3, 0.02), (0.05, 0.05), (0.9, 0.0)):
        kinds = rng.multinomial(200, [p_gain, p_loss, 1 - p_gain - p_loss], size=2000)
        inside = 0
        for gained, lost, _ in kinds:
            found = paired(*arrays(gained, lost, 200))
            inside += found.low <= p_gain - p_loss <= found.high
        assert inside / len(kinds) > 0.94
