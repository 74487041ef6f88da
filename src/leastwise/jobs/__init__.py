"""One language of work: what to train and what to audit as values with keys, where results lie, and who computes.

Nothing here knows what a loss or an attack is: it orders jobs, does each once, and goes on after a crash.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.jobs.audit import audit_task, race_task
    from leastwise.jobs.job import ordered

__all__ = ["audit_task", "ordered", "race_task"]

__getattr__ = lazy_names(
    __name__,
    {
        "job": "ordered",
        "audit": "audit_task race_task",
    },
)
