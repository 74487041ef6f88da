"""Counts that add, and the class-wise numbers that follow from them.

A `Tally` is two counts per class and has `+`, so batches, shards and machines merge in any order.
A `ClassFrame` is a table of counts, conditions x classes. Fractions inside, percent at the edge. A
class without examples is missing (NaN), never 0 %.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from leastwise.core.types import Counts, Labels, Mask

PerCondition = Float[Tensor, " m"]


@dataclass(frozen=True, eq=False)
class Tally:
    """How many examples of each class were seen, and how many of them were right."""

    n: Counts
    correct: Counts

    @classmethod
    def empty(cls, k: int) -> "Tally":
        return cls(torch.zeros(k, dtype=torch.int64), torch.zeros(k, dtype=torch.int64))

    @classmethod
    def count(cls, y: Labels, hit: Mask, k: int) -> "Tally":
        y, hit = y.cpu(), hit.cpu()
        return cls(torch.bincount(y, minlength=k), torch.bincount(y[hit], minlength=k))

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.n + other.n, self.correct + other.correct)

    @property
    def accuracy(self) -> Float[Tensor, " k"]:
        """Fraction correct per class; NaN where there are no examples."""
        return self.correct.double() / self.n

    @property
    def overall(self) -> float:
        return int(self.correct.sum()) / n if (n := int(self.n.sum())) else float("nan")


@dataclass(frozen=True, eq=False)
class ClassFrame:
    """Counts by condition and class: `n` and `correct` are `[m k]`."""

    conditions: tuple[str, ...]
    names: tuple[str, ...]
    n: Int[Tensor, "m k"]
    correct: Int[Tensor, "m k"]

    @classmethod
    def of(cls, tallies: Mapping[str, Tally], names: tuple[str, ...]) -> "ClassFrame":
        return cls(
            tuple(tallies),
            names,
            torch.stack([t.n for t in tallies.values()]),
            torch.stack([t.correct for t in tallies.values()]),
        )

    def row(self, condition: str) -> int:
        return self.conditions.index(condition)

    @property
    def accuracy(self) -> Float[Tensor, "m k"]:
        return self.correct.double() / self.n

    @property
    def overall(self) -> PerCondition:
        """All examples alike (micro); what papers print as the total."""
        return self.correct.sum(1).double() / self.n.sum(1)

    @property
    def macro(self) -> PerCondition:
        """All classes alike: the mean of the class accuracies."""
        return self.accuracy.nanmean(dim=1)

    @property
    def worst(self) -> Int[Tensor, " m"]:
        """Index of the class with the lowest accuracy; the first of equals."""
        return self.accuracy.nan_to_num(nan=float("inf")).argmin(dim=1)

    @property
    def best(self) -> Int[Tensor, " m"]:
        """Index of the class with the highest accuracy; the first of equals."""
        return self.accuracy.nan_to_num(nan=float("-inf")).argmax(dim=1)

    @property
    def gap(self) -> PerCondition:
        """Best minus worst class accuracy: maximum class-wise discrepancy, MCD (Tian, Def. 4.2)."""
        a = self.accuracy
        return (a.gather(1, self.best[:, None]) - a.gather(1, self.worst[:, None])).squeeze(1)

    @property
    def variance(self) -> PerCondition:
        """Population variance of the class accuracies: CV (Tian, Def. 4.1), there in percent squared."""
        return (self.accuracy - self.macro[:, None]).square().nanmean(dim=1)

    @property
    def std(self) -> PerCondition:
        """Population standard deviation of the class accuracies."""
        return self.variance.sqrt()

    @property
    def deviation(self) -> Float[Tensor, "m k"]:
        """Class accuracy minus overall accuracy (Benz)."""
        return self.accuracy - self.overall[:, None]

    @property
    def similarity(self) -> Float[Tensor, "m m"]:
        """Cosine of the mean-subtracted class accuracies of every two rows (Benz): their Pearson correlation.

        The rows may be conditions of one model or models under one condition (see `beside`). Only
        classes present in both rows count; NaN where a row is constant, because it has no direction.
        """
        a = self.accuracy
        return torch.stack([torch.stack([centred_cosine(p, q) for q in a]) for p in a])

    def beside(self, other: "ClassFrame") -> "ClassFrame":
        """The rows of both frames in one, for comparing models over the same classes."""
        if self.names != other.names:
            raise ValueError("frames of different classes cannot stand beside each other: audit both on the same data")
        return ClassFrame(
            self.conditions + other.conditions,
            self.names,
            torch.cat([self.n, other.n]),
            torch.cat([self.correct, other.correct]),
        )


def centred_cosine(p: Float[Tensor, " k"], q: Float[Tensor, " k"]) -> Float[Tensor, ""]:
    """Pearson's correlation of two rows of class accuracies, over the classes that both have."""
    both = ~(p.isnan() | q.isnan())
    p, q = p[both] - p[both].mean(), q[both] - q[both].mean()
    # Equal accuracies leave rounding residue after the subtraction; it is not a direction.
    tiny = 1e-12
    p_norm, q_norm = p.norm(), q.norm()
    if not (p_norm > tiny and q_norm > tiny):
        return torch.tensor(float("nan"), dtype=p.dtype)
    return (p @ q) / (p_norm * q_norm)
