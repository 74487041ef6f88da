"""Training methods by name."""

from collections.abc import Callable
from typing import NamedTuple

from leastwise.attacks import CE, KL, PGD, Gaussian, Uniform
from leastwise.balls import Ball
from leastwise.objectives.base import Craft, Epoch, Loss, Objective, crafting
from leastwise.objectives.pgd_at import PGDAT
from leastwise.objectives.schedules import Constant, OneCycle, Schedule
from leastwise.objectives.standard import Standard
from leastwise.objectives.trades import TRADES

__all__ = [
    "METHODS",
    "PGDAT",
    "TRADES",
    "Constant",
    "Craft",
    "Epoch",
    "Loss",
    "Method",
    "Objective",
    "OneCycle",
    "Schedule",
    "Standard",
    "crafting",
    "method",
]


class Method(NamedTuple):
    """A row of the method table; `make` takes the inner attack's ball, step and number of steps."""

    make: Callable[[Ball, float, int], Objective]
    equation: str
    paper: str


METHODS: dict[str, Method] = {
    "standard": Method(lambda ball, step, steps: Standard(), "CE(f(x), y)", ""),
    "pgd-at": Method(
        lambda ball, step, steps: PGDAT(PGD(ball, CE(), step, steps, Uniform())),
        "CE(f(x'), y), x' by PGD on CE",
        "Madry et al. 2018",
    ),
    "trades": Method(
        lambda ball, step, steps: TRADES(PGD(ball, KL(), step, steps, Gaussian(0.001))),
        "CE(f(x), y) + 6·KL(p(x) || p(x')), x' by PGD on KL",
        "Zhang et al. 2019",
    ),
}


def method(name: str) -> Method:
    if name not in METHODS:
        raise ValueError(f"there is no training method {name!r}: choose {', '.join(METHODS)}")
    return METHODS[name]
