"""Bounds of differences: how often they are missed, summed over all outcomes, not simulated."""

import numpy as np
import pytest
from scipy.special import gammaln, xlogy
from scipy.stats import binom

from leastwise.statistics.accuracy import lower_paired, upper_paired
from leastwise.statistics.differences import (
    anytime_upper_paired,
    log_evidence_below,
    lower_difference,
    not_worse_p,
    upper_difference,
)

SHARES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0)


def every_pair(n: int) -> tuple["np.ndarray", "np.ndarray"]:
    lost, gained = (v.ravel() for v in np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij"))
    return lost[lost + gained <= n], gained[lost + gained <= n]


def trinomial(n: int, lost: "np.ndarray", gained: "np.ndarray", p: float, q: float) -> "np.ndarray":
    ways = gammaln(n + 1) - gammaln(lost + 1) - gammaln(gained + 1) - gammaln(n - lost - gained + 1)
    return np.exp(ways + xlogy(lost, p) + xlogy(gained, q) + xlogy(n - lost - gained, max(0.0, 1 - p - q)))


def worst_paired(n: int, error: float, most: float) -> float:
    """The largest share of misses over truths with at most so much disagreement."""
    lost, gained = every_pair(n)
    high = upper_paired(lost, gained, np.full(len(lost), n), confidence=1 - error)
    assert np.allclose(-lower_paired(gained, lost, np.full(len(lost), n), confidence=1 - error), high)
    return max(
        float(trinomial(n, lost, gained, p, q)[high < p - q - 1e-9].sum())
        for p in SHARES
        for q in SHARES
        if p + q <= min(most, 1.0)
    )


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 22, 23, 50, 120])
def test_paired_bounds_are_missed_no_more_often_than_they_say(n: int) -> None:
    assert worst_paired(n, 0.025, 1.0) <= 0.025


@pytest.mark.parametrize("n", [1, 5, 30, 60, 150])
def test_paired_bounds_shared_by_ten_classes(n: int) -> None:
    assert worst_paired(n, 0.0025, 0.6) <= 0.0025


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 5), (3, 60), (10, 10), (40, 40), (30, 300), (150, 150)])
@pytest.mark.parametrize("error", [0.025, 0.0025])
def test_unpaired_bounds_are_missed_no_more_often_than_they_say(n: int, m: int, error: float) -> None:
    x, y = np.meshgrid(np.arange(n + 1), np.arange(m + 1), indexing="ij")
    sizes = np.full(x.shape, n), np.full(x.shape, m)
    high = upper_difference(x, sizes[0], y=y, y_n=sizes[1], confidence=1 - error)
    low = lower_difference(y, sizes[1], y=x, y_n=sizes[0], confidence=1 - error)
    assert np.allclose(high, -low)
    missed = max(
        float((binom.pmf(x, n, p) * binom.pmf(y, m, q))[high < p - q - 1e-9].sum()) for p in SHARES for q in SHARES
    )
    assert missed <= 1.06 * error


@pytest.mark.slow
@pytest.mark.parametrize(("n", "most"), [(100, 0.5), (200, 0.5), (430, 0.5)])
def test_paired_bounds_shared_by_a_thousand_classes(n: int, most: float) -> None:
    assert worst_paired(n, 2.5e-5, most) <= 1.25 * 2.5e-5


def test_the_p_value_is_the_error_at_which_the_bound_meets_the_margin() -> None:
    lost, gained, n = np.array([25, 60, 10, 0, 0]), np.array([25, 20, 30, 0, 0]), np.array([1000, 1000, 1000, 3, 0])
    p = not_worse_p(lost, gained, n, margin=0.03)
    one = lost[:1], gained[:1], n[:1]
    at = [float(upper_paired(*one, confidence=1 - f * p[0])[0]) for f in (0.98, 1.02)]
    assert at[0] > 0.03 > at[1]
    assert p[0] < 0.001 and p[1] > 0.5 and p[3] == 1.0 and np.isnan(p[4])


@pytest.mark.parametrize(("p", "q"), [(0.025, 0.025), (0.08, 0.02), (0.0, 0.05), (0.3, 0.1)])
def test_anytime_bounds_hold_at_every_look_together(p: float, q: float) -> None:
    """1,000 courses of 2,000 images, looked at after 5, 10, 20, … images and at the end of every hundred."""
    rng = np.random.default_rng(0)
    looks = np.unique(np.r_[5, 10, 20, 40, 60, np.arange(100, 2001, 100)])
    drawn = rng.choice(3, size=(1000, 2000), p=[p, q, 1 - p - q])
    lost, gained = (np.cumsum(drawn == kind, axis=1)[:, looks - 1] for kind in (0, 1))
    sizes, needed = np.broadcast_to(looks, lost.shape), np.log(1 / 0.025)
    above = log_evidence_below(lost, gained, sizes, limit=np.full(lost.shape, p - q)) >= needed
    below = log_evidence_below(gained, lost, sizes, limit=np.full(lost.shape, q - p)) >= needed
    assert above.any(1).mean() <= 0.025 and below.any(1).mean() <= 0.025
    # The bound is where the evidence reaches what is needed.
    high = anytime_upper_paired(lost[:9, -1], gained[:9, -1], sizes[:9, -1], confidence=0.975)
    for step, beyond in ((-1e-4, False), (1e-4, True)):
        found = log_evidence_below(lost[:9, -1], gained[:9, -1], sizes[:9, -1], limit=high + step)
        assert ((found >= needed) == beyond).all()
