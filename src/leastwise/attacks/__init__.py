"""Attacks: frozen values with `run(model, x, y, noise)` and the short call `attack(model, x, y)`.

Threat models are in `threats`, what is climbed in `goals`, and every attack that has a name in `registry`. Running
attacks over a data set and writing down what they found is `leastwise.audit`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.attacks.apgd.apgd import APGD
    from leastwise.attacks.autoattack import make_autoattack
    from leastwise.attacks.base import Attack, BallAttack, Clean, Outcome, Passes
    from leastwise.attacks.combine import Cascade, Restarts
    from leastwise.attacks.external import ExternalAttack
    from leastwise.attacks.goals import CE, DLR, KL, Margin, Targeted
    from leastwise.attacks.min_norm.ddn_fmn import FMN, median_distance
    from leastwise.attacks.naming import Threat
    from leastwise.attacks.one_step import fgsm
    from leastwise.attacks.pgd import PGD
    from leastwise.attacks.reachability import reach
    from leastwise.attacks.registry import make_attack, make_attacks, repeat_over_radii
    from leastwise.attacks.square import Square
    from leastwise.attacks.threats import L1, L2, Gaussian, Linf, Uniform

__all__ = [
    "APGD",
    "CE",
    "DLR",
    "FMN",
    "KL",
    "L1",
    "L2",
    "PGD",
    "Attack",
    "BallAttack",
    "Cascade",
    "Clean",
    "ExternalAttack",
    "Gaussian",
    "Linf",
    "Margin",
    "Outcome",
    "Passes",
    "Restarts",
    "Square",
    "Targeted",
    "Threat",
    "Uniform",
    "fgsm",
    "make_attack",
    "make_attacks",
    "make_autoattack",
    "median_distance",
    "reach",
    "repeat_over_radii",
]

__getattr__ = lazy_names(
    __name__,
    {
        "base": "Attack BallAttack Outcome Passes Clean",
        "threats": "L1 L2 Linf Gaussian Uniform",
        "goals": "CE DLR KL Margin Targeted",
        "one_step": "fgsm",
        "pgd": "PGD",
        "apgd.apgd": "APGD",
        "square": "Square",
        "autoattack": "make_autoattack",
        "combine": "Cascade Restarts",
        "min_norm.ddn_fmn": "FMN median_distance",
        "reachability": "reach",
        "external": "ExternalAttack",
        "registry": "make_attack make_attacks repeat_over_radii",
        "naming": "Threat",
    },
)
