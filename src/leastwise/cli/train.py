"""`leastwise train`."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from leastwise.attacks.choices import Norm
from leastwise.cli.options import use_data_dir, with_size
from leastwise.core.text import Screen, parse_number, parse_numbers
from leastwise.training.choices import CraftMode, Precision, SelectionRule

if TYPE_CHECKING:
    from leastwise.data.augment.transforms import Augment
    from leastwise.jobs.events import JobEventListener
    from leastwise.jobs.job import TrainJob
    from leastwise.jobs.train_task import TrainingTask
    from leastwise.training.recipe import Training

# Photographs that may be mirrored; digits may not.
MIRRORED = ("cifar10", "cifar100", "stl10", "tiny-imagenet", "imagenet")
START_IMAGES, ROBUST_START = 200, 0.25  # a start is robust if a quarter of what is right stays right on some images
LONG = 30  # epochs from which photographs are cropped too: shorter trainings underfit (docs/results/training.md)


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
    """cpu, cuda, …"""
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
        if doubt := self.doubt_start(task):
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
    def policies(self) -> tuple[str, ...]:
        """The names of the class-wise policies."""
        return tuple(name.strip() for name in self.fair.split(",")) if self.fair else ()

    def doubt_start(self, task: "TrainingTask") -> str:
        """Why the start of a policy that fine-tunes a robust network is not one; empty if it is, or need not be."""
        from leastwise.training.registry import find_published
        from leastwise.training.validate import measure_classes

        published = find_published(self.policies)
        if published is None or not published.fine_tunes:
            return ""
        what = f"{self.fair} was published as a fine-tuning of a robust network"
        if not self.start:
            return f"{what}, and this begins from scratch: give a robust checkpoint with --start"
        course = task.course
        some = course.data.take(-(-START_IMAGES // course.data.k))
        attack = course.training.validation.attack_for(course.training.objective)
        seen = measure_classes(course.model, some, attack)
        stay = seen.robust.overall / max(seen.clean.overall, 1e-9)
        if stay >= ROBUST_START:
            return ""
        right = f"of the images that it gets right without attack {100 * stay:.0f} % stay right under PGD"
        return f"{what}, and {self.start} is not robust at this radius: {right}"

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

    def job(self) -> "TrainJob":
        """The recipe of the network and of its images."""
        training = self.training()
        from leastwise.jobs.images import ImageSet
        from leastwise.jobs.job import TrainJob

        only = tuple(name.strip() for name in self.only.split(",") if name.strip())
        mean, std = parse_numbers(self.mean, "mean"), parse_numbers(self.std, "std")
        images = ImageSet(with_size(self.data, self.size), per_class=self.per_class or None)
        return TrainJob(
            images, self.model, training, mean, std, only, self.start, extra=self.extra, teacher=self.teacher
        )

    def training(self) -> "Training":
        """The recipe of the training: every part by its name, then the settings."""
        from leastwise.attacks.registry import make_threat

        threat = make_threat(self.norm, self.eps, self.step)
        from leastwise.training.attack_steps import find_attack_steps
        from leastwise.training.averaging import find_averaging
        from leastwise.training.awp import AWP
        from leastwise.training.compose import check_policies
        from leastwise.training.recipe import Training, Validation, find_optimiser, with_own_attack
        from leastwise.training.registry import apply_settings, find_method, find_policy, find_published, split_settings
        from leastwise.training.schedules import find_schedule

        fair = self.policies
        published = find_published(fair)
        rates = find_schedule(self.schedule or (published.schedule if published else "one-cycle"))
        if self.rate is not None:
            rates = apply_settings({"method": rates}, (f"{peak_of(rates)}={self.rate}",))["method"]
        valid = None if self.valid_per_class < 0 else self.valid_per_class
        objective = find_method(self.method).make(threat.ball, threat.step, self.steps)
        policies = {name: find_policy(name) for name in fair}
        check_policies(objective, tuple(policies.values()))
        validation = Validation(valid, self.best_by, on_test=self.select_on_test)
        if published or any(text.startswith("validation.attack.") for text in self.set):
            validation = with_own_attack(validation, objective, published.validation_steps if published else None)
        parts: dict[str, Any] = {"method": objective, **policies, "schedule": rates, "validation": validation}
        parts["optimiser"] = find_optimiser(self.optimiser)
        if self.average:
            parts[self.average] = find_averaging(self.average)
        if self.awp:
            parts["awp"] = AWP(parse_number(self.awp, "awp"))
        if self.attack_steps:
            parts[self.attack_steps] = find_attack_steps(self.attack_steps)
        plain, changing = split_settings(self.set)
        parts = apply_settings(parts, (*(published.settings if published else ()), *plain))
        return Training(
            parts["method"],
            self.epochs,
            self.batch_size,
            parts["schedule"],
            parts["optimiser"],
            self.seed,
            tuple(parts[name] for name in fair),
            self.augmentation(),
            parts[self.average] if self.average else None,
            parts.get("awp"),
            parts["validation"],
            self.craft,
            self.precision,
            test_at=whole_numbers(self.test_at, "test-at"),
            attack_steps=parts[self.attack_steps] if self.attack_steps else None,
            timetables=changing(parts["method"]),
        )

    def augmentation(self) -> "Augment":
        from leastwise.data.augment.registry import find_augmentation

        known = self.data.partition("/")[0].partition("@")[0]
        usual = "none" if known not in MIRRORED else "crop-flip" if self.epochs >= LONG else "flip"
        return find_augmentation(self.augment if self.augment != "auto" else usual)


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


def peak_of(schedule: Any) -> str:
    """What a schedule calls its highest rate."""
    return "peak" if hasattr(schedule, "peak") else "value"


def whole_numbers(text: str, name: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise ValueError(f"{name} takes whole numbers, separated by commas, but saw {text!r}") from None
