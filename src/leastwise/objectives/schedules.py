"""Learning rates as functions of progress: 0 at the first step, 1 after the last."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@runtime_checkable
class Schedule(Protocol):
    def rate(self, progress: float) -> float: ...


@dataclass(frozen=True)
class Constant:
    value: float = 0.1

    def rate(self, progress: float) -> float:
        return self.value


@dataclass(frozen=True)
class OneCycle:
    """Linear up to the peak, then linear down to zero (Smith 2018)."""

    peak: float = 0.2
    warmup: float = 0.3  # share of the training spent going up

    def __post_init__(self) -> None:
        if not (self.peak > 0 and 0 < self.warmup < 1):
            raise ValueError(f"the learning rate must be positive and the warm-up a share, but saw {self}")

    def rate(self, progress: float) -> float:
        if progress < self.warmup:
            return self.peak * progress / self.warmup
        return self.peak * (1 - progress) / (1 - self.warmup)
