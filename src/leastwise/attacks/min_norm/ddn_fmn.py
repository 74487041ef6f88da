"""The nearest mistake by alternating a gradient step with a change of radius: DDN and FMN.

    x_{t+1} = clip_[0,1](x + onto_{eps_{t+1}}(x_t + a_t · g/|g|_2 - x))

with a_t falling along half a cosine to a_0 / 100. The radius shrinks where x_t is misclassified and grows where it is
not; the nearest misclassified iterate is kept.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from leastwise.attacks.active_set import Slope, ask, pick_rows, rows_of, slope
from leastwise.attacks.base import BROKEN, FINE, FLAT, Keep, Outcome, call
from leastwise.attacks.goals import CE, Goal, Targeted
from leastwise.attacks.min_norm.search import Closest, Record, check_search, check_target, margin_goal, searched, within
from leastwise.attacks.threats import L1, L2, Ball, Linf, Radius, column, inside, unit
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask, PerClass, PerExample

DUAL = {Linf: 1.0, L2: 2.0, L1: math.inf}  # the order of the norm that measures gradients
GAMMA_LEAST = 0.001


@dataclass(frozen=True, eq=False)
class Front:
    """The examples still searching."""

    rows: Tensor  # their places in the full batch
    x: Images
    y: Labels
    at: Images  # the current point
    bound: tuple[Tensor, ...]
    eps: PerExample  # the current radius, in float64
    most: PerExample  # the distance of the farthest corner of the pixel box: no radius need be larger
    noise: Noise


@dataclass(frozen=True)
class DDN:
    """Decoupled direction and norm (Rony et al., CVPR 2019), in L2.

    The step climbs cross-entropy, the point is then scaled to length eps, and eps changes by the factor 1 ± gamma.
    Where the gradient is zero the step goes in a random direction, as in the authors' code. Departures: the paper
    rounds the result to 256 levels, here it is not rounded; the point after the last step is looked at too.
    """

    recipe_name: ClassVar[str] = "DDN"

    ball: Ball = L2(0.5)
    steps: int = 100
    gamma: float = 0.05
    start: float = 1.0  # the first radius
    step: float = 1.0
    keep: Keep = "last"
    target: Labels | None = None

    def __post_init__(self) -> None:
        positive = {"gamma": self.gamma, "the first radius": self.start, "the step": self.step}
        check_search(self.ball, (L2,), self.keep, {"the number of steps": self.steps}, positive)

    def __str__(self) -> str:
        return f"DDN, {self.steps} steps, {self.ball}, {searched(self.keep, self.target)}"

    def __call__(self, model: nn.Module, x: Images, y: Labels, seed: int = 0) -> Images:
        return call(self, model, x, y, seed)

    def at(self, eps: Radius, step: Radius | None = None) -> "DDN":
        return replace(self, ball=self.ball.at(eps))

    def allows(self, x: Images, x_adv: Images) -> Mask:
        return inside(self.ball, x, x_adv)

    def closest(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Closest:
        return search(self, model, x, y, noise, "last")[0]

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        found, step = search(self, model, x, y, noise, self.keep)
        return within(found, self.ball, x, step)

    @property
    def goal(self) -> Goal:
        return CE() if self.target is None else Targeted(self.target)

    def direction(self, front: Front, seen: Slope, t: int) -> Images:
        flat = seen.trouble == FLAT
        if not bool(flat.any()):
            return seen.gradient
        aimless = front.noise.fork("flat", t).normal(tuple(front.x.shape[1:]), front.x.dtype)
        return torch.where(flat.view(-1, 1, 1, 1), aimless, seen.gradient)

    def radius(self, front: Front, seen: Slope, hit: Mask, length: PerExample, best: PerExample, t: int) -> PerExample:
        return torch.where(hit, front.eps * (1 - self.gamma), front.eps * (1 + self.gamma))

    def onto(self, d: Images, eps: PerExample) -> Images:
        return d * column(eps / self.ball.norm(d).clamp_min(torch.finfo(d.dtype).tiny), d)


@dataclass(frozen=True)
class FMN:
    """Fast minimum norm (Pintor et al., NeurIPS 2021), in Linf, L2 or L1.

    The step climbs the margin loss and the point is projected on the ball of radius eps, which is

        |x_t - x| + |loss| / |grad|_dual   until the first mistake: where a linear model would have its boundary
        min(eps · (1 - gamma_t), best)     at a mistake
        eps · (1 + gamma_t)                elsewhere,

    gamma_t falling from `gamma` to 0.001 along the cosine too. Departures: until the first mistake eps grows at least
    as it does afterwards, without which an estimate that stays too short is never left (L1 on a robust MNIST network:
    no mistake found for 33 of 100 images in 100 steps, 2 with it); the point after the last step is looked at too.
    """

    recipe_name: ClassVar[str] = "FMN"

    ball: Ball = Linf(8 / 255)
    steps: int = 100
    gamma: float = 0.05
    step: float = 1.0
    keep: Keep = "last"
    target: Labels | None = None

    def __post_init__(self) -> None:
        positive = {"gamma": self.gamma, "the step": self.step}
        check_search(self.ball, tuple(DUAL), self.keep, {"the number of steps": self.steps}, positive)

    def __str__(self) -> str:
        return f"FMN, {self.steps} steps, {self.ball}, {searched(self.keep, self.target)}"

    def __call__(self, model: nn.Module, x: Images, y: Labels, seed: int = 0) -> Images:
        return call(self, model, x, y, seed)

    def at(self, eps: Radius, step: Radius | None = None) -> "FMN":
        return replace(self, ball=self.ball.at(eps))

    def allows(self, x: Images, x_adv: Images) -> Mask:
        return inside(self.ball, x, x_adv)

    def closest(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Closest:
        return search(self, model, x, y, noise, "last")[0]

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        found, step = search(self, model, x, y, noise, self.keep)
        return within(found, self.ball, x, step)

    @property
    def goal(self) -> Goal:
        return margin_goal(self.target)

    def direction(self, front: Front, seen: Slope, t: int) -> Images:
        return seen.gradient

    def radius(self, front: Front, seen: Slope, hit: Mask, length: PerExample, best: PerExample, t: int) -> PerExample:
        gamma = cosine(self.gamma, GAMMA_LEAST, t, self.steps)
        order = DUAL[type(self.ball)]
        steepness = torch.linalg.vector_norm(seen.gradient.flatten(1), order, dim=1, dtype=torch.float64)
        boundary = length + seen.score.abs() / steepness.clamp_min(torch.finfo(torch.float64).tiny)
        larger = front.eps * (1 + gamma)
        missed = torch.where(best.isfinite(), larger, torch.maximum(larger, boundary))
        return torch.where(hit, torch.minimum(front.eps * (1 - gamma), best), missed)

    def onto(self, d: Images, eps: PerExample) -> Images:
        return self.ball.at(eps).project(d)


def cosine(first: float, last: float, t: int, steps: int) -> float:
    return last + (first - last) * (1 + math.cos(math.pi * t / steps)) / 2


def search(
    attack: DDN | FMN, model: nn.Module, x: Images, y: Labels, noise: Noise, keep: Keep
) -> tuple[Closest, Labels]:
    """The nearest mistakes, and after how many gradients each was first inside the ball."""
    check_target(attack.target, y)
    ball, goal, record = attack.ball, attack.goal, Record.of(attack.ball, x)
    most = ball.norm(torch.maximum(x, 1 - x)).double()
    front = Front(
        rows=torch.arange(len(x), device=x.device),
        x=x,
        y=y,
        at=x,
        bound=goal.bind(model, x, y),
        eps=torch.full_like(most, attack.start if isinstance(attack, DDN) else 0.0),
        most=most,
        noise=noise,
    )
    passes = 0
    for t in range(attack.steps):
        if len(front.rows) == 0:
            break
        passes += len(front.rows)
        seen = slope(model, goal, front.at, front.bound)
        hit = ~seen.broken & goal.reached(seen.z, front.y, *front.bound)
        d = front.at - front.x
        length = ball.norm(d)
        record.note(front.rows, length, front.at, hit, seen.trouble, t)
        done = record.done(front.rows, keep)
        eps = attack.radius(front, seen, hit, length, record.distance[front.rows], t)
        eps = torch.minimum(eps.nan_to_num(nan=math.inf), front.most)  # NaN where the logits are
        d += cosine(attack.step, attack.step / 100, t, attack.steps) * unit(attack.direction(front, seen, t))
        front = replace(front, eps=eps, at=(front.x + attack.onto(d, eps)).clamp(0, 1))
        if bool(done.any()):
            front = pick_rows(front, rows_of(~done))
    forwards = passes + len(front.rows)
    if len(front.rows) > 0:
        z, finite = ask(model, front.at)
        hit = finite & goal.reached(z, front.y, *front.bound)
        trouble = torch.where(finite, FINE, BROKEN)
        record.note(front.rows, ball.norm(front.at - front.x), front.at, hit, trouble, attack.steps)
    return record.closest(forwards, passes), record.step


def median_distance(distance: PerExample, y: Labels, k: int) -> PerClass:
    """The radius at which half of a class is lost: NaN for a class without examples, possibly infinite.

    With an even number of examples it is the mean of the two in the middle.
    """
    return torch.stack([median(distance[y == c]) for c in range(k)])


def median(values: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    if len(values) == 0:
        return values.new_tensor(math.nan)
    ordered = values.sort().values
    return (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2  # torch.quantile makes NaN of two infs


def survival(distance: PerExample, y: Labels, k: int, radii: tuple[float, ...]) -> Float[Tensor, "r k"]:
    """The security curve: the share of each class whose nearest mistake is farther than each radius."""
    beyond = distance[None] > torch.tensor(radii, dtype=torch.float64, device=distance.device)[:, None]
    members = torch.nn.functional.one_hot(y, k).double()
    return beyond.double() @ members / members.sum(dim=0)
