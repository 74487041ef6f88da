"""A training job in its folder: what it reads, its claim, and the training itself, here or on a worker."""

import io
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from leastwise import __version__
from leastwise.attacks.base import Attack
from leastwise.audit.auditor import TRIAL_FROM, make_auditor
from leastwise.audit.evidence import entropy
from leastwise.core.files import check_writable, lock_folder, sha256, write_atomic
from leastwise.core.recipe import recipe_key, to_plain_json
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.jobs.events import ignore
from leastwise.jobs.folder import (
    CLOCK,
    Clock,
    FolderClaim,
    is_stale,
    make_room,
    read_claim,
    steady_memory,
    tell_answers,
    write_run_facts,
)
from leastwise.jobs.images import read_images
from leastwise.jobs.job import EpochAudit, TrainJob
from leastwise.models.answers import ask_network
from leastwise.models.classifier import Classifier
from leastwise.models.fast.prepare import ORIGINAL, Form
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.preflight import check_model, count_preflight
from leastwise.models.zoo.registry import build
from leastwise.training.compose import check_policies
from leastwise.training.distributed import join_ranks
from leastwise.training.doubts import doubt_validation, read_doubts
from leastwise.training.resume import EPOCHS, MODEL, Course, NetworkMeasure, TrainingCallback
from leastwise.training.step import FOLDED

NEEDED_WEIGHTS = ("start", "made_with", "teacher")  # files that a request names, of trainings that it needs
MADE = "made-"  # begins the name of a file of images, until its training is finished


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """A training that was checked as far as it can be before anything is written, and its folder."""

    claim: FolderClaim
    course: Course

    @property
    def folder(self) -> Path:
        return self.course.folder

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.course.data.names

    @property
    def weights(self) -> Path:
        """The file whose presence means that it is finished; written last, in one piece."""
        return self.folder / self.course.result

    @property
    def finished(self) -> bool:
        known = read_claim(self.folder) is not None and not is_stale(self.folder, self.claim)
        return known and self.weights.is_file()

    @property
    def writes(self) -> bool:
        """Whether this is the one of several processes that writes."""
        return self.course.ranks.first

    @property
    def doubts(self) -> tuple[str, ...]:
        """What is doubtful about the training: before it begins, and once it has ended."""
        course = self.course
        first = "" if course.valid is not None else doubt_validation(course.training.validation, course.data)
        last = read_doubts(self.folder / EPOCHS, self.names, course.training.epochs)
        return (*((first,) if first else ()), *last)

    def run(self, listen: TrainingCallback = ignore, *, fresh: bool = False, clock: Clock = CLOCK) -> Path:
        """Train, or find it done; an interrupted training goes on behind its last epoch unless `fresh`."""
        if self.finished and not fresh:
            return self.weights
        ranks, begun = self.course.ranks, clock.seconds()
        ranks.wait()  # everyone has looked before the first one changes anything
        if not ranks.first:
            ranks.wait()
            if self.course.run(listen):
                raise KeyboardInterrupt
            return self.weights
        check_writable(self.folder)
        with lock_folder(self.folder):
            make_room(self.folder, self.claim, fresh)
            ranks.wait()
            steady_memory()
            unwanted = self.course.run(listen)
            seconds, device = clock.seconds() - begun, self.course.device
            notes = (*self.course.data.part_notes, *self.doubts)
            write_run_facts(self.folder, seconds, clock=clock, device=device, about={}, notes=notes)
        for file in self.folder.glob(f"{MADE}*"):
            file.unlink()
        if unwanted:
            raise KeyboardInterrupt
        return self.weights


