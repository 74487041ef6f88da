"""Training seen class by class: which classes converge, which fluctuate, and which overfit (Ahn)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from leastwise.core.counts import Tally
from leastwise.statistics.accuracy import ClassValues

LAST = 0.2  # the share of a training that counts as its end


@dataclass(frozen=True, eq=False)
class Convergence:
    """How the accuracy of each class on the training images ended. Ahn names no statistic; these three are ours."""

    final: ClassValues  # mean over the last epochs
    wobble: ClassValues  # standard deviation over the last epochs, their straight trend removed
    mean: ClassValues  # over all epochs: how early a class was learnt


def measure_convergence(epochs: Sequence[Tally], last: float = LAST) -> Convergence:
    """How each class ended, from the tallies of all epochs."""
    accuracy = stack_epochs(epochs)
    end = accuracy[-max(1, round(last * len(accuracy))) :]
    return Convergence(end.mean(0), (end - fit_trend(end)).std(0), accuracy.mean(0))


def fit_trend(values: Float[np.ndarray, "e k"]) -> Float[np.ndarray, "e k"]:
    """The least-squares line through each column: a class still rising does not wobble for that."""
    t = np.arange(len(values)) - (len(values) - 1) / 2
    slope = t @ values / max(float(t @ t), 1.0)
    return values.mean(0) + np.outer(t, slope)


@dataclass(frozen=True, eq=False)
class Overfitting:
    """Robust overfitting by class, in accuracy. Each `epoch` counts from 0."""

    epoch: int  # where the test accuracy over all classes (their mean) was highest
    lost: ClassValues  # test accuracy at that epoch minus at the end
    own_epoch: "np.ndarray"  # where each class was best
    own_lost: ClassValues  # from a class's own best: never negative, and larger than 0 by chance alone
    gap: ClassValues  # training minus test accuracy at the end


def measure_overfitting(train: Sequence[Tally], test: Sequence[Tally]) -> Overfitting:
    """What each class lost, from tallies of the same epochs; both must be attacked with the same radius."""
    if len(train) != len(test):
        raise ValueError(f"both curves need the same epochs, but have {len(train)} and {len(test)}")
    fitted, tested = stack_epochs(train), stack_epochs(test)
    best = int(np.nanmean(tested, axis=1).argmax())
    own = np.where(np.isnan(tested), -np.inf, tested).argmax(0)
    own_best = np.take_along_axis(tested, own[None], axis=0)[0]
    return Overfitting(best, tested[best] - tested[-1], own, own_best - tested[-1], fitted[-1] - tested[-1])


def stack_epochs(epochs: Sequence[Tally]) -> Float[np.ndarray, "e k"]:
    """Class accuracies, a row per epoch."""
    if not epochs:
        raise ValueError("there are no epochs to look at: record class accuracies while training")
    return np.stack([tally.accuracy.numpy() for tally in epochs])
