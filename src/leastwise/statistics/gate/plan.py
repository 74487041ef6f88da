"""How many images decide a gate with 80 % power, by drawing results: for every measure, for one look or any number."""

from collections.abc import Callable
from math import ceil

import numpy as np

from leastwise.statistics.accuracy import ClassCounts
from leastwise.statistics.gate.falls import ClassFalls, bound_falls
from leastwise.statistics.gate.language import GateTerm
from leastwise.statistics.gate.measures import Look, MeasureBounds, bound_measure

POWER = 0.8
MOST_IMAGES = 10_000_000  # per class; a gate that would need more is not decided by more images
DRAWS = 300  # of 10 classes; the share that decides is known to ± 2.3 points
LEAST_DRAWS, MOST_CELLS = 60, 6_000
SLOW_DRAWS = 80  # of a measure whose bounds are found one result at a time
STEP = 1.02  # how close the number of images is bracketed

DecidedShare = Callable[[float], float]  # of results on so many times the images


def judge_bounds(term: GateTerm, found: MeasureBounds) -> tuple["np.ndarray", "np.ndarray"]:
    """Where the whole interval meets the demand, and where none of it does."""
    t = term.threshold
    return {
        ">=": (found.low >= t, found.high < t),
        ">": (found.low > t, found.high <= t),
        "<=": (found.high <= t, found.low > t),
        "<": (found.high < t, found.low >= t),
    }[term.comparison]


def draw_count(classes: int, measure: str = "") -> int:
    """How many results are drawn: fewer of many classes, or a gate on 1,000 classes would take a minute."""
    return SLOW_DRAWS if measure == "cv" else max(LEAST_DRAWS, min(DRAWS, MOST_CELLS // max(classes, 1)))


def share_decided(term: GateTerm, correct: ClassCounts, n: ClassCounts, *, look: Look) -> DecidedShare:
    """If the accuracies seen are the true ones, how often so many times the images decide."""
    some = n > 0
    p, sizes = correct[some] / n[some], n[some]

    def share(times: float) -> float:
        more = np.ceil(sizes * times).astype(np.int64)
        drawn = np.random.default_rng(0).binomial(more, p, size=(draw_count(len(p), term.measure), len(p)))
        met, missed = judge_bounds(term, bound_measure(term.measure, drawn, more, look=look))
        return float((met | missed).mean())

    return share


def share_of_falls(term: GateTerm, falls: ClassFalls, *, look: Look) -> DecidedShare:
    """The same for a drop."""
    some = falls.pick(falls.present())

    def share(times: float) -> float:
        drawn = some.redraw(times, draw_count(len(some.first_n)), 0)
        met, missed = judge_bounds(term, bound_falls(drawn, look))
        return float((met | missed).mean())

    return share


def images_for_power(decided: DecidedShare, size: int, *, power: float = POWER) -> int | None:
    """The size of the largest class at which a share `power` of results decides: doubling, then bisection."""
    short, enough = 1.0, 2.0
    while decided(enough) < power:
        short, enough = enough, 2 * enough
        if size * enough > MOST_IMAGES:
            return None
    while enough / short > STEP and ceil(size * short) < ceil(size * enough) - 1:
        middle = float(np.sqrt(short * enough))
        short, enough = (short, middle) if decided(middle) >= power else (middle, enough)
    return ceil(size * enough)
