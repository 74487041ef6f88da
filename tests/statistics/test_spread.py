"""Spread over classes: printed numbers, closed forms, and simulations with known truth."""

import numpy as np
import pytest
from scipy import stats

from leastwise.statistics.spread import (
    boundary_error,
    cvar,
    false_positive_rate,
    gini,
    homogeneity,
    measure_spread,
    nsd_accuracy,
    nsd_error,
    rho,
    variance_bounds,
    worst_k_mean,
)
from leastwise.statistics.spread import class_gap as gap

RESNET = np.array([0.663, 0.767, 0.367, 0.234, 0.365, 0.506, 0.732, 0.646, 0.737, 0.650])
MNIST_SIZES = np.array([980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009])
MNIST = np.array([0.997, 0.997, 0.992, 0.995, 0.993, 0.991, 0.992, 0.990, 0.989, 0.986])
CASES = {
    "100 equal classes": (np.full(100, 0.25), np.full(100, 100)),
    "like MNIST": (MNIST, MNIST_SIZES),
    "CIFAR-10": (RESNET, np.full(10, 1000)),
    "100 unequal classes": (np.linspace(0.02, 0.6, 100), np.full(100, 50)),
    "one bad class": (np.array([0.1] + 9 * [0.95]), np.full(10, 100)),
}


@pytest.mark.parametrize(
    ("row", "printed"),
    [
        ((63.8, 71.6, 39.1, 25.3, 36.7, 38.6, 57.4, 59.5, 63.1, 66.8), 224.4),
        ((67.8, 80.6, 37.8, 29.4, 40.6, 43.9, 59.3, 66.9, 71.8, 65.6), 263.7),
        ((58.2, 71.8, 33.3, 17.6, 23.0, 41.6, 56.2, 66.9, 69.9, 65.7), 363.5),
    ],
)
def test_g1_plug_in_is_tians_cv(row: tuple[float, ...], printed: float) -> None:
    n = np.full(10, 1000)
    found = measure_spread(np.rint(10 * np.array(row)).astype(np.int64), n)
    assert 1e4 * found.plug_in == pytest.approx(printed, abs=0.1)
    assert gap(np.array(row)) == pytest.approx(max(row) - min(row))


def test_noise_by_hand() -> None:
    """p = 0.2 and 0.6, n = 11: V = 0.04; v = 0.16/10, 0.24/10; noise = (1/4)(0.016 + 0.024) = 0.01."""
    found = measure_spread(np.array([0, 4, 12, 1]), np.array([0, 20, 20, 1]))
    v = 0.16 / 19 + 0.24 / 19
    assert (found.plug_in, found.noise) == pytest.approx((0.04, v / 4))
    assert found.debiased == pytest.approx(0.04 - v / 4) and found.sd == pytest.approx(np.sqrt(0.04 - v / 4))
    assert (found.used, found.left_out) == (2, (0, 3))
    assert np.isnan(measure_spread(np.array([1, 0]), np.array([3, 1])).debiased)
    assert (
        measure_spread(np.array([5, 5]), np.array([10, 10])).debiased
        < 0
        == measure_spread(np.array([5, 5]), np.array([10, 10])).sd
    )


@pytest.mark.parametrize("case", CASES)
def test_debiased_spread_is_unbiased_and_knows_its_error(case: str) -> None:
    p, n = CASES[case]
    found = [measure_spread(k, n) for k in np.random.default_rng(0).binomial(n, p, size=(4000, len(p)))]
    debiased = np.array([f.debiased for f in found])
    error = debiased.std() / np.sqrt(len(found))
    assert abs(debiased.mean() - p.var()) < 3 * error
    if case in ("100 equal classes", "like MNIST"):
        assert np.mean([f.plug_in for f in found]) - p.var() > 30 * error
    assert np.sqrt(np.mean([f.error**2 for f in found])) == pytest.approx(debiased.std(), rel=0.1)


@pytest.mark.parametrize("case", CASES)
def test_variance_bounds_cover(case: str) -> None:
    p, n = CASES[case]
    found = [variance_bounds(k, n) for k in np.random.default_rng(1).binomial(n, p, size=(1500, len(p)))]
    assert np.mean([low <= p.var() <= high for low, high in found]) >= 0.94
    assert variance_bounds(np.full(5, 9), np.full(5, 9))[1] > 0.001  # no mistake among 45 images leaves doubt


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("apart", [0.0, 1.5])
def test_variance_of_nearly_equal_classes_is_not_put_too_high(k: int, apart: float) -> None:
    """In units of noise. A normal lower end exceeded the truth in 7 % of audits, in 5 % with a third of the error."""
    n = np.full(k, 60)
    p = 0.5 + apart * np.sqrt(0.25 / 60) * (np.arange(k) % 2)
    drawn = np.random.default_rng(8).binomial(n, p, size=(500, k))
    for confidence, allowed in ((0.95, 0.04), (1 - 0.05 / 3, 0.025)):
        low = np.array([variance_bounds(row, n, confidence)[0] for row in drawn])
        assert (low > p.var() + 1e-12).mean() <= allowed + 2 * np.sqrt(allowed / len(drawn))


