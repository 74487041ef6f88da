"""Which class is the worst, and the ranks: calibration over known truths, closed forms, order and size."""

import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
from scipy.special import ndtri

from leastwise.statistics.accuracy import draw_accuracies, infer_accuracies
from leastwise.statistics.worst_class import estimate_ranks, likely_worst, probability_worst, range_worst, weigh_worst
from tests.statistics.truths import QUICK, TRUTHS, draw_audits

EDGES = np.concatenate([[0, 0.02, 0.05], np.linspace(0.1, 1, 10)])
ALLOWED = 0.06  # that a claim may exceed the share that is right


@dataclass(frozen=True)
class Bin:
    """Claims of similar probability."""

    low: float
    high: float
    claims: int
    claimed: float  # their mean
    right: float  # the share that is right
    error: float  # standard error of that share, if the claims are true

    @property
    def excess(self) -> float:
        return self.claimed - self.right


@lru_cache
def judge(name: str, runs: int, seed: int = 1) -> tuple["np.ndarray", "np.ndarray", "np.ndarray", "np.ndarray"]:
    """By audit whether the candidates hold a worst class, how many they are; all claims, and which of them are right.

    Classes that share the lowest true accuracy are all worst. Of two classes only the likelier counts: the other one's
    claim is its mirror.
    """
    held, count, claims, right = [], [], [], []
    for p, correct, n in draw_audits(name, runs, seed):
        worst = (p == p[n > 0].min()) & (n > 0)
        claim = probability_worst(correct, n)
        chosen = list(likely_worst(claim))
        held.append(worst[chosen].any())
        count.append(len(chosen))
        counted = n > 0 if len(n) > 2 else np.arange(2) == claim.argmax()
        claims.append(claim[counted])
        right.append(worst[counted].astype(np.float64))
    return np.array(held), np.array(count), np.concatenate(claims), np.concatenate(right)


def calibrate(claims: "np.ndarray", right: "np.ndarray", precision: float) -> list[Bin]:
    """Bins of claimed probability, merged with their neighbours until the standard error is at most `precision`.

    Claims of one audit exclude each other, so that the error is rather less than said.
    """
    found: list[Bin] = []
    start = 0
    for end in range(1, len(EDGES)):
        made = make_bin(claims, right, start, end)
        if made is not None and made.error <= precision:
            found.append(made)
            start = end
    if start < len(EDGES) - 1 and found and (claims >= EDGES[start]).any():  # too few are left for a bin of their own
        start = int(np.argmin(np.abs(EDGES - found.pop().low)))
    last = make_bin(claims, right, start, len(EDGES) - 1) if start < len(EDGES) - 1 else None
    return found + ([last] if last else [])


def make_bin(claims: "np.ndarray", right: "np.ndarray", start: int, end: int) -> Bin | None:
    """The claims between two edges; nothing where there are none."""
    low, high = float(EDGES[start]), float(EDGES[end])
    inside = (claims >= low) & ((claims < high) | (end == len(EDGES) - 1))
    if not inside.any():
        return None
    c, many = claims[inside], int(inside.sum())
    error = float(np.sqrt(max((c * (1 - c)).mean(), 0.0025) / many))
    return Bin(low, high, many, float(c.mean()), float(right[inside].mean()), error)


def is_oversure(found: list[Bin], populations: int) -> bool:
    """Whether a bin exceeds what is allowed, by more than chance does in one of twenty grids of so many populations."""
    assert len(found) >= 2  # all claims together are always right: they sum to 1
    times = float(ndtri(1 - 0.05 / (len(found) * populations)))
    return any(one.excess > ALLOWED + times * one.error for one in found)


SHARPENED = {"five of ten with 1 to 5 images": 100, "43 of 5 to 500": 100}  # audits; the other populations have 40


@pytest.mark.parametrize("name", QUICK)
def test_candidates_hold_the_worst_class(name: str) -> None:
    runs = SHARPENED.get(name, 40)
    held, _, claims, right = judge(name, runs)
    assert held.mean() >= 0.93 - 1.7 * np.sqrt(0.93 * 0.07 / runs)  # the long test below has no such allowance
    assert not is_oversure(calibrate(claims, right, 0.05), len(QUICK))


