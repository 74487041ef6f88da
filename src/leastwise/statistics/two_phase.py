"""A cheap attack on all images, an expensive one on a random sample of its survivors: what is known of each class.

Of a class of N images M survived the first phase, which is known exactly. Of these m were drawn at random for the
second phase, and r survived it. How many of all M would have survived is then inside an exact interval: r is
hypergeometric. With m = M nothing is left to chance, and the interval is one number.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, ndtri

from leastwise.statistics.accuracy import CONFIDENCE, ClassCounts, ClassValues, sidak

LEAST = (
    0.8  # of the passes that an attack takes at most, what a survivor of its first member takes on average; 0.85 seen
)


@dataclass(frozen=True, eq=False)
class TwoPhaseCounts:
    """Of each class: all images, survivors of the first phase, those drawn for the second, and survivors of both."""

    images: ClassCounts
    survivors: ClassCounts
    drawn: ClassCounts
    survived: ClassCounts

    @property
    def accuracy(self) -> ClassValues:
        """The accuracy that the sample lets expect; NaN for a class without images."""
        kept = self.survived / np.maximum(self.drawn, 1) * self.survivors
        return np.where(self.images > 0, kept / np.maximum(self.images, 1), np.nan)

    def bounds(self, confidence: float = CONFIDENCE) -> tuple[ClassValues, ClassValues]:
        """Intervals of what the second phase would find on all images of this set, for all classes together."""
        each = sidak(confidence, int((self.drawn < self.survivors).sum()))
        low, high = np.full((2, len(self.images)), np.nan)
        for c in np.flatnonzero(self.images > 0):
            found = bound_survivors(int(self.survived[c]), int(self.drawn[c]), int(self.survivors[c]), confidence=each)
            low[c], high[c] = np.array(found) / self.images[c]
        return low, high


def bound_survivors(r: int, m: int, all_: int, *, confidence: float) -> tuple[int, int]:
    """The numbers of survivors among `all_` images that r survivors among m drawn ones do not contradict.

    Each end is tested with half of the error: the tails P(X ≥ r) and P(X ≤ r) of a hypergeometric X.
    """
    error, least, most = (1 - confidence) / 2, r, all_ - (m - r)
    seen = min(max(round(r / max(1, m) * all_), least), most)  # both tails are large where the sample is typical
    ends = []
    for outside, x in ((least - 1, np.arange(r, m + 1)), (most + 1, np.arange(r + 1))):
        inside = seen
        while abs(outside - inside) > 1:
            middle = (inside + outside) // 2
            likely = tail_probability(x, m, middle, all_=all_) > error
            inside, outside = (middle, outside) if likely else (inside, middle)
        ends.append(inside)
    return ends[0], ends[1]


def tail_probability(x: "np.ndarray", m: int, right: int, *, all_: int) -> float:
    """The probability that one of the numbers x of m images, drawn of `all_`, is among `right`."""
    x = x[(x <= right) & (m - x <= all_ - right)]
    logs = log_choose(right, x) + log_choose(all_ - right, m - x) - log_choose(all_, np.array(m))
    return float(np.exp(logs).sum())


def log_choose(n: int, k: "np.ndarray") -> "np.ndarray":
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def widest_interval(m: int, survivors: int, images: int, *, confidence: float) -> float:
    """How wide the interval of a class becomes at most, as a share of its images: where half of the sample survives."""
    low, high = bound_survivors(m // 2, m, survivors, confidence=confidence)
    return (high - low) / images


def sample_for_width(width: float, survivors: ClassCounts, images: ClassCounts, *, confidence: float) -> ClassCounts:
    """The fewest images of each class whose interval is no wider than `width`, whatever the second phase finds."""
    if not 0 < width < 1:
        raise ValueError(f"a width is a share between 0 and 1, but saw {width:g}: 10 points are 0.1")
    each = sidak(confidence, int((survivors > 0).sum()))
    found = np.zeros(len(survivors), dtype=np.int64)
    for c in np.flatnonzero(survivors > 0):
        few, enough = 0, int(survivors[c])
        while enough - few > 1:  # `few` are too few, `enough` are enough
            middle = (few + enough) // 2
            wide = widest_interval(middle, int(survivors[c]), int(images[c]), confidence=each)
            few, enough = (middle, enough) if wide > width else (few, middle)
        found[c] = enough
    return found


def images_for_budget(budget: float, before: int, after: int, *, survivors: int) -> int:
    """How many survivors a share `budget` of all passes is enough for.

    `before` were spent on the first phase, `after` is what a survivor of both costs. Those that fall in the second
    cost less, so the first phase is a larger part of the whole than `after` says: that is allowed for.
    """
    each = LEAST * after
    return int((budget * (before + each * survivors) - before) / each)


def sample_for_budget(most: int, survivors: ClassCounts, images: ClassCounts, *, confidence: float) -> ClassCounts:
    """At most so many images in all, such that the widest interval of a class is as narrow as that allows."""
    present = int((survivors > 0).sum())
    if most < present:
        raise ValueError(
            f"the budget leaves the second phase {max(0, most)} images, but {present} classes have survivors: raise it"
        )
    if most >= survivors.sum():
        return survivors.astype(np.int64)
    z = float(ndtri((1 + sidak(confidence, present)) / 2))
    wide, narrow = 2.0, 0.0
    for _ in range(40):
        middle = (wide + narrow) / 2
        enough = spread_sample(middle * images / z, survivors).sum() <= most
        wide, narrow = (middle, narrow) if enough else (wide, middle)
    found = np.minimum(spread_sample(wide * images / z, survivors).astype(np.int64), survivors)
    for c in np.argsort(-survivors, kind="stable"):  # what rounding left over
        more = min(int(survivors[c] - found[c]), most - int(found.sum()))
        found[c] += max(0, more) if survivors[c] else 0
    return found


def spread_sample(width: ClassValues, survivors: ClassCounts) -> ClassValues:
    """Images for intervals of so many images and standard errors, by the normal approximation: this is only a plan."""
    ratio = width / np.maximum(survivors, 1)
    return np.where(survivors > 0, np.maximum(1, survivors / (1 + ratio**2 * np.maximum(survivors - 1, 0))), 0)
