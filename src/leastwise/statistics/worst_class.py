"""The worst class, without the winner's curse: the lowest of many noisy numbers is lower than the lowest true one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from leastwise.statistics.accuracy import (
    CONFIDENCE,
    AccuracyPosterior,
    ClassCounts,
    ClassPooling,
    ClassValues,
    draw_accuracies,
    infer_accuracies,
    lower_bound,
    sidak,
    upper_bound,
)
from leastwise.statistics.spread import worst_accuracy, worst_class

SPLITS = 64  # of the images into two halves; 256 move no end by more than 0.3 points

HalfCounts = Float[np.ndarray, "s k"]
RankWeights = Float[np.ndarray, " c"]  # of the present classes
OrderedKind = Literal["lowest", "spread"]  # weights that fall with the rank, or rise: chance lowers, or raises the sum


@dataclass(frozen=True)
class OrderedEstimate:
    """A sum over sorted classes. `low` to `high` covers the true one."""

    plug_in: float
    corrected: float  # without the bias of sorting, as far as simulation of it goes
    low: float
    high: float


def worst_weights(classes: int, mass: float) -> ClassValues:
    """Weights of the sorted classes in the mean of the worst `mass` of them, the last with its fraction."""
    return np.asarray(np.clip(mass - np.arange(classes), 0.0, 1.0) / mass)


def gini_weights(classes: int) -> ClassValues:
    """Weights of the sorted classes in Gini's coefficient, which is their sum over the mean."""
    return np.asarray((2 * np.arange(1, classes + 1) - classes - 1) / classes**2)


def estimate_worst_k(
    correct: ClassCounts, n: ClassCounts, k: int, *, confidence: float = CONFIDENCE
) -> OrderedEstimate:
    """Mean accuracy of the k worst classes (of all, if there are fewer)."""
    if k < 1:
        raise ValueError(f"the worst {k} classes have no mean: ask for at least one")
    present = int((n > 0).sum())
    return estimate_ordered(correct, n, worst_weights(present, float(min(k, present))), confidence=confidence)


def estimate_cvar(
    correct: ClassCounts, n: ClassCounts, share: float = 0.2, *, confidence: float = CONFIDENCE
) -> OrderedEstimate:
    """Mean accuracy of the worst `share` of classes (CFOL)."""
    if not 0 < share <= 1:
        raise ValueError(f"a share of classes lies in (0, 1], and {share} does not: 0.2 is the worst fifth")
    present = int((n > 0).sum())
    return estimate_ordered(correct, n, worst_weights(present, share * present), confidence=confidence)


def estimate_gini(correct: ClassCounts, n: ClassCounts, *, confidence: float = CONFIDENCE) -> OrderedEstimate:
    """Gini's coefficient of the class accuracies; NaN where nothing is right."""
    return estimate_ordered(correct, n, gini_weights(int((n > 0).sum())), kind="spread", confidence=confidence)


def estimate_ordered(
    correct: ClassCounts,
    n: ClassCounts,
    weights: RankWeights,
    *,
    kind: OrderedKind = "lowest",
    confidence: float = CONFIDENCE,
) -> OrderedEstimate:
    """Σ weights[rank]·accuracy over the present classes, lowest first; a "spread" is divided by the mean accuracy."""
    there = n > 0
    if not there.any():
        raise ValueError("no class has an image, so none is among the worst: audit at least one")
    order = np.lexsort((n[there], correct[there] / n[there]))  # so that luck does not depend on the order of classes
    k, m = correct[there][order], n[there][order]
    if kind == "spread" and not k.any():
        nan = float("nan")
        return OrderedEstimate(nan, nan, nan, nan)
    plug_in, by_half, low, high = bound_ordered(k, m, weights, kind=kind, confidence=confidence)
    corrected = plug_in - sorting_bias(k, m, weights, kind=kind)
    # On average the truth lies between the two orders; neither of them knows that it is a fraction.
    low_order, high_order = sorted((plug_in, by_half))
    corrected = min(max(corrected, low_order, 0.0), high_order, 1.0)
    return OrderedEstimate(plug_in, corrected, min(low, corrected), max(high, corrected))


def bound_ordered(
    correct: ClassCounts, n: ClassCounts, weights: ClassValues, *, kind: OrderedKind, confidence: float = CONFIDENCE
) -> tuple[float, float, float, float]:
    """The sum in the order of all images and in that of the first halves, and the ends of the interval around both."""
    a = correct / n
    scale = float(a.mean()) if kind == "spread" else 1.0
    smooth = (correct + 1) / (n + 2)  # one right and one wrong added: no class is without doubt
    v = smooth * (1 - smooth) / n
    sorted_weights = weights[a.argsort(kind="stable").argsort(kind="stable")]
    plug_in = float(sorted_weights @ a) / scale
    by_half, half_weights = sort_by_half(correct, n, weights, missing=1.0 if kind == "lowest" else float(a.mean()))
    by_half /= scale
    z = float(ndtri((1 + confidence) / 2))

    def error(w: "np.ndarray", value: float) -> float:
        """Standard error of a sum with weights `w`; the mean that divides a spread varies too."""
        slope = (w - value / len(a)) / scale if kind == "spread" else w
        return float(np.sqrt((np.atleast_2d(slope) ** 2).mean(0) @ v))

    near, far = error(sorted_weights, plug_in), error(half_weights, by_half)
    low, high = (plug_in - z * near, by_half + z * far) if kind == "lowest" else (by_half - z * far, plug_in + z * near)
    return plug_in, by_half, max(low, 0.0), min(high, 1.0)


