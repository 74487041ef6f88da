"""Races on replayed outcomes: right answers, savings, errors; and bounds that hold at every moment together."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln

from leastwise.statistics.race import (
    PRIOR,
    Round,
    anytime_bounds,
    log_evidence_better,
    mixture_bounds,
    replay_outcomes,
    run_race,
)

CAT = 3
RESNET = np.array([0.663, 0.767, 0.367, 0.234, 0.365, 0.506, 0.732, 0.646, 0.737, 0.650])


def finish(outcomes: Sequence["np.ndarray"], batch: int = 25) -> Round:
    return list(run_race(replay_outcomes(outcomes), [len(o) for o in outcomes], batch))[-1]


def test_it_names_cat_with_a_third_of_the_attacks() -> None:
    """What survived PGD-20 of a real network, all 10,000 test images, in 200 random orders: 1,440 attacks on average.

    Made by the command in docs/results/audit.md.
    """
    rng = np.random.default_rng(0)
    kept = np.load(Path(__file__).with_name("resnet2b_pgd20.npz"))
    survived = np.unpackbits(kept["survived"]).astype(bool)
    stored = [survived[kept["labels"] == c] for c in range(10)]
    assert [round(float(o.mean()), 2) for o in stored] == pytest.approx(RESNET.tolist(), abs=0.011)
    found = [finish([rng.permutation(o) for o in stored]) for _ in range(200)]
    assert all(f.worst == CAT for f in found)
    assert max(f.spent for f in found) <= 10_000 / 3 and np.mean([f.spent for f in found]) < 1600


TWO_POINTS = [(0.30, 0.32), (0.30, *[0.32] * 9)]
MORE = [(0.30, 0.32, 0.34, 0.36), (0.02, 0.04), (0.5, 0.5, 0.5)]


@pytest.mark.parametrize("p", [*TWO_POINTS, *(pytest.param(p, marks=pytest.mark.medium) for p in MORE)], ids=str)
def test_classes_two_points_apart_are_seldom_named_wrongly(p: tuple[float, ...]) -> None:
    rng = np.random.default_rng(1)
    found = [finish([rng.random(1000) < one for one in p], 100).worst for _ in range(500)]
    allowed = {None, 0} if p[0] < p[1] else {None}
    assert np.mean([f not in allowed for f in found]) <= 0.05


def test_it_finds_two_points_when_there_are_images() -> None:
    rng = np.random.default_rng(0)
    found = [finish([rng.random(40_000) < p for p in (0.32, 0.30)], 500) for _ in range(50)]
    assert np.mean([f.worst == 1 for f in found]) >= 0.95


def test_each_round_is_consistent_and_spends_only_on_contenders() -> None:
    rng = np.random.default_rng(0)
    outcomes = [rng.random(size) < p for size, p in ((400, 0.9), (400, 0.3), (90, 0.35), (0, 0.5), (400, 0.6))]
    previous: Round | None = None
    for now in run_race(replay_outcomes(outcomes), [len(o) for o in outcomes], 40):
        assert now.correct.tolist() == [int(o[:n].sum()) for o, n in zip(outcomes, now.n, strict=True)]
        for c in range(5):
            for d in range(5):
                both = min(now.n[c], now.n[d])
                if c != d and both == max(now.n[c], now.n[d]):
                    assert now.wins[c, d] == (outcomes[c][:both] & ~outcomes[d][:both]).sum()
        if previous:
            out = set(range(5)) - set(previous.contenders)
            assert all(now.n[c] == previous.n[c] for c in out) and set(now.contenders) <= set(previous.contenders)
            assert set(previous.contenders) - set(now.contenders) == {c for c, _ in now.dropped}
        previous = now
    assert previous is not None and 3 not in previous.contenders
    assert previous.contenders == (1, 2) and previous.worst is None  # class 2 ran out of images: undecided
    assert previous.spent == previous.n.sum() < 1290


def test_a_race_without_rivals_is_over_before_it_starts() -> None:
    assert list(run_race(replay_outcomes([np.ones(5, dtype=bool), np.ones(0, dtype=bool)]), [5, 0])) == []


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (7, 2), (2, 7), (60, 30)])
def test_evidence_is_the_mixture_of_likelihood_ratios(wins: int, losses: int) -> None:
    """∫ over q > ½ of the prior times q^w (1−q)^l / 2^−(w+l), by numerical integration."""

    def integrand(q: float) -> float:
        prior = 2 * np.exp((PRIOR - 1) * np.log(q * (1 - q)) - betaln(PRIOR, PRIOR))
        return float(prior * (2 * q) ** wins * (2 * (1 - q)) ** losses)

    expected = quad(integrand, 0.5, 1)[0]
    assert log_evidence_better(np.array([wins]), np.array([losses]))[0] == pytest.approx(np.log(expected), abs=1e-6)


def test_evidence_seldom_ever_grows_when_the_classes_are_equal() -> None:
    """Ville: at most one path in twenty ever reaches 20, looked at after every pair."""
    rng = np.random.default_rng(0)
    steps = rng.random((2000, 800)) < 0.5
    wins = steps.cumsum(1)
    peak = log_evidence_better(wins, np.arange(1, 801) - wins).max(1)
    assert 0.002 < np.mean(peak >= np.log(20)) <= 0.05


@pytest.mark.parametrize("p", [0.02, 0.3, 0.9])
def test_bounds_hold_at_every_moment_for_all_classes(p: float) -> None:
    rng = np.random.default_rng(0)
    moments = np.unique(np.geomspace(1, 2000, 40).astype(int))
    races, classes = 300, 5
    correct = (rng.random((races, classes, 2000)) < p).cumsum(2)[..., moments - 1]
    n = np.broadcast_to(moments, correct.shape).ravel()
    low, high = mixture_bounds(correct.ravel(), n, float(np.log(classes / 0.05)))
    missed = ((low > p) | (high < p)).reshape(correct.shape).any((1, 2))
    assert missed.mean() <= 0.05


def test_bounds_solve_their_equation() -> None:
    correct, n = np.array([0, 30, 50, 0]), np.array([40, 100, 50, 0])
    low, high = anytime_bounds(correct, n, 0.9)
    assert (low[0], high[2], low[3], high[3]) == (0.0, 1.0, 0.0, 1.0)
    for p in (low[1], high[1]):
        ratio = betaln(31, 71) - 30 * np.log(p) - 70 * np.log(1 - p)
        assert ratio == pytest.approx(np.log(3 / 0.1), abs=1e-6)
    assert low[1] < 0.3 < high[1] and high[0] < 0.3 and low[2] > 0.7
