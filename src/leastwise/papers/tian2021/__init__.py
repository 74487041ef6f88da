"""Tian et al. (KDD 2021).

The folder has its exhibits, how they are drawn, which evidence decides its claims, and its printed numbers.
`papers.registry` imports the drawings and the rules when they are asked for: a list of papers needs neither.
"""

from leastwise.papers.exhibit import LAST_STEP, Paper
from leastwise.papers.tian2021.exhibits import EXHIBITS

__all__ = ["PAPER"]


PAPER = Paper(
    "tian2021",
    "Analysis and Applications of Class-wise Robustness in Adversarial Training",
    "Tian, Kuang, Jiang, Wu, Wang",
    "KDD 2021",
    0,
    EXHIBITS,
    (LAST_STEP,),
)
