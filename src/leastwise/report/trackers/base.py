"""The numbers of an epoch by name, and what every tracker is."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import final

from leastwise.core.counts import Tally
from leastwise.jobs.events import JobEvent
from leastwise.training.base import Epoch, Seen

SIDES = ("train", "record", "valid", "averaged", "test")
OF_ALL = ("average", "worst", "spread")  # a class of such a name is called `class worst`


class EpochTracker(ABC):
    """Keeps the numbers of every epoch somewhere. Called with what an epoch saw and the names of the classes."""

    @final
    def __call__(self, seen: Epoch, names: Sequence[str]) -> None:
        self.record(epoch_values(seen, names), seen.number)

    @abstractmethod
    def record(self, values: Mapping[str, float], epoch: int) -> None:
        """Keep the numbers of an epoch, by name."""

    @abstractmethod
    def close(self) -> None:
        """Nothing follows."""

    def __enter__(self) -> "EpochTracker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def epoch_values(seen: Epoch, names: Sequence[str]) -> dict[str, float]:
    """Loss, rate, and on each side of `epochs.jsonl` every class's accuracy, their average, the lowest and the spread.

    Classes without images are left out, and so is a rate that nobody knows.
    """
    found = {name: value for name, value in (("loss", seen.loss), ("rate", seen.rate)) if math.isfinite(value)}
    for side in SIDES:
        part: Seen | None = getattr(seen, side)
        if part is not None:
            found |= class_values(f"{side} clean", part.clean, names)
            found |= class_values(f"{side} {'attacked' if side == 'train' else 'robust'}", part.robust, names)
    return found


def class_values(group: str, tally: Tally, names: Sequence[str]) -> dict[str, float]:
    """Accuracies under the names `group/class`; nothing where nothing was counted."""
    present = [(name, a) for name, a in zip(names, tally.accuracy.tolist(), strict=True) if a == a]
    if not present:
        return {}
    lowest, highest = min(a for _, a in present), max(a for _, a in present)
    found = {f"{group}/{f'class {name}' if name in OF_ALL else name}": a for name, a in present}
    return found | {f"{group}/average": tally.overall, f"{group}/worst": lowest, f"{group}/spread": highest - lowest}


def record_epochs(
    trackers: Sequence[EpochTracker], names: Sequence[str], listen: Callable[[JobEvent], None]
) -> Callable[[JobEvent], None]:
    """A listener that gives every epoch to the trackers, and then tells `listen`."""

    def hear(event: JobEvent) -> None:
        if isinstance(event, Epoch):
            for tracker in trackers:
                tracker(event, names)
        listen(event)

    return hear
