"""APGD's pace in Linf and L2: momentum, and a step that halves at checkpoints where progress stalls."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leastwise.attacks.apgd.ascent import Case
from leastwise.attacks.threats import Ball, Linf, column
from leastwise.core.types import Images, Labels, Mask, PerExample

MOMENTUM = 0.75  # a: the weight of the new step; the rest is the last one's


def checkpoints(steps: int) -> tuple[int, ...]:
    """After which steps progress is judged: a window of 22 % of them, each next one 3 % shorter, but at least 6 %."""
    window, shorter, least = (max(int(share * steps), 1) for share in (0.22, 0.03, 0.06))
    points, at = [], window
    while at <= steps:
        points.append(at)
        window = max(window - shorter, least)
        at += window
    return tuple(points)


@dataclass(frozen=True, eq=False)
class Halving:
    """The pace of Linf and L2: momentum, and a step that halves where progress stalls."""

    x: Images
    ball: Ball
    box: tuple[Tensor, ...]  # for Linf: the smallest and the largest legal pixels
    rho: float
    step: PerExample
    before: Images | None  # the point before the current one
    score: PerExample  # of the current point
    rises: Labels  # of the score, since the last checkpoint
    checked: PerExample  # the best score at the last checkpoint
    halved: Mask  # whether the step was halved then

    def legal(self, at: Images) -> Images:
        if self.box:
            return at.clamp_(*self.box)
        return (self.x + self.ball.project(at - self.x)).clamp_(0, 1)

    def move(self, at: Images, gradient: Images) -> tuple["Halving", Images]:
        z = self.legal(torch.addcmul(at, column(self.step, at), self.ball.steepest(gradient)))
        if self.before is not None:
            z = self.legal(at.lerp(z, MOMENTUM).add_(at - self.before, alpha=1 - MOMENTUM))
        return replace(self, before=at), z

    def hear(self, score: PerExample) -> "Halving":
        return replace(self, score=score, rises=self.rises + (score > self.score))

    def judge(self, window: int, best: Images, best_score: PerExample) -> tuple["Halving", Mask]:
        halve = (self.rises <= self.rho * window) | (~self.halved & (best_score <= self.checked))
        step = torch.where(halve, self.step / 2, self.step)
        return replace(self, step=step, rises=torch.zeros_like(self.rises), checked=best_score, halved=halve), halve


def make_halving(case: Case, rho: float) -> Halving:
    """The pace at the start of a run in Linf or L2."""
    x, eps = case.x, column(case.ball.eps, case.x)
    first = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)  # the start's score is not a rise
    return Halving(
        x=x,
        ball=case.ball,
        box=((x - eps).clamp(min=0), (x + eps).clamp(max=1)) if isinstance(case.ball, Linf) else (),
        rho=rho,
        step=(2 * eps).view(-1).expand(len(x)),
        before=None,
        score=first,
        rises=torch.zeros_like(case.y),
        checked=first,
        halved=torch.ones_like(case.y, dtype=torch.bool),  # so that (2) cannot hold at the first checkpoint
    )
