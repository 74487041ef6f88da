"""How sure a network is, class by class, and which images of a class it is surest of."""

import numpy as np
from jaxtyping import Float, Int

from leastwise.audit.evidence import Evidence
from leastwise.statistics.intervals import ClassValues


def class_mean(values: Float[np.ndarray, " n"], labels: Int[np.ndarray, " n"], k: int) -> ClassValues:
    """Mean over the images of each class; NaN without images."""
    n = np.bincount(labels, minlength=k)
    total = np.bincount(labels, weights=values.astype(np.float64), minlength=k)
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / n


def entropy(evidence: Evidence, condition: str) -> ClassValues:
    """Mean entropy of the outputs for each class, natural logarithm: at most ln k."""
    return class_mean(evidence.conditions[condition].entropy, evidence.labels, evidence.k)


def cvc(evidence: Evidence, condition: str) -> ClassValues:
    """Class-wise variance of confidence (Tian 2021, Def. 5.1): mean(‖p‖²)/k − 1/k², because p has the mean 1/k."""
    squared = class_mean(evidence.conditions[condition].p_squared, evidence.labels, evidence.k)
    return squared / evidence.k - 1 / evidence.k**2


def rank_by_confidence(evidence: Evidence, condition: str, cls: int) -> Int[np.ndarray, " m"]:
    """Ids of the images of a class by confidence in it under attack, surest first (Tian 2021, §6.2); ties by id."""
    if not 0 <= cls < evidence.k:
        raise ValueError(f"class {cls} is out of range: this evidence has classes 0 to {evidence.k - 1}")
    rows = np.flatnonzero(evidence.labels == cls)
    order = np.lexsort((evidence.ids[rows], -evidence.conditions[condition].p_true[rows]))
    return evidence.ids[rows[order]]


def find_extremes(
    evidence: Evidence, condition: str, cls: int, count: int
) -> tuple[Int[np.ndarray, " a"], Int[np.ndarray, " b"]]:
    """The ids of the most and of the least robust images of a class, each with the extreme one first.

    No image is in both, so a class of few images gives fewer than `count`.
    """
    order = rank_by_confidence(evidence, condition, cls)
    half = len(order) // 2
    return order[: min(count, len(order) - half)], order[::-1][: min(count, half)]
