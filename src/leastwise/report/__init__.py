"""From evidence to what people and programs read: summaries, tables, comparisons, charts and pages.

Nothing here attacks or trains; numbers come from `leastwise.statistics` and `leastwise.insight`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.report.gate import from_evidence
    from leastwise.report.page.page import Audited
    from leastwise.report.terminal.table import headline

__all__ = ["Audited", "from_evidence", "headline"]

__getattr__ = lazy_names(
    __name__,
    {
        "terminal.table": "headline",
        "gate": "from_evidence",
        "page.page": "Audited",
    },
)
