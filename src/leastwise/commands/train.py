"""`leastwise train`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from leastwise.commands.shared import Norm, Screen, chosen_device, sized, threat_of, use_data_dir
from leastwise.notation import numbers


@dataclass(frozen=True)
class Train:
    """Train a network and write a checkpoint that `leastwise audit` takes.

    An interrupted training goes on behind its last finished epoch when the same command is given again.
    """

    method: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="METHOD")]
    """standard, pgd-at or trades; `leastwise list methods` shows their equations"""
    data: Annotated[str, tyro.conf.arg(metavar="DATA")] = "fashion-mini"
    """NAME, NAME/SPLIT, an .npz or .npy, or a folder with one sub-folder of images per class"""
    size: int = 0
    """image files only: the side of the square to cut out of each; 0 to take them as they are"""
    data_dir: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where known data sets lie; the variable LEASTWISE_DATA, or the cache, unless given"""
    model: Annotated[str, tyro.conf.arg(metavar="ARCH")] = "small"
    """architecture; `leastwise list models` shows them"""
    eps: Annotated[str, tyro.conf.arg(metavar="EPS")] = "8/255"
    """radius of the training attack, in pixel units of [0, 1]"""
    step: Annotated[str, tyro.conf.arg(metavar="STEP")] = ""
    """its step size; eps/4 unless given"""
    steps: int = 10
    """its number of steps"""
    norm: Norm = "linf"
    """how the distance is measured"""
    epochs: int = 10
    """passes over the data"""
    batch_size: int = 128
    """images per update"""
    rate: float = 0.2
    """highest learning rate of the one-cycle schedule"""
    mean: Annotated[str, tyro.conf.arg(metavar="A,B,C")] = ""
    """normalisation that goes inside the model: means per channel"""
    std: Annotated[str, tyro.conf.arg(metavar="A,B,C")] = ""
    """normalisation that goes inside the model: standard deviations per channel"""
    per_class: int = 0
    """train on only the first images of each class; 0 for all"""
    seed: int = 0
    """seed of initial weights, order and attacks"""
    device: str = "auto"
    """cpu, cuda, …"""
    threads: int = 0
    """processor threads; 0 leaves the choice to torch"""
    fresh: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """do it anew, and replace what --out holds"""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where the checkpoint goes; results/train-KEY unless given"""

    def run(self) -> None:
        threat = threat_of(self.norm, self.eps, self.step)
        mean, std = numbers(self.mean, "mean"), numbers(self.std, "std")
        use_data_dir(self.data_dir)
        from leastwise import engine, report
        from leastwise.objectives import OneCycle, method
        from leastwise.plan import Train as Job
        from leastwise.recipe import key
        from leastwise.train import Training

        objective = method(self.method).make(threat.ball, threat.step, self.steps)
        training = Training(objective, self.epochs, self.batch_size, OneCycle(self.rate), seed=self.seed)
        job = Job(sized(self.data, self.size), self.model, training, self.per_class or None, mean, std)
        device = chosen_device(self.device, self.threads)
        task = engine.task(job, Path(self.out or f"results/train-{key(job)[:8]}"), device=device)
        console = Screen()
        report.say(console, f"objective  {objective}")
        if task.finished and not self.fresh:
            report.say(console, f"done before, in {task.folder} (--fresh does it anew)")
        else:
            with report.progress(console, f"train {self.method}", task.names) as watch:
                task.run(watch, self.fresh)
        report.say(console, f"Checkpoint: {task.folder / task.result}")
