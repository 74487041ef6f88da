"""Attacks: frozen values with `run(model, x, y, noise)` and the short call `attack(model, x, y)`."""

from leastwise.attacks.apgd import APGD
from leastwise.attacks.autoattack import autoattack
from leastwise.attacks.base import BROKEN, FINE, FLAT, NEVER, Attack, Clean, Keep, Outcome, notes, uses_gradients
from leastwise.attacks.closest import Closest
from leastwise.attacks.combine import Cascade, Grid, Restarts
from leastwise.attacks.conditions import Corrupted, RandomNoise
from leastwise.attacks.cw import CWL2, CWInf
from leastwise.attacks.fab import FAB
from leastwise.attacks.foreign import Foreign, from_art, from_foolbox
from leastwise.attacks.goals import CE, DLR, KL, Goal, Margin, Match, Targeted, TargetedDLR, Toward
from leastwise.attacks.makers import Threat
from leastwise.attacks.minnorm import DDN, FMN, median_distance, survival
from leastwise.attacks.named import TABLE, listed, named, named_all, over_radii
from leastwise.attacks.nattack import NAttack
from leastwise.attacks.pgd import PGD, Gaussian, Signs, Start, Uniform, Zero, fgsm, r_fgsm
from leastwise.attacks.reach import Everywhere, Reach, reach
from leastwise.attacks.square import Square
from leastwise.attacks.transfer import Surrogate, Transfer, surrogate

__all__ = [
    "APGD",
    "BROKEN",
    "CE",
    "CWL2",
    "DDN",
    "DLR",
    "FAB",
    "FINE",
    "FLAT",
    "FMN",
    "KL",
    "NEVER",
    "PGD",
    "TABLE",
    "Attack",
    "CWInf",
    "Cascade",
    "Clean",
    "Closest",
    "Corrupted",
    "Everywhere",
    "Foreign",
    "Gaussian",
    "Goal",
    "Grid",
    "Keep",
    "Margin",
    "Match",
    "NAttack",
    "Outcome",
    "RandomNoise",
    "Reach",
    "Restarts",
    "Signs",
    "Square",
    "Start",
    "Surrogate",
    "Targeted",
    "TargetedDLR",
    "Threat",
    "Toward",
    "Transfer",
    "Uniform",
    "Zero",
    "autoattack",
    "fgsm",
    "from_art",
    "from_foolbox",
    "listed",
    "median_distance",
    "named",
    "named_all",
    "notes",
    "over_radii",
    "r_fgsm",
    "reach",
    "surrogate",
    "survival",
    "uses_gradients",
]
