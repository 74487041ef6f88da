"""A training by the names of its parts, as the command line, studies and Python say it -> a job with every default
resolved."""

from dataclasses import dataclass
from typing import Any

from leastwise.attacks.registry import make_threat
from leastwise.core.text import parse_number, parse_numbers
from leastwise.data.augment.registry import find_augmentation
from leastwise.data.augment.transforms import Augment
from leastwise.data.loading import with_size
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import TrainJob
from leastwise.jobs.train_task import TrainingTask
from leastwise.training.attack_steps import find_attack_steps
from leastwise.training.averaging import find_averaging
from leastwise.training.awp import AWP
from leastwise.training.choices import CraftMode, Precision, SelectionRule
from leastwise.training.compose import check_policies
from leastwise.training.recipe import Training, Validation, find_optimiser, with_own_attack
from leastwise.training.registry import apply_settings, find_method, find_policy, find_published, split_settings
from leastwise.training.schedules import find_schedule
from leastwise.training.validate import measure_classes

# Photographs that may be mirrored; digits may not.
MIRRORED = ("cifar10", "cifar100", "stl10", "tiny-imagenet", "imagenet")
START_IMAGES, ROBUST_START = 200, 0.25  # a start is robust if a quarter of what is right stays right on some images
LONG = 30  # epochs from which photographs are cropped too: shorter trainings underfit (docs/results/training.md)


@dataclass(frozen=True)
class TrainSettings:
    """What `leastwise train --help` explains, with the same names and defaults."""

    method: str
    data: str = "fashion-mini"
    size: int = 0
    model: str = "small"
    start: str = ""
    teacher: str = ""
    eps: str | float = "8/255"
    step: str | float = ""
    steps: int = 5
    attack_steps: str = ""
    norm: str = "linf"
    fair: str = ""
    augment: str = "auto"
    average: str = ""
    awp: str = ""
    extra: str = ""
    set: tuple[str, ...] = ()
    epochs: int = 12
    batch_size: int = 128
    schedule: str = ""
    rate: float | None = None
    optimiser: str = "nesterov"
    valid_per_class: int = -1
    best_by: SelectionRule = "sum"
    select_on_test: bool = False
    test_at: str = ""
    craft: CraftMode = "eval"
    precision: Precision = "full"
    mean: str = ""
    std: str = ""
    per_class: int = 0
    only: str = ""
    seed: int = 0

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the class-wise policies."""
        return tuple(name.strip() for name in self.fair.split(",")) if self.fair else ()

    def job(self) -> TrainJob:
        """The recipe of the network and of its images."""
        training = self.training()
        only = tuple(name.strip() for name in self.only.split(",") if name.strip())
        mean, std = parse_numbers(self.mean, "mean"), parse_numbers(self.std, "std")
        images = ImageSet(with_size(self.data, self.size), per_class=self.per_class or None)
        return TrainJob(
            images, self.model, training, mean, std, only, self.start, extra=self.extra, teacher=self.teacher
        )

    def training(self) -> Training:
        """The recipe of the training: every part by its name, then the settings."""
        threat = make_threat(self.norm, self.eps, self.step)
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

    def doubt_start(self, task: TrainingTask) -> str:
        """Why the start of a policy that fine-tunes a robust network is not one; empty if it is, or need not be."""
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

    def augmentation(self) -> Augment:
        """The augmentation; unless named, what is usual for the data and the number of epochs."""
        known = self.data.partition("/")[0].partition("@")[0]
        usual = "none" if known not in MIRRORED else "crop-flip" if self.epochs >= LONG else "flip"
        return find_augmentation(self.augment if self.augment != "auto" else usual)


def peak_of(schedule: Any) -> str:
    """What a schedule calls its highest rate."""
    return "peak" if hasattr(schedule, "peak") else "value"


def whole_numbers(text: str, name: str) -> tuple[int, ...]:
    """`1,5,10`."""
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise ValueError(f"{name} takes whole numbers, separated by commas, but saw {text!r}") from None
