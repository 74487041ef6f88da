"""Attacks: frozen values with `run(model, x, y, noise)` and the short call `attack(model, x, y)`.

Threat models are in `threats`, what is climbed in `goals`, and every attack that has a name in `registry`. Running
attacks over a data set and writing down what they found is `leastwise.audit`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.attacks.apgd.attack import APGD
    from leastwise.attacks.base import Attack, Clean, Outcome
    from leastwise.attacks.combine import Cascade, Restarts
    from leastwise.attacks.external import Foreign
    from leastwise.attacks.goals import CE, DLR, KL, Margin, Targeted
    from leastwise.attacks.makers import Threat
    from leastwise.attacks.min_norm.ddn_fmn import FMN, median_distance
    from leastwise.attacks.pgd import PGD, Gaussian, Uniform, fgsm
    from leastwise.attacks.reachability import reach
    from leastwise.attacks.registry import named_all, over_radii
    from leastwise.attacks.square import Square
    from leastwise.attacks.threats import L1, L2, Linf

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
    "Cascade",
    "Clean",
    "Foreign",
    "Gaussian",
    "Linf",
    "Margin",
    "Outcome",
    "Restarts",
    "Square",
    "Targeted",
    "Threat",
    "Uniform",
    "fgsm",
    "median_distance",
    "named_all",
    "over_radii",
    "reach",
]

__getattr__ = lazy_names(
    __name__,
    {
        "base": "Attack Clean Outcome",
        "threats": "L1 L2 Linf",
        "goals": "CE DLR KL Margin Targeted",
        "pgd": "PGD Gaussian Uniform fgsm",
        "apgd.attack": "APGD",
        "square": "Square",
        "combine": "Cascade Restarts",
        "min_norm.ddn_fmn": "FMN median_distance",
        "reachability": "reach",
        "external": "Foreign",
        "registry": "named_all over_radii",
        "makers": "Threat",
    },
)