def prepare_training(
    job: TrainJob,
    folder: Path,
    *,
    start: Path | None = None,
    made_with: Path | None = None,
    teacher: Path | None = None,
    device: str = "cpu",
    threads: int = 0,
    form: Form | None = None,
    result: str = MODEL,
) -> TrainingTask:
    """Check a training job; `start`, `made_with` and `teacher` are the weights of the trainings that it needs.

    `threads` and `form` are what an interrupted training may not change; 0 and None leave them as they were.
    """
    training, ranks = job.training, join_ranks(device)
    data = read_training_data(job) if made_with is None else read_made_images(job, folder, made_with, device=device)
    model = build(job.arch, data.shape, data.k, mean=job.mean, std=job.std, seed=training.seed)
    check_model(model, data.batch(np.arange(min(len(data), count_preflight(data.shape)))).x, data.k, gradients=False)
    claim: FolderClaim = {"kind": "training", "key": recipe_key(job), "leastwise": __version__, "data": data.digest()}
    start = Path(job.start) if isinstance(job.start, str) and job.start else start
    if start:
        claim["start"] = take_weights(model, start, data)
        claim |= tell_answers({"network to start from": ask_network(model, data)})
    teacher = Path(job.teacher) if isinstance(job.teacher, str) and job.teacher else teacher
    if teacher:
        taught_by = load_checkpoint(teacher, None, data.shape, k=data.k).to(device)
        training = replace(training, objective=training.objective.taught_by(taught_by))
        claim |= {"teacher": taught_by.digest()} | tell_answers({"teacher": ask_network(taught_by, data)})
    held = {}
    if job.extra:
        held["extra"] = check_same_task(load(job.extra, split="train"), data, "pseudo-labelled images")
    if training.test_at or training.validation.on_test:
        held["test"] = check_unseen(read_test_data(job), job)
    claim |= {name: part.digest() for name, part in held.items()}
    if training.validation.on_test:
        held["valid"] = held["test"]
    # Mistakes are found before anything is written.
    training.objective.check_network(model)
    check_policies(training.objective, training.policies)
    for policy in training.policies:
        policy.init(torch.from_numpy(data.counts))
    course = Course(
        model=model,
        data=data,
        training=training,
        folder=folder,
        device=device,
        threads=threads,
        form=form,
        ranks=ranks,
        **held,
        looks={one.name: make_look(one, data, device) for one in job.epoch_audits},
        result=result,
    )
    return TrainingTask(claim | {"recipe": to_plain_json(job)}, course)


def read_training_data(job: TrainJob) -> Dataset:
    """The images of a training, before any are made of them with a network."""
    images = replace(job.data, change=(), steps=None) if job.data.needs_network else job.data
    return keep_classes(read_images(images, "train"), job.only)


def read_test_data(job: TrainJob) -> Dataset:
    """The test set that a recipe looks at: the one it names, or all test images of its own data."""
    images = job.test or replace(job.data, per_class=None)
    return keep_classes(read_images(images, "test"), job.only)


def check_unseen(test: Dataset, job: TrainJob) -> Dataset:
    """Refuse to test on the images that are trained on, which a file without parts would be read as."""
    seen = keep_classes(read_images(replace(job.data, per_class=None, change=(), steps=None), "train"), job.only)
    if test.digest() == seen.digest():
        raise ValueError(
            f"{job.data.name} has no test part of its own, so the test images would be those that are trained on: "
            "leave --test-at and --select-on-test out, or give a folder with train and test inside"
        )
    return test


def read_made_images(job: TrainJob, folder: Path, weights: Path, *, device: str) -> Dataset:
    """Images made with a network: once, and then read again until the training is finished."""
    file = folder / f"{MADE}{sha256(weights.read_bytes())[:8]}.npz"
    if not file.is_file():
        network = load_checkpoint(weights)
        data = read_images(job.data, "train", network, seed=job.training.seed, device=device)
        held = io.BytesIO()
        np.savez_compressed(held, images=data.images[data.rows], labels=data.labels)
        write_atomic(file, held.getvalue())
    with np.load(file) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    return replace(read_training_data(job), images=images, labels=labels, rows=np.arange(len(labels)))


