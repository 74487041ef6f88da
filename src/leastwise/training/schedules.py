"""Learning rates as functions of progress: 0 at the first step, 1 after the last."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from leastwise.core.contract import Contract


class Schedule(Contract):
    """The learning rate as a function of progress."""

    @abstractmethod
    def rate(self, progress: float) -> float:
        """The rate at a share of the training, between 0 and 1."""


@dataclass(frozen=True)
class Constant(Schedule):
    """The same rate throughout."""

    recipe_name: ClassVar[str] = "Constant"

    value: float = 0.1

    def __post_init__(self) -> None:
        check_rate(self.value)

    def rate(self, progress: float) -> float:
        return self.value


@dataclass(frozen=True)
class OneCycle(Schedule):
    """Linear up to the peak, then linear down to zero (Smith 2018); the cyclic schedule of fast AT with one cycle."""

    recipe_name: ClassVar[str] = "OneCycle"

    peak: float = 0.2
    warmup: float = 0.3  # share of the training spent going up

    def __post_init__(self) -> None:
        if not (self.peak > 0 and 0 < self.warmup < 1):
            raise ValueError(f"the learning rate must be positive and the warm-up a share, but saw {self}")

    def rate(self, progress: float) -> float:
        if progress < self.warmup:
            return self.peak * progress / self.warmup
        return self.peak * (1 - progress) / (1 - self.warmup)


@dataclass(frozen=True)
class Cyclic(Schedule):
    """Triangles between `low` and `peak`, `cycles` of them."""

    recipe_name: ClassVar[str] = "Cyclic"

    peak: float = 0.2
    low: float = 0.0
    cycles: int = 2

    def __post_init__(self) -> None:
        check_rate(self.peak)
        if self.cycles < 1 or not 0 <= self.low <= self.peak:
            raise ValueError(f"cycles must be 1 or more and 0 <= low <= peak, but saw {self}")

    def rate(self, progress: float) -> float:
        place = 2 * (progress * self.cycles % 1)
        return self.low + (self.peak - self.low) * min(place, 2 - place)


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from the peak down to zero."""

    recipe_name: ClassVar[str] = "Cosine"

    peak: float = 0.1

    def __post_init__(self) -> None:
        check_rate(self.peak)

    def rate(self, progress: float) -> float:
        return self.peak * (1 + math.cos(math.pi * progress)) / 2


@dataclass(frozen=True)
class Steps(Schedule):
    """The rate is divided by `factor` at each of some shares of the training: (0.5, 0.75) is 100 and 150 of 200."""

    recipe_name: ClassVar[str] = "Steps"

    peak: float = 0.1
    at: tuple[float, ...] = (0.5, 0.75)
    factor: float = 10.0

    def __post_init__(self) -> None:
        check_rate(self.peak)
        if not (self.factor > 0 and all(0 < share <= 1 for share in self.at)):
            raise ValueError(f"drops lie at shares of the training, between 0 and 1, but saw {self}")

    def rate(self, progress: float) -> float:
        return self.peak / self.factor ** sum(progress >= share for share in self.at)


@dataclass(frozen=True)
class Piecewise(Schedule):
    """Straight lines between (share of the training, rate)."""

    recipe_name: ClassVar[str] = "Piecewise"

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        shares = [share for share, _ in self.points]
        if len(shares) < 2 or shares[0] != 0 or shares[-1] != 1 or any(a >= b for a, b in pairwise(shares)):
            raise ValueError(f"a schedule of straight lines needs rising shares from 0 to 1, but saw {shares}")

    def rate(self, progress: float) -> float:
        for (a, low), (b, high) in pairwise(self.points):
            if progress <= b:
                return low + (high - low) * (progress - a) / (b - a)
        return self.points[-1][1]


def check_rate(rate: float) -> None:
    """Refuse a rate that is not positive."""
    if not rate > 0:
        raise ValueError(f"the learning rate must be positive, but saw {rate}")


# By name; those of papers are what their released code does, in shares of its epochs. Code that counts epochs from 1
# and says `epoch >= 75` takes its 75th epoch at the lower rate: 74 epochs come before the drop.
SCHEDULES: dict[str, Schedule] = {
    "one-cycle": OneCycle(),
    "cosine": Cosine(),
    "constant": Constant(),
    "cyclic": Cyclic(),
    "steps": Steps(),
    "trades": Steps(at=(74 / 76,)),  # 76 epochs; the drops at 90 and 100 are never reached
    "mart": Steps(0.01, at=(74 / 120, 89 / 120, 99 / 120)),
    "wat": Steps(at=(0.75, 0.9)),
    "dafa": Steps(at=(99 / 110, 104 / 110)),
    "faal": Steps(0.01, at=(0.5,)),
    "frl": Constant(0.001),
    # Fast AT on ImageNet: up to 0.4 in the first epoch, down to 0.04 at the sixth; the phases end at 6, 12 and 15.
    "fast-imagenet": Piecewise(((0.0, 0.0), (1 / 15, 0.4), (6 / 15, 0.04), (12 / 15, 0.004), (1.0, 0.0004))),
}


def find_schedule(name: str) -> Schedule:
    """The schedule of this name with its default settings."""
    if name not in SCHEDULES:
        raise ValueError(f"there is no schedule {name!r}: choose {', '.join(SCHEDULES)}")
    return SCHEDULES[name]
