"""Trainings as tasks."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from leastwise import __version__
from leastwise import audit as audits
from leastwise import train as trains
from leastwise.data import Dataset, load
from leastwise.engine.tasks import MODEL, Task, Watch
from leastwise.models import Classifier, build, load_checkpoint, preflight
from leastwise.models.prepare import Form
from leastwise.plan import Train
from leastwise.recipe import key, plain


def training_task(job: Train, folder: Path, device: str = "cpu", threads: int = 0, form: Form | None = None) -> Task:
    """`threads` and `form` are what an interrupted training may not change; 0 and None leave them as they were."""
    ranks = trains.joined(device)
    data = chosen_classes(subset(load(job.data, split="train"), job.per_class), job.only)
    model = build(job.arch, data.shape, data.k, job.mean, job.std, job.training.seed)
    preflight(model, data.batch(np.arange(min(len(data), audits.PREFLIGHT_IMAGES))).x, data.k, gradients=False)
    facts: dict[str, Any] = {"kind": "training", "key": key(job), "leastwise": __version__, "data": data.digest()}
    if job.start:
        facts["start"] = begin_with(model, job, data)
    held = {}
    if job.extra:
        held["extra"] = same_task(load(job.extra, split="train"), data, "pseudo-labelled images")
    if job.training.test_at or job.training.validation.on_test:
        held["test"] = chosen_classes(load(job.test or job.data, split="test"), job.only)
    facts |= {name: part.digest() for name, part in held.items()}
    if job.training.validation.on_test:
        held["valid"] = held["test"]
    for policy in job.training.policies:
        policy.init(torch.from_numpy(data.counts))  # a mistake in a setting is found before anything is written
    course = trains.Course(model, data, job.training, folder, device, threads, form, ranks, **held)

    def work(watch: Watch, *_: object) -> None:
        course.run(watch)

    return Task(folder, MODEL, facts | {"recipe": plain(job)}, data.names, work, device, ranks=ranks)


def begin_with(model: Classifier, job: Train, data: Dataset) -> str:
    """Take over the weights of a checkpoint of the same network; their digest."""
    found = load_checkpoint(Path(job.start), job.arch, data.shape, data.k)
    model.load_state_dict(found.state_dict())
    return model.digest()


def chosen_classes(data: Dataset, only: tuple[str, ...]) -> Dataset:
    """Some classes, as the only ones there are, in the order given."""
    if not only:
        return data
    numbers = [data.index(int(name) if name.isdigit() and name not in data.names else name) for name in only]
    if len(set(numbers)) < 2 or len(set(numbers)) != len(numbers):
        raise ValueError(f"choose two different classes or more, but saw {', '.join(only)}")
    names = [data.names[c] for c in numbers]
    return data.only(numbers).relabel({c: i for i, c in enumerate(numbers)}, names)


def same_task(extra: Dataset, data: Dataset, what: str) -> Dataset:
    if (extra.shape, extra.names) != (data.shape, data.names):
        raise ValueError(
            f"{what} need the shape {data.shape} and the classes {', '.join(data.names)}, "
            f"but have {extra.shape} and {', '.join(extra.names)}"
        )
    return extra


def subset(data: Dataset, per_class: int | None) -> Dataset:
    return data if per_class is None else data.take(per_class)
