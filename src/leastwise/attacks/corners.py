"""Random corners of the ball: a baseline without gradients, which an attack that has them must beat."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from leastwise.attacks.base import (
    BROKEN,
    FINE,
    NEVER,
    BallAttack,
    ModelAccess,
    Outcome,
    Passes,
    ask,
    make_outcome,
    pick_rows,
    rows_of,
)
from leastwise.attacks.choices import Keep
from leastwise.attacks.goals import is_mistaken
from leastwise.attacks.naming import NUMBER, AttackName
from leastwise.attacks.threats import Ball, Linf, column
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels


@dataclass(frozen=True)
class Corners(BallAttack):
    """x + project(eps · s) with s = +1 or -1 for every pixel: the first of `draws` that fools, or with "last" the last.

    In L2 and L1 all entries of eps · s are of one size, so projecting scales them down to the edge of the ball.
    """

    recipe_name: ClassVar[str] = "Corners"
    needs: ClassVar[ModelAccess | None] = "labels"

    ball: Ball = Linf(8 / 255)
    draws: int = 1
    keep: Keep = "fooled"

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"random corners need at least one draw, but saw {self.draws}")

    def __str__(self) -> str:
        return f"{self.draws} random corner{'s' if self.draws > 1 else ''}, {self.ball}"

    @property
    def last_step(self) -> int:
        return self.draws

    def cost(self, k: int) -> Passes:
        return Passes(1 + self.draws)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        z, finite = ask(model, x)
        step = torch.where(finite & is_mistaken(z, y) & (self.keep == "fooled"), 0, NEVER)
        trouble = torch.where(finite, FINE, BROKEN)
        x_adv, forwards = x.clone(), len(x)
        for i in range(1, self.draws + 1) if self.keep == "fooled" else (self.draws,):
            rows = rows_of(step == NEVER)
            if not len(rows):
                break
            at = draw_corner(pick_rows(self.ball, rows), x[rows], noise.pick(rows).fork("corner", i))
            z, finite = ask(model, at)
            x_adv[rows], step[rows[finite & is_mistaken(z, y[rows])]] = at, i
            trouble[rows[~finite]] = BROKEN
            forwards += len(rows)
        return make_outcome(x_adv, step != NEVER, step, forwards=forwards, backwards=0, trouble=trouble)


def draw_corner(ball: Ball, x: Images, noise: Noise) -> Images:
    """A random corner of every image's ball, clipped to the pixel range."""
    signs = noise.uniform(tuple(x.shape[1:]), x.dtype).sub(0.5).sign()  # never 0: no draw is exactly one half
    return (x + ball.project(column(ball.eps, x) * signs)).clamp(0, 1)


CORNERS = AttackName(
    Corners,
    "corners[:N]",
    "corners:5",
    rf"corners(?::{NUMBER})?",
    lambda threat, draws: Corners(threat.ball, draws=int(draws or 1), keep=threat.keep),
    "N random corners of the ball (1 unless given): a baseline that an attack with gradients must beat",
    "",
    "at most N + 1 forwards",
)
