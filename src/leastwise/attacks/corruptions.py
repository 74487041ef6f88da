"""Conditions nobody optimises: common corruptions, and random points of a ball."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import nn

from leastwise.attacks.active_set import ask, pick_rows, rows_of
from leastwise.attacks.base import BROKEN, FINE, NEVER, Keep, Outcome, call, outcome
from leastwise.attacks.goals import mistaken
from leastwise.attacks.threats import TOLERANCE, Ball, Radius, column, inside
from leastwise.core.losses import margin
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask
from leastwise.data.corrupt.registry import Corruption

Kind = Literal["uniform", "gaussian", "corners"]


@dataclass(frozen=True)
class Corrupted:
    """The images as a corruption leaves them: `corruption(x, noise)`, with the noise the condition is given."""

    recipe_name: ClassVar[str] = "Corrupted"

    corruption: Corruption

    gradients: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"corrupted by {self.corruption.name}, severity {self.corruption.severity}"

    def __call__(self, model: nn.Module, x: Images, y: Labels, seed: int = 0) -> Images:
        return call(self, model, x, y, seed)

    def at(self, eps: Radius, step: Radius | None = None) -> "Corrupted":
        return self

    def allows(self, x: Images, x_adv: Images) -> Mask:
        """A corruption has no radius; only the pixel range holds."""
        pixels = x_adv.flatten(1)
        return (pixels.amin(dim=1) >= -TOLERANCE) & (pixels.amax(dim=1) <= 1 + TOLERANCE)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        x_adv = self.corruption(x, noise)
        z, finite = ask(model, x_adv)
        trouble = torch.where(finite, FINE, BROKEN)
        return outcome(x_adv, finite & mistaken(z, y), torch.zeros_like(y), len(x), 0, trouble)


@dataclass(frozen=True)
class RandomNoise:
    """Random points of the ball, the worst of several draws: what an attacker without any knowledge reaches.

    "uniform" draws evenly from the ball; "gaussian" is eps · N(0, 1) per pixel, projected into the ball (for L2 and L1
    that is nearly always its surface); "corners" are its extreme points, eps · steepest(N(0, 1)): ±eps at every pixel
    for Linf, evenly over the sphere for L2.

    `keep="last"` returns the draw of smallest margin; `keep="fooled"` counts the image itself too, and an example
    leaves at its first misclassified draw. `step` is the number of the draw that first fooled, from 1.
    """

    recipe_name: ClassVar[str] = "RandomNoise"

    ball: Ball
    kind: Kind = "uniform"
    draws: int = 1
    keep: Keep = "last"

    gradients: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"the kind of noise must be one of {', '.join(get_args(Kind))}, but saw {self.kind!r}")
        if self.draws < 1:
            raise ValueError(f"random noise needs at least one draw, but saw {self.draws}")
        if self.keep not in get_args(Keep):
            raise ValueError(f"keep must be {' or '.join(get_args(Keep))}, but saw {self.keep!r}")

    def __str__(self) -> str:
        counted = ", the image counts too" if self.keep == "fooled" else ""
        return f"{self.kind} noise in {self.ball}, the worst of {self.draws}{counted}"

    def __call__(self, model: nn.Module, x: Images, y: Labels, seed: int = 0) -> Images:
        return call(self, model, x, y, seed)

    def at(self, eps: Radius, step: Radius | None = None) -> "RandomNoise":
        return replace(self, ball=self.ball.at(eps))

    def allows(self, x: Images, x_adv: Images) -> Mask:
        return inside(self.ball, x, x_adv)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        x_adv, step, trouble = x.clone(), torch.full_like(y, NEVER), torch.full_like(y, FINE)
        worst = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)
        rows, forwards = torch.arange(len(x), device=x.device), 0
        for number in range(0 if self.keep == "fooled" else 1, self.draws + 1):  # the image itself is number 0
            if len(rows) == 0:
                break
            fresh = noise.pick(rows).fork(self.kind, number)
            at = x if number == 0 else draw(self.kind, x[rows], pick_rows(self.ball, rows), fresh)
            z, finite = ask(model, at)
            forwards += len(rows)
            wrong = finite & mistaken(z, y[rows])
            lead = margin(z, y[rows]).to(x.dtype)
            # A tie has margin 0 whoever wins it: a mistake is always worse than no mistake.
            lead = torch.where(wrong, lead.clamp_max(-torch.finfo(x.dtype).tiny), lead)
            worse = finite & (lead < worst[rows])
            x_adv[rows[worse]], worst[rows[worse]] = at[worse], lead[worse]
            step[rows[wrong & (step[rows] == NEVER)]] = number
            trouble[rows[~finite]] = BROKEN
            if self.keep == "fooled":
                rows = rows[rows_of(~wrong)]
        return outcome(x_adv, step != NEVER, step, forwards, 0, trouble)


def draw(kind: Kind, x: Images, ball: Ball, noise: Noise) -> Images:
    """One random point for each example."""
    if kind == "uniform":
        d = ball.sample(x, noise)
    else:
        normal = noise.normal(tuple(x.shape[1:]), x.dtype)
        d = column(ball.eps, x) * (normal if kind == "gaussian" else ball.steepest(normal))
    return (x + ball.project(d)).clamp(0, 1)
