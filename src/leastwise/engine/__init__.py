"""Runs jobs: a recipe in, one finished file out. The only package that knows where and how work is executed."""

from pathlib import Path

from leastwise import audit as audits
from leastwise import evidence as evidences
from leastwise.data import load
from leastwise.engine.errands import Ended, Errand, side_by_side, train_all, training_errand
from leastwise.engine.hands import HERE, Found, Gone, Hands, Local, Lost, Piece, Work
from leastwise.engine.shards import audit_task, piece_name, race_task
from leastwise.engine.tasks import (
    IMAGES,
    MANIFEST,
    MODEL,
    RACE,
    RECIPE,
    RUN,
    SHARDS,
    SUMMARY,
    Clock,
    Event,
    Task,
    Watch,
    claimed,
)
from leastwise.engine.trainings import Given, chosen_classes, course_task, subset, training_task
from leastwise.models import load_checkpoint
from leastwise.models.prepare import Form
from leastwise.objectives import Epoch
from leastwise.plan import Job, Train

__all__ = [
    "HERE",
    "IMAGES",
    "MANIFEST",
    "MODEL",
    "RACE",
    "RECIPE",
    "RUN",
    "SHARDS",
    "SUMMARY",
    "Clock",
    "Ended",
    "Epoch",
    "Errand",
    "Event",
    "Found",
    "Given",
    "Gone",
    "Hands",
    "Local",
    "Lost",
    "Piece",
    "Task",
    "Watch",
    "Work",
    "audit_task",
    "chosen_classes",
    "claimed",
    "course_task",
    "evidences",
    "piece_name",
    "race_task",
    "side_by_side",
    "subset",
    "task",
    "train_all",
    "training_errand",
    "training_task",
]


def task(
    job: Job,
    folder: Path,
    model: Path | None = None,
    device: str = "cpu",
    threads: int = 0,
    form: Form | None = None,
) -> Task:
    """The task of a job; `model` is the folder of the training that an audit needs. `threads` is for trainings."""
    if isinstance(job, Train):
        return training_task(job, folder, device, threads, form)
    assert model is not None, "an audit needs the folder of its model's training"
    data = subset(load(job.data, split="test"), job.per_class)
    network = load_checkpoint(model / MODEL)
    auditor = audits.auditor(network, data, job.conditions, job.seed, job.batch_size, device)
    return audit_task(auditor, data, folder, job.form)
