"""What happens while jobs run, for whoever listens: progress of trainings, of audits and of races."""

from collections.abc import Callable
from typing import NamedTuple

from leastwise.core.counts import Tally
from leastwise.models.fast.prepare import Prepared
from leastwise.statistics.race import Round
from leastwise.training.base import Epoch
from leastwise.training.loop import StepProgress


class Ready(NamedTuple):
    """The form of the model that attacks will use."""

    prepared: Prepared


class AtMost(NamedTuple):
    """Before the first shard: how long all of it takes if no image falls early; None if an attack's cost is unknown."""

    seconds: float | None


class Planned(NamedTuple):
    """After the first shard: how long all of it takes, and how much of it fits into the time there is."""

    shards: int
    fit: int
    seconds: float  # of all shards
    over: bool = False  # whether the first shard alone took longer than there was time


class Step(NamedTuple):
    """Progress: one batch under one condition is done."""

    condition: str
    fraction: float  # of the whole audit
    so_far: Tally  # all batches of this condition


class Meanwhile(NamedTuple):
    """Progress inside a batch that takes long: at least so much is done, for few images need all passes."""

    condition: str
    fraction: float  # of the whole audit


AuditEvent = Ready | AtMost | Planned | Step | Meanwhile
AuditListener = Callable[[AuditEvent], None]
JobEvent = StepProgress | Epoch | AuditEvent | Round
JobEventListener = Callable[[JobEvent], None]


def ignore(event: object) -> None:
    """The listener of whoever does not listen."""
