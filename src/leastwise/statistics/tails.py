"""The worst k classes, the worst share of classes, Gini: sums over *sorted* classes, without the luck in the sorting.

Sorting noisy accuracies puts unlucky classes first: the observed sum over the worst ones is too low on average. Sorting
by one half of the images and summing the other half errs the other way, since it may sum the wrong classes, but with no
luck in it. The truth lies between the two on average; the interval runs from the one to the other, and 1.96 standard
errors beyond both. This needs no prior and holds for equal classes too.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from leastwise.statistics.intervals import CONFIDENCE, ClassCounts, ClassValues
from leastwise.statistics.posterior import draw_accuracies, infer_accuracies

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
