"""The anonymous submission on the robustness-accuracy tradeoff (ICLR 2022).

The folder has its exhibits, how they are drawn, which evidence decides its claims, and its printed numbers.
`papers.registry` imports the drawings and the rules when they are asked for: a list of papers needs neither.
"""

from leastwise.papers.exhibit import LAST_STEP, Paper
from leastwise.papers.tradeoff2022.exhibits import EXHIBITS

__all__ = ["PAPER"]


PAPER = Paper(
    "tradeoff2022",
    "Understanding the robustness-accuracy tradeoff by rethinking robust fairness",
    "Anonymous",
    "Submitted to ICLR 2022",
    0,
    EXHIBITS,
    (LAST_STEP,),
)
