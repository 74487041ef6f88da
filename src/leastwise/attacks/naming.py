"""What a name of an attack is: how it is spelled, which class it makes from which threat, and what help says of it.

Every file with an attack ends with its names; `registry` lists them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, get_args

from leastwise.attacks.base import Attack
from leastwise.attacks.choices import Keep, Norm
from leastwise.attacks.surrogate import Surrogate, refuse_surrogate
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.core.text import did_you_mean, parse_number

NUMBER = r"([1-9]\d*)"  # in a pattern: a count, from 1


@dataclass(frozen=True)
class Threat:
    """What all named attacks of one audit share. `load` finds the surrogates of transfer attacks."""

    ball: Ball
    step: float
    keep: Keep = "fooled"
    load: Callable[[str], Surrogate] = field(default=refuse_surrogate, compare=False)


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


class AttackName(NamedTuple):
    """A name, or a family of names. The pattern's groups are handed to `make` after the threat."""

    kind: type[Attack] | None  # the class that it makes; None where that depends on another name
    spelling: str
    example: str
    pattern: str
    make: Callable[..., Attack]
    about: str
    paper: str
    cost: str  # in words; `Attack.cost` has the numbers


def ball_in_norm(threat: Threat, norm: type[Linf] | type[L2], name: str) -> Ball:
    """The threat's ball, for an attack that measures distance in one norm only."""
    if not isinstance(threat.ball, norm):
        raise ValueError(f"{name} measures distance in {norm.__name__}: give --norm {norm.__name__.lower()}")
    return threat.ball
