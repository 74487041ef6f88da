"""Attacking a data set and writing down, image by image, what happened: evidence, and signs that it misleads.

The package is a function, too: `lw.audit(model, data, attacks)` (`leastwise.front.audits.audit`).
Here is what one audit computes. Doing it in shards, going on after a crash and using several machines is
`leastwise.jobs`; tables and pages are `leastwise.report`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names, make_callable

if TYPE_CHECKING:
    from leastwise.audit.auditor import Auditor, make_auditor
    from leastwise.audit.evidence import Evidence, load_evidence

__all__ = ["Auditor", "Evidence", "load_evidence", "make_auditor"]

__getattr__ = lazy_names(
    __name__,
    {
        "auditor": "Auditor make_auditor",
        "evidence": "Evidence load_evidence",
    },
)

make_callable(__name__, "leastwise.front.audits", "audit")