def take_weights(model: Classifier, start: Path, data: Dataset) -> str:
    """Take over the weights of a checkpoint of the same network; their digest."""
    found = load_checkpoint(start, model.arch, data.shape, k=data.k)
    model.load_state_dict(found.state_dict())
    return model.digest()


def keep_classes(data: Dataset, only: tuple[str, ...]) -> Dataset:
    """Some classes, as the only ones there are, in the order given."""
    if not only:
        return data
    numbers = [data.index(int(name) if name.isdigit() and name not in data.names else name) for name in only]
    if len(set(numbers)) < 2 or len(set(numbers)) != len(numbers):
        raise ValueError(f"choose two different classes or more, but saw {', '.join(only)}")
    return data.keep(numbers)


def check_same_task(extra: Dataset, data: Dataset, what: str) -> Dataset:
    """Refuse images of another shape or of other classes."""
    if (extra.shape, extra.names) != (data.shape, data.names):
        raise ValueError(
            f"{what} need the shape {data.shape} and the classes {', '.join(data.names)}, "
            f"but have {extra.shape} and {', '.join(extra.names)}"
        )
    return extra


def make_look(wanted: EpochAudit, own: Dataset, device: str) -> NetworkMeasure:
    """A function that measures a network as it is after an epoch."""
    data = own if wanted.data is None else read_images(wanted.data, wanted.split)

    def look(model: Classifier) -> dict[str, Any]:
        return measure_network(model, data, wanted.conditions, device=device)

    return look


def measure_network(
    model: Classifier, data: Dataset, conditions: tuple[tuple[str, Attack], ...], *, device: str
) -> dict[str, Any]:
    """Counts and mean entropies of the classes under each condition, as JSON."""
    auditor = make_auditor(model, data, conditions, device=device, force=True)
    # Decided by counts and never by the clock, so that the same training leaves the same record.
    evidence = auditor.audit_in_one_piece(data, FOLDED if len(data) >= TRIAL_FROM else ORIGINAL)
    found = {}
    for name in evidence.conditions:
        counts = evidence.tally(name)
        mean = [None if np.isnan(value) else float(value) for value in entropy(evidence, name)]
        found[name] = {"n": counts.n.tolist(), "correct": counts.correct.tolist(), "entropy": mean}
    return found


class TrainResult(NamedTuple):
    """What became of a training."""

    request: "TrainRequest"
    seconds: float
    failed: str = ""  # why, or nothing


@dataclass(frozen=True)
class TrainRequest:
    """A training that can be done anywhere: a job, the files that it reads, and where its results belong."""

    job: TrainJob
    folder: Path  # absolute, for workers are elsewhere
    data: str  # the digest of the images, as seen here
    start: Path | None = None  # weights of trainings that it needs
    made_with: Path | None = None
    teacher: Path | None = None
    device: str = "cpu"
    threads: int = 0
    result: str = MODEL
    replaces: bool = False  # whether results of another recipe or version make room
    listen: TrainingCallback = field(default=ignore, compare=False, repr=False)

    def prepare(self) -> TrainingTask:
        return prepare_training(
            self.job,
            self.folder,
            start=self.start,
            made_with=self.made_with,
            teacher=self.teacher,
            device=self.device,
            threads=self.threads,
            result=self.result,
        )

    def run(self, listen: TrainingCallback) -> TrainingTask:
        task = self.prepare()
        task.run(listen, fresh=self.replaces and is_stale(task.folder, task.claim))
        return task

    def run_here(self) -> TrainResult:
        begun = time.monotonic()
        self.run(self.listen)
        return TrainResult(self, time.monotonic() - begun)


def request_training(job: TrainJob, folder: Path, **settings: Any) -> TrainRequest:
    """A request for a training whose results belong into a folder."""
    return TrainRequest(job, folder.absolute(), read_training_data(job).digest(), **settings)
