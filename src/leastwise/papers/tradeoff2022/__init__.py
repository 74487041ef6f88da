"""The anonymous submission on the robustness-accuracy tradeoff (ICLR 2022).

The folder has its exhibits, how they are drawn, which evidence decides its claims, and its printed numbers.
The drawings and the rules are imported when first asked for: a list of papers needs neither.
"""

from typing import TYPE_CHECKING

from leastwise.papers.exhibit import LAST_STEP, Paper
from leastwise.papers.tradeoff2022.exhibits import EXHIBITS

if TYPE_CHECKING:
    from leastwise.papers.drawing.exhibit_drawing import Drawings
    from leastwise.papers.judge import VerdictRule

__all__ = ["PAPER"]


def load_drawings() -> "Drawings":
    """The functions that draw its exhibits, by the exhibits' ids."""
    from leastwise.papers.tradeoff2022.drawings import DRAWINGS

    return DRAWINGS


def load_rules() -> tuple["VerdictRule", ...]:
    """How its exhibits speak to claims."""
    from leastwise.papers.tradeoff2022.verdicts import RULES

    return RULES


PAPER = Paper(
    "tradeoff2022",
    "Understanding the robustness-accuracy tradeoff by rethinking robust fairness",
    "Anonymous",
    "Submitted to ICLR 2022",
    0,
    EXHIBITS,
    (LAST_STEP,),
    load_drawings=load_drawings,
    load_rules=load_rules,
)
