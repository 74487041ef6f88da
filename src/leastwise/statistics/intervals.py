"""Intervals for proportions, one at a time and all classes together; and two classes against each other.

Wilson is for display; exact (Clopper-Pearson) wherever a decision hangs on it, because Wilson's
coverage dips near 0, which is where weak classes live (to 84 % at n = 100 and p = 0.0018).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import betaincinv, gammaln, ndtri

CONFIDENCE = 0.95

AnyCounts = Int[np.ndarray, "..."]
Bounds = tuple[Float[np.ndarray, "..."], Float[np.ndarray, "*shape"]]
ClassCounts = Int[np.ndarray, " k"]
ClassValues = Float[np.ndarray, " k"]
Hits = Bool[np.ndarray, " n"]  # which images were right
OneRun = Bool[np.ndarray, " _"]  # the same, of one of several models


def wilson_interval(correct: AnyCounts, n: AnyCounts, confidence: float = CONFIDENCE) -> Bounds:
    """Wilson's score interval for a proportion; NaN where n is 0."""
    z = ndtri((1 + confidence) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = correct / n
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * np.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
        # The ends are exactly 0 and 1 at none and all; rounding would leave 1e-17 there.
        low = np.where(correct == 0, 0.0, centre - half)
        high = np.where(correct == n, 1.0, centre + half)
    return np.where(n > 0, low, np.nan), np.where(n > 0, high, np.nan)


def exact_interval(correct: AnyCounts, n: AnyCounts, confidence: float = CONFIDENCE) -> Bounds:
    """Clopper and Pearson's interval: covers at least `confidence` whatever the proportion; NaN where n is 0."""
    one_sided = (1 + confidence) / 2
    return lower_bound(correct, n, one_sided), upper_bound(correct, n, one_sided)


def lower_bound(correct: AnyCounts, n: AnyCounts, confidence: float = CONFIDENCE) -> Float[np.ndarray, "..."]:
    """Exact one-sided bound: the proportion is at least this; NaN where n is 0."""
    low = np.where(correct == 0, 0.0, betaincinv(np.maximum(correct, 1), n - correct + 1, 1 - confidence))
    return np.where(n > 0, low, np.nan)


def upper_bound(correct: AnyCounts, n: AnyCounts, confidence: float = CONFIDENCE) -> Float[np.ndarray, "..."]:
    """Exact one-sided bound: the proportion is at most this; NaN where n is 0."""
    wrong = n - correct
    high = np.where(wrong == 0, 1.0, betaincinv(correct + 1, np.maximum(wrong, 1), confidence))
    return np.where(n > 0, high, np.nan)


def sidak(confidence: float, count: int) -> float:
    """The confidence each of `count` independent bounds needs so that all hold together: c^(1/count)."""
    return float(confidence ** (1 / max(count, 1)))


def simultaneous_intervals(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> Bounds:
    """Exact intervals that hold for all present classes together; NaN for classes without examples.

    Classes share no image, so Šidák's product rule holds with equality and nothing is given away to Bonferroni.
    """
    return exact_interval(correct, n, sidak(confidence, int((n > 0).sum())))


CELLS = 1_000_000  # hypergeometric terms held at a time: 8 MB for each of a few arrays


@dataclass(frozen=True, eq=False)
class Ranking:
    """Classes from worst to best, and which of them cannot be told apart."""

    order: tuple[int, ...]  # present classes, lowest accuracy first
    adjusted: Float[np.ndarray, "k k"]  # Holm-adjusted p-value of every two classes; NaN without images
    groups: tuple[tuple[int, ...], ...]  # classes of which no two differ significantly; may overlap


def compare_two_classes(
    a_correct: AnyCounts, a_n: AnyCounts, *, b_correct: AnyCounts, b_n: AnyCounts
) -> Float[np.ndarray, "..."]:
    """Two-sided p-value of equal accuracy: Fisher's exact test, twice the smaller tail.

    Its level is at most what it says at any sizes. Mid-P, which counts half of the observed table, has more power and
    reaches 5.7 % at 50 images each.
    """
    tables = np.stack(np.broadcast_arrays(a_correct, a_n, b_correct, b_n), axis=-1)
    # Classes of few images repeat the same tables: 1,000 classes of 50 have half a million pairs, 2,601 tables at most.
    distinct, place = np.unique(tables.reshape(-1, 4), axis=0, return_inverse=True)
    size = max(1, CELLS // (int(distinct[:, [0, 2]].max(initial=0)) + 1))
    parts = [fisher_test(distinct[at : at + size]) for at in range(0, len(distinct), size)]
    return np.concatenate([np.empty(0), *parts])[place.ravel()].reshape(tables.shape[:-1])


def fisher_test(tables: Int[np.ndarray, "m 4"]) -> Float[np.ndarray, " m"]:
    """Given all right answers, those of the class that did worse are hypergeometric: twice the lower tail."""
    a, a_n, b, b_n = tables.T
    swap = a * b_n > b * a_n
    a, a_n, b, b_n = np.where(swap, (b, b_n, a, a_n), (a, a_n, b, b_n))
    right = a + b
    terms = np.arange(int(a.max()) + 1)
    others = right[:, None] - terms
    possible = (terms <= a[:, None]) & (others <= b_n[:, None])
    log_factorial = gammaln(np.arange(int((a_n + b_n).max()) + 1) + 1.0)

    def log_choose(n: "np.ndarray", k: "np.ndarray") -> "np.ndarray":
        k = np.clip(k, 0, n)
        return log_factorial[n] - log_factorial[k] - log_factorial[n - k]

    logs = log_choose(a_n[:, None], terms) + log_choose(b_n[:, None], others)
    tail = np.where(possible, np.exp(logs - log_choose(a_n + b_n, right)[:, None]), 0.0).sum(1)
    return np.minimum(1.0, 2 * tail)


def adjust_holm(p: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Holm's adjusted p-values; NaN (no test) stays NaN and does not count."""
    adjusted = np.full(len(p), np.nan)
    valid = np.flatnonzero(~np.isnan(p))
    order = valid[np.argsort(p[valid], kind="stable")]
    scaled = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted


def rank_classes(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> Ranking:
    """All pairs tested and Holm-corrected, and the tests as groups (a compact letter display).

    Two classes that differ significantly share no group, two that do not share at least one, whatever their sizes. With
    very unequal sizes a group may pass over a class between two of its members that differs from one of them.
    """
    present = np.flatnonzero(n > 0)
    order = present[np.argsort(correct[present] / n[present], kind="stable")]
    i, j = np.triu_indices(len(order), 1)
    a, b = order[i], order[j]
    adjusted = np.full((len(n), len(n)), np.nan)
    adjusted[a, b] = adjusted[b, a] = adjust_holm(compare_two_classes(correct[a], n[a], b_correct=correct[b], b_n=n[b]))
    differs = adjusted[np.ix_(order, order)] <= 1 - confidence  # NaN on the diagonal compares as False
    groups = tuple(tuple(int(c) for c in order[list(group)]) for group in find_groups(differs))
    return Ranking(tuple(map(int, order)), adjusted, groups)


def find_groups(differs: "np.ndarray") -> list[tuple[int, ...]]:
    """Sets in which nothing differs, as large as they get, so many that every pair which does not differ is in one."""
    found: dict[tuple[int, ...], None] = {}
    apart = differs.copy()  # or already together
    for first in range(len(differs)):
        while True:
            alone = not found or not any(first in group for group in found)
            partners = np.flatnonzero(~apart[first])
            partners = partners[partners > first]
            if not len(partners) and not alone:
                break
            group = grow_group([first, *partners[:1].tolist()], differs)
            found[group] = None
            apart[np.ix_(group, group)] = True
    return sorted(found)


def grow_group(members: list[int], differs: "np.ndarray") -> tuple[int, ...]:
    """Add whoever differs from no member, the nearest in rank first."""
    free = np.asarray(~differs[members].any(0))
    free[members] = False
    places = np.arange(len(differs))
    away = np.abs(places[:, None] - np.array(members)).min(1)
    while free.any():
        others = np.flatnonzero(free)
        nearest = int(others[away[others].argmin()])
        members = [*members, nearest]
        away = np.minimum(away, np.abs(places - nearest))
        free &= ~differs[nearest]
        free[nearest] = False
    return tuple(sorted(members))
