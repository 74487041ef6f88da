"""The scheduler: which jobs are left, in an order that does each thing once, and doing them."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from leastwise.attacks.base import Attack
from leastwise.attacks.surrogate import make_surrogate
from leastwise.attacks.transfer import Transfer
from leastwise.audit.auditor import make_auditor
from leastwise.audit.evidence import load_evidence
from leastwise.audit.packing import pack_evidence
from leastwise.core.recipe import recipe_key
from leastwise.core.text import one_line
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import AuditTask
from leastwise.jobs.events import JobEventListener
from leastwise.jobs.executor import LOCAL, Executor, NobodyLeft
from leastwise.jobs.folder import describe_other, is_stale
from leastwise.jobs.images import ImageSet, keep_features, keep_pictures, read_images
from leastwise.jobs.job import (
    AuditJob,
    GivenNetwork,
    Job,
    JobConditions,
    ReleasedNetwork,
    TrainJob,
    TransferFrom,
    needed_jobs,
)
from leastwise.jobs.store import ENDINGS, NETWORKS, Store
from leastwise.jobs.train_task import TrainRequest, request_training
from leastwise.models.classifier import Classifier
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.zoo.registry import find_architecture
from leastwise.training.resume import MODEL, WEIGHTS

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
WITH_HALF = ("googlenet-imagenet", "inception-v3")  # as torchvision gives them away


def schedule(jobs: Iterable[Job], store: Store, *, weights: bool = False) -> tuple[Job, ...]:
    """What is not finished, and what that needs and is not finished either; needs first, everything once.

    A finished audit does not need its training any more. With `weights`, trainings whose weights are gone count as not
    finished: that is how they are needed.
    """
    left: dict[Job, None] = {}
    for job in jobs:
        there = store.find_weights(job) is not None if weights and isinstance(job, TrainJob) else store.has(job)
        if job not in left and not there:
            left |= dict.fromkeys((*schedule(needed_jobs(job), store, weights=True), job))
    return tuple(left)


class JobListener:
    """Whoever tells the user how it goes; this one says nothing."""

    def during(self, job: Job, names: Sequence[str]) -> AbstractContextManager[JobEventListener]:
        """Before a job, with the names of its classes; a listener for what happens in it."""
        return nullcontext(lambda event: None)

    def after(self, job: Job, seconds: float, failed: str) -> None:
        """After a job, with the reason if it failed."""


@dataclass(frozen=True)
class JobRunner:
    """How jobs are done: where results lie, who computes, and in which form results are kept."""

    store: Store
    device: str = "cpu"
    threads: int = 0  # of trainings; 0: as torch has it
    executor: Executor = LOCAL
    small: bool = False  # whether results are kept as small as they can be, to be handed on
    force: bool = False  # whether networks that failed to learn are audited all the same
    fresh: bool = False  # whether what is finished is done anew
    check: bool = False  # whether survivors are attacked without gradients; papers' tables have conditions for that
    replaces: bool = True  # whether an unfinished result of another version, or of a network trained anew, makes room

    def request(self, job: TrainJob) -> TrainRequest:
        """A training for whoever has the time; what it needs must be finished."""
        start = self.store.find_weights(job.start) if isinstance(job.start, TrainJob) else None
        teacher = self.store.find_weights(job.teacher) if isinstance(job.teacher, TrainJob) else None
        made_with = None if job.made_with is None else self.store.find_weights(job.made_with)
        return request_training(
            job,
            self.store.place(job),
            start=start and start.absolute(),
            made_with=made_with and made_with.absolute(),
            teacher=teacher and teacher.absolute(),
            device=self.device,
            threads=self.threads,
            result=WEIGHTS if self.small else MODEL,
            replaces=self.replaces,
        )

    def prepare_audit(self, job: AuditJob) -> AuditTask:
        """An audit, checked as far as it can be; the networks that it needs must be there."""
        data = read_images(fit_size(job), job.split, groups=job.groups)
        weights = self.find_weights(job)
        auditor = make_auditor(
            self.load_network(job, weights, data),
            data,
            self.load_conditions(job.conditions),
            seed=job.seed,
            batch_size=job.batch_size,
            device=self.device,
            force=self.force,
        )
        # Results are handed on with their records: no name of a folder of this machine.
        about = {"model": relative_to(weights, self.store.root), "data": job.data.name}
        claim = {"job": recipe_key(job), "networks": self.store.digest_networks(job)}
        return AuditTask(auditor, data, self.store.place(job), form=job.form, about=about, job=claim, check=self.check)

    def find_weights(self, job: AuditJob) -> Path:
        model = job.model
        assert not isinstance(model, GivenNetwork), "a network that the user brings is audited by whoever loaded it"
        weights = self.store.find_weights(model)
        if weights is None and isinstance(model, ReleasedNetwork):
            wanted = self.store.root / NETWORKS / model.weights
            raise ValueError(
                f"the network {model.weights} was trained by others and is not here: put its weights ({model.arch}) at "
                f"{wanted.parent / wanted.name}{ENDINGS[1]} and give the command again"
            )
        assert weights is not None, "what an audit needs is finished before it"
        return weights

    def load_network(self, job: AuditJob, weights: Path, data: Dataset) -> Classifier:
        model = job.model
        if not isinstance(model, ReleasedNetwork):
            return load_checkpoint(weights)
        standard = HALF if model.arch in WITH_HALF else IMAGENET
        # Robust networks were saved together with their normalisation.
        mean, std = standard if model.weights.startswith("standard/") else ((), ())
        return load_checkpoint(weights, model.arch, data.shape, k=data.k, mean=mean, std=std)

    def load_conditions(self, conditions: JobConditions) -> tuple[tuple[str, Attack], ...]:
        """The attacks, with the networks that some of them are crafted on."""

        def load_attack(attack: Attack | TransferFrom) -> Attack:
            if not isinstance(attack, TransferFrom):
                return attack
            weights = self.store.find_weights(attack.surrogate)
            assert weights is not None, "what an audit needs is finished before it"
            return Transfer(attack.attack, (make_surrogate(attack.name, load_checkpoint(weights).to(self.device)),))

        return tuple((name, load_attack(attack)) for name, attack in conditions)

    def run_audit(self, job: AuditJob, listen: JobEventListener, task: AuditTask) -> None:
        """Do an audit; what an earlier run left goes on."""
        folder = task.evidence.parent
        fresh = self.fresh or (self.replaces and bool(describe_other(folder, task.claim)))
        task.run(listen, fresh=fresh, executor=self.executor)
        if not task.finished:
            raise ValueError(load_evidence(folder).warnings[-1])  # images that nobody could attack
        if job.features:
            keep_features(task.auditor, task.data, folder)
        if job.pictures:
            keep_pictures(task.auditor, task.data, job.pictures, folder=folder)
        if self.small:
            pack_evidence(folder)


def execute(jobs: Iterable[Job], runner: JobRunner, listener: JobListener = JobListener()) -> dict[Job, str]:
    """Do everything; what fails is left out, with all that needs it, and the rest goes on. Why each of them failed.

    Where others compute, trainings come first, side by side, and then the audits, whose pieces are spread over them.
    """
    failed: dict[Job, str] = {}
    work = list(jobs)
    if runner.executor.is_remote:
        train_side_by_side([job for job in work if isinstance(job, TrainJob)], runner, listener, failed=failed)
        work = [job for job in work if isinstance(job, AuditJob)]
    for job in work:
        begun = time.monotonic()
        try:
            check_needs(job, failed)
            if isinstance(job, TrainJob):
                task = runner.request(job).prepare()
                with listener.during(job, task.names) as listen:
                    stale = runner.replaces and is_stale(task.folder, task.claim)
                    task.run(listen, fresh=runner.fresh or stale)
            else:
                audit = runner.prepare_audit(job)
                with listener.during(job, audit.names) as listen:
                    runner.run_audit(job, listen, audit)
        except NobodyLeft:
            raise
        except Exception as error:  # whatever it is: one broken training must not cost the others
            failed[job] = describe_error(error)
        runner.store.look_again()
        listener.after(job, time.monotonic() - begun, failed.get(job, ""))
    return failed


def train_side_by_side(
    trainings: Iterable[TrainJob], runner: JobRunner, listener: JobListener, *, failed: dict[Job, str]
) -> None:
    """Each begins as soon as a worker is free and what it needs is there. Adds why some failed."""
    waiting, under_way = dict.fromkeys(trainings), dict[TrainJob, None]()
    with runner.executor.open_trainings() as session:
        while waiting or session.is_busy:
            ready = [
                job for job in waiting if not any(need in waiting or need in under_way for need in needed_jobs(job))
            ]
            for job in ready:
                if not session.has_room:
                    break
                del waiting[job]
                try:
                    check_needs(job, failed)
                    session.submit(runner.request(job))
                    under_way[job] = None
                except NobodyLeft:
                    raise
                except Exception as error:
                    failed[job] = describe_error(error)
                    listener.after(job, 0.0, failed[job])
            if session.is_busy:
                result = session.wait()
                job = result.request.job
                del under_way[job]
                if result.failed:
                    failed[job] = result.failed
                runner.store.look_again()
                listener.after(job, result.seconds, result.failed)


def check_needs(job: Job, failed: Mapping[Job, str]) -> None:
    broken = [need for need in needed_jobs(job) if need in failed]
    if broken:
        raise ValueError(f"a network that it needs failed ({failed[broken[0]]})")


def describe_error(error: Exception) -> str:
    return one_line(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {one_line(error)}"


def fit_size(job: AuditJob) -> ImageSet:
    """ImageNet's files are cut to what a network was made for, where that is not the usual size."""
    model = job.model
    published = None if isinstance(model, GivenNetwork) else find_architecture(model.arch).params
    if job.data.name != "imagenet" or published is None or published.shape[1] == 224:
        return job.data
    return replace(job.data, name=f"imagenet@{published.shape[1]}")


def relative_to(file: Path, root: Path) -> str:
    inside = file.absolute().is_relative_to(root.absolute())
    return (file.absolute().relative_to(root.absolute()) if inside else Path(file.name)).as_posix()
