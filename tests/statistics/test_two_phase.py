"""Two phases: exact coverage by enumeration, plans that keep what they promise, replays of stored evidence."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import hypergeom

from leastwise.audit.evidence import load_evidence
from leastwise.statistics.two_phase import (
    TwoPhaseCounts,
    bound_survivors,
    sample_for_budget,
    sample_for_width,
)
from tests.statistics.phases_replayed import LITE, replay_autoattack


@pytest.mark.parametrize(("m", "everyone"), [(1, 9), (5, 12), (10, 30), (29, 30), (7, 60)])
def test_intervals_cover_whatever_the_truth(m: int, everyone: int) -> None:
    bounds = [bound_survivors(r, m, everyone, confidence=0.95) for r in range(m + 1)]
    for truth in range(everyone + 1):
        inside = [low <= truth <= high for low, high in bounds]
        chance = hypergeom.pmf(np.arange(m + 1), everyone, truth, m)
        assert chance @ np.array(inside) >= 0.95
    for r, (low, high) in enumerate(bounds):  # no longer than the tests at both ends demand
        if low > r:
            assert hypergeom.sf(r - 1, everyone, low - 1, m) <= 0.025 < hypergeom.sf(r - 1, everyone, low, m)
        if high < everyone - (m - r):
            assert hypergeom.cdf(r, everyone, high + 1, m) <= 0.025 < hypergeom.cdf(r, everyone, high, m)


def test_nothing_is_left_to_chance_when_all_are_tried() -> None:
    images, survivors = np.array([50, 40, 0, 30]), np.array([20, 40, 0, 0])
    survived = np.array([13, 40, 0, 0])
    counts = TwoPhaseCounts(images, survivors, survivors, survived)
    low, high = counts.bounds()
    present = images > 0
    assert low[present].tolist() == high[present].tolist() == (survived / np.maximum(images, 1))[present].tolist()
    assert counts.accuracy[present].tolist() == low[present].tolist() and np.isnan(low[2])


def test_all_classes_are_covered_together() -> None:
    rng = np.random.default_rng(0)
    images, survivors, truth = np.full(20, 100), np.full(20, 40), np.full(20, 25)
    drawn = np.full(20, 15)
    inside = []
    for _ in range(60):
        survived = rng.hypergeometric(truth, survivors - truth, drawn)
        low, high = TwoPhaseCounts(images, survivors, drawn, survived).bounds()
        inside.append(((low <= truth / images) & (truth / images <= high)).all())
    assert np.mean(inside) >= 0.95


def test_a_planned_width_is_kept_whatever_is_found() -> None:
    survivors, images = np.array([60, 30, 5, 0]), np.array([100, 100, 100, 100])
    drawn = sample_for_width(0.2, survivors, images, confidence=0.95)
    each = 0.95 ** (1 / 3)
    for c in range(3):
        for r in range(drawn[c] + 1):
            low, high = bound_survivors(r, int(drawn[c]), int(survivors[c]), confidence=each)
            assert (high - low) / images[c] <= 0.2 + 1e-9
    assert drawn[3] == 0 and (drawn <= survivors).all() and drawn[0] > drawn[1] > drawn[2] > 0
    fewer = drawn[0] - 1
    low, high = bound_survivors(int(fewer) // 2, int(fewer), 60, confidence=each)
    assert high - low > 20


def test_a_budget_is_used_and_not_exceeded() -> None:
    survivors, images = np.array([60, 30, 5, 0]), np.array([100, 100, 100, 100])
    for most in (3, 20, 60, 94):
        drawn = sample_for_budget(most, survivors, images, confidence=0.95)
        assert drawn.sum() == most and (drawn <= survivors).all() and (drawn[:3] >= 1).all()
    assert sample_for_budget(95, survivors, images, confidence=0.95).tolist() == survivors.tolist()
    with pytest.raises(ValueError, match="leaves the second phase 2 images, but 3 classes have survivors"):
        sample_for_budget(2, survivors, images, confidence=0.95)
    with pytest.raises(ValueError, match=r"10 points are 0\.1"):
        sample_for_width(10.0, survivors, images, confidence=0.95)


@pytest.mark.parametrize("name", [LITE[0], *(pytest.param(name, marks=pytest.mark.slow) for name in LITE[1:])])
def test_two_phases_find_what_the_whole_of_autoattack_found_for_two_fifths_of_it(name: str) -> None:
    folder = Path(__file__).parents[2] / "results" / "lite" / "audits" / name
    found = replay_autoattack(load_evidence(folder), budget=0.4, runs=50)
    assert found.cost <= 0.4 and found.inside >= 0.9