def test_homogeneity_is_the_chi_square_test_where_counts_are_large() -> None:
    correct, n = np.array([30, 45, 0, 28]), np.array([100, 90, 0, 110])
    kept = [0, 1, 3]
    expected = stats.chi2_contingency(np.stack([correct[kept], (n - correct)[kept]]), correction=False).pvalue
    assert homogeneity(correct, n) == pytest.approx(expected)
    assert homogeneity(np.array([0, 0]), np.array([5, 9])) == 1.0 == homogeneity(np.array([3]), np.array([9]))


def test_homogeneity_of_a_small_table_is_close_to_exact() -> None:
    """Two classes, given four right of ten: the hypergeometric probability of tables at least as far apart."""
    k, n = np.array([4, 0]), np.array([5, 5])
    exact = 2 * stats.hypergeom.pmf(4, 10, 4, 5)
    assert homogeneity(k, n) == pytest.approx(exact, abs=0.015)
    assert homogeneity(k, n) == homogeneity(k, n)


@pytest.mark.parametrize(
    ("k", "n", "p", "runs"),
    [
        (10, 1000, 0.3, 10000),
        (100, 100, 0.3, 5000),
        (10, 20, 0.25, 2000),
        pytest.param(100, 100, 0.02, 1000, marks=pytest.mark.slow),
        (20, 30, 0.05, 600),
    ],
)
def test_homogeneity_keeps_its_level(k: int, n: int, p: float, runs: int) -> None:
    sizes = np.full(k, n)
    drawn = np.random.default_rng(2).binomial(n, p, size=(runs, k))
    assert np.mean([homogeneity(correct, sizes) <= 0.05 for correct in drawn]) <= 0.055


def test_gini_is_the_mean_difference_over_twice_the_mean() -> None:
    a = np.random.default_rng(0).random(7)
    assert gini(a) == pytest.approx(np.abs(a[:, None] - a).mean() / (2 * a.mean()))
    assert gini(np.array([0.0, 0.0, 0.5, np.nan])) == pytest.approx(2 / 3) and gini(np.full(4, 0.3)) == pytest.approx(0)
    assert np.isnan(gini(np.zeros(3)))


def test_nsd_in_both_readings() -> None:
    """Accuracies 0.2 and 0.6: SD 0.2, mean accuracy 0.4, mean error 0.6."""
    a = np.array([0.2, np.nan, 0.6])
    assert (nsd_accuracy(a), nsd_error(a)) == pytest.approx((0.5, 1 / 3))


def test_tail_means() -> None:
    a = np.array([0.5, 0.1, np.nan, 0.3, 0.9])
    assert (
        worst_k_mean(a, 1) == 0.1
        and worst_k_mean(a, 2) == pytest.approx(0.2)
        and worst_k_mean(a, 9) == pytest.approx(0.45)
    )
    assert cvar(a, 0.25) == pytest.approx(0.1) and cvar(a, 1.0) == pytest.approx(0.45)
    assert cvar(a, 0.375) == pytest.approx((0.1 + 0.5 * 0.3) / 1.5)
    with pytest.raises(ValueError, match=r"0\.2 is the worst fifth"):
        cvar(a, 20.0)
    with pytest.raises(ValueError, match="at least one"):
        worst_k_mean(a, 0)


@pytest.mark.parametrize(
    ("average", "worst", "printed"),
    [(44.68, 25.84, 0.11), (50.78, 27.62, 0.32), (45.89, 17.82, -0.24), (46.30, 28.55, 0.27), (49.05, 30.53, 0.42)],
)
def test_rho_as_printed_by_dafa(average: float, worst: float, printed: float) -> None:
    """Against TRADES at 49.80 on average and 21.31 in the worst class."""
    assert rho(worst, average, base_worst=21.31, base_average=49.80) == pytest.approx(printed, abs=0.005)


def test_boundary_error_and_inflow() -> None:
    found = boundary_error(np.array([0.9, 0.5, np.nan]), np.array([0.6, 0.55, np.nan]))
    assert found[:2].tolist() == pytest.approx([0.3, -0.05]) and np.isnan(found[2])
    confusion = np.array([[6, 4, 0], [1, 9, 0], [5, 5, 10]])
    assert false_positive_rate(confusion).tolist() == pytest.approx([6 / 30, 9 / 30, 0 / 20])


def test_p17_relabelling_classes_changes_no_number() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(20, 200, 12)
    correct = rng.binomial(n, rng.random(12))
    order = rng.permutation(12)
    for measure in (
        lambda k, m: measure_spread(k, m).debiased,
        lambda k, m: measure_spread(k, m).error,
        homogeneity,
        lambda k, m: gini(k / m),
    ):
        assert measure(correct[order], n[order]) == pytest.approx(measure(correct, n))
