"""One language of work: what to train and what to audit as values with keys, where results lie, and who computes.

Nothing here knows what a loss or an attack is: it orders jobs, does each once, and goes on after a crash. Verbs make
jobs; results of equal jobs are shared.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.jobs.audit_task import AuditTask, audit
    from leastwise.jobs.executor import LOCAL, Executor
    from leastwise.jobs.images import ImageSet
    from leastwise.jobs.job import AuditJob, TrainJob
    from leastwise.jobs.schedule import JobRunner, execute
    from leastwise.jobs.store import Store

__all__ = [
    "LOCAL",
    "AuditJob",
    "AuditTask",
    "Executor",
    "ImageSet",
    "JobRunner",
    "Store",
    "TrainJob",
    "audit",
    "execute",
]

__getattr__ = lazy_names(
    __name__,
    {
        "audit_task": "AuditTask audit",
        "executor": "LOCAL Executor",
        "images": "ImageSet",
        "job": "AuditJob TrainJob",
        "schedule": "JobRunner execute",
        "store": "Store",
    },
)
