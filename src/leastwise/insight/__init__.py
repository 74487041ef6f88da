"""Why classes are weak: pure functions of evidence, of features and of class accuracies. Fractions, never percent.

Sentences and pages made of it are in `leastwise.report.explain`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.insight.agreement import profile_similarity
    from leastwise.insight.features import moments

__all__ = ["moments", "profile_similarity"]

__getattr__ = lazy_names(
    __name__,
    {
        "features": "moments",
        "agreement": "profile_similarity",
    },
)
