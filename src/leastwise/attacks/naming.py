"""What a name of an attack is: how it is spelled, which class it makes from which threat, and what help says of it.

Every file with an attack ends with its names; `registry` lists them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from leastwise.attacks.base import Attack
from leastwise.attacks.choices import Keep
from leastwise.attacks.surrogate import Surrogate, refuse_surrogate
from leastwise.attacks.threats import L2, Ball, Linf

NUMBER = r"([1-9]\d*)"  # in a pattern: a count, from 1


@dataclass(frozen=True)
class Threat:
    """What all named attacks of one audit share. `load` finds the surrogates of transfer attacks."""

    ball: Ball
    step: float
    keep: Keep = "fooled"
    load: Callable[[str], Surrogate] = field(default=refuse_surrogate, compare=False)


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
