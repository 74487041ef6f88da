"""A training in a process of its own that gets a signal in the middle."""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import TrainJob
from leastwise.jobs.train_task import prepare_training
from leastwise.training.averaging import EMA
from leastwise.training.loop import StepProgress
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.policies.cfa import CFA
from leastwise.training.recipe import Training, Validation
from leastwise.training.schedules import OneCycle
from tests.forked_commands import forked
from tests.training.batches_and_losses import ON_CE

HEAVY = TrainJob(
    ImageSet("fashion-mini", per_class=12),
    "small",
    Training(PGDAT(ON_CE), 3, 25, OneCycle(0.1), policies=(CFA(),), averaging=EMA(start=0.0), validation=Validation(2)),
)


def train_until(folder: Path, steps: int, name: str) -> subprocess.CompletedProcess[str]:
    """Train until this number of steps and then send the signal of this name; 0 steps for no signal."""
    return forked(train, [str(folder), str(steps), name], None, {})


def train(arguments: Sequence[str]) -> int:

    folder, last, name = arguments
    steps = 0

    def watch(event: object) -> None:
        nonlocal steps
        steps += isinstance(event, StepProgress)
        if steps == int(last):
            os.kill(os.getpid(), signal.Signals[name])

    prepare_training(HEAVY, Path(folder), threads=1).run(watch)
    return 0