def sort_by_half(
    correct: ClassCounts, n: ClassCounts, weights: ClassValues, *, missing: float
) -> tuple[float, HalfCounts]:
    """The sum over the second half of each class's images in the order of the first; and the weights in every split.

    A class of one image has nothing in one half: it is ranked by the mean of all, or counts with `missing`.
    """
    rng = np.random.default_rng(0)
    shape = (SPLITS, len(n))
    first = n // 2 + (n % 2) * (rng.random(shape) < 0.5)
    right = rng.hypergeometric(np.broadcast_to(correct, shape), np.broadcast_to(n - correct, shape), first)
    second = n - first
    order_by = np.where(first > 0, right / np.maximum(first, 1), correct.sum() / n.sum())
    ranks = (order_by + 1e-9 * rng.random(shape)).argsort(1).argsort(1)  # ties in any order
    value = np.where(second > 0, (correct - right) / np.maximum(second, 1), missing)
    given = weights[ranks]
    return float((given * value).sum(1).mean()), given


def sorting_bias(correct: ClassCounts, n: ClassCounts, weights: ClassValues, *, kind: OrderedKind) -> float:
    """What sorting by luck adds on average: simulated audits of likely true accuracies, minus those accuracies."""
    true = draw_accuracies(infer_accuracies(correct, n), draws=256)
    seen = np.random.default_rng(0).binomial(n, true) / n

    def total(a: "np.ndarray") -> "np.ndarray":
        sums = np.sort(a, axis=1) @ weights
        return np.asarray(sums / np.maximum(a.mean(1), 1e-12) if kind == "spread" else sums)

    return float((total(seen) - total(true)).mean())


@dataclass(frozen=True)
class WorstClass:
    """The lowest class accuracy. `low` to `high` covers the true minimum, whichever class has it."""

    index: int  # of the class that looks worst; the first of equals
    plug_in: float
    corrected: float  # plug-in minus its estimated selection bias; docs/guide/statistics.md says what bias is left
    low: float
    high: float
    confidence: float


