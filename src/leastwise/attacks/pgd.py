"""Projected gradient ascent: the one attack loop.

x_{t+1} = clip_[0,1](x + project(x_t + step · steepest(grad score) - x))

FGSM is one step of size eps; Temperature-PGD (Tian et al., KDD 2021) is `goal=CE(inverse_temperature=5)`;
C&W-20 is `goal=Margin(kappa=50)`; the inner problem of TRADES is `goal=KL(), start=Gaussian(0.001)`. Momentum PGD
(Dong et al., CVPR 2018) steps along m_t = momentum · m_{t-1} + grad / |grad|_1; friendly PGD (Zhang et al., ICML 2020)
lets an example go `patience` steps past its first mistake.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor, nn

from leastwise.attacks.active_set import Slope, ask, pick_rows, rows_of, slope
from leastwise.attacks.base import BROKEN, NEVER, Keep, Outcome, call, outcome
from leastwise.attacks.goals import CE, Goal
from leastwise.attacks.threats import Ball, Linf, Radius, column, inside, shown, step_
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask


@runtime_checkable
class Start(Protocol):
    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images: ...


@dataclass(frozen=True)
class Zero:
    """Start at the image itself."""

    recipe_name: ClassVar[str] = "Zero"

    def __str__(self) -> str:
        return "from the image"

    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images:
        return torch.zeros_like(x)


@dataclass(frozen=True)
class Uniform:
    """Start anywhere in the ball."""

    recipe_name: ClassVar[str] = "Uniform"

    def __str__(self) -> str:
        return "from a uniform start"

    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images:
        return ball.sample(x, noise)


@dataclass(frozen=True)
class Gaussian:
    """Start a little beside the image."""

    recipe_name: ClassVar[str] = "Gaussian"

    std: float = 0.001

    def __str__(self) -> str:
        return f"from a Gaussian start of {self.std:g}"

    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images:
        return self.std * noise.normal(tuple(x.shape[1:]), x.dtype)


@dataclass(frozen=True)
class Signs:
    """Start at a random corner: `size` times the sign of a Gaussian (the random half of R-FGSM)."""

    recipe_name: ClassVar[str] = "Signs"

    size: float

    def __str__(self) -> str:
        return f"from a random corner at {self.size:g}"

    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images:
        return self.size * noise.normal(tuple(x.shape[1:]), x.dtype).sign()


@dataclass(frozen=True)
class PGD:
    """`keep="last"` returns the last iterate; `keep="fooled"` the first misclassified point.

    With "fooled" the clean image and the start count as points too, and an example leaves the batch as soon as it is
    misclassified: only the undecided cost anything. The clean image is asked last, as few are wrong only there.
    """

    recipe_name: ClassVar[str] = "PGD"

    ball: Ball = Linf(8 / 255)
    goal: Goal = CE()
    step: Radius = 2 / 255
    steps: int = 10
    start: Start = Uniform()
    keep: Keep = "last"
    momentum: float = 0.0
    patience: int = 0  # with "fooled": further steps after the first mistake, as friendly training takes them

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"an attack needs a number of steps, zero or more, but saw {self.steps}")
        if not bool(torch.as_tensor(self.step >= 0).all()):
            raise ValueError(f"the step must be zero or more, but saw {shown(self.step)}")
        if self.keep not in get_args(Keep):
            raise ValueError(f"keep must be {' or '.join(get_args(Keep))}, but saw {self.keep!r}")
        if not self.momentum >= 0:
            raise ValueError(f"the momentum must be zero or more, but saw {self.momentum}")
        if self.patience < 0 or (self.patience and self.keep != "fooled"):
            raise ValueError(
                f'patience is a number of steps after the first mistake, with keep="fooled", but saw {self.patience} '
                f"with keep={self.keep!r}"
            )

    def __str__(self) -> str:
        counted = "any iterate counts" if self.keep == "fooled" else "the last iterate counts"
        steps = f"{self.steps} step{'' if self.steps == 1 else 's'} of {shown(self.step)}"
        parts = [f"{steps} on {self.goal}", str(self.ball), str(self.start), counted]
        if self.momentum:
            parts.insert(1, f"momentum {self.momentum:g}")
        if self.patience:
            parts.append(f"{self.patience} more after the first mistake")
        return ", ".join(parts)

    def __call__(self, model: nn.Module, x: Images, y: Labels, seed: int = 0) -> Images:
        return call(self, model, x, y, seed)

    def at(self, eps: Radius, step: Radius | None = None) -> "PGD":
        return replace(self, ball=self.ball.at(eps), step=self.step if step is None else step)

    def allows(self, x: Images, x_adv: Images) -> Mask:
        return inside(self.ball, x, x_adv)

    def notes(self, k: int) -> tuple[str, ...]:
        return self.goal.notes(k) if hasattr(self.goal, "notes") else ()

    def perturb(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Images:
        """Only the points, without the forward pass that says who is fooled: what training needs."""
        return ascend(self, model, x, y, noise).at if self.keep == "last" else self.run(model, x, y, noise).x_adv

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        return run_last(self, model, x, y, noise) if self.keep == "last" else run_fooled(self, model, x, y, noise)


def fgsm(ball: Ball, goal: Goal | None = None, start: Start | None = None, keep: Keep = "last") -> PGD:
    """One step to the edge of the ball (Goodfellow et al., ICLR 2015)."""
    return PGD(ball, goal or CE(), step=ball.eps, steps=1, start=start or Zero(), keep=keep)


def r_fgsm(ball: Ball, goal: Goal | None = None, keep: Keep = "last") -> PGD:
    """Half of eps to a random corner, the other half along the gradient (Tramèr et al., ICLR 2018)."""
    if not isinstance(ball.eps, float):
        raise ValueError("R-FGSM takes one eps for all examples")
    return PGD(ball, goal or CE(), step=ball.eps / 2, steps=1, start=Signs(ball.eps / 2), keep=keep)


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
    pull: Images | None  # the accumulated direction, with momentum
    trouble: Labels
    patience: Labels  # steps left after the first mistake


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
        pull=torch.zeros_like(x) if attack.momentum else None,
        trouble=torch.zeros_like(y),
        patience=torch.full_like(y, attack.patience),
    )


def climb(attack: PGD, model: nn.Module, front: Front) -> tuple[Front, Slope]:
    """One step for everyone in the front, and what was seen at the point they left."""
    seen = slope(model, attack.goal, front.at, front.bound)
    direction, pull = seen.gradient, None
    if front.pull is not None:
        size = direction.flatten(1).abs().sum(dim=1).clamp_min(torch.finfo(direction.dtype).tiny)
        direction = pull = attack.momentum * front.pull + direction / column(size, direction)
    moved = step_(front.at - front.x, front.step, front.ball.steepest(direction))
    at = front.ball.project(moved).add_(front.x).clamp_(0, 1)
    return replace(front, at=at, pull=pull, trouble=torch.maximum(front.trouble, seen.trouble)), seen


def ascend(attack: PGD, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Front:
    """All steps for everyone: where they end."""
    front = open_front(attack, model, x, y, noise)
    for _ in range(attack.steps):
        front, _ = climb(attack, model, front)
    return front


def run_last(attack: PGD, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
    front = ascend(attack, model, x, y, noise)
    z, finite = ask(model, front.at)
    fooled = finite & attack.goal.reached(z, y, *front.bound)
    trouble = torch.where(finite, front.trouble, BROKEN)
    passes = len(x) * attack.steps
    forwards = passes + len(x) * (1 + attack.goal.clean_forwards)
    return outcome(front.at, fooled, torch.full_like(y, attack.steps), forwards, passes, trouble)


def run_fooled(attack: PGD, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
    front = open_front(attack, model, x, y, noise)
    x_adv, step, trouble = x.clone(), torch.full_like(y, NEVER), torch.zeros_like(y)
    forwards, backwards = len(x) * attack.goal.clean_forwards, 0

    for t in range(attack.steps):
        if len(front.rows) == 0:
            break
        here = front
        front, seen = climb(attack, model, here)
        forwards, backwards = forwards + len(here.rows), backwards + len(here.rows)
        wrong = ~seen.broken & attack.goal.reached(seen.z, here.y, *here.bound)
        new = wrong & (step[here.rows] == NEVER)
        x_adv.index_copy_(0, here.rows[wrong], here.at.index_select(0, rows_of(wrong)))
        step[here.rows[new]] = t
        front = replace(front, patience=here.patience - wrong.to(here.patience.dtype))
        front = without(front, wrong & (here.patience == 0))

    if len(front.rows) > 0:
        z, finite = ask(model, front.at)
        forwards += len(front.rows)
        wrong = finite & attack.goal.reached(z, front.y, *front.bound)
        trouble[front.rows] = torch.where(finite, front.trouble, BROKEN)
        never = step[front.rows] == NEVER
        ends = wrong | never  # one that was misclassified earlier and is not here keeps the earlier point
        x_adv[front.rows[ends]], step[front.rows[wrong & never]] = front.at[ends], attack.steps
        front = without(front, ~never | wrong)

    if len(front.rows) > 0 and not isinstance(attack.start, Zero):
        z, finite = ask(model, front.x)  # the image itself counts; most that are wrong there are wrong at the start too
        forwards += len(front.rows)
        wrong = finite & attack.goal.reached(z, front.y, *front.bound)
        x_adv[front.rows[wrong]], step[front.rows[wrong]] = front.x[wrong], 0
    return outcome(x_adv, step != NEVER, step, forwards, backwards, trouble)


def without(front: Front, wrong: Mask) -> Front:
    """Let the misclassified go."""
    return pick_rows(front, rows_of(~wrong)) if bool(wrong.any()) else front
