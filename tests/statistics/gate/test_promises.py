"""What gates promise, by simulation: wrong verdicts, power, repeated looks, few images, classes of unequal sizes."""

import numpy as np
import pytest

from leastwise.statistics.gate.falls import ClassFalls, bound_falls, estimate_largest_fall
from leastwise.statistics.gate.language import parse_term
from leastwise.statistics.gate.measures import Look, bound_measure, estimate_measure
from leastwise.statistics.gate.plan import judge_bounds
from leastwise.statistics.gate.scenario import GateScenario, images_for_gate

LIMIT = parse_term("drop(pgd20, BASE) <= 0.03")


def draw_falls(
    fall: "np.ndarray", disagreement: "np.ndarray", n: "np.ndarray", *, runs: int, paired: bool
) -> ClassFalls:
    """Falls of classes with given truths; unpaired, from an accuracy of one half."""
    rng = np.random.default_rng(0)
    if not paired:
        return ClassFalls(
            rng.binomial(n, 0.5 + fall / 2, (runs, len(n))),
            n,
            rng.binomial(n, 0.5 - fall / 2, (runs, len(n))),
            n,
            False,
        )
    lost, gained = (disagreement + fall) / 2, (disagreement - fall) / 2
    first = rng.binomial(n, lost, (runs, len(n)))
    return ClassFalls(first, n, rng.binomial(n - first, gained / (1 - lost)), n, True)


def verdicts(falls: ClassFalls, look: Look = Look(0.95)) -> tuple[float, float]:
    """How often `drop <= 0.03` passes and fails."""
    met, missed = judge_bounds(LIMIT, bound_falls(falls, look))
    return float(met.mean()), float(missed.mean())


def test_a_paired_drop_passes_when_nothing_fell_and_fails_when_one_class_did() -> None:
    """10 classes of 1,000 images, 5 % disagreement. Version 0.1 passed in 11 % of cases."""
    n, apart = np.full(10, 1000), np.full(10, 0.05)
    met, missed = verdicts(draw_falls(np.zeros(10), apart, n, runs=2000, paired=True))
    assert met >= 0.8 and missed <= 0.025
    fallen = np.where(np.arange(10) == 3, 0.06, 0.0)
    # Who falls by 6 points disagrees on 6 % at least: here 6.5 % are lost and 0.5 % gained.
    met, missed = verdicts(draw_falls(fallen, np.where(fallen > 0, 0.07, 0.05), n, runs=2000, paired=True))
    assert missed >= 0.8 and met <= 0.025


SIZES = {
    "two": np.full(2, 1000),
    "tiny": np.array([1, 2, 3, 4, 5]),
    "unequal": np.array([1, 30, 1000]),
    "fifty": np.full(50, 100),
    "thousand": np.full(1000, 50),
}


@pytest.mark.parametrize("anytime", [False, True])
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    "n", [pytest.param(n, id=k, marks=[pytest.mark.slow] * (len(n) > 9)) for k, n in SIZES.items()]
)
def test_wrong_verdicts_on_drops_are_rare(n: "np.ndarray", paired: bool, anytime: bool) -> None:
    """All classes at the limit, or one just beyond it and the others risen: 2.5 % a side at most."""
    runs, k = (40 if len(n) > 100 else 400), len(n)
    for disagreement in (0.06, 0.4):
        apart = np.full(k, disagreement)
        for fall, wrong in ((np.full(k, 0.03), 1), (np.where(np.arange(k) == 0, 0.0301, -0.02), 0)):
            rates = verdicts(draw_falls(fall, apart, n, runs=runs, paired=paired), Look(0.95, anytime))
            assert rates[wrong] <= 0.025 + 2 * np.sqrt(0.025 * 0.975 / runs)


def test_falls_that_are_certain_and_classes_that_are_missing() -> None:
    n = np.array([50, 0, 50])
    everything = ClassFalls(np.array([50, 0, 0]), n, np.array([0, 0, 0]), n, paired=True)
    found = estimate_largest_fall(everything, 0.95)
    assert found.index == 0 and found.value == found.high == 1.0 and found.low > 0.8
    nothing = ClassFalls(np.zeros(3, dtype=np.int64), n, np.zeros(3, dtype=np.int64), n, paired=True)
    found = estimate_largest_fall(nothing, 0.95)
    assert found.value == 0.0 and -0.2 < found.low < 0 < found.high < 0.1


TERMS = ("worst(c) >= 0.3", "overall(c) >= 0.5", "macro(c) >= 0.5", "gap(c) <= 0.4", "accuracy(a, c) >= 0.3")


@pytest.mark.parametrize("text", TERMS)
def test_an_anytime_gate_may_be_asked_again_and_again(text: str) -> None:
    """The truth lies on the limit; the gate is asked at 20, 40, 60, … 1,000 images and stops at the first verdict.

    A gate for one look errs in 9 % of such courses and more; the anytime one in 2.5 % a side at most.
    """
    term = parse_term(text)
    p = np.array([0.3, 0.5, 0.7, 0.5]) if term.measure != "accuracy" else np.array([0.3])
    courses = np.random.default_rng(0).random((300, len(p), 1000)) < p[:, None]
    wrong = {True: np.zeros(300, dtype=bool), False: np.zeros(300, dtype=bool)}
    for size in range(20, 1001, 20):
        correct, n = courses[..., :size].sum(-1), np.full(len(p), size)
        for anytime, seen in wrong.items():
            _, missed = judge_bounds(term, bound_measure(term.measure, correct, n, look=Look(0.95, anytime)))
            seen |= missed
    assert wrong[True].mean() <= 0.025
    if term.measure not in ("gap", "worst"):  # whose bounds allow for every class and are wide enough for both
        assert wrong[False].mean() > 0.05


