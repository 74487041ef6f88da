"""Weights & Biases: offline unless asked otherwise, so that nothing leaves this machine by surprise."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leastwise.report.trackers.base import EpochTracker


class WandB(EpochTracker):
    """Writes every epoch into `FOLDER/wandb`; `wandb sync` sends it where you want it.

    `mode` is "offline" unless given here or by the variable WANDB_MODE. Other settings go to `wandb.init`: with `id=`
    and `resume="allow"` a training that was interrupted goes on in the same run.

    >>> import leastwise as lw
    >>> step = lw.TRADES(classes=10, listen=[lw.WandB("runs/a", project="mine")])  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path, *, project: str = "leastwise", mode: str = "", **settings: Any) -> None:
        try:
            import wandb
        except ImportError:
            raise ValueError("Weights & Biases is not installed: pip install 'leastwise[wandb]'") from None
        settings.setdefault("settings", wandb.Settings(silent=True))
        Path(folder).mkdir(parents=True, exist_ok=True)  # or it would write somewhere else
        chosen: Any = mode or os.environ.get("WANDB_MODE", "offline")
        self.run = wandb.init(project=project, dir=str(folder), mode=chosen, **settings)

    def record(self, values: Mapping[str, float], epoch: int) -> None:
        self.run.log(dict(values) | {"epoch": epoch}, step=epoch)

    def close(self) -> None:
        self.run.finish()
