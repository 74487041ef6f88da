"""Why classes are weak: pure functions of evidence, of features and of class accuracies. Fractions, never percent.

Sentences and pages made of it are in `leastwise.report.explain`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.insight.agreement import compare_profiles
    from leastwise.insight.confusion import count_confusions, find_communities
    from leastwise.insight.explain import explain_classes
    from leastwise.insight.features import measure_moments
    from leastwise.insight.homing import measure_homing

__all__ = [
    "compare_profiles",
    "count_confusions",
    "explain_classes",
    "find_communities",
    "measure_homing",
    "measure_moments",
]

__getattr__ = lazy_names(
    __name__,
    {
        "agreement": "compare_profiles",
        "confusion": "count_confusions find_communities",
        "explain": "explain_classes",
        "features": "measure_moments",
        "homing": "measure_homing",
    },
)
