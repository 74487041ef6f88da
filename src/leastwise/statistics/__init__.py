"""Intervals, tests and verdicts: pure functions of counts and of which images were right. Fractions, never percent.

No network, no file and no sentence for a reader is here: those are in `leastwise.audit` and `leastwise.report`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.statistics.gate.language import parse
    from leastwise.statistics.intervals import exact, simultaneous, wilson
    from leastwise.statistics.paired import class_wise, paired
    from leastwise.statistics.pairwise import holm, ranking
    from leastwise.statistics.seeds import class_groups
    from leastwise.statistics.spread import homogeneity
    from leastwise.statistics.worst_class import probability_worst, worst

__all__ = [
    "class_groups",
    "class_wise",
    "exact",
    "holm",
    "homogeneity",
    "paired",
    "parse",
    "probability_worst",
    "ranking",
    "simultaneous",
    "wilson",
    "worst",
]

__getattr__ = lazy_names(
    __name__,
    {
        "intervals": "exact simultaneous wilson",
        "worst_class": "worst probability_worst",
        "spread": "homogeneity",
        "pairwise": "ranking holm",
        "paired": "class_wise paired",
        "seeds": "class_groups",
        "gate.language": "parse",
    },
)
