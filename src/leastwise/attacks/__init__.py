"""Attacks: frozen values with `run(model, x, y, noise)` and the short call `attack(model, x, y)`."""

from leastwise.attacks.base import BROKEN, FINE, FLAT, NEVER, Attack, Clean, Keep, Outcome, notes, uses_gradients
from leastwise.attacks.combine import Cascade, Grid, Restarts
from leastwise.attacks.goals import CE, DLR, KL, Goal, Margin, Match, Targeted, TargetedDLR
from leastwise.attacks.named import TABLE, Threat, named, named_all
from leastwise.attacks.pgd import PGD, Gaussian, Signs, Start, Uniform, Zero, fgsm, r_fgsm

__all__ = [
    "BROKEN",
    "CE",
    "DLR",
    "FINE",
    "FLAT",
    "KL",
    "NEVER",
    "PGD",
    "TABLE",
    "Attack",
    "Cascade",
    "Clean",
    "Gaussian",
    "Goal",
    "Grid",
    "Keep",
    "Margin",
    "Match",
    "Outcome",
    "Restarts",
    "Signs",
    "Start",
    "Targeted",
    "TargetedDLR",
    "Threat",
    "Uniform",
    "Zero",
    "fgsm",
    "named",
    "named_all",
    "notes",
    "r_fgsm",
    "uses_gradients",
]
