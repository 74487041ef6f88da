"""Which class is worst? Attack all classes a little and go on only with those that may still be it.

Anytime-valid: the answer may be read after every round, and the race stopped whenever one likes, without the error
growing. Two questions: which class is worst on this test set, whose images are drawn without replacement, so that the
answer is certain when all are drawn; and which is worst in the population that they were drawn from, where images that
run out end in "undecided". Images that are wrong as they are need no attack.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import betaln, xlog1py, xlogy

from leastwise.statistics.accuracy import CONFIDENCE, Bounds, ClassCounts, ClassValues
from leastwise.statistics.bets import (
    ClassState,
    add_logs,
    bet_on_side,
    place_bets,
    settle_bets,
    weigh_opponents,
)

PRIOR = 8.0  # images that a guess is worth before a class was attacked; 4 and 10 took 7 % more and no fewer images
BATCH = 5
MOST_TO_ONE = 8  # images of a class that are held against one of a class which runs out
BISECTIONS = 50

Question = Literal["this-test-set", "population"]
DrawOutcomes = Callable[[Mapping[int, int]], Mapping[int, "np.ndarray"]]
ClassClean = Sequence[Bool[np.ndarray, " _"]]  # by class, in the order of drawing: which images are right as they are


@dataclass(frozen=True)
class RaceAim:
    """What a race is to find: the `top` worst classes, or which classes lie `below` an accuracy."""

    recipe_name: ClassVar[str] = "RaceAim"

    question: Question = "this-test-set"
    top: int = 1
    below: float | None = None
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if self.top < 1:
            raise ValueError(f"a race finds at least 1 class, but saw {self.top}")
        if self.below is not None and not 0 < self.below < 1:
            raise ValueError(f"a threshold is an accuracy between 0 and 1, but saw {self.below:g}: 20 % are 0.2")
        if self.below is not None and self.top != 1:
            raise ValueError("a race has a number of classes or a threshold to find, not both")
        if not 0.5 < self.confidence < 1:
            raise ValueError(f"the confidence must lie between 0.5 and 1, but saw {self.confidence:g}")


@dataclass(frozen=True, eq=False)
class Round:
    """The race so far."""

    seen: ClassCounts  # images whose outcome is known, attacked or not
    attacked: ClassCounts
    survived: ClassCounts
    left: ClassCounts  # images that can still be drawn
    contenders: tuple[int, ...]  # classes that may still be among the worst; or whose side is open
    dropped: tuple[tuple[int, int], ...] = ()  # this round's (class, a class it was found better than)
    settled: tuple[tuple[int, bool], ...] = ()  # this round's (class, whether it lies below the threshold)

    @property
    def spent(self) -> int:
        """Images attacked."""
        return int(self.attacked.sum())

    @property
    def worst(self) -> int | None:
        """The answer of a race to the worst class; None while undecided."""
        return self.contenders[0] if len(self.contenders) == 1 else None


def run_race(
    draw: DrawOutcomes, clean: ClassClean, aim: RaceAim, *, batch: int = BATCH, guess: ClassValues | None = None
) -> Iterator[Round]:
    """One round per batch, until the answer is there or nothing more can be named.

    `draw({class: count})` attacks the next `count` images of each class that are right as they are, and returns which
    survived. The images of a class must come in random order, and no image twice. `guess` is what the accuracies are
    expected to be: it only decides where is looked first and how bets are placed, so a bad one costs images and
    nothing else. It must not come from images of the race if the question is about the population.
    """
    book = RaceBook(clean, aim, guess)
    contenders = tuple(int(c) for c in np.flatnonzero(book.images > 0))
    if aim.below is not None and (sure := book.find_settled(np.array(contenders))):  # too many are wrong as they are
        contenders = tuple(c for c in contenders if c not in dict(sure))
        yield book.report(contenders, settled=sure)
    while not book.is_over(contenders):
        state = book.prepare_round(contenders, batch)
        wanted = book.count_attacks(contenders, state.drawn)
        found = draw({c: count for c, count in wanted.items() if count}) if any(wanted.values()) else {}
        for c, count in wanted.items():
            assert count == 0 or len(found[c]) == count, (
                "draw returned another number of outcomes than it was asked for"
            )
        right = np.array([int(found[c].sum()) if wanted[c] else 0 for c in contenders])
        settled, dropped = book.take_round(contenders, state, right, attacked=np.array(list(wanted.values())))
        gone = {c for c, _ in (*settled, *dropped)}
        contenders = tuple(c for c in contenders if c not in gone)
        yield book.report(contenders, dropped, settled=settled)


class RaceBook:
    """The accounts of a race: what was seen of every class, and the wealth of the bets on it."""

    def __init__(self, clean: ClassClean, aim: RaceAim, guess: ClassValues | None) -> None:
        self.aim, self.clean, k = aim, clean, len(clean)
        self.finite = aim.question == "this-test-set"
        self.images = np.array([len(some) for some in clean])
        self.able = np.array([int(some.sum()) for some in clean])  # images that an attack could still change
        self.drawable = self.able if self.finite else self.images
        self.seen, self.attacked, self.right = (np.zeros(k, dtype=np.int64) for _ in range(3))
        self.present = int((self.images > 0).sum())
        self.pairs = np.zeros((k, k))  # log wealth of every pair of classes
        self.wealth = np.zeros(k)  # of every class, against opponents of changing weights
        self.sides = np.zeros((2, k))  # against "at or above the threshold", and against "below it"
        self.guess = guess

    @property
    def left(self) -> ClassCounts:
        """Images of each class that can still be drawn."""
        return self.drawable - (self.attacked if self.finite else self.seen)

    def report(
        self,
        contenders: tuple[int, ...],
        dropped: tuple[tuple[int, int], ...] = (),
        *,
        settled: tuple[tuple[int, bool], ...] = (),
    ) -> Round:
        """The race so far, as a value."""
        counts = self.seen.copy(), self.attacked.copy(), self.right.copy(), self.left
        return Round(*counts, contenders, dropped, settled)

    @property
    def limit(self) -> float:
        """The log wealth at which a class leaves. A wrong answer drops one of the `top`, or misplaces any class."""
        chances = self.aim.top if self.aim.below is None else self.present
        return float(np.log(chances / (1 - self.aim.confidence)))

    def is_over(self, contenders: Sequence[int]) -> bool:
        """Whether the answer is there, or nothing more can be named."""
        some = np.array(contenders, dtype=int)
        if self.aim.below is not None:
            return not (self.left[some] > 0).any()
        if len(some) <= self.aim.top or not (self.left[some] > 0).any():
            return True
        # In a population a class without images cannot be held against another any more, so it stays to the end.
        return not self.finite and int((self.left[some] == 0).sum()) >= self.aim.top

    def expect(self, some: "np.ndarray") -> tuple["np.ndarray", "np.ndarray"]:
        """The share of right images expected of those that are open, and how many images that rests on."""
        n = (self.attacked if self.finite else self.seen)[some]
        pooled = (self.right.sum() + 1.0) / ((self.attacked if self.finite else self.seen).sum() + 2.0)
        start = np.full(len(some), pooled)
        if self.guess is not None:
            base = self.guess * self.images / np.maximum(self.able, 1) if self.finite else self.guess
            start = np.where(np.isnan(base[some]), pooled, np.clip(base[some], 0.02, 0.98))
        return (self.right[some] + PRIOR * start) / (n + PRIOR), n + PRIOR

    def prepare_round(self, contenders: Sequence[int], batch: int) -> ClassState:
        """What is known of the contenders, and how many images each draws next."""
        some = np.array(contenders)
        left, guess = self.left[some], self.expect(some)[0]
        times = np.ones(len(some), dtype=np.int64)
        scarce = int(left.argmin())
        if not self.finite and self.aim.below is None and 2 * left[scarce] <= self.images[some][scarce]:
            times = np.clip(left // max(1, int(left[scarce])), 1, MOST_TO_ONE)
        drawn = np.minimum(batch * times, left)
        if self.finite:
            return ClassState(self.right[some] / self.images[some], left / self.images[some], guess, drawn)
        return ClassState(np.zeros(len(some)), np.ones(len(some)), guess, drawn)

    def count_attacks(self, contenders: Sequence[int], drawn: "np.ndarray") -> dict[int, int]:
        """How many of the images that are drawn have to be attacked: those that are right as they are."""
        if self.finite:
            return {c: int(count) for c, count in zip(contenders, drawn, strict=True)}
        return {
            c: int(self.clean[c][self.seen[c] : self.seen[c] + count].sum())
            for c, count in zip(contenders, drawn, strict=True)
        }

    def take_round(
        self, contenders: Sequence[int], state: ClassState, right: "np.ndarray", *, attacked: "np.ndarray"
    ) -> tuple[tuple[tuple[int, bool], ...], tuple[tuple[int, int], ...]]:
        """Settle the bets of a round: who is placed below or above the threshold, and who leaves the race."""
        some = np.array(contenders)
        if self.aim.below is None:
            self.settle_pairs(some, state, right)
        else:
            self.settle_sides(some, state, right)
        self.seen[some] += state.drawn
        self.attacked[some] += attacked
        self.right[some] += right
        if self.aim.below is None:
            return (), self.find_dropped(some)
        return self.find_settled(some), ()

    def settle_pairs(self, some: "np.ndarray", state: ClassState, right: "np.ndarray") -> None:
        factors = settle_bets(place_bets(state), state, right)
        np.fill_diagonal(factors, 0.0)
        error = state.weight * np.sqrt(state.guess * (1 - state.guess) / self.expect(some)[1])
        self.wealth[some] += add_logs(weigh_opponents(state, error) + factors)
        self.pairs[np.ix_(some, some)] += factors

    def find_dropped(self, some: "np.ndarray") -> tuple[tuple[int, int], ...]:
        """Contenders found better than `top` others, and one of those that they were found better than."""
        top = self.aim.top
        pairs = self.pairs[some]
        if self.finite:
            pairs = np.where(self.is_surely_better(some), np.inf, pairs)
        pairs[np.arange(len(some)), some] = -np.inf
        pairs[:, self.images == 0] = -np.inf
        if top == 1:
            found = np.where(pairs.max(axis=1) == np.inf, np.inf, self.wealth[some])
        else:
            found = trim_and_average(pairs, top, self.present)
        gone = np.flatnonzero(found >= self.limit)
        spare = len(some) - top
        if len(gone) > spare:  # each of the rest would have to be better than the others
            gone = gone[np.argsort(-found[gone], kind="stable")[:spare]]
        return tuple((int(some[i]), int(pairs[i].argmax())) for i in sorted(gone))

    def is_surely_better(self, some: "np.ndarray") -> "np.ndarray":
        """Where even if all open images of the column survived the row would have more; in whole numbers."""
        least, most = self.right[some], self.right + self.left
        return least[:, None] * self.images[None, :] > most[None, :] * self.images[some][:, None]

    def count_needed(self, some: "np.ndarray") -> "np.ndarray":
        """How many images of a class must be right for it to reach the threshold."""
        assert self.aim.below is not None
        return np.ceil(self.aim.below * self.images[some] - 1e-9).astype(np.int64)

    def settle_sides(self, some: "np.ndarray", state: ClassState, right: "np.ndarray") -> None:
        assert self.aim.below is not None
        most = least = np.full(len(some), self.aim.below)
        if self.finite:
            left, open_ = self.count_needed(some) - self.right[some], np.maximum(self.left[some], 1)
            least, most = left / open_, (left - 1) / open_  # if it is not below, and if it is
        wrong = state.drawn - right
        self.sides[0, some] += bet_on_side(1 - least, 1 - state.guess, wrong, drawn=state.drawn)
        self.sides[1, some] += bet_on_side(most, state.guess, right, drawn=state.drawn)

    def find_settled(self, some: "np.ndarray") -> tuple[tuple[int, bool], ...]:
        """Classes whose side of the threshold is known now."""
        below, above = self.sides[:, some] >= self.limit
        if self.finite:
            needed = self.count_needed(some)
            surely_below, surely_above = self.right[some] + self.left[some] < needed, self.right[some] >= needed
            below, above = (below | surely_below) & ~surely_above, above & ~surely_below | surely_above
        return tuple((int(c), bool(b)) for c, b, a in zip(some, below, above, strict=True) if b != a)


def trim_and_average(pairs: Float[np.ndarray, "r k"], top: int, present: int) -> Float[np.ndarray, " r"]:
    """Log of the mean of each row's e-values without the `top` − 1 largest: evidence against "among the `top` worst".

    A class among the `top` worst is better than `top` − 1 others at most. Whichever these are, the mean of the rest is
    an e-process, and the mean without the largest is no larger.
    """
    kept = np.sort(pairs, axis=1)[:, : pairs.shape[1] - (top - 1)]
    return add_logs(kept) - np.log(max(1, present - top))


def replay_outcomes(outcomes: Sequence[Bool[np.ndarray, " _"]]) -> DrawOutcomes:
    """A `draw` that reads stored outcomes of the images that are right as they are, by class, in their order."""
    position = [0] * len(outcomes)

    def draw(wanted: Mapping[int, int]) -> dict[int, np.ndarray]:
        found = {}
        for c, count in wanted.items():
            found[c] = outcomes[c][position[c] : position[c] + count]
            position[c] += count
        return found

    return draw


def anytime_bounds(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> Bounds:
    """Intervals of the class accuracies that hold for all classes and after any number of images together.

    [0, 1] for a class without images: nothing is known of it yet.
    """
    return mixture_bounds(correct, n, float(np.log(max(1, int((n > 0).sum())) / (1 - confidence))))


def mixture_bounds(correct: ClassCounts, n: ClassCounts, limit: float) -> Bounds:
    """Robbins' uniform mixture: all p with log B(right + 1, wrong + 1) − log(p^right·(1−p)^wrong) < limit."""
    wrong = n - correct
    marginal = betaln(correct + 1, wrong + 1)

    def outside(p: "np.ndarray") -> "np.ndarray":
        return marginal - xlogy(correct, p) - xlog1py(wrong, -p) >= limit

    peak = np.where(n > 0, correct / np.maximum(n, 1), 0.5)
    return bisect_outwards(outside, peak, 0.0), bisect_outwards(outside, peak, 1.0)


def bisect_outwards(outside: Callable[["np.ndarray"], "np.ndarray"], inside: "np.ndarray", end: float) -> "np.ndarray":
    """Where `outside` begins on the way from `inside` to `end`; rounded outwards."""
    far = np.full(len(inside), end)
    with np.errstate(divide="ignore"):
        reached = outside(far)
        for _ in range(BISECTIONS):
            middle = (inside + far) / 2
            out = outside(middle)
            far, inside = np.where(out, middle, far), np.where(out, inside, middle)
    return np.where(reached, far, end)
