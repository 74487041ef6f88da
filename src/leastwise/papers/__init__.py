"""Four papers: what each exhibit needs, what it claims, what it printed, and our numbers beside it.

Each paper is a folder: its exhibits, how they are drawn, which evidence decides its claims, and its printed numbers.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.papers.registry import PAPERS

__all__ = ["PAPERS"]

__getattr__ = lazy_names(
    __name__,
    {
        "registry": "PAPERS",
    },
)
