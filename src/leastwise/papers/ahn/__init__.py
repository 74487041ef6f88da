"""Ahn (manuscript).

The folder has its exhibits, how they are drawn, which evidence decides its claims, and its printed numbers.
The drawings and the rules are imported when first asked for: a list of papers needs neither.
"""

from typing import TYPE_CHECKING

from leastwise.papers.ahn.exhibits import EXHIBITS
from leastwise.papers.exhibit import BN, LAST_STEP, Paper

if TYPE_CHECKING:
    from leastwise.papers.drawing.exhibit_drawing import Drawings
    from leastwise.papers.judge import VerdictRule

__all__ = ["PAPER"]


def load_drawings() -> "Drawings":
    """The functions that draw its exhibits, by the exhibits' ids."""
    from leastwise.papers.ahn.drawings import DRAWINGS

    return DRAWINGS


def load_rules() -> tuple["VerdictRule", ...]:
    """How its exhibits speak to claims."""
    from leastwise.papers.ahn.verdicts import RULES

    return RULES


PAPER = Paper(
    "ahn",
    "Class-wise Training Dynamics and Fairness in Adversarially Robust Models",
    "Ahn",
    "Manuscript",
    0,
    EXHIBITS,
    (LAST_STEP, BN),
    load_drawings=load_drawings,
    load_rules=load_rules,
)
