"""Jobs as values: what to train and what to audit, in an order that does each thing once."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from leastwise.audit.auditor import Conditions
from leastwise.models.fast.prepare import Form
from leastwise.training.recipe import Training


@dataclass(frozen=True)
class Train:
    """Train a network of a known architecture on a known data set."""

    recipe_name: ClassVar[str] = "Train"

    data: str
    arch: str
    training: Training
    per_class: int | None = None  # only the first images of each class
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    only: tuple[str, ...] = ()  # classes by name, which become the only ones; two make binary training
    start: str = ""  # a checkpoint of the same architecture to begin with
    extra: str = ""  # pseudo-labelled images, which share each batch
    test: str = ""  # the test set, where the recipe looks at it


@dataclass(frozen=True)
class Audit:
    """Audit the network that a training made."""

    recipe_name: ClassVar[str] = "Audit"

    model: Train
    data: str
    conditions: Conditions
    seed: int = 0
    per_class: int | None = None
    batch_size: int = 0  # the usual one
    form: Form | None = None  # how attacks compute the model; None for the fastest


Job = Train | Audit


def needs(job: Job) -> tuple[Job, ...]:
    """What must be finished before the job can start."""
    return (job.model,) if isinstance(job, Audit) else ()


def ordered(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Every job and all it needs, each once, needs first."""
    plan: dict[Job, None] = {}
    for job in jobs:
        plan |= dict.fromkeys((*ordered(needs(job)), job))
    return tuple(plan)
