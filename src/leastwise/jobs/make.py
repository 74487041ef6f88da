"""Runs jobs: a recipe in, one finished file out. The only package that knows where and how work is executed."""

from pathlib import Path

from leastwise.audit import auditor as audits
from leastwise.data.loading import load
from leastwise.jobs.audit import audit_task
from leastwise.jobs.folder import (
    MODEL,
    Task,
)
from leastwise.jobs.job import Job, Train
from leastwise.jobs.train import subset, training_task
from leastwise.models.fast.prepare import Form
from leastwise.models.load.checkpoint import load_checkpoint


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
    auditor = audits.make_auditor(network, data, job.conditions, job.seed, job.batch_size, device)
    return audit_task(auditor, data, folder, job.form)
