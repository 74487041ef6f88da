"""Intervals, tests and verdicts: pure functions of counts and of which images were right. Fractions, never percent.

No network, no file and no sentence for a reader is here: those are in `leastwise.audit` and `leastwise.report`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.statistics.accuracy import (
        adjust_holm,
        compare_class_wise,
        compare_paired,
        exact_interval,
        simultaneous_intervals,
        wilson_interval,
    )
    from leastwise.statistics.gate.language import parse_term
    from leastwise.statistics.race import run_race
    from leastwise.statistics.seeds import compare_class_groups
    from leastwise.statistics.spread import class_gap, homogeneity, measure_spread, rank_classes, worst_accuracy
    from leastwise.statistics.worst_class import (
        estimate_cvar,
        estimate_gini,
        estimate_ranks,
        estimate_worst,
        estimate_worst_k,
        likely_worst,
        probability_worst,
    )

__all__ = [
    "adjust_holm",
    "class_gap",
    "compare_class_groups",
    "compare_class_wise",
    "compare_paired",
    "estimate_cvar",
    "estimate_gini",
    "estimate_ranks",
    "estimate_worst",
    "estimate_worst_k",
    "exact_interval",
    "homogeneity",
    "likely_worst",
    "measure_spread",
    "parse_term",
    "probability_worst",
    "rank_classes",
    "run_race",
    "simultaneous_intervals",
    "wilson_interval",
    "worst_accuracy",
]

__getattr__ = lazy_names(
    __name__,
    {
        "accuracy": "exact_interval simultaneous_intervals wilson_interval adjust_holm compare_class_wise "
        "compare_paired",
        "worst_class": "estimate_worst estimate_cvar estimate_gini estimate_worst_k estimate_ranks likely_worst "
        "probability_worst",
        "spread": "homogeneity measure_spread class_gap worst_accuracy rank_classes",
        "race": "run_race",
        "seeds": "compare_class_groups",
        "gate.language": "parse_term",
    },
)
