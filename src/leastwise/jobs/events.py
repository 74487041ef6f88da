"""What happens while jobs run, for whoever listens: progress of trainings, of audits and of races."""

from collections.abc import Callable

from leastwise.audit.auditor import AuditEvent
from leastwise.statistics.race import Round
from leastwise.training.base import Epoch
from leastwise.training.loop import StepProgress

JobEvent = StepProgress | Epoch | AuditEvent | Round
JobEventListener = Callable[[JobEvent], None]


def ignore(event: object) -> None:
    """The listener of whoever does not listen."""
