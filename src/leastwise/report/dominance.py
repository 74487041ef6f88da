"""Whether one side of a comparison is surely no better than another: what chance could have done does not count."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float

from leastwise.core.counts import Tally
from leastwise.statistics.accuracy import CONFIDENCE, compare_paired
from leastwise.statistics.seeds import compare_groups, find_dominated
from leastwise.statistics.worst_class import minimum_bounds

SideHits = Mapping[str, Sequence[Bool[np.ndarray, " _"]]]  # which images each training got right, by condition


def surely_dominated(
    scores: Float[np.ndarray, "m s"], hits: Sequence[SideHits], worst: Sequence[Sequence[Tally]]
) -> list[bool]:
    """Which sides another one equals or beats in every score, and beats in one beyond chance.

    `hits` are of the conditions whose overall accuracies are scores, `worst` the tallies of the trainings of each side
    whose worst class is the last score. Of two equally good sides one is called dominated in at most 5 of 100 cases.
    """
    sides = range(len(scores))
    return [
        any(
            find_dominated(scores[[one, other]])[0]
            and beats_surely((hits[one], worst[one]), (hits[other], worst[other]), rivals=len(scores) - 1)
            for other in sides
            if other != one
        )
        for one in sides
    ]


def beats_surely(
    one: tuple[SideHits, Sequence[Tally]], other: tuple[SideHits, Sequence[Tally]], *, rivals: int
) -> bool:
    """Whether `other` is better in an overall accuracy or in its worst class, corrected for how many are looked at."""
    level = (1 - CONFIDENCE) / (rivals * (len(one[0]) + 1))
    for condition, a in one[0].items():
        b = other[0][condition]
        if len(a) == len(b) == 1:
            found = compare_paired(a[0], b[0])
            if found.difference > 0 and found.p <= level:
                return True
        elif compare_groups(a, b, 1 - level).low > 0:
            return True
    if len(one[1]) == len(other[1]) == 1:  # the worst class of another training has no interval
        low, high = (present_bounds(side[1][0], 1 - level) for side in (other, one))
        return low[0] > high[1]
    return False


def present_bounds(tally: Tally, confidence: float) -> tuple[float, float]:
    """Bounds of the lowest true accuracy."""
    correct, n = tally.correct.numpy(), tally.n.numpy()
    return minimum_bounds(correct[n > 0], n[n > 0], confidence)
