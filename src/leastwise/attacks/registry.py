"""Attacks by name: the one list that the command line, the documentation, the reports and the tests read.

What is known of a name, and of the class it makes, stands in the attack's own file. A name may also be made of others:
`A+B` is a cascade and `A[EPS]` an attack at a radius of its own.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from leastwise.attacks.apgd.apgd import APGD_CE, APGD_DLR, APGD_T, MINIMUM_MARGIN
from leastwise.attacks.autoattack import FAST, OPENED, PLUS, RANDOMISED, STANDARD
from leastwise.attacks.base import Attack, Clean
from leastwise.attacks.choices import Keep, Norm
from leastwise.attacks.combine import Cascade, Restarts
from leastwise.attacks.corners import CORNERS
from leastwise.attacks.corruptions import CORRUPTION, GAUSSIAN, UNIFORM
from leastwise.attacks.external import ExternalAttack
from leastwise.attacks.fab.fab import FAB_NEAREST, FAB_T
from leastwise.attacks.min_norm.cw import CW_L2, CW_LINF
from leastwise.attacks.min_norm.ddn_fmn import DDN_STEPS, FMN_STEPS
from leastwise.attacks.min_norm.hop_skip_jump import HOP_SKIP_JUMP
from leastwise.attacks.naming import AttackName, Threat
from leastwise.attacks.nattack import NATTACK
from leastwise.attacks.one_step import FGSM, FGSM_RANDOM_START, R_FGSM
from leastwise.attacks.pgd import (
    CW_LOSS_PGD,
    FRIENDLY_PGD,
    KL_PGD,
    MOMENTUM_PGD,
    PGD_STEPS,
    TARGETED_PGD,
    TEMPERATURE_PGD,
    TEMPERATURE_PGD_GRID,
)
from leastwise.attacks.pma import PROBABILITY_MARGIN
from leastwise.attacks.reachability import REACH
from leastwise.attacks.square import SQUARE
from leastwise.attacks.threats import L1, L2, Linf
from leastwise.attacks.transfer import TRANSFER
from leastwise.core.text import did_you_mean, parse_number

CLEAN = AttackName(
    Clean, "clean", "clean", r"clean", lambda threat: Clean(), "the images as they are", paper="", cost="1 forward"
)
SEVERAL = AttackName(
    Cascade,
    "A+B[+…]",
    "fgsm+pgd2",
    r"((?!transfer:)[^+]+(?:\+[^+]+)+)",
    lambda threat, names: Cascade(tuple(make_attack(name, threat) for name in names.split("+"))),
    "several attacks as one, each on what survived those before it: the worst case of every image",
    "",
    "as its members, the later ones on survivors",
)
AT_RADIUS = AttackName(
    None,
    "A[EPS]",
    "pgd2[1/255]",
    r"(transfer:[^\[]+|[^+\[]+)\[([^\[\]]+)\]",
    lambda threat, name, eps: make_attack(name, with_radius(threat, eps)),
    "an attack at a radius of its own, with a step in proportion: several make a security curve",
    "",
    "as the attack",
)
NAMES: tuple[AttackName, ...] = (
    CLEAN,
    FGSM,
    FGSM_RANDOM_START,
    R_FGSM,
    PGD_STEPS,
    MOMENTUM_PGD,
    TEMPERATURE_PGD,
    TEMPERATURE_PGD_GRID,
    CW_LOSS_PGD,
    KL_PGD,
    TARGETED_PGD,
    REACH,
    FRIENDLY_PGD,
    PROBABILITY_MARGIN,
    APGD_CE,
    APGD_DLR,
    APGD_T,
    MINIMUM_MARGIN,
    FAB_NEAREST,
    FAB_T,
    SQUARE,
    STANDARD,
    OPENED,
    FAST,
    PLUS,
    RANDOMISED,
    CW_LINF,
    CW_L2,
    DDN_STEPS,
    FMN_STEPS,
    HOP_SKIP_JUMP,
    NATTACK,
    TRANSFER,
    CORNERS,
    UNIFORM,
    GAUSSIAN,
    CORRUPTION,
    SEVERAL,
    AT_RADIUS,
)
WITHOUT_NAME: tuple[type[Attack], ...] = (Restarts, ExternalAttack)  # part of a name, and what only Python can make
CLASSES: dict[str, type[Attack]] = {
    kind.recipe_name: kind for kind in (*(name.kind for name in NAMES), *WITHOUT_NAME) if kind is not None
}


def class_of(recipe_name: str) -> type[Attack] | None:
    """The class that a stored recipe calls so; nothing for an attack of the user's own."""
    return CLASSES.get(recipe_name)


