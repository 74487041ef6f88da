"""TensorBoard: a file of events in a folder, which `tensorboard --logdir FOLDER` shows."""

from collections.abc import Mapping
from pathlib import Path

from leastwise.report.trackers.base import EpochTracker


class TensorBoard(EpochTracker):
    """Writes every epoch into a folder.

    >>> import leastwise as lw
    >>> step = lw.TRADES(classes=10, listen=[lw.TensorBoard("runs/a")])  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError("TensorBoard is not installed: pip install 'leastwise[tensorboard]'") from None
        self.writer = SummaryWriter(str(folder))

    def record(self, values: Mapping[str, float], epoch: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, epoch)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()
