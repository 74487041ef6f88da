"""Which class is the worst, and the ranks: calibration over known truths, closed forms, order and size."""

import time
from itertools import pairwise

import numpy as np
import pytest

from leastwise.statistics.accuracy import (
    draw_accuracies,
    estimate_ranks,
    infer_accuracies,
    likely_worst,
    probability_worst,
    weigh_worst,
)
from tests.statistics.truths import QUICK, TRUTHS, draw_audits

BINS = np.array([0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.01])


def judge(name: str, runs: int, seed: int = 1) -> tuple["np.ndarray", "np.ndarray", "np.ndarray", "np.ndarray"]:
    """By audit whether the candidates hold a worst class, how many they are; all claims, and which of them are right.

    Classes that share the lowest true accuracy are all worst.
    """
    held, count, claims, right = [], [], [], []
    for p, correct, n in draw_audits(name, runs, seed):
        worst = (p == p[n > 0].min()) & (n > 0)
        claim = probability_worst(correct, n)
        chosen = list(likely_worst(claim))
        held.append(worst[chosen].any())
        count.append(len(chosen))
        claims.append(claim[n > 0])
        right.append(worst[n > 0].astype(np.float64))
    return np.array(held), np.array(count), np.concatenate(claims), np.concatenate(right)


def misses(claims: "np.ndarray", right: "np.ndarray") -> list[tuple[float, float]]:
    """By bin of claimed probability: how far the share that is right lies off, and its standard error."""
    found = []
    for low, high in pairwise(BINS):
        inside = (claims >= low) & (claims < high)
        if inside.sum() >= 30:
            c, r = claims[inside], right[inside]
            found.append((float(r.mean() - c.mean()), float(np.sqrt(max(c.mean() * (1 - c.mean()), 0.01) / len(c)))))
    return found


@pytest.mark.parametrize("name", QUICK)
def test_candidates_hold_the_worst_class(name: str) -> None:
    held, _, claims, right = judge(name, 25)
    assert held.mean() >= 0.93 - 1.7 * np.sqrt(0.93 * 0.07 / 25)  # the long test below has no such allowance
    assert all(off >= -0.06 - 2.5 * error for off, error in misses(claims, right))  # nowhere overclaimed


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTHS)
def test_probabilities_are_calibrated_and_candidates_hold_the_worst_class_in_every_population(name: str) -> None:
    runs = 40 if name.startswith("1000") else 150 if name.startswith("100") else 400
    held, count, claims, right = judge(name, runs)
    off = misses(claims, right)
    print(name, f"held {held.mean():.3f}, {count.mean():.1f} classes; off", [f"{100 * miss:+.0f}" for miss, _ in off])
    assert held.mean() >= 0.93
    assert all(miss >= -0.06 - 2 * error for miss, error in off)


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