def estimate_worst(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> WorstClass:
    """Plug-in, corrected estimate and interval of the true minimum over the present classes."""
    if not (n > 0).any():
        raise ValueError("no class has an image, so there is no worst class: audit at least one")
    present = np.flatnonzero(n > 0)
    k, m = correct[present], n[present]
    accuracy = k / m
    low, high = minimum_bounds(k, m, confidence)
    plug_in = float(worst_accuracy(accuracy))
    corrected = float(np.clip(estimate_worst_k(k, m, 1).corrected, low, high))
    return WorstClass(int(present[worst_class(accuracy)]), plug_in, corrected, low, high, confidence)


@dataclass(frozen=True)
class Discrepancy:
    """Best minus worst class (MCD). `low` to `high` covers the true difference, whichever classes make it."""

    plug_in: float
    corrected: float  # without what chance adds at both ends
    low: float
    high: float


def estimate_discrepancy(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> Discrepancy:
    """The best class is the one with the lowest share of mistakes; both ends share the error (Bonferroni)."""
    each = (1 + confidence) / 2
    lowest, fewest = estimate_worst(correct, n, each), estimate_worst(n - correct, n, each)
    return Discrepancy(
        1 - fewest.plug_in - lowest.plug_in,
        max(0.0, 1 - fewest.corrected - lowest.corrected),
        max(0.0, 1 - fewest.high - lowest.high),
        1 - fewest.low - lowest.low,
    )


def minimum_bounds(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Bounds of min p_c over classes that all have images, half of the error on each side.

    Lower: the least of the classes' own one-sided bounds, with nothing added for their number. It exceeds the true
    minimum only if the bound of the truly worst class does. Upper: the minimum lies below every p_c, hence
    below the least upper bound if all of them hold, so these share the error (Šidák).
    """
    tail = (1 + confidence) / 2
    return float(lower_bound(correct, n, tail).min()), float(upper_bound(correct, n, sidak(tail, len(n))).min())


BoundFunction = Callable[["np.ndarray", "np.ndarray", float], "np.ndarray"]


@dataclass(frozen=True)
class GameValue:
    """The worst expected cost; `low` to `high` covers the true maximum, whichever class or pair has it."""

    source: int
    target: int | None  # None when the attacker chooses only the source
    value: float
    low: float
    high: float


def mistake_game(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> GameValue:
    """The same where every mistake costs 1: it does not matter which class is taken for the true one."""
    costs = np.array([0.0, 1.0])
    rows = {int(c): (np.array([correct[c], n[c] - correct[c]]), costs) for c in np.flatnonzero(n > 0)}
    return play_rows(rows, confidence)


def play_rows(rows: Mapping[int, tuple["np.ndarray", "np.ndarray"]], confidence: float) -> GameValue:
    """The class that costs most, from counts of what happened to the images of each class and what each of it costs."""
    if not rows:
        raise ValueError("no class has an image, so the game has no value: audit at least one")
    tail = (1 + confidence) / 2
    each = sidak(tail, len(rows))
    means = {c: float(counts @ cost / counts.sum()) for c, (counts, cost) in rows.items()}
    source = max(means, key=lambda c: means[c])
    low = max(expected_cost(counts, cost, each, bound=lower_bound) for counts, cost in rows.values())
    high = max(expected_cost(counts, cost, tail, bound=upper_bound) for counts, cost in rows.values())
    return GameValue(source, None, means[source], low, high)


def expected_cost(counts: "np.ndarray", costs: "np.ndarray", confidence: float, *, bound: BoundFunction) -> float:
    """A bound of a class's expected cost, from bounds of the probabilities of costing at least so much."""
    levels = np.unique(costs)
    steps = np.diff(levels)
    at_least = np.array([counts[costs >= level].sum() for level in levels[1:]], dtype=np.int64)
    if not len(steps):
        return float(levels[0])
    each = 1 - (1 - confidence) / len(steps)
    return float(levels[0] + steps @ bound(at_least, np.full(len(steps), counts.sum()), each))


# Which class is the worst, and which place has each: with what all classes say of each other.

# Of the probability, for a set that holds the worst class in 95 of 100 audits: the probabilities are right within a few
# points only, and in simulations of 100 similar classes a set of 95 % held it 92 times.
HELD = 0.97


def weigh_worst(found: AccuracyPosterior) -> tuple[Float[np.ndarray, " c"], float]:
    """Each present class's probability of having the lowest accuracy, and the mean of the lowest accuracy.

    ∫ f_c(t)·Π_{d≠c} (1 − F_d(t)) dt on the grid, averaged over the priors. Classes in one cell share it evenly.
    """
    total, lowest = np.zeros(len(found.classes)), 0.0
    p = np.sin(found.angle) ** 2
    for prior in found.priors:
        weights = found.weights(prior)
        above = np.log1p(-np.minimum(weights.cumsum(1) - weights / 2, 1 - 1e-12))
        first = weights * np.exp(above.sum(0) - above)
        total += first.sum(1) / first.sum()
        lowest += float(first.sum(0) @ p / first.sum())
    return total / total.sum(), lowest / len(found.priors)


def probability_worst(correct: ClassCounts, n: ClassCounts) -> ClassValues:
    """Each class's posterior probability of having the lowest accuracy; NaN without images."""
    found = np.full(len(n), np.nan)
    if (n > 0).any():
        posterior = infer_accuracies(correct, n)
        found[posterior.classes] = weigh_worst(posterior)[0]
        # Classes of equal counts have equal chances; sums in another order may differ in the last digit.
        found = np.round(found, 12)
    return found


def range_worst(correct: ClassCounts, n: ClassCounts) -> tuple[ClassValues, ClassValues]:
    """The least and the most that each class's probability becomes with what nobody knows: how alike the classes are.

    They may be as alike as their counts allow, as alike as they show together (`probability_worst`), or not at all, so
    that each is judged by its own images.
    """
    low, high = np.full((2, len(n)), np.nan)
    if (n > 0).any():
        readings: tuple[ClassPooling, ...] = ("tied", "learned", "apart")
        found = np.stack([weigh_worst(infer_accuracies(correct, n, pooling))[0] for pooling in readings])
        classes = infer_accuracies(correct, n).classes
        low[classes], high[classes] = np.round(found.min(0), 12), np.round(found.max(0), 12)
    return low, high


def likely_worst(probability: ClassValues) -> tuple[int, ...]:
    """The likeliest worst classes, likeliest first: as few as hold the worst class in 95 of 100 audits."""
    known = np.nan_to_num(probability)
    order = np.argsort(-np.nan_to_num(probability, nan=-1.0), kind="stable")
    return tuple(int(c) for c in order[: int(np.searchsorted(known[order].cumsum(), HELD)) + 1])


@dataclass(frozen=True, eq=False)
class ClassRanks:
    """The rank of every class, 1 for the worst; NaN for classes without images."""

    mean: ClassValues
    low: ClassValues
    high: ClassValues  # `low` to `high` holds the true rank with the probability that was asked for


def estimate_ranks(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> ClassRanks:
    """Mean rank and credible interval of the rank of every class."""
    mean, low, high = (np.full(len(n), np.nan) for _ in range(3))
    there = n > 0
    if there.any():
        drawn = draw_accuracies(infer_accuracies(correct, n))
        ranks: Float[np.ndarray, "d c"] = 1.0 + drawn.argsort(1).argsort(1)
        mean[there] = ranks.mean(0)
        tail = (1 - confidence) / 2
        low[there] = np.quantile(ranks, tail, axis=0, method="lower")
        high[there] = np.quantile(ranks, 1 - tail, axis=0, method="higher")
    return ClassRanks(mean, low, high)
