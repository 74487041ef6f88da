"""Averages of the weights along the training. An average moves by a share towards the present weights, or stays.

BatchNorm's running statistics are averaged with the weights (as in CFA's code), unless an averaging says
`fresh_statistics`: then they are measured anew with the averaged weights.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from leastwise.core.contract import Contract
from leastwise.training.base import Epoch
from leastwise.training.choices import AveragingInterval


class Averaging(Contract):
    """How the average of the weights follows the training."""

    every: AveragingInterval = "epoch"  # after which it may move
    fresh_statistics: ClassVar[bool] = False  # whether BatchNorm's statistics are measured anew with it
    needs_validation: ClassVar[bool] = False  # images; without them a training is refused

    @abstractmethod
    def share(self, count: int, progress: float, tails: tuple[float, ...]) -> float | None:
        """How far the average goes towards the present weights; None: it stays.

        `count` is how often it moved before, `progress` the share of the training that is done, and `tails` what `tail`
        said after each validated epoch so far.
        """

    def tail(self, seen: Epoch) -> float:
        """How the weakest classes do on the validation images after an epoch."""
        return worst_tenth(seen)


@dataclass(frozen=True)
class EMA(Averaging):
    """θ̄ = decay · θ̄ + (1 - decay) · θ after every epoch (or step), from the share `start` of the training on."""

    recipe_name: ClassVar[str] = "EMA"

    decay: float = 0.85
    start: float = 0.25
    every: AveragingInterval = "epoch"

    def share(self, count: int, progress: float, tails: tuple[float, ...]) -> float | None:
        return None if progress < self.start else 1 - self.decay if count else 1.0


@dataclass(frozen=True)
class SWA(Averaging):
    """The plain mean of the weights after every epoch from `start` on (Izmailov et al., UAI 2018)."""

    recipe_name: ClassVar[str] = "SWA"

    start: float = 0.5
    every: AveragingInterval = "epoch"
    fresh_statistics: ClassVar[bool] = True

    def share(self, count: int, progress: float, tails: tuple[float, ...]) -> float | None:
        return None if progress < self.start else 1 / (count + 1)


@dataclass(frozen=True)
class FAWA(Averaging):
    """EMA that skips epochs after which the worst class does badly on the validation images (Wei et al., CVPR 2023).

    The paper has `threshold` 0.2 and begins at epoch 50 of 200; its code 0.24 from the start, decay 0.88. With 100
    classes the worst is near 0 and no fixed number works; a threshold that is never met leaves no average, and the
    checkpoint says so. Without a threshold (the default) an epoch passes if the mean of the worst tenth of the classes,
    which is the worst class of ten, is not below its median so far.
    """

    recipe_name: ClassVar[str] = "FAWA"

    decay: float = 0.85
    threshold: float | None = None
    start: float = 0.25
    needs_validation: ClassVar[bool] = True

    def share(self, count: int, progress: float, tails: tuple[float, ...]) -> float | None:
        bound = lower_median(tails) if self.threshold is None else self.threshold
        passes = bool(tails) and tails[-1] >= bound
        return EMA(self.decay, self.start).share(count, progress, tails) if passes else None

    def tail(self, seen: Epoch) -> float:
        """A threshold is for the worst class, however many there are."""
        return worst_tenth(seen) if self.threshold is None else worst_class(seen)


AVERAGINGS: dict[str, Averaging] = {"ema": EMA(), "swa": SWA(), "fawa": FAWA()}


def find_averaging(name: str) -> Averaging:
    """The averaging of this name with its default settings."""
    if name not in AVERAGINGS:
        raise ValueError(f"there is no averaging {name!r}: choose {', '.join(AVERAGINGS)}")
    return AVERAGINGS[name]


def worst_tenth(seen: Epoch) -> float:
    """Mean validation accuracy under attack of the worst tenth of the classes; of ten classes, the worst."""
    present = sorted_accuracies(seen)
    worst = present[: math.ceil(len(present) / 10)]
    return sum(worst) / len(worst) if worst else math.nan


def worst_class(seen: Epoch) -> float:
    """Validation accuracy under attack of the worst class."""
    return min(sorted_accuracies(seen), default=math.nan)


def sorted_accuracies(seen: Epoch) -> list[float]:
    """Validation accuracies under attack of the classes that have images, lowest first; none without a validation."""
    return [] if seen.valid is None else sorted(a for a in seen.valid.attacked.accuracy.tolist() if a == a)


def lower_median(values: tuple[float, ...]) -> float:
    """The lower middle one."""
    return sorted(values)[(len(values) - 1) // 2] if values else math.inf
