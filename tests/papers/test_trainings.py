"""Ways of training compared: against other programs' arithmetic, by simulation, and where too little is known."""

import numpy as np
import pytest
import scipy.stats

from leastwise.papers.claims.trainings import SeedSpread, compare_seeds, fit_slope, pool_spread


def test_three_seeds_on_each_side_give_welchs_interval() -> None:
    a, b = np.array([0.61, 0.64, 0.60]), np.array([0.70, 0.69, 0.74, 0.71])
    found = compare_seeds(a.tolist(), b.tolist(), spread=None, error=0.0)
    theirs = scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high)) and found.basis == "3 and 4 seeds"


def test_the_error_over_images_is_added() -> None:
    found = compare_seeds([0.6] * 3, [0.7] * 3, spread=None, error=0.02)
    assert found.value == pytest.approx(0.1)
    assert (found.high - found.low) / 2 == pytest.approx(0.02 * scipy.stats.norm.ppf(0.975), rel=1e-5)


def test_few_seeds_are_compared_by_the_spread_of_other_recipes() -> None:
    spread = pool_spread([[0.1, 0.2, 0.3], [0.5, 0.5, 0.5, 0.9], [0.7, 0.8]])
    assert spread is not None and spread.freedom == 5 and spread.recipes == 2  # two seeds are not enough
    assert spread.deviation == pytest.approx(np.sqrt((0.02 + 0.12) / 5))
    found = compare_seeds([0.5], [0.9], spread=spread, error=0.0)
    half = scipy.stats.t.ppf(0.975, 5) * spread.deviation * np.sqrt(2)
    assert (found.low, found.high) == pytest.approx((0.4 - half, 0.4 + half))
    assert "by the spread between 7 of 2 other recipes" in found.basis
    assert pool_spread([[0.1, 0.2]]) is None
    with pytest.raises(ValueError, match="1 and 1 of them tell nothing: train more"):
        compare_seeds([0.5], [0.9], spread=None, error=0.0)


@pytest.mark.parametrize(("first", "second"), [(3, 3), (1, 1), (1, 3), (5, 4)])
def test_intervals_cover_where_nothing_differs(first: int, second: int) -> None:
    """Seeds scatter by 0.03, images add 0.01 to the difference; other recipes tell the spread: 95 % of 1,000, ± 2."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        others = pool_spread(rng.normal(0, 0.03, (3, 3)).tolist())
        shift = rng.normal(0, 0.01)
        a, b = rng.normal(0.5, 0.03, first), rng.normal(0.5, 0.03, second) + shift
        found = compare_seeds(a.tolist(), b.tolist(), spread=others, error=0.01)
        covered += found.low <= 0 <= found.high
    assert covered >= 930


def test_a_slope_has_the_interval_of_ordinary_least_squares() -> None:
    x, y = np.array([1.0, 2, 4, 8, 16]), np.array([0.9, 0.85, 0.8, 0.62, 0.3])
    found, theirs = fit_slope(x.tolist(), y.tolist()), scipy.stats.linregress(x, y)
    half = scipy.stats.t.ppf(0.975, 3) * theirs.stderr
    assert (found.value, found.low, found.high) == pytest.approx(
        (theirs.slope, theirs.slope - half, theirs.slope + half)
    )
    with pytest.raises(ValueError, match="needs 3 trainings or more, but saw 2"):
        fit_slope([1.0, 2.0], [0.1, 0.2])
    assert SeedSpread(0.1, 2, 1).recipes == 1
