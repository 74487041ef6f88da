"""Tian et al. (KDD 2021).

The folder has its exhibits, how they are drawn, which evidence decides its claims, and its printed numbers.
The drawings and the rules are imported when first asked for: a list of papers needs neither.
"""

from typing import TYPE_CHECKING

from leastwise.papers.exhibit import LAST_STEP, Paper
from leastwise.papers.tian2021.exhibits import EXHIBITS

if TYPE_CHECKING:
    from leastwise.papers.drawing.exhibit_drawing import Drawings
    from leastwise.papers.judge import VerdictRule

__all__ = ["PAPER"]


def load_drawings() -> "Drawings":
    """The functions that draw its exhibits, by the exhibits' ids."""
    from leastwise.papers.tian2021.drawings import DRAWINGS

    return DRAWINGS


def load_rules() -> tuple["VerdictRule", ...]:
    """How its exhibits speak to claims."""
    from leastwise.papers.tian2021.verdicts import RULES

    return RULES


PAPER = Paper(
    "tian2021",
    "Analysis and Applications of Class-wise Robustness in Adversarial Training",
    "Tian, Kuang, Jiang, Wu, Wang",
    "KDD 2021",
    0,
    EXHIBITS,
    (LAST_STEP,),
    load_drawings=load_drawings,
    load_rules=load_rules,
)
