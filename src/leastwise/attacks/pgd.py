"""Projected gradient ascent: the one attack loop.

x_{t+1} = clip_[0,1](x + project(x_t + step · steepest(grad score) - x))

FGSM is one step of size eps; Temperature-PGD (Tian et al., KDD 2021) is `goal=CE(inverse_temperature=5)`;
C&W-20 is `goal=Margin(kappa=50)`; the inner problem of TRADES is `goal=KL(), start=Gaussian(0.001)`.
"""

from dataclasses import dataclass, replace
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor, nn

from leastwise.attacks.base import NEVER, Outcome, call
from leastwise.attacks.goals import CE, Goal
from leastwise.balls import Ball, Linf, Radius, column, inside, pick, shown
from leastwise.noise import Noise
from leastwise.types import Images, Labels, Logits, Mask

Keep = Literal["last", "fooled"]


@runtime_checkable
class Start(Protocol):
    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images: ...


@dataclass(frozen=True)
class Zero:
    """Start at the image itself."""

    def __str__(self) -> str:
        return "from the image"

    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images:
        return torch.zeros_like(x)


@dataclass(frozen=True)
class Uniform:
    """Start anywhere in the ball."""

    def __str__(self) -> str:
        return "from a uniform start"

    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images:
        return ball.sample(x, noise)


@dataclass(frozen=True)
class Gaussian:
    """Start a little beside the image."""

    std: float = 0.001

    def __str__(self) -> str:
        return f"from a Gaussian start of {self.std:g}"

    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images:
        return self.std * noise.normal(tuple(x.shape[1:]), x.dtype)


@dataclass(frozen=True)
class PGD:
    """`keep="last"` returns the last iterate; `keep="fooled"` the first misclassified point.

    With "fooled" the clean image and the start count as points too, and an example leaves the batch
    as soon as it is misclassified: only the undecided cost anything.
    """

    ball: Ball = Linf(8 / 255)
    goal: Goal = CE()
    step: Radius = 2 / 255
    steps: int = 10
    start: Start = Uniform()
    keep: Keep = "last"

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"an attack needs a number of steps, zero or more, but saw {self.steps}")
        if not bool(torch.as_tensor(self.step >= 0).all()):
            raise ValueError(f"the step must be zero or more, but saw {shown(self.step)}")
        if self.keep not in get_args(Keep):
            raise ValueError(f"keep must be {' or '.join(get_args(Keep))}, but saw {self.keep!r}")

    def __str__(self) -> str:
        counted = "any iterate counts" if self.keep == "fooled" else "the last iterate counts"
        steps = f"{self.steps} step{'' if self.steps == 1 else 's'} of {shown(self.step)}"
        return f"{steps} on {self.goal}, {self.ball}, {self.start}, {counted}"

    def __call__(self, model: nn.Module, x: Images, y: Labels, seed: int = 0) -> Images:
        return call(self, model, x, y, seed)

    def at(self, eps: Radius, step: Radius | None = None) -> "PGD":
        return replace(self, ball=self.ball.at(eps), step=self.step if step is None else step)

    def allows(self, x: Images, x_adv: Images) -> Mask:
        return inside(self.ball, x, x_adv)

    def perturb(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Images:
        """Only the points, without the forward pass that says who is fooled: what training needs."""
        return ascend(self, model, x, y, noise) if self.keep == "last" else self.run(model, x, y, noise).x_adv

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        return run_last(self, model, x, y, noise) if self.keep == "last" else run_fooled(self, model, x, y, noise)


def fgsm(ball: Ball, goal: Goal | None = None, start: Start | None = None, keep: Keep = "last") -> PGD:
    """One step to the edge of the ball (Goodfellow et al., ICLR 2015)."""
    return PGD(ball, goal or CE(), step=ball.eps, steps=1, start=start or Zero(), keep=keep)


@dataclass(frozen=True, eq=False)
class Front:
    """The examples still in the batch: what each climbs with, and where it stands."""

    rows: Tensor  # their places in the full batch
    x: Images
    y: Labels
    at: Images  # the current point
    bound: tuple[Tensor, ...]
    ball: Ball
    step: Radius

    def pick(self, rows: Tensor) -> "Front":
        return Front(
            self.rows[rows],
            self.x[rows],
            self.y[rows],
            self.at[rows],
            tuple(value[rows] for value in self.bound),
            self.ball.at(pick(self.ball.eps, rows)),
            pick(self.step, rows),
        )


def open_front(attack: PGD, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Front:
    start = attack.ball.project(attack.start.perturb(x, attack.ball, noise.fork("start")))
    return Front(
        rows=torch.arange(len(x), device=x.device),
        x=x,
        y=y,
        at=(x + start).clamp(0, 1),
        bound=attack.goal.bind(model, x, y),
        ball=attack.ball,
        step=attack.step,
    )


def climb(attack: PGD, model: nn.Module, front: Front) -> tuple[Front, Logits]:
    """One step for everyone in the front, and the logits at the point they left."""
    at = front.at.detach().requires_grad_()
    with torch.enable_grad():
        z = model(at)
        score = attack.goal.score(z, *front.bound).sum()
    (gradient,) = torch.autograd.grad(score, at)
    if not bool(gradient.sum().isfinite()):  # the sign of NaN is 0: a broken model would look robust
        raise ValueError("the input gradient is not finite, so robustness is unknown: check the model for overflow")
    moved = front.at - front.x + column(front.step, at) * front.ball.steepest(gradient)
    return replace(front, at=(front.x + front.ball.project(moved)).clamp(0, 1)), z.detach()


def predict(model: nn.Module, x: Images) -> Labels:
    with torch.no_grad():
        return model(x).argmax(dim=1)


def ascend(attack: PGD, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Images:
    """The last iterate."""
    front = open_front(attack, model, x, y, noise)
    for _ in range(attack.steps):
        front, _ = climb(attack, model, front)
    return front.at


def run_last(attack: PGD, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
    x_adv = ascend(attack, model, x, y, noise)
    fooled = predict(model, x_adv) != y
    passes = len(x) * attack.steps
    forwards = passes + len(x) * (1 + attack.goal.clean_forwards)
    return Outcome(x_adv, fooled, torch.where(fooled, attack.steps, NEVER), torch.zeros_like(y), forwards, passes)


def run_fooled(attack: PGD, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
    front = open_front(attack, model, x, y, noise)
    x_adv, step = x.clone(), torch.full_like(y, NEVER)
    forwards, backwards = len(x) * attack.goal.clean_forwards, 0

    if not isinstance(attack.start, Zero):  # else the start is the clean image, which the first step looks at
        wrong = predict(model, x) != y
        forwards += len(x)
        step[wrong] = 0
        front = without(front, wrong)

    for t in range(attack.steps):
        if len(front.rows) == 0:
            break
        here = front
        front, z = climb(attack, model, here)
        forwards, backwards = forwards + len(here.rows), backwards + len(here.rows)
        wrong = z.argmax(dim=1) != here.y
        x_adv[here.rows[wrong]], step[here.rows[wrong]] = here.at[wrong], t
        front = without(front, wrong)

    if len(front.rows) > 0:
        wrong = predict(model, front.at) != front.y
        forwards += len(front.rows)
        x_adv[front.rows], step[front.rows[wrong]] = front.at, attack.steps
    return Outcome(x_adv, step != NEVER, step, torch.zeros_like(y), forwards, backwards)


def without(front: Front, wrong: Mask) -> Front:
    """Let the misclassified go."""
    return front.pick((~wrong).nonzero().squeeze(1)) if bool(wrong.any()) else front
