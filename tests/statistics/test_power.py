"""Numbers of images against the exact power of the tests they are for."""

import numpy as np
import pytest
from scipy import stats

from leastwise.statistics.accuracy import exact_interval
from leastwise.statistics.power import (
    images_against_threshold,
    images_between_classes,
    images_in_race,
    images_in_second_phase,
    images_on_same_images,
)
from leastwise.statistics.spread import compare_two_classes
from leastwise.statistics.two_phase import bound_survivors
from tests.statistics.races_made_up import POPULATION, draw_classes, finish


@pytest.mark.parametrize(("p", "difference"), [(0.3, 0.1), (0.3, -0.1), (0.2, 0.2), (0.5, 0.15), (0.02, 0.1)])
def test_between_classes(p: float, difference: float) -> None:
    n = images_between_classes(p, difference)
    counts = np.arange(n + 1)
    weight = stats.binom.pmf(counts[:, None], n, p) * stats.binom.pmf(counts, n, p + difference)
    x, y = np.nonzero(weight > 1e-9)
    rejected = compare_two_classes(x, np.full_like(x, n), b_correct=y, b_n=np.full_like(y, n)) <= 0.05
    assert 0.79 <= weight[x, y][rejected].sum() <= 0.85


@pytest.mark.parametrize(("difference", "disagreement"), [(0.03, 0.1), (-0.05, 0.2), (0.1, 0.15), (0.02, 0.05)])
def test_same_images(difference: float, disagreement: float) -> None:
    n = images_on_same_images(difference, disagreement)
    power = 0.0
    for m in range(n + 1):
        if (chance := stats.binom.pmf(m, n, disagreement)) > 1e-7:
            gained = np.arange(m + 1)
            p = 2 * stats.binom.cdf(np.minimum(gained, m - gained), m, 0.5)
            share = (disagreement + difference) / 2 / disagreement
            power += chance * stats.binom.pmf(gained, m, share)[p <= 0.05].sum()
    assert 0.78 <= power <= 0.84


@pytest.mark.parametrize(("p", "threshold"), [(0.3, 0.25), (0.234, 0.25), (0.9, 0.95), (0.02, 0.05), (0.1, 0.05)])
def test_against_threshold(p: float, threshold: float) -> None:
    n = images_against_threshold(p, threshold)
    counts = np.arange(n + 1)
    low, high = exact_interval(counts, np.full(n + 1, n))
    cleared = low > threshold if p > threshold else high < threshold
    assert 0.75 <= stats.binom.pmf(counts, n, p)[cleared].sum() <= 0.89


def test_the_textbook_formula_before_the_correction() -> None:
    """0.5 against 0.6 at 80 %: 387.3 images each (Fleiss, with 1.96 and 0.8416), plus 2/0.1."""
    assert images_between_classes(0.5, 0.1) == pytest.approx(387.3 + 20, abs=1.5)


def test_more_tests_more_power_or_less_difference_need_more_images() -> None:
    assert (
        images_between_classes(0.3, 0.03, tests=10)
        > images_between_classes(0.3, 0.03)
        > images_between_classes(0.3, 0.04)
    )
    assert (
        images_on_same_images(0.03, 0.1, power=0.9)
        > images_on_same_images(0.03, 0.1)
        > images_on_same_images(0.03, 0.1, confidence=0.9)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: images_between_classes(0.3, 0.0), "smallest that matters"),
        (lambda: images_between_classes(30.0, 3.0), "fractions in"),
        (lambda: images_between_classes(0.9, 0.2), "1.1 is not"),
        (lambda: images_on_same_images(0.1, 0.05), "raise the disagreement"),
        (lambda: images_against_threshold(0.3, 0.2, power=1.0), "between 0 and 1"),
    ],
)
def test_refusals(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("p", "difference"), [(0.3, 0.3), (0.6, 0.25)])
def test_a_race_of_that_length_names_the_worse_class(p: float, difference: float) -> None:
    """A plan, held against races: the images it asks for give about the power it promises, a third of them less."""
    rng = np.random.default_rng(0)
    n = images_in_race(p, difference)
    long, short = (
        np.mean(
            [finish(draw_classes((some, some), (p, p + difference), rng), POPULATION).worst == 0 for _ in range(30)]
        )
        for some in (n, n // 3)
    )
    assert long >= 0.75 and short < long


def test_the_second_phase_is_planned_as_it_is_judged() -> None:
    n = images_in_second_phase(0.1, 0.6, 200)
    low, high = bound_survivors(n // 2, n, 120, confidence=0.95)
    assert high - low <= 20 and images_in_second_phase(0.1, 0.6, 200, tests=10) > n
    assert images_in_second_phase(1e-6, 0.6, 200) == 120  # no chance is left when all are tried
    with pytest.raises(ValueError, match="images and a share"):
        images_in_second_phase(0.1, 0.6, 0)
