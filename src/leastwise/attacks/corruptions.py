"""Conditions nobody optimises: common corruptions, and random points of a ball."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import nn

from leastwise.attacks.base import (
    BROKEN,
    FINE,
    NEVER,
    Attack,
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
from leastwise.attacks.threats import Ball, Radius, column
from leastwise.core.losses import margin
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask
from leastwise.data.corrupt.registry import CORRUPTIONS, Corruption

NoiseKind = Literal["uniform", "gaussian", "corners"]


@dataclass(frozen=True)
class Corrupted(Attack):
    """The images as a corruption leaves them: `corruption(x, noise)`, with the noise the condition is given."""

    recipe_name: ClassVar[str] = "Corrupted"

    needs: ClassVar[ModelAccess | None] = "nothing"

    corruption: Corruption

    def __str__(self) -> str:
        return f"corrupted by {self.corruption.name}, severity {self.corruption.severity}"

    def cost(self, k: int) -> Passes:
        return Passes(1)

    def with_radius(self, eps: Radius, step: Radius | None) -> "Corrupted":
        return self

    def is_within_threat(self, x: Images, x_adv: Images) -> Mask:
        """A corruption has no radius; only the pixel range holds."""
        return torch.ones(len(x), dtype=torch.bool, device=x.device)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        x_adv = self.corruption(x, noise)
        z, finite = ask(model, x_adv)
        trouble = torch.where(finite, FINE, BROKEN)
        return make_outcome(
            x_adv, finite & is_mistaken(z, y), torch.zeros_like(y), forwards=len(x), backwards=0, trouble=trouble
        )


@dataclass(frozen=True)
class RandomNoise(BallAttack):
    """Random points of the ball, the worst of several draws: what an attacker without any knowledge reaches.

    "uniform" draws evenly from the ball; "gaussian" is eps · N(0, 1) per pixel, projected into the ball (for L2 and L1
    that is nearly always its surface); "corners" are its extreme points, eps · steepest(N(0, 1)): ±eps at every pixel
    for Linf, evenly over the sphere for L2.

    `keep="last"` returns the draw of smallest margin; `keep="fooled"` counts the image itself too, and an example
    leaves at its first misclassified draw. `step` is the number of the draw that first fooled, from 1.
    """

    recipe_name: ClassVar[str] = "RandomNoise"
    needs: ClassVar[ModelAccess | None] = "labels"

    ball: Ball
    kind: NoiseKind = "uniform"
    draws: int = 1
    keep: Keep = "last"

    def __post_init__(self) -> None:
        if self.kind not in get_args(NoiseKind):
            raise ValueError(
                f"the kind of noise must be one of {', '.join(get_args(NoiseKind))}, but saw {self.kind!r}"
            )
        if self.draws < 1:
            raise ValueError(f"random noise needs at least one draw, but saw {self.draws}")
        if self.keep not in get_args(Keep):
            raise ValueError(f"keep must be {' or '.join(get_args(Keep))}, but saw {self.keep!r}")

    def __str__(self) -> str:
        counted = ", the image counts too" if self.keep == "fooled" else ""
        return f"{self.kind} noise in {self.ball}, the worst of {self.draws}{counted}"

    def cost(self, k: int) -> Passes:
        return Passes(self.draws + 1)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        x_adv, step, trouble = x.clone(), torch.full_like(y, NEVER), torch.full_like(y, FINE)
        worst = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)
        rows, forwards = torch.arange(len(x), device=x.device), 0
        for number in range(0 if self.keep == "fooled" else 1, self.draws + 1):  # the image itself is number 0
            if len(rows) == 0:
                break
            fresh = noise.pick(rows).fork(self.kind, number)
            at = x if number == 0 else draw_point(self.kind, x[rows], pick_rows(self.ball, rows), noise=fresh)
            z, finite = ask(model, at)
            forwards += len(rows)
            wrong = finite & is_mistaken(z, y[rows])
            lead = margin(z, y[rows]).to(x.dtype)
            # A tie has margin 0 whoever wins it: a mistake is always worse than no mistake.
            lead = torch.where(wrong, lead.clamp_max(-torch.finfo(x.dtype).tiny), lead)
            worse = finite & (lead < worst[rows])
            x_adv[rows[worse]], worst[rows[worse]] = at[worse], lead[worse]
            step[rows[wrong & (step[rows] == NEVER)]] = number
            trouble[rows[~finite]] = BROKEN
            if self.keep == "fooled":
                rows = rows[rows_of(~wrong)]
        return make_outcome(x_adv, step != NEVER, step, forwards=forwards, backwards=0, trouble=trouble)


def draw_point(kind: NoiseKind, x: Images, ball: Ball, *, noise: Noise) -> Images:
    """One random point for each example."""
    if kind == "uniform":
        d = ball.sample(x, noise)
    else:
        normal = noise.normal(tuple(x.shape[1:]), x.dtype)
        d = column(ball.eps, x) * (normal if kind == "gaussian" else ball.steepest(normal))
    return (x + ball.project(d)).clamp(0, 1)


UNIFORM = AttackName(
    RandomNoise,
    "uniform[:N]",
    "uniform:2",
    rf"uniform(?::{NUMBER})?",
    lambda threat, n: RandomNoise(threat.ball, "uniform", int(n or 1), threat.keep),
    "random points of the ball: the worst of N, 1 unless given",
    "",
    "at most N + 1 forwards",
)
GAUSSIAN = AttackName(
    RandomNoise,
    "gaussian[:N]",
    "gaussian:2",
    rf"gaussian(?::{NUMBER})?",
    lambda threat, n: RandomNoise(threat.ball, "gaussian", int(n or 1), threat.keep),
    "Gaussian noise of standard deviation eps, projected: the worst of N, 1 unless given",
    "",
    "at most N + 1 forwards",
)
CORRUPTION = AttackName(
    Corrupted,
    "CORRUPTION[:S]",
    "fog:3",
    rf"({'|'.join(CORRUPTIONS)})(?::([1-5]))?",
    lambda threat, name, severity: Corrupted(Corruption(name, int(severity or 3))),
    "a common corruption at severity S, 3 unless given: `leastwise list corruptions`",
    "Hendrycks & Dietterich 2019",
    "1 forward",
)
