"""Benz et al. (PMLR 148, 2021).

The folder has its exhibits, how they are drawn, which evidence decides its claims, and its printed numbers.
The drawings and the rules are imported when first asked for: a list of papers needs neither.
"""

from typing import TYPE_CHECKING

from leastwise.papers.benz2021.exhibits import EXHIBITS
from leastwise.papers.exhibit import BN, LAST_STEP, Paper

if TYPE_CHECKING:
    from leastwise.papers.drawing.exhibit_drawing import Drawings
    from leastwise.papers.judge import VerdictRule

__all__ = ["PAPER"]


def load_drawings() -> "Drawings":
    """The functions that draw its exhibits, by the exhibits' ids."""
    from leastwise.papers.benz2021.drawings import DRAWINGS

    return DRAWINGS


def load_rules() -> tuple["VerdictRule", ...]:
    """How its exhibits speak to claims."""
    from leastwise.papers.benz2021.verdicts import RULES

    return RULES


PAPER = Paper(
    "benz2021",
    "Robustness May Be at Odds with Fairness: An Empirical Study on Class-wise Accuracy",
    "Benz, Zhang, Karjauv, Kweon",
    "PMLR 148, 2021",
    1,
    EXHIBITS,
    (LAST_STEP, BN),
    load_drawings=load_drawings,
    load_rules=load_rules,
)
