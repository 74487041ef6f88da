"""Benz et al. (PMLR 148, 2021).

The folder has its exhibits, how they are drawn, which evidence decides its claims, and its printed numbers.
`papers.registry` imports the drawings and the rules when they are asked for: a list of papers needs neither.
"""

from leastwise.papers.benz2021.exhibits import EXHIBITS
from leastwise.papers.exhibit import BN, LAST_STEP, Paper

__all__ = ["PAPER"]


PAPER = Paper(
    "benz2021",
    "Robustness May Be at Odds with Fairness: An Empirical Study on Class-wise Accuracy",
    "Benz, Zhang, Karjauv, Kweon",
    "PMLR 148, 2021",
    1,
    EXHIBITS,
    (LAST_STEP, BN),
)
