"""Pages of evidence that no network made, each made once for all tests of a process."""

from functools import cache

from leastwise.report.page.page import make_page
from tests.report.evidence_made_up import audited


@cache
def page_of(k: int) -> str:
    """The page of two models with k classes."""
    return make_page(audited(k))
