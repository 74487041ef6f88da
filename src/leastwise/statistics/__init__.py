"""Intervals, tests and verdicts: pure functions of counts and of which images were right. Fractions, never percent."""

from leastwise.statistics.agreement import Agreement, agreement, dominated
from leastwise.statistics.game import Value, pair_game, source_game
from leastwise.statistics.gate import Outcome, Result, SingleImages, Verdict, decide
from leastwise.statistics.inequality import (
    boundary_error,
    cvar,
    false_positive_rate,
    gap,
    gini,
    nsd_accuracy,
    nsd_error,
    rho,
    worst_k,
)
from leastwise.statistics.intervals import (
    CONFIDENCE,
    Bounds,
    ClassCounts,
    Counts,
    PerClass,
    exact,
    lower,
    simultaneous,
    upper,
    wilson,
)
from leastwise.statistics.paired import ClassWise, Paired, class_wise, paired
from leastwise.statistics.pairwise import Ranking, holm, ranking, two_classes
from leastwise.statistics.power import against_threshold, between_classes, same_images
from leastwise.statistics.race import Round, bounds, race, replay
from leastwise.statistics.seeds import GroupDifference, class_groups, groups
from leastwise.statistics.spread import Spread, homogeneity, spread, variance_bounds
from leastwise.statistics.terms import Term, parse
from leastwise.statistics.worst import Discrepancy, Worst, discrepancy, expected_minimum, probability_worst, worst

__all__ = [
    "CONFIDENCE",
    "Agreement",
    "Bounds",
    "ClassCounts",
    "ClassWise",
    "Counts",
    "Discrepancy",
    "GroupDifference",
    "Outcome",
    "Paired",
    "PerClass",
    "Ranking",
    "Result",
    "Round",
    "SingleImages",
    "Spread",
    "Term",
    "Value",
    "Verdict",
    "Worst",
    "against_threshold",
    "agreement",
    "between_classes",
    "boundary_error",
    "bounds",
    "class_groups",
    "class_wise",
    "cvar",
    "decide",
    "discrepancy",
    "dominated",
    "exact",
    "expected_minimum",
    "false_positive_rate",
    "gap",
    "gini",
    "groups",
    "holm",
    "homogeneity",
    "lower",
    "nsd_accuracy",
    "nsd_error",
    "pair_game",
    "paired",
    "parse",
    "probability_worst",
    "race",
    "ranking",
    "replay",
    "rho",
    "same_images",
    "simultaneous",
    "source_game",
    "spread",
    "two_classes",
    "upper",
    "variance_bounds",
    "wilson",
    "worst",
    "worst_k",
]