def make_threat(norm: str, eps: str | float, step: str | float | None = None, *, keep: Keep = "fooled") -> Threat:
    """The radius, step (a quarter of the radius unless given) and counting rule that all attacks of an audit share."""
    radius = parse_number(eps, "eps") if isinstance(eps, str) else float(eps)
    if norm not in get_args(Norm):
        raise ValueError(f"there is no norm {norm!r}: {did_you_mean(norm.lower(), get_args(Norm))}")
    if norm == "linf" and 1 < radius < math.inf:
        raise ValueError(f"eps is in pixel units and images span [0, 1], but saw {radius:g}: write {radius:g}/255")
    ball = Linf(radius) if norm == "linf" else L2(radius) if norm == "l2" else L1(radius)
    given = parse_number(step, "step") if isinstance(step, str) and step else step
    length = radius / 4 if given in (None, "") else float(given)
    return Threat(ball, length, keep)


def make_attack(name: str, threat: Threat) -> Attack:
    """The attack of that name under that threat."""
    row, parts = find_name(name)
    return row.make(threat, *parts)


def find_name(name: str) -> tuple[AttackName, tuple[str | None, ...]]:
    """The row of a name, and what the name says beyond it."""
    for row in NAMES:
        if match := re.fullmatch(row.pattern, name):
            for part in names_inside(row, match.groups()):
                find_name(part)
            return row, match.groups()
    raise ValueError(f"there is no attack {name!r}: choose from {', '.join(row.spelling for row in NAMES)}")


def names_inside(row: AttackName, parts: tuple[str | None, ...]) -> list[str]:
    """The names that a name is made of."""
    if row == AT_RADIUS:
        return [parts[0] or ""]
    return (parts[0] or "").split("+") if row == SEVERAL else []


def make_attacks(names: str, threat: Threat) -> tuple[tuple[str, Attack], ...]:
    """The attacks of a comma-separated list of names, each once."""
    return tuple((name, make_attack(name, threat)) for name in split_names(names))


def split_names(names: str) -> tuple[str, ...]:
    """The names of a comma-separated list, checked."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise ValueError("no attack was named: give a list such as clean,pgd20")
    if repeated := sorted({name for name in wanted if wanted.count(name) > 1}):
        raise ValueError(f"{', '.join(repeated)} is named more than once: give each attack once")
    for name in wanted:
        find_name(name)
    return tuple(wanted)


def repeat_over_radii(names: str, radii: Sequence[str], threat: Threat) -> str:
    """The names with every attack that has a radius once for each of several: `pgd20` becomes `pgd20[2/255],…`."""
    if len(radii) == 1:
        return names
    spelled = []
    for name in split_names(names):
        several = [spell_at_radius(name, radius) for radius in radii]
        moves = "[" not in name and make_attack(several[0], threat) != make_attack(several[-1], threat)
        spelled += several if moves else [name]
    return ",".join(spelled)


def spell_at_radius(name: str, radius: str) -> str:
    """The name of an attack, or of each member of several, at a radius."""
    parts = [name] if name.startswith("transfer:") else name.split("+")
    return "+".join(f"{part}[{radius}]" for part in parts)


def with_radius(threat: Threat, eps: str) -> Threat:
    """The threat at another radius, with a step in proportion."""
    radius = parse_number(eps, "eps")
    own = threat.ball.eps
    assert isinstance(own, float), "a named attack has one radius"
    return replace(threat, ball=threat.ball.at(radius), step=threat.step * radius / own if own else radius / 4)
