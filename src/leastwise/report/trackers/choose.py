"""Trackers by name, for verbs: where each writes below the folder of a training."""

from collections.abc import Callable, Sequence
from pathlib import Path

from leastwise.core.text import did_you_mean
from leastwise.report.trackers.base import EpochTracker
from leastwise.report.trackers.mlflow import MLflow
from leastwise.report.trackers.tensorboard import TensorBoard
from leastwise.report.trackers.wandb import WandB

TRACKERS: dict[str, Callable[[Path, str], EpochTracker]] = {
    "tensorboard": lambda folder, key: TensorBoard(folder / "tensorboard"),
    "wandb": lambda folder, key: WandB(folder, name=folder.name, id=key, resume="allow"),
    "mlflow": lambda folder, key: MLflow(folder / "mlruns", run=folder.name, key=key),
}


def check_trackers(names: Sequence[str]) -> None:
    """Refuse a name that is none."""
    for name in names:
        if name not in TRACKERS:
            raise ValueError(f"there is no tracker {name!r}: {did_you_mean(name, TRACKERS)}")


def open_trackers(names: Sequence[str], folder: Path, key: str) -> list[EpochTracker]:
    """The trackers of a training with this key; one that is not installed is refused before it begins."""
    check_trackers(names)
    return [TRACKERS[name](folder, key) for name in dict.fromkeys(names)]
