"""`leastwise train`."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from leastwise.attacks.choices import Norm
from leastwise.cli.options import use_data_dir
from leastwise.core.text import Screen
from leastwise.training.choices import CraftMode, Precision, SelectionRule

if TYPE_CHECKING:
    from leastwise.jobs.events import JobEventListener
    from leastwise.jobs.job import TrainJob
    from leastwise.jobs.settings import TrainSettings
    from leastwise.jobs.train_task import TrainingTask


@dataclass(frozen=True)
class Train:
    """Train a network and write a checkpoint that `leastwise audit` takes.

    An interrupted training goes on where it was when the same command is given again.
    """

    method: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="METHOD")]
    """pgd-at, trades, mart, …; `leastwise list methods` shows them with their equations and settings"""
    data: Annotated[str, tyro.conf.arg(metavar="DATA")] = "fashion-mini"
    """NAME, NAME/SPLIT, an .npz or .npy, or a folder with one sub-folder of images per class"""
    size: int = 0
    """image files only: the side of the square to cut out of each; 0 to take them as they are"""
    data_dir: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where known data sets lie; the variable LEASTWISE_DATA, or the cache, unless given"""
    model: Annotated[str, tyro.conf.arg(metavar="ARCH")] = "small"
    """architecture; `leastwise list models` shows them"""
    start: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """begin with the weights of this checkpoint of the same architecture (FRL and FAAL fine-tune)"""
    teacher: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """the robust network that methods such as rslad learn from: a checkpoint, of any architecture"""
    eps: Annotated[str, tyro.conf.arg(metavar="EPS")] = "8/255"
    """radius of the training attack, in pixel units of [0, 1]"""
    step: Annotated[str, tyro.conf.arg(metavar="STEP")] = ""
    """its step size; eps/4 unless given"""
    steps: int = 5
    """its number of steps"""
    attack_steps: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """fewer steps in earlier epochs: rising or few-first; `leastwise list methods` shows them with their settings"""
    norm: Norm = "linf"
    """how the distance is measured"""
    fair: Annotated[str, tyro.conf.arg(metavar="LIST")] = ""
    """how classes are treated differently: cfa, dafa, fair-weighting, …, or several, separated by commas"""
    augment: Annotated[str, tyro.conf.arg(metavar="NAME")] = "auto"
    """flip, crop-flip, idbh-weak, …, none; `leastwise list augmentations` shows them; auto: flip for photographs, and
    crop-flip from 30 epochs on"""
    average: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """average the weights: ema, swa or fawa"""
    awp: Annotated[str, tyro.conf.arg(metavar="GAMMA")] = ""
    """perturb the weights too, by this share of their size (AWP; 0.005 for TRADES)"""
    extra: Annotated[str, tyro.conf.arg(metavar="DATA")] = ""
    """pseudo-labelled images that make up half of each batch (RST)"""
    set: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """a setting of the method (beta=4) or of another part (cfa.lambda1=0.3, fawa.decay=0.9, schedule.peak=0.1,
    optimiser.momentum=0.95, validation.every=5, validation.attack.steps=20, attack.start=gaussian); values that change
    by epochs with the share of the training where each begins (attack.patience=0,1@50/120,2@90/120); may be repeated"""
    epochs: int = 12
    """passes over the data"""
    batch_size: int = 128
    """images per update"""
    schedule: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """one-cycle, cosine, steps, cyclic, constant, or a paper's: trades, mart, wat, dafa, faal, frl, fast-imagenet;
    one-cycle unless given, or what a policy was published with (frl)"""
    rate: float | None = None
    """highest learning rate; the schedule's own unless given"""
    optimiser: Annotated[str, tyro.conf.arg(metavar="NAME")] = "nesterov"
    """nesterov, sgd, adam (decay in the gradient) or adamw (decoupled)"""
    valid_per_class: int = -1
    """validation images split off each class; -1 for a tenth of the smallest class, at most 100"""
    best_by: SelectionRule = "sum"
    """which epoch's weights are kept as the best, on validation: robust accuracy of the average, of the worst class, or
    their sum; or simply the last"""
    select_on_test: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """choose the best epoch on the test set, as some papers do; every output says so"""
    test_at: Annotated[str, tyro.conf.arg(metavar="EPOCHS")] = ""
    """epochs, separated by commas, after which the test set is looked at too, for the record"""
    craft: CraftMode = "eval"
    """BatchNorm's mode while crafting"""
    precision: Precision = "full"
    """bfloat16 computes forward passes in half precision, which helps on accelerators"""
    mean: Annotated[str, tyro.conf.arg(metavar="A,B,C")] = ""
    """normalisation that goes inside the model: means per channel"""
    std: Annotated[str, tyro.conf.arg(metavar="A,B,C")] = ""
    """normalisation that goes inside the model: standard deviations per channel"""
    per_class: int = 0
    """train on only the first images of each class; 0 for all"""
    only: Annotated[str, tyro.conf.arg(metavar="CLASSES")] = ""
    """train on these classes only, which become the only outputs: cat,dog"""
    seed: int = 0
    """seed of initial weights, order and attacks"""
    device: str = "auto"
    """cpu, cuda, xpu, …; auto: the accelerator that torch finds, if there is one"""
    threads: int = 0
    """processor threads; 0 leaves the choice to torch"""
    track: Annotated[str, tyro.conf.arg(metavar="LIST")] = ""
    """write what the epochs saw for other tools too, below --out: tensorboard, wandb (offline) or mlflow (files), or
    several, separated by commas; each is an extra, such as leastwise[wandb]"""
    tensorboard: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """short for --track tensorboard"""
    fresh: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """do it anew, and replace what --out holds"""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where the checkpoint goes; results/train-KEY unless given"""

    def run(self) -> None:
        use_data_dir(self.data_dir)
        from leastwise.models.preflight import choose_device

        device = choose_device(self.device, self.threads)
        from leastwise.core.recipe import name_of_type, recipe_key
        from leastwise.core.text import say
        from leastwise.jobs.store import RESULTS, weights_in
        from leastwise.jobs.train_task import prepare_training
        from leastwise.report.terminal.view import progress
        from leastwise.training.registry import settings_text

        job = self.job()
        if self.trackers:
            from leastwise.report.trackers.choose import check_trackers

            check_trackers(self.trackers)
        say(Screen(quiet=os.environ.get("RANK", "0") != "0"), f"reading {self.data}, and checking {self.model} on it")
        folder = Path(self.out or RESULTS / f"train-{recipe_key(job)[:8]}")
        task = prepare_training(job, folder, device=device, threads=self.threads)
        console = Screen(quiet=not task.writes)
        objective = job.training.objective
        say(console, f"method     {self.method}: {name_of_type(type(objective))} {settings_text(objective)}")
        if objective.attack is not None:
            say(console, f"attack     {objective.attack}")
        for policy in job.training.policies:
            say(console, f"classes    {name_of_type(type(policy))} {settings_text(policy)}")
        for note in task.course.data.notes:
            say(console, f"data       {note}")
        if self.select_on_test:
            say(console, "warning: the best epoch is chosen on the test set", style="yellow")
        if doubt := self.settings.doubt_start(task):
            say(console, f"warning: {doubt}", style="yellow")
        for said in () if task.finished else task.doubts:
            say(console, f"warning: {said}", style="yellow")
        # A place that the user names is a place of its own; otherwise whoever did the same job has done it.
        found = None if self.out or self.fresh else find_done(job, task)
        weights = task.weights if found is None else weights_in(found)
        if found or (task.finished and not self.fresh):
            say(console, f"done before, in {found or folder} (--fresh does it anew)")
        else:
            with progress(console, f"train {self.method}", task.names) as listen, self.tracking(task, listen) as hear:
                task.run(tell_doubts(console, task, hear), fresh=self.fresh)
        for said in task.doubts:
            say(console, f"warning: {said}", style="yellow")
        for note in () if weights is None else read_notes(weights):
            say(console, f"note: {note}", style="yellow")
        say(console, f"Checkpoint: {weights}")

    @property
    def trackers(self) -> tuple[str, ...]:
        """The names of the tools that are told what the epochs saw."""
        named = tuple(name.strip() for name in self.track.split(",")) if self.track else ()
        return (*named, "tensorboard") if self.tensorboard else named

    @contextmanager
    def tracking(self, task: "TrainingTask", listen: "JobEventListener") -> Iterator["JobEventListener"]:
        """The listener, and the trackers that were asked for beside it."""
        if not self.trackers or not task.writes:
            yield listen
            return
        from leastwise.report.trackers.base import record_epochs
        from leastwise.report.trackers.choose import open_trackers

        with ExitStack() as stack:
            made = open_trackers(self.trackers, task.folder, task.claim["key"])
            yield record_epochs([stack.enter_context(one) for one in made], task.names, listen)

    @property
    def settings(self) -> "TrainSettings":
        """The same without what the command line adds."""
        from leastwise.jobs.settings import TrainSettings

        return TrainSettings(**{one.name: getattr(self, one.name) for one in fields(TrainSettings)})

    def job(self) -> "TrainJob":
        """The recipe: every part by its name, then the settings."""
        return self.settings.job()


def tell_doubts(console: Screen, task: "TrainingTask", listen: "JobEventListener") -> "JobEventListener":
    """The listener, and a warning beside it when an epoch goes wrong in a way that was not told yet."""
    from leastwise.core.text import say
    from leastwise.training.base import Epoch
    from leastwise.training.doubts import doubt_epoch

    told = False

    def hear(event: Any) -> None:
        nonlocal told
        listen(event)
        said = doubt_epoch(event, task.names) if isinstance(event, Epoch) else ""
        if said and not told:
            say(console, f"warning: {said}", style="yellow")
        told = told or bool(said)

    return hear


def find_done(job: "TrainJob", task: "TrainingTask") -> Path | None:
    """Where the same training of the same images was done before: a part of a data set has the name of the whole."""
    from leastwise.jobs.folder import read_claim
    from leastwise.jobs.store import RESULTS, Store

    found = Store(RESULTS, places={job: task.folder}).find(job)
    same = found is not None and (read_claim(found) or {}).get("data") == task.claim["data"]
    return found if same else None


def read_notes(weights: Path) -> tuple[str, ...]:
    """What a checkpoint tells whoever uses it."""
    from leastwise.models.load.checkpoint import load_checkpoint

    return load_checkpoint(weights).notes
