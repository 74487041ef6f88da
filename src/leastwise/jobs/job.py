"""Jobs as values: what to train and what to audit. Equal jobs have equal keys.

A job says everything that determines its result, with every default resolved, and nothing about where or how it is
computed. Whoever makes it (`train`, `audit`, `race`, `study`, `reproduce`, `demo`), equal jobs share one result.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from leastwise.attacks.base import Attack
from leastwise.attacks.pgd import PGD
from leastwise.core.recipe import ADDED_LATER
from leastwise.data.classes import Groups
from leastwise.jobs.images import ImageSet
from leastwise.models.fast.prepare import Form
from leastwise.training.recipe import Training

NO_PART = {"recipe": False}  # metadata of what does not determine the result


@dataclass(frozen=True)
class EpochAudit:
    """What is measured of a network after every epoch of its training, for the record; it changes nothing."""

    recipe_name: ClassVar[str] = "EpochAudit"

    name: str  # under which the epochs' lines have it
    data: ImageSet | None  # None: the images that are trained on
    split: str
    conditions: tuple[tuple[str, Attack], ...]


@dataclass(frozen=True)
class TrainJob:
    """Train a network of a known architecture on a set of images."""

    recipe_name: ClassVar[str] = "Train"

    data: ImageSet
    arch: str
    training: Training
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    only: tuple[str, ...] = ()  # classes by name, which become the only ones; two make binary training
    start: "TrainJob | str" = ""  # the training, or the checkpoint file, whose weights it begins with
    made_with: "TrainJob | None" = None  # the training whose network the images are made with
    extra: str = ""  # pseudo-labelled images, which share each batch
    test: ImageSet | None = None  # where the recipe looks at it; None: all test images of its data
    teacher: "TrainJob | str" = field(default="", metadata=ADDED_LATER)  # the training, or the file, it learns from
    epoch_audits: tuple[EpochAudit, ...] = field(default=(), compare=False, metadata=NO_PART)


@dataclass(frozen=True)
class ReleasedNetwork:
    """A network that others trained and gave away, by the name of its file under `results/networks`."""

    recipe_name: ClassVar[str] = "Released"

    weights: str
    arch: str
    data: ImageSet


@dataclass(frozen=True)
class GivenNetwork:
    """A network that the user brings; it is known by the digest of what it is."""

    recipe_name: ClassVar[str] = "Given"

    digest: str


@dataclass(frozen=True)
class TransferFrom:
    """A condition that is crafted on another network, which has to be trained first."""

    recipe_name: ClassVar[str] = "TransferFrom"

    attack: PGD
    surrogate: TrainJob
    name: str = "standard"


JobConditions = tuple[tuple[str, Attack | TransferFrom], ...]


@dataclass(frozen=True)
class AuditJob:
    """Audit a network under some conditions, and keep what else is wanted of it."""

    recipe_name: ClassVar[str] = "Audit"

    model: TrainJob | ReleasedNetwork | GivenNetwork
    data: ImageSet
    conditions: JobConditions
    seed: int = 0
    split: str = "test"
    features: bool = field(default=False, metadata=ADDED_LATER)  # whether moments of the features are kept
    pictures: tuple[int, ...] = field(default=(), metadata=ADDED_LATER)  # images whose pixels and logits are kept
    groups: Groups = field(default=(), metadata=ADDED_LATER)  # superclasses, where the data set has none of its own
    batch_size: int = field(default=0, compare=False, metadata=NO_PART)  # 0: the usual one
    form: Form | None = field(default=None, compare=False, metadata=NO_PART)  # None: the fastest


Job = TrainJob | AuditJob


def needed_jobs(job: Job) -> tuple[TrainJob, ...]:
    """The trainings that must be finished before a job can start."""
    if isinstance(job, TrainJob):
        wanted: list[object] = [job.start, job.made_with, job.teacher]
    else:
        wanted = [one.surrogate for _, one in job.conditions if isinstance(one, TransferFrom)] + [job.model]
    return tuple(dict.fromkeys(one for one in wanted if isinstance(one, TrainJob)))


def order_jobs(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Every job and all it needs, each once, needs first."""
    ordered: dict[Job, None] = {}
    for job in jobs:
        ordered |= dict.fromkeys((*order_jobs(needed_jobs(job)), job))
    return tuple(ordered)
