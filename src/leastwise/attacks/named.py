"""Attacks by name: the one table that the command line, the documentation and the tests read."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from leastwise.attacks.base import Attack, Clean, Keep
from leastwise.attacks.combine import Grid
from leastwise.attacks.goals import CE, Margin
from leastwise.attacks.pgd import PGD, fgsm
from leastwise.balls import Ball

TEMPERATURE = 5.0  # 1/T of a plain `tpgd`: the value Tian et al. report for MART and HE
TEMPERATURE_GRID = (2.0, 5.0, 10.0, 50.0)  # Tian et al., section 5


@dataclass(frozen=True)
class Threat:
    """What all named attacks of one audit share."""

    ball: Ball
    step: float
    keep: Keep = "fooled"


class Named(NamedTuple):
    """A row of the table. The pattern's groups are handed to `make` after the threat."""

    spelling: str
    pattern: str
    make: Callable[..., Attack]
    about: str
    paper: str
    cost: str


def pgd(threat: Threat, steps: str) -> PGD:
    return PGD(threat.ball, CE(), threat.step, int(steps), keep=threat.keep)


def tpgd(threat: Threat, steps: str, inverse_temperature: str | None) -> PGD:
    goal = CE(TEMPERATURE if inverse_temperature is None else float(inverse_temperature))
    return PGD(threat.ball, goal, threat.step, int(steps), keep=threat.keep)


def tpgd_grid(threat: Threat, steps: str) -> Grid:
    return Grid(tuple(tpgd(threat, steps, str(t)) for t in TEMPERATURE_GRID))


def cw(threat: Threat, steps: str) -> PGD:
    return PGD(threat.ball, Margin(kappa=50.0), threat.step, int(steps), keep=threat.keep)


TABLE: tuple[Named, ...] = (
    Named("clean", r"clean", lambda threat: Clean(), "the images as they are", "", "1 forward"),
    Named(
        "fgsm",
        r"fgsm",
        lambda threat: fgsm(threat.ball, keep=threat.keep),
        "one step of size eps from the image",
        "Goodfellow et al. 2015",
        "2 forwards, 1 backward",
    ),
    Named(
        "pgdN",
        r"pgd([1-9]\d*)",
        pgd,
        "N steps on cross-entropy from a uniform start",
        "Madry et al. 2018",
        "at most N + 2 forwards, N backwards",
    ),
    Named(
        "tpgdN[@K]",
        r"tpgd([1-9]\d*)(?:@(\d+(?:\.\d+)?))?",
        tpgd,
        f"Temperature-PGD: cross-entropy of K·logits, K = 1/T = {TEMPERATURE:g} unless given",
        "Tian et al. 2021",
        "as pgdN",
    ),
    Named(
        "tpgdN-grid",
        r"tpgd([1-9]\d*)-grid",
        tpgd_grid,
        f"Temperature-PGD, each and the worst of 1/T = {', '.join(f'{t:g}' for t in TEMPERATURE_GRID)}",
        "Tian et al. 2021",
        f"{len(TEMPERATURE_GRID)} × pgdN",
    ),
    Named(
        "cwN",
        r"cw([1-9]\d*)",
        cw,
        "N steps on the margin with kappa = 50 from a uniform start",
        "Carlini & Wagner 2017, as used by Madry et al. 2018",
        "as pgdN",
    ),
)


def named(name: str, threat: Threat) -> Attack:
    """The attack of that name under that threat."""
    for row in TABLE:
        if match := re.fullmatch(row.pattern, name):
            return row.make(threat, *match.groups())
    raise ValueError(f"there is no attack {name!r}: choose from {', '.join(row.spelling for row in TABLE)}")


def named_all(names: str, threat: Threat) -> tuple[tuple[str, Attack], ...]:
    """A comma-separated list of names, each once."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise ValueError("no attack was named: give a list such as clean,pgd20")
    if repeated := sorted({name for name in wanted if wanted.count(name) > 1}):
        raise ValueError(f"{', '.join(repeated)} is named more than once: give each attack once")
    return tuple((name, named(name, threat)) for name in wanted)
