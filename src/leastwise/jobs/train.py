"""Trainings as tasks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from leastwise import __version__
from leastwise.audit.auditor import PREFLIGHT_IMAGES
from leastwise.core.recipe import recipe_key, to_plain_json
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.jobs.folder import MODEL, Task, Watch
from leastwise.jobs.job import Train
from leastwise.models.classifier import Classifier
from leastwise.models.fast.prepare import Form
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.preflight import check_model
from leastwise.models.zoo.registry import build
from leastwise.training.distributed import join_ranks
from leastwise.training.recipe import Training
from leastwise.training.resume import Course, NetworkMeasure


def training_task(job: Train, folder: Path, device: str = "cpu", threads: int = 0, form: Form | None = None) -> Task:
    """`threads` and `form` are what an interrupted training may not change; 0 and None leave them as they were."""
    data = training_data(job)
    looks_at_test = job.training.test_at or job.training.validation.on_test
    given = Given(
        data,
        chosen_classes(load(job.test or job.data, split="test"), job.only) if looks_at_test else None,
        load(job.extra, split="train") if job.extra else None,
        Path(job.start) if job.start else None,
    )
    model = build(job.arch, data.shape, data.k, mean=job.mean, std=job.std, seed=job.training.seed)
    return course_task(job, model, job.training, given, folder, device, threads, form)


def training_data(job: Train) -> Dataset:
    return chosen_classes(subset(load(job.data, split="train"), job.per_class), job.only)


class Given(NamedTuple):
    """What a training has besides its recipe."""

    data: Dataset
    test: Dataset | None = None
    extra: Dataset | None = None  # pseudo-labelled images
    start: Path | None = None  # a checkpoint of the same network
    looks: Mapping[str, NetworkMeasure] = {}  # what is measured after every epoch; it changes nothing


def course_task(
    recipe: Any,
    model: Classifier,
    training: Training,
    given: Given,
    folder: Path,
    device: str = "cpu",
    threads: int = 0,
    form: Form | None = None,
    result: str = MODEL,
) -> Task:
    """A training of a fresh network on any images; `recipe` is what its folder is claimed for."""
    ranks, data = join_ranks(device), given.data
    check_model(model, data.batch(np.arange(min(len(data), PREFLIGHT_IMAGES))).x, data.k, gradients=False)
    facts: dict[str, Any] = {
        "kind": "training",
        "key": recipe_key(recipe),
        "leastwise": __version__,
        "data": data.digest(),
    }
    if given.start:
        facts["start"] = begin_with(model, given.start, data)
    held = {}
    if given.extra is not None:
        held["extra"] = same_task(given.extra, data, "pseudo-labelled images")
    if given.test is not None:
        held["test"] = given.test
    facts |= {name: part.digest() for name, part in held.items()}
    if training.validation.on_test:
        held["valid"] = held["test"]
    for policy in training.policies:
        policy.init(torch.from_numpy(data.counts))  # a mistake in a setting is found before anything is written
    course = Course(
        model=model, data=data, training=training, folder=folder, device=device, threads=threads, form=form,
        ranks=ranks, **held, looks=given.looks, result=result,
    )  # fmt: skip

    def work(watch: Watch, *_: object) -> None:
        course.run(watch)

    return Task(folder, result, facts | {"recipe": to_plain_json(recipe)}, data.names, work, device, ranks=ranks)


def begin_with(model: Classifier, start: Path, data: Dataset) -> str:
    """Take over the weights of a checkpoint of the same network; their digest."""
    found = load_checkpoint(start, model.arch, data.shape, k=data.k)
    model.load_state_dict(found.state_dict())
    return model.digest()


def chosen_classes(data: Dataset, only: tuple[str, ...]) -> Dataset:
    """Some classes, as the only ones there are, in the order given."""
    if not only:
        return data
    numbers = [data.index(int(name) if name.isdigit() and name not in data.names else name) for name in only]
    if len(set(numbers)) < 2 or len(set(numbers)) != len(numbers):
        raise ValueError(f"choose two different classes or more, but saw {', '.join(only)}")
    return data.keep(numbers)


def same_task(extra: Dataset, data: Dataset, what: str) -> Dataset:
    if (extra.shape, extra.names) != (data.shape, data.names):
        raise ValueError(
            f"{what} need the shape {data.shape} and the classes {', '.join(data.names)}, "
            f"but have {extra.shape} and {', '.join(extra.names)}"
        )
    return extra


def subset(data: Dataset, per_class: int | None) -> Dataset:
    return data if per_class is None else data.take(per_class)
