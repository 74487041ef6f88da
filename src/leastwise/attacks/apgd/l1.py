"""The parts of APGD that only L1 needs (Croce and Hein, "Mind the box", ICML 2021).

A step moves the largest entries of the gradient by the same amount, and how many they are follows from how many pixels
the best point has changed; the projection is onto the ball and the box at once, since one after the other loses most of
an L1 step.

Departures from the reference: two thirds of the changed pixels are rounded down, not up, since with two of them both
would move for ever, and a linear model's best point has one; a pixel that the projection returns to the image equals it
exactly, where the reference leaves a rounding error that its count of changed pixels then includes; the projection
finds its shrinkage by Newton's method instead of by sorting twice the pixels.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from leastwise.core.types import Images, Labels, Mask, PerExample

FEWER = 0.95  # a best point with less than this share of its earlier changed pixels has become sparser
SLOWER = 1.5  # what the step is divided by where it has not
SLOWEST = 10  # the step never falls below eps over this
PHASES = ((3, 0.3), (2, 0.3))  # multiples of eps before eps itself, with their shares of the steps
ROUNDS = 100  # of Newton's method with bisection: a step needs 4 to 6, a random start up to 32


@dataclass(frozen=True, eq=False)
class Sparse:
    """The step along the largest entries of the gradient, and how it adapts.

    Two thirds as many entries move as the best point had changed at the last check. Where that point has become
    sparser since, the step is eps again and the example goes back to it; elsewhere the step shrinks.
    """

    x: Images
    eps: PerExample  # of the phase
    step: PerExample
    changed: Labels  # pixels that the best point had changed at the last check

    def move(self, at: Images, gradient: Images) -> tuple["Sparse", Images]:
        direction = self.step.view(-1, 1) * spread_over_largest(gradient.flatten(1), 2 * self.changed // 3)
        return self, project_onto_ball_and_box(self.x, at - self.x + direction.view_as(at), self.eps)

    def hear(self, score: PerExample) -> "Sparse":
        return self

    def judge(self, window: int, best: Images, best_score: PerExample) -> tuple["Sparse", Mask]:
        changed = changed_pixels(self.x, best)
        sparser = changed < FEWER * self.changed
        step = torch.where(sparser, self.eps, torch.maximum(self.step / SLOWER, self.eps / SLOWEST))
        return replace(self, step=step, changed=changed), sparser


def make_sparse(x: Images, start: Images, eps: PerExample) -> Sparse:
    """The pace at the start of a phase."""
    return Sparse(x, eps, step=eps, changed=changed_pixels(x, start))


def check_steps(steps: int) -> tuple[int, ...]:
    """After which steps sparsity is looked at: every 4 % of them."""
    every = max(int(0.04 * steps), 1)
    return tuple(range(every, steps + 1, every))


def phases(steps: int) -> tuple[tuple[int, int], ...]:
    """Multiples of eps, and the number of steps with each: three, two, one; the first two round up."""
    larger = tuple((times, math.ceil(share * steps)) for times, share in PHASES)
    return (*larger, (1, steps - sum(count for _, count in larger)))


def changed_pixels(x: Images, at: Images) -> Labels:
    """How many pixels of each point are not those of its image."""
    return (at != x).flatten(1).sum(dim=1)


def spread_over_largest(gradient: Float[Tensor, "b d"], count: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
    """The signs of the `count` largest entries (more where entries tie), over how many they are."""
    size, count = gradient.abs(), count.clamp_min(1)
    most = int(count.max()) if len(count) > 0 else 1
    smallest = size.topk(most, dim=1).values.gather(1, count[:, None] - 1)
    sign = torch.where(size >= smallest, gradient.sign(), 0)
    return sign / sign.abs().sum(dim=1, keepdim=True).clamp_min(1)


def project_onto_ball_and_box(x: Images, d: Images, eps: PerExample) -> Images:
    """The point of [0, 1] within eps of x in L1 that is nearest to x + d.

    Every entry shrinks by the same amount s and stops at zero or at the wall: x + sign(d) · clip(|d| - s, 0, room),
    with the smallest s >= 0 for which the sum fits. The sum is piecewise linear and falls with s, so Newton's method
    kept within a bracket ends on the right piece.
    """
    size = d.flatten(1).abs()
    room = torch.where(d > 0, 1 - x, x).flatten(1)
    eps = eps.to(d.dtype).view(-1, 1)
    slack = 4 * torch.finfo(d.dtype).eps * eps
    aim = eps - 2 * slack  # a little inside, so that rounding does not lead outside
    low, high = torch.zeros_like(eps), size.amax(dim=1, keepdim=True)  # s = high moves nothing, which always fits
    shrink, close = low, low.bool()
    for _ in range(ROUNDS):
        left = size - shrink
        excess = torch.minimum(left, room).clamp_min_(0).sum(dim=1, keepdim=True) - aim
        fits = excess <= 0
        close = (excess.abs() <= slack) | (fits & (shrink == 0))
        low, high = torch.where(fits, low, shrink), torch.where(fits, shrink, high)
        newton = shrink + excess / ((left > 0) & (left < room)).sum(dim=1, keepdim=True)
        inside = (newton > low) & (newton < high)  # never where no entry falls: that divides by zero
        following = torch.where(close, shrink, torch.where(inside, newton, (low + high) / 2))
        if torch.equal(following, shrink):
            break  # each is close, or its bracket holds no other number
        shrink = following
    shrink = torch.where(close, shrink, high)
    kept = torch.minimum(size - shrink, room).clamp_min_(0).view_as(d)
    return torch.addcmul(x, d.sign(), kept).clamp_(0, 1)
