"""The largest fall of any class against an earlier result: paired image by image where both know them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from scipy.special import ndtri

from leastwise.statistics.accuracy import ClassCounts, lower_paired, sidak, upper_paired
from leastwise.statistics.differences import anytime_upper_paired, lower_difference, upper_difference
from leastwise.statistics.gate.measures import GateEstimate, Look, MeasureBounds, ever

FallCounts = Int[np.ndarray, "*rows k"]


@dataclass(frozen=True, eq=False)
class ClassFalls:
    """What each class lost: first/first_n − second/second_n.

    Unpaired these are the accuracies before and after; paired, the shares of the same images that were right only
    before and only after.
    """

    first: FallCounts
    first_n: ClassCounts
    second: FallCounts
    second_n: ClassCounts
    paired: bool

    @property
    def size(self) -> int:
        """Images of the largest class."""
        return int(max(self.first_n.max(), self.second_n.max()))

    def present(self) -> Int[np.ndarray, " p"]:
        """Classes with images before and after."""
        found = np.flatnonzero((self.first_n > 0) & (self.second_n > 0))
        if not len(found):
            raise ValueError("the two results share no class with images: compare audits of the same data")
        return found

    def pick(self, classes: "np.ndarray") -> "ClassFalls":
        """The same of some classes."""
        return ClassFalls(
            self.first[..., classes],
            self.first_n[classes],
            self.second[..., classes],
            self.second_n[classes],
            paired=self.paired,
        )

    def redraw(self, times: float, rows: int, seed: int) -> "ClassFalls":
        """Many results on `times` as many images, if the shares seen are the true ones."""
        rng = np.random.default_rng(seed)
        more, second_more = (np.ceil(n * times).astype(np.int64) for n in (self.first_n, self.second_n))
        shape = (rows, len(more))
        p, q = self.first / np.maximum(self.first_n, 1), self.second / np.maximum(self.second_n, 1)
        first = rng.binomial(more, p, size=shape)
        if not self.paired:
            return ClassFalls(first, more, rng.binomial(second_more, q, size=shape), second_more, paired=False)
        left = np.divide(q, 1 - p, out=np.zeros_like(q), where=p < 1)
        return ClassFalls(first, more, rng.binomial(more - first, np.minimum(left, 1.0)), more, paired=True)


def bound_falls(falls: ClassFalls, look: Look) -> MeasureBounds:
    """The largest fall of classes that all have images, negative if all rose.

    Above it fails only if the bound of the class that truly fell most does, so each class has the whole error of
    the side; below all must hold, and they share it (Šidák: classes share no image).
    """
    value = falls.first / falls.first_n - falls.second / falls.second_n
    every = sidak(look.tail, len(falls.first_n))
    if look.anytime:
        high, low = ever_above(falls, look.tail), -ever_above(swap_falls(falls), every)
    elif falls.paired:
        high = upper_paired(falls.first, falls.second, falls.first_n, confidence=look.tail)
        low = lower_paired(falls.first, falls.second, falls.first_n, confidence=every)
    else:
        y, y_n = falls.second, falls.second_n
        high = upper_difference(falls.first, falls.first_n, y=y, y_n=y_n, confidence=look.tail)
        low = lower_difference(falls.first, falls.first_n, y=y, y_n=y_n, confidence=every)
    return MeasureBounds(value.max(-1), low.max(-1), high.max(-1))


def swap_falls(falls: ClassFalls) -> ClassFalls:
    """The same seen from the later result: what each class gained."""
    return ClassFalls(falls.second, falls.second_n, falls.first, falls.first_n, paired=falls.paired)


def ever_above(falls: ClassFalls, confidence: float) -> "np.ndarray":
    """Bounds above of each class's fall that hold after any number of images together."""
    if falls.paired:
        sizes = np.broadcast_to(falls.first_n, falls.first.shape)
        return anytime_upper_paired(falls.first, falls.second, sizes, confidence=confidence)
    each = (1 + confidence) / 2
    return ever(falls.first, falls.first_n, each)[1] - ever(falls.second, falls.second_n, each)[0]


def estimate_largest_fall(falls: ClassFalls, confidence: float, *, anytime: bool = False) -> GateEstimate:
    """The largest fall of any class with an interval, and which class it is."""
    present = falls.present()
    some = falls.pick(present)
    row = ClassFalls(some.first[None], some.first_n, some.second[None], some.second_n, paired=some.paired)
    found = bound_falls(row, Look(confidence, anytime))
    seen = some.first / some.first_n - some.second / some.second_n
    return GateEstimate(float(found.value[0]), float(found.low[0]), float(found.high[0]), int(present[seen.argmax()]))


def visible_fall(falls: ClassFalls, limit: float, *, confidence: float) -> float:
    """About how far one class must truly fall for an unpaired `drop <= limit` to fail in 80 % of cases."""
    some = falls.pick(falls.present())
    p, q = some.first / some.first_n, some.second / some.second_n
    error = float(np.sqrt(p * (1 - p) / some.first_n + q * (1 - q) / some.second_n).max())
    z = float(ndtri(sidak((1 + confidence) / 2, len(some.first_n)))) + float(ndtri(0.8))
    return limit + z * error
