"""Ahn (manuscript).

The folder has its exhibits, how they are drawn, which evidence decides its claims, and its printed numbers.
`papers.registry` imports the drawings and the rules when they are asked for: a list of papers needs neither.
"""

from leastwise.papers.ahn.exhibits import EXHIBITS
from leastwise.papers.exhibit import BN, LAST_STEP, Paper

__all__ = ["PAPER"]


PAPER = Paper(
    "ahn",
    "Class-wise Training Dynamics and Fairness in Adversarially Robust Models",
    "Ahn",
    "Manuscript",
    0,
    EXHIBITS,
    (LAST_STEP, BN),
)
