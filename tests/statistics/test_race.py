"""Races on replayed outcomes: right answers, savings, errors; and bounds that hold at every moment together."""

from collections.abc import Mapping

import numpy as np
import pytest
from scipy.special import betaln

from leastwise.statistics.race import RaceAim, Round, anytime_bounds, mixture_bounds, replay_outcomes, run_race
from tests.statistics.races_made_up import (
    CAT,
    POPULATION,
    SET,
    MakeOutcomes,
    Outcomes,
    draw_classes,
    finish,
    hundred,
    near_tie,
    read_resnet2b,
    run_races,
    shuffle,
    unbalanced,
)


def stored(rng: np.random.Generator) -> Outcomes:
    return shuffle(read_resnet2b(), rng)


def counted(images: list[int], right: list[int], survived: list[int]) -> MakeOutcomes:
    """Classes with known numbers of images that are right as they are, and that survive."""

    def make(rng: np.random.Generator) -> Outcomes:
        clean = [rng.permutation(np.arange(n) < a) for n, a in zip(images, right, strict=True)]
        return clean, [rng.permutation(np.arange(a) < s) for a, s in zip(right, survived, strict=True)]

    return make


@pytest.mark.parametrize(("aim", "most"), [(SET, 520), (POPULATION, 950)], ids=["set", "population"])
@pytest.mark.parametrize("runs", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_it_names_cat_with_a_twentieth_of_the_attacks(aim: RaceAim, most: int, runs: int) -> None:
    """What survived PGD-20 of a real network, all 10,000 test images, in random orders."""
    clean, survived = read_resnet2b()
    assert [int(c.sum()) for c in clean] == [773, 867, 507, 389, 551, 643, 843, 754, 831, 767]
    assert [int(s.sum()) for s in survived] == [663, 765, 368, 234, 362, 503, 732, 646, 737, 650]
    found = run_races(stored, runs, aim, truth=CAT)
    assert found.named >= 0.95 and found.wrong <= 0.05 and found.spent <= most


@pytest.mark.parametrize("runs", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_near_ties_many_classes_and_unequal_sizes_are_named_on_this_test_set(runs: int) -> None:
    assert run_races(near_tie, runs).named >= 0.95
    assert run_races(unbalanced, runs).named >= 0.95
    many = run_races(hundred, runs)
    assert many.named >= 0.9 and many.share <= 0.6


HARD = [
    counted([60, 60], [60, 60], [29, 30]),
    counted([60, 60], [58, 20], [19, 20]),
    counted([60, 60], [20, 58], [19, 20]),
    counted([40, 160], [40, 150], [19, 80]),
    counted([50] * 6, [50] * 6, [24, *[25] * 5]),
    counted([50] * 4, [50] * 4, [1, 2, 2, 2]),
]


@pytest.mark.parametrize("make", HARD[:3])
def test_one_image_less_is_seldom_missed_on_this_test_set(make: MakeOutcomes) -> None:
    found = run_races(make, 40)
    assert found.wrong <= 0.05 and found.named + found.wrong >= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("make", HARD)
def test_one_image_less_is_missed_in_one_race_of_twenty_at_most(make: MakeOutcomes) -> None:
    assert run_races(make, 1000).wrong <= 0.05


CLOSE = [(0.30, 0.30), (0.02, 0.03), (0.30, *[0.31] * 9), (0.5, 0.5, 0.5), (0.9, 0.91)]


@pytest.mark.parametrize("p", [*CLOSE[:2], *(pytest.param(p, marks=pytest.mark.slow) for p in CLOSE[2:])], ids=str)
def test_close_classes_of_a_population_are_seldom_named_wrongly(p: tuple[float, ...]) -> None:
    found = run_races(lambda rng: draw_classes([80] * len(p), p, rng), 40, POPULATION)
    assert found.wrong <= 0.05
    if len(set(p)) == 1:  # equal classes: naming any of them is wrong
        assert found.named <= 0.05


def test_unequal_sizes_in_a_population_are_named_or_the_race_stops() -> None:
    """Once a class has run out, nothing can be named any more; before, several images are held against one of it."""
    found = run_races(unbalanced, 10, POPULATION)
    assert found.named >= 0.7 and found.wrong == 0 and found.share < 0.4
    rng = np.random.default_rng(0)
    small = draw_classes((20, 2000, 2000), (0.5, 0.5, 0.5), rng)
    last = finish(small, POPULATION)
    assert last.worst is None and last.left.min() == 0 and last.spent < 400  # not all 4,020


@pytest.mark.parametrize("aim", [SET, POPULATION], ids=["set", "population"])
def test_each_round_is_consistent_and_spends_only_on_contenders(aim: RaceAim) -> None:
    rng = np.random.default_rng(0)
    sizes, right, survived = [400, 400, 90, 0, 400], [390, 240, 60, 0, 300], [360, 120, 30, 0, 240]
    clean, hits = counted(sizes, right, survived)(rng)
    asked = np.zeros(5, dtype=int)
    replay = replay_outcomes(hits)

    def draw(wanted: Mapping[int, int]) -> dict[int, "np.ndarray"]:
        for c, count in wanted.items():
            asked[c] += count
        return dict(replay(wanted))

    previous: Round | None = None
    for now in run_race(draw, clean, aim, batch=10):
        assert now.attacked.tolist() == asked.tolist() and now.spent == asked.sum()
        assert now.survived.tolist() == [int(h[:n].sum()) for h, n in zip(hits, now.attacked, strict=True)]
        if aim == POPULATION:
            assert now.attacked.tolist() == [int(c[:n].sum()) for c, n in zip(clean, now.seen, strict=True)]
        if previous:
            out = set(range(5)) - set(previous.contenders)
            assert all(now.attacked[c] == previous.attacked[c] for c in out)
            assert set(previous.contenders) - set(now.contenders) == {c for c, _ in now.dropped}
        previous = now
    assert previous is not None and 3 not in previous.contenders and {1, 2} & set(previous.contenders)


def test_a_tie_ends_as_a_tie() -> None:
    last = finish(counted([20, 20, 20], [20, 20, 20], [5, 5, 15])(np.random.default_rng(0)))
    assert last.contenders == (0, 1) and last.worst is None and last.left[[0, 1]].tolist() == [0, 0]


def test_the_three_worst_are_found_and_seldom_wrong() -> None:
    easy = counted([200] * 8, [200] * 8, [20, 25, 30, 120, 130, 150, 160, 170])
    hard = counted([40] * 5, [40] * 5, [10, 19, 20, 21, 30])
    rng = np.random.default_rng(0)
    found = [finish(easy(rng), RaceAim(top=3)) for _ in range(10)]
    assert all(f.contenders == (0, 1, 2) for f in found)
    assert np.mean([f.spent for f in found]) < 800
    wrong = [set(finish(hard(rng), RaceAim(top=3)).contenders) != {0, 1, 2} for _ in range(60)]
    assert np.mean(wrong) <= 0.05


@pytest.mark.parametrize("question", ["this-test-set", "population"])
def test_classes_are_placed_on_their_side_of_a_threshold(question: str) -> None:
    aim = RaceAim(question, below=0.2)  # type: ignore[arg-type]
    make = counted([500, 500, 500, 500], [60, 400, 500, 450], [30, 20, 300, 420])
    rng = np.random.default_rng(0)
    for _ in range(10):
        clean, hits = make(rng)
        rounds = list(run_race(replay_outcomes(hits), clean, aim))
        sides = dict(side for found in rounds for side in found.settled)
        assert sides == {0: True, 1: True, 2: False, 3: False}
        assert rounds[-1].contenders == () and rounds[-1].spent < 400
        if question == "this-test-set":  # 12 % are right as they are: no attack is needed to know
            assert rounds[-1].attacked[0] == 0


def test_classes_at_the_threshold_are_placed_exactly_on_this_test_set() -> None:
    aim = RaceAim(below=0.2)
    rng = np.random.default_rng(0)
    wrong = []
    for _ in range(60):
        clean, hits = counted([50] * 4, [45] * 4, [9, 10, 10, 11])(rng)
        rounds = list(run_race(replay_outcomes(hits), clean, aim))
        sides = dict(side for found in rounds for side in found.settled)
        assert set(sides) == {0, 1, 2, 3}  # certain when all are attacked
        wrong.append(sides != {0: True, 1: False, 2: False, 3: False})
    assert np.mean(wrong) <= 0.05


def test_a_guess_costs_or_saves_images_and_decides_nothing() -> None:
    clean, hits = read_resnet2b()
    truth = np.array([s.sum() / len(c) for c, s in zip(clean, hits, strict=True)])
    rng = np.random.default_rng(0)
    good: list[int] = []
    bad: list[int] = []
    for _ in range(8):
        some, more = shuffle((clean, hits), rng)
        for guess, spent in ((truth, good), (1 - truth, bad)):
            last = list(run_race(replay_outcomes(more), some, SET, guess=guess))[-1]
            assert last.worst == CAT
            spent.append(last.spent)
    assert np.mean(good) < np.mean(bad)


def test_a_race_without_rivals_is_over_before_it_starts() -> None:
    assert list(run_race(replay_outcomes([]), [np.ones(5, dtype=bool), np.ones(0, dtype=bool)], SET)) == []


def test_bad_aims_are_refused() -> None:
    for wrong, said in (
        ({"top": 0}, "at least 1 class"),
        ({"below": 20.0}, "20 % are 0.2"),
        ({"below": 0.2, "top": 2}, "not both"),
        ({"confidence": 1.0}, r"between 0\.5 and 1, but saw 1"),
    ):
        with pytest.raises(ValueError, match=said):
            RaceAim(**wrong)  # type: ignore[arg-type]


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