@pytest.mark.parametrize("name", SHARPENED)
def test_a_sharper_posterior_would_be_found_out(name: str) -> None:
    """Cubed probabilities, about those of three times the images, fail the test above."""
    _, _, claims, right = judge(name, SHARPENED[name])
    sharp = claims.reshape(SHARPENED[name], -1) ** 3
    sharp /= sharp.sum(1, keepdims=True)
    assert is_oversure(calibrate(sharp.ravel(), right, 0.05), len(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTHS)
def test_probabilities_are_calibrated_and_candidates_hold_the_worst_class_in_every_population(name: str) -> None:
    runs = 60 if name.startswith("1000 ") else 300 if name.startswith("100") else 2500 if name.startswith("2 ") else 600
    held, count, claims, right = judge(name, runs)
    found = calibrate(claims, right, 0.02)
    print(name, f"held {held.mean():.3f}, {count.mean():.1f} classes")
    for one in found:
        print(
            f"  {one.low:.2f} to {one.high:.2f}: {one.claims} claims, {100 * one.excess:+.1f} ± {100 * one.error:.1f}"
        )
    assert held.mean() >= 0.93
    assert not is_oversure(found, len(TRUTHS))


def test_the_old_claims_of_similar_classes_were_overconfident_and_the_new_are_not() -> None:
    """100 classes from Beta(20, 20) with 50 images each: independent posteriors claimed 0.38 for 0.20 to 0.29."""
    held, _, claims, _ = judge("100 alike", 15)
    assert claims.reshape(15, 100).max(1).mean() < 0.32 and held.sum() >= 13


def test_a_clear_worst_class_is_sure_and_equal_classes_share() -> None:
    correct = np.array([663, 767, 367, 234, 365, 506, 732, 646, 737, 650, 0])
    found = probability_worst(correct, np.append(np.full(10, 1000), 0))
    assert found[3] > 0.999 and np.isnan(found[10]) and np.nansum(found) == pytest.approx(1)
    assert likely_worst(found) == (3,)
    assert probability_worst(np.full(7, 30), np.full(7, 100)).tolist() == pytest.approx([1 / 7] * 7)
    assert np.isnan(probability_worst(np.zeros(3, np.int64), np.zeros(3, np.int64))).all()
    assert probability_worst(np.array([0, 3]), np.array([0, 5]))[1] == 1
    with pytest.raises(ValueError, match="no class has an image"):
        infer_accuracies(np.zeros(2, np.int64), np.zeros(2, np.int64))


def test_the_range_of_a_probability_is_wide_where_the_data_do_not_say_how_alike_classes_are() -> None:
    """Three classes near 25 %, one of them seven points lower: as alike as they may be, or each for itself."""
    correct = np.array([8, 11, 12, 28, 29, 27, 30, 28])
    low, high = range_worst(correct, np.full(8, 40))
    found = probability_worst(correct, np.full(8, 40))
    assert high[0] - low[0] > 0.15 and (low <= found).all() and (found <= high).all()
    sure = range_worst(25 * correct - 60 * (np.arange(8) == 0), np.full(8, 1000))
    assert sure[0][0] > 0.999 and np.isnan(range_worst(np.zeros(2, np.int64), np.zeros(2, np.int64))).all()
    equal = range_worst(np.full(4, 10), np.full(4, 20))
    assert np.concatenate(equal).tolist() == pytest.approx([0.25] * 8)


def test_many_images_leave_nothing_to_the_prior() -> None:
    """Two classes of 5,000 images: the difference of two independent normals, whatever the others are."""
    correct, n = np.array([1000, 1020, 4000, 4100]), np.full(4, 5000)
    a, b = np.random.default_rng(0).beta(correct[:2, None] + 1, (n - correct)[:2, None] + 1, size=(2, 100_000))
    assert probability_worst(correct, n)[0] == pytest.approx((a < b).mean(), abs=0.12)


def test_the_integral_equals_the_draws() -> None:
    correct, n = np.array([20, 27, 0, 3, 60, 33]), np.array([70, 90, 0, 8, 80, 90])
    posterior = infer_accuracies(correct, n)
    drawn = draw_accuracies(posterior, 16384)
    share = np.bincount(drawn.argmin(1), minlength=5) / len(drawn)
    assert probability_worst(correct, n)[n > 0].tolist() == pytest.approx(share.tolist(), abs=0.015)
    assert weigh_worst(posterior)[1] == pytest.approx(drawn.min(1).mean(), abs=0.004)


def test_p17_relabelling_classes_moves_the_answer_along() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(20, 200, 9)
    correct = rng.binomial(n, 0.2 + 0.6 * rng.random(9))
    order = rng.permutation(9)
    found = probability_worst(correct, n)[order]
    assert found.tolist() == pytest.approx(probability_worst(correct[order], n[order]).tolist())


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("43 of 5 to 500", 15),
        ("five of ten with 1 to 5 images", 20),
        ("100 of 1 to 5", 8),
        ("1000 of 50", 1),
        pytest.param("100 in two clusters", 100, marks=pytest.mark.slow),
        pytest.param("100 alike", 100, marks=pytest.mark.slow),
        pytest.param("10 nearly equal, n 1000", 300, marks=pytest.mark.slow),
        pytest.param("2 of three images", 300, marks=pytest.mark.slow),
    ],
)
def test_intervals_of_ranks_cover(name: str, runs: int) -> None:
    """The share of classes whose true rank lies inside, over classes and audits."""
    inside = []
    for p, correct, n in draw_audits(name, runs):
        found = estimate_ranks(correct, n)
        rank = 1 + p.argsort().argsort()
        inside.append(((found.low <= rank) & (rank <= found.high)).mean())
        assert np.nansum(found.mean) == pytest.approx(len(n) * (len(n) + 1) / 2)
    assert np.mean(inside) >= 0.93


def test_ranks_of_missing_classes_are_missing_and_clear_ones_are_known() -> None:
    found = estimate_ranks(np.array([100, 0, 500, 900]), np.array([1000, 0, 1000, 1000]))
    for part in (found.mean, found.low, found.high):
        assert part[[0, 2, 3]].tolist() == [1, 2, 3]
    assert np.isnan(found.mean[1]) and np.isnan(found.low[1]) and np.isnan(found.high[1])


def test_a_thousand_classes_take_less_than_a_second() -> None:
    """Processor time, doubled for machines that are slower than ours."""
    _, correct, n = draw_audits("1000 of 50", 1)[0]
    infer_accuracies(correct[:10], n[:10])
    start = time.process_time()
    probability_worst(correct, n)
    estimate_ranks(correct, n)
    assert time.process_time() - start < 2
