"""From evidence to what people and programs read: summaries, tables, comparisons, charts and pages.

The package is a function, too: `lw.report(audits, "page.html")` (`leastwise.front.reports.report`).
Nothing here attacks or trains; numbers come from `leastwise.statistics` and `leastwise.insight`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names, make_callable

if TYPE_CHECKING:
    from leastwise.report.gate import from_evidence
    from leastwise.report.page.page import make_page
    from leastwise.report.results import AuditedModel, open_result
    from leastwise.report.summary import summarise
    from leastwise.report.terminal.view import headline

__all__ = ["AuditedModel", "from_evidence", "headline", "make_page", "open_result", "summarise"]

__getattr__ = lazy_names(
    __name__,
    {
        "results": "AuditedModel open_result",
        "summary": "summarise",
        "page.page": "make_page",
        "gate": "from_evidence",
        "terminal.view": "headline",
    },
)

make_callable(__name__, "leastwise.front.reports", "report")
