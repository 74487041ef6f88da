"""A step in a training by Lightning: `lw.ClassMeterCallback(step)` ends its epochs, logs its classes, and saves it."""

import sys
from functools import cache
from importlib import import_module
from typing import Any

from leastwise.front.step import MethodStep
from leastwise.report.trackers.base import epoch_values

PACKAGES = ("lightning.pytorch", "pytorch_lightning")  # the same library, under its new and its old name
MOST_CURVES = 50  # classes that all get curves of their own


def ClassMeterCallback(step: MethodStep, *, classes: bool | None = None) -> Any:
    """A callback that tells a step when an epoch ends, logs what it saw, and keeps its state in checkpoints.

    In `training_step`, return `step(self.net, x, y)`. Logged are the loss and, for each side that was looked at, the
    average, the worst class and the spread; with `classes`, or where there are 50 classes at most, every class too.

    >>> import leastwise as lw
    >>> step = lw.TRADES(eps=8/255, policy=lw.CFA(), classes=10)
    >>> callback = lw.ClassMeterCallback(step)  # doctest: +SKIP
    >>> trainer = lightning.Trainer(callbacks=[callback])  # doctest: +SKIP
    """
    shown = len(step.names) <= MOST_CURVES if classes is None else classes
    return callback_type(find_package())(step, shown)


def find_package() -> str:
    """The name under which Lightning is here: the one that is in use, if any."""
    in_use = [name for name in PACKAGES if name in sys.modules]
    for name in (*in_use, *PACKAGES):
        try:
            import_module(name)
        except ImportError:
            continue
        return name
    raise ModuleNotFoundError("Lightning is not installed: pip install 'leastwise[lightning]'", name="lightning")


@cache
def callback_type(package: str) -> type:
    """The callback, as a class of Lightning's own, which it insists on."""
    base: type = import_module(package).Callback

    class ClassesOfEpochs(base):  # type: ignore[misc]
        def __init__(self, step: MethodStep, classes: bool) -> None:
            self.step, self.classes = step, classes

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            values = epoch_values(self.step.end_epoch(), self.step.names)
            names = {f"/{name}" for name in self.step.names}
            kept = values if self.classes else {n: v for n, v in values.items() if n[n.find("/") :] not in names}
            # Every process has the same numbers, counted over all of them.
            pl_module.log_dict(kept, sync_dist=False)

        def state_dict(self) -> dict[str, Any]:
            return self.step.state_dict()

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            self.step.load_state_dict(state_dict)

    ClassesOfEpochs.__name__ = ClassesOfEpochs.__qualname__ = "ClassMeterCallback"
    return ClassesOfEpochs
