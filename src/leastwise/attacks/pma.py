"""PMA: the attack on the margin of probabilities, max_{j != y} p_j - p_y (Xie et al., CVPR 2025).

Two runs of the attack loop, each from a uniform start of its own and the second on what survived the first. The first
step climbs p_y; the others of the first half climb -p_y in the first run, and the probability of the likeliest other
class in the second; the second half climbs the margin. In both halves the step falls from 2 eps as half a cosine wave:

step t of a half of h steps is 2 eps · (1 + cos(pi t / h)) / 2
"""

import math
from dataclasses import dataclass
from typing import ClassVar, get_args

from torch import nn

from leastwise.attacks.base import BallAttack, Outcome, Passes, pick_rows, rows_of
from leastwise.attacks.choices import Keep
from leastwise.attacks.combine import merge_run
from leastwise.attacks.goals import CE, Goal, Probability, ProbabilityMargin
from leastwise.attacks.naming import NUMBER, AttackName
from leastwise.attacks.pgd import PGD, ClimbStep, ClimbSteps, run_fooled, run_last
from leastwise.attacks.threats import Ball, Linf, Uniform
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels

EXPLORED: tuple[Goal, ...] = (CE(), Probability("rival"))  # in the first half of each run; CE climbs as -p_y does


@dataclass(frozen=True)
class PMA(BallAttack):
    """`steps` are those of one run. `step` of the outcome counts through both."""

    recipe_name: ClassVar[str] = "PMA"

    ball: Ball = Linf(8 / 255)
    steps: int = 100
    keep: Keep = "last"

    def __post_init__(self) -> None:
        if self.steps < 2:
            raise ValueError(f"PMA needs two halves of at least one step, but saw {self.steps}")
        if self.keep not in get_args(Keep):
            raise ValueError(f"keep must be {' or '.join(get_args(Keep))}, but saw {self.keep!r}")

    def __str__(self) -> str:
        counted = "any iterate counts" if self.keep == "fooled" else "the last iterate of a run counts"
        return f"PMA: {len(EXPLORED)} runs of {self.steps} steps on {ProbabilityMargin()}, {self.ball}, {counted}"

    def cost(self, k: int) -> Passes:
        one = PGD(self.ball, ProbabilityMargin(), steps=self.steps, keep=self.keep)
        return one.cost(k) * len(EXPLORED)

    @property
    def last_step(self) -> int:
        return len(EXPLORED) * self.steps

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        attack = PGD(self.ball, ProbabilityMargin(), 2 * self.ball.eps, self.steps, Uniform(), self.keep)
        run_steps = run_last if self.keep == "last" else run_fooled
        found = run_steps(attack, model, x, y, noise, plan=make_steps(self.steps, EXPLORED[0]))
        for number, explored in enumerate(EXPLORED[1:], start=1):
            rows = rows_of(~found.fooled)
            if len(rows) == 0:
                break
            again, left = noise.pick(rows).fork("run", number), pick_rows(attack, rows)
            more = run_steps(left, model, x[rows], y[rows], again, plan=make_steps(self.steps, explored))
            found = merge_run(found, rows, more, begun=number * self.steps)
        return found


def make_steps(steps: int, explored: Goal) -> ClimbSteps:
    """What every step of a run climbs, and its share of 2 eps."""
    first = steps // 2
    goals = (Probability("label"), *(explored,) * (first - 1), *(ProbabilityMargin(),) * (steps - first))
    shares = (*falling_shares(first), *falling_shares(steps - first))
    return tuple(map(ClimbStep, goals, shares))


def falling_shares(steps: int) -> list[float]:
    """Half a cosine wave, from 1 down."""
    return [(1 + math.cos(math.pi * t / steps)) / 2 for t in range(steps)]


PROBABILITY_MARGIN = AttackName(
    PMA,
    "pma[:N]",
    "pma:4",
    rf"pma(?::{NUMBER})?",
    lambda threat, steps: PMA(threat.ball, int(steps or 100), threat.keep),
    "the margin of probabilities: two runs of N steps, 100 unless given, that explore first",
    "Xie et al. 2025",
    "at most 2 × (N + 2) forwards, 2 × N backwards",
)