@pytest.mark.parametrize("n", [1, 2, 5, 19, 60, 200])
@pytest.mark.parametrize("p", [0.0, 0.02, 0.5, 1.0])
def test_cv_errs_on_no_side_with_few_images(n: int, p: float) -> None:
    """Below 20 images a class the interval of 0.1 covered 70 to 93 %; two near classes of 80 images 92 %."""
    for k in (2, 10):
        truth = np.full(k, p)
        truth[0] = abs(p - 0.1)
        if n < 2:
            with pytest.raises(ValueError, match="two images each"):
                estimate_measure("cv", np.zeros(k, dtype=np.int64), np.full(k, n), confidence=0.95)
            continue
        runs = 300
        drawn = np.random.default_rng(0).binomial(n, truth, size=(runs, k))
        found = bound_measure("cv", drawn, np.full(k, n), look=Look(0.95))
        for missed in (found.low > truth.var() + 1e-12, found.high < truth.var() - 1e-12):
            assert missed.mean() <= 0.025 + 2 * np.sqrt(0.025 * 0.975 / runs)


@pytest.mark.parametrize("case", [(0.5, 0.5), (0.5, 0.52), (0.96, 0.96, 0.9), (0.9, 0.7)])
def test_cv_errs_on_no_side_with_few_classes(case: tuple[float, ...]) -> None:
    """Two classes at 50 and 52 %: the limit lay above the truth in 4.5 % of cases before its skewness was counted."""
    truth, n = np.array(case), np.array([60, 60, 400])[: len(case)]
    drawn = np.random.default_rng(7).binomial(n, truth, size=(400, len(case)))
    found = bound_measure("cv", drawn, n, look=Look(0.95))
    for missed in (found.low > truth.var() + 1e-12, found.high < truth.var() - 1e-12):
        assert missed.mean() <= 0.025 + 1.5 * np.sqrt(0.025 * 0.975 / 400)


def test_the_macro_interval_has_no_cliff() -> None:
    """One class of 999 images among 1,000s: version 0.1 widened the interval from 0.40 to 2.36 points."""
    even, odd = np.full(10, 1000), np.array([999] + [1000] * 9)
    correct = np.full(10, 990)
    widths = [(f := estimate_measure("macro", correct, n, confidence=0.95)).high - f.low for n in (even, odd)]
    assert widths[0] == pytest.approx(0.0040, abs=1e-4) and widths[1] == pytest.approx(widths[0], rel=0.02)


UNEQUAL = {
    "a pair": (1, 1000),
    "tiny": (1, 2, 3, 4, 5),
    "halves": (20, 20, 1000, 1000),
    "traffic signs": (60,) * 10 + (750,) * 10,
    "many": (2,) * 50 + (500,) * 50,
}


@pytest.mark.parametrize("sizes", UNEQUAL.values(), ids=UNEQUAL)
def test_the_macro_interval_covers_with_classes_of_unequal_sizes(sizes: tuple[int, ...]) -> None:
    n, runs = np.array(sizes), 1500
    large = n > np.median(n)
    for small, big in ((0.5, 0.5), (0.5, 1.0), (0.1, 0.0), (0.9, 1.0), (0.02, 0.98), (0.0, 1.0)):
        p = np.where(large, big, small)
        drawn = np.random.default_rng(0).binomial(n, p, size=(runs, len(n)))
        found = bound_measure("macro", drawn, n, look=Look(0.95))
        for missed in (found.low > p.mean() + 1e-9, found.high < p.mean() - 1e-9):
            assert missed.mean() <= 0.025 + 2.5 * np.sqrt(0.025 * 0.975 / runs)


@pytest.mark.parametrize("measure", ["worst", "macro", "gap", "drop"])
@pytest.mark.parametrize("anytime", [False, True])
def test_the_planner_names_images_that_decide(measure: str, anytime: bool) -> None:
    scenario = GateScenario(classes=5, accuracy=0.5, gap=0.3, disagreement=0.1)
    look = Look(0.95, anytime)
    needed = images_for_gate(measure, scenario, 0.1, power=0.8, look=look)
    assert needed is not None
    n, rng = np.full(5, needed), np.random.default_rng(5)
    if measure == "drop":
        found = bound_falls(draw_falls(np.zeros(5), np.full(5, 0.1), n, runs=400, paired=True), look)
        decided = found.high <= 0.1
    else:
        found = bound_measure(measure, rng.binomial(n, scenario.accuracies(), size=(400, 5)), n, look=look)
        decided = found.high <= 0.4 if measure == "gap" else found.low >= scenario.truth(measure) - 0.1
    assert 0.73 <= decided.mean() <= 0.88
