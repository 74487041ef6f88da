"""Attacks: frozen values with `run(model, x, y, noise)` and the short call `attack(model, x, y)`."""

from leastwise.attacks.base import NEVER, Attack, Clean, Outcome, uses_gradients
from leastwise.attacks.combine import Cascade
from leastwise.attacks.goals import CE, KL, Goal, Margin, Match, Targeted
from leastwise.attacks.named import TABLE, Threat, named, named_all
from leastwise.attacks.pgd import PGD, Gaussian, Keep, Start, Uniform, Zero, fgsm

__all__ = [
    "CE",
    "KL",
    "NEVER",
    "PGD",
    "TABLE",
    "Attack",
    "Cascade",
    "Clean",
    "Gaussian",
    "Goal",
    "Keep",
    "Margin",
    "Match",
    "Outcome",
    "Start",
    "Targeted",
    "Threat",
    "Uniform",
    "Zero",
    "fgsm",
    "named",
    "named_all",
    "uses_gradients",
]
