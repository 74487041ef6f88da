"""The nearest mistake by alternating a gradient step with a change of radius: DDN and FMN.

    x_{t+1} = clip_[0,1](x + onto_{eps_{t+1}}(x_t + a_t · g/|g|_2 - x))

with a_t falling along half a cosine to a_0 / 100. The radius shrinks where x_t is misclassified and grows where it is
not; the nearest misclassified iterate is kept.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from leastwise.attacks.base import BROKEN, FINE, FLAT, Passes, Slope, ask, pick_rows, rows_of, slope
from leastwise.attacks.choices import Keep
from leastwise.attacks.goals import CE, Goal, Targeted
from leastwise.attacks.min_norm.search import (
    Closest,
    NearestMistake,
    SearchRecord,
    check_search,
    check_target,
    describe_search,
    margin_goal,
)
from leastwise.attacks.naming import NUMBER, AttackName, ball_in_norm
from leastwise.attacks.threats import L1, L2, Ball, Linf, column, unit
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Logits, Mask, PerClass, PerExample

DUAL = {Linf: 1.0, L2: 2.0, L1: math.inf}  # the order of the norm that measures gradients
GAMMA_LEAST = 0.001


@dataclass(frozen=True, eq=False)
class RadiusState:
    """The examples still searching."""

    rows: Tensor  # their places in the full batch
    x: Images
    y: Labels
    at: Images  # the current point
    bound: tuple[Tensor, ...]
    eps: PerExample  # the current radius, in float64
    most: PerExample  # the distance of the farthest corner of the pixel box: no radius need be larger
    noise: Noise


class RadiusSearch(NearestMistake, contract=True):
    """A search whose radius follows the iterates: what DDN and FMN share."""

    steps: int
    step: float

    @property
    @abstractmethod
    def goal(self) -> Goal:
        """What the steps climb."""

    @abstractmethod
    def first_radius(self) -> float:
        """The radius that every search begins with."""

    @abstractmethod
    def direction(self, now: RadiusState, seen: Slope, t: int) -> Images:
        """Where step t goes."""

    @abstractmethod
    def radius(
        self, now: RadiusState, seen: Slope, t: int, *, hit: Mask, length: PerExample, best: PerExample
    ) -> PerExample:
        """The radius after step t, of points at distance `length` that are mistakes where `hit`."""

    @abstractmethod
    def onto(self, d: Images, eps: PerExample) -> Images:
        """A perturbation brought to the radius."""

    def search(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> tuple[Closest, Labels]:
        return search_radius(self, model, x, y, noise)

    def cost(self, k: int) -> Passes:
        return Passes(self.steps + 2, self.steps)

    @property
    def last_step(self) -> int:
        return self.steps

    def has_reached(self, model: nn.Module, x: Images, z: Logits, y: Labels) -> Mask:
        return self.goal.reached(z, y, *self.goal.bind(model, x, y))


@dataclass(frozen=True)
class DDN(RadiusSearch):
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
        check_search(self.ball, (L2,), keep=self.keep, counts={"the number of steps": self.steps}, positive=positive)

    def __str__(self) -> str:
        return f"DDN, {self.steps} steps, {self.ball}, {describe_search(self.keep, self.target)}"

    def first_radius(self) -> float:
        return self.start

    @property
    def goal(self) -> Goal:
        return CE() if self.target is None else Targeted(self.target)

    def direction(self, now: RadiusState, seen: Slope, t: int) -> Images:
        flat = seen.trouble == FLAT
        if not bool(flat.any()):
            return seen.gradient
        aimless = now.noise.fork("flat", t).normal(tuple(now.x.shape[1:]), now.x.dtype)
        return torch.where(flat.view(-1, 1, 1, 1), aimless, seen.gradient)

    def radius(
        self, now: RadiusState, seen: Slope, t: int, *, hit: Mask, length: PerExample, best: PerExample
    ) -> PerExample:
        return torch.where(hit, now.eps * (1 - self.gamma), now.eps * (1 + self.gamma))

    def onto(self, d: Images, eps: PerExample) -> Images:
        return d * column(eps / self.ball.norm(d).clamp_min(torch.finfo(d.dtype).tiny), d)


@dataclass(frozen=True)
class FMN(RadiusSearch):
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
        check_search(
            self.ball, tuple(DUAL), keep=self.keep, counts={"the number of steps": self.steps}, positive=positive
        )

    def __str__(self) -> str:
        return f"FMN, {self.steps} steps, {self.ball}, {describe_search(self.keep, self.target)}"

    def first_radius(self) -> float:
        return 0.0

    @property
    def goal(self) -> Goal:
        return margin_goal(self.target)

    def direction(self, now: RadiusState, seen: Slope, t: int) -> Images:
        return seen.gradient

    def radius(
        self, now: RadiusState, seen: Slope, t: int, *, hit: Mask, length: PerExample, best: PerExample
    ) -> PerExample:
        gamma = cosine(self.gamma, GAMMA_LEAST, t=t, steps=self.steps)
        order = DUAL[type(self.ball)]
        steepness = torch.linalg.vector_norm(seen.gradient.flatten(1), order, dim=1, dtype=torch.float64)
        boundary = length + seen.score.abs() / steepness.clamp_min(torch.finfo(torch.float64).tiny)
        larger = now.eps * (1 + gamma)
        missed = torch.where(best.isfinite(), larger, torch.maximum(larger, boundary))
        return torch.where(hit, torch.minimum(now.eps * (1 - gamma), best), missed)

    def onto(self, d: Images, eps: PerExample) -> Images:
        return self.ball.at(eps).project(d)


def cosine(first: float, last: float, *, t: int, steps: int) -> float:
    """Half a cosine from the first value to the last, at step t."""
    return last + (first - last) * (1 + math.cos(math.pi * t / steps)) / 2


def search_radius(attack: RadiusSearch, model: nn.Module, x: Images, y: Labels, noise: Noise) -> tuple[Closest, Labels]:
    """The nearest mistakes, and after how many gradients each was first inside the ball."""
    check_target(attack.target, y)
    ball, goal, record = attack.ball, attack.goal, SearchRecord.of(attack.ball, x)
    most = ball.norm(torch.maximum(x, 1 - x)).double()
    now = RadiusState(
        rows=torch.arange(len(x), device=x.device),
        x=x,
        y=y,
        at=x,
        bound=goal.bind(model, x, y),
        eps=torch.full_like(most, attack.first_radius()),
        most=most,
        noise=noise,
    )
    passes = 0
    for t in range(attack.steps):
        if len(now.rows) == 0:
            break
        passes += len(now.rows)
        seen = slope(model, goal, now.at, bound=now.bound)
        hit = ~seen.broken & goal.reached(seen.z, now.y, *now.bound)
        d = now.at - now.x
        length = ball.norm(d)
        record.note(now.rows, length, now.at, hit=hit, trouble=seen.trouble, taken=t)
        done = record.done(now.rows, attack.keep)
        eps = attack.radius(now, seen, t, hit=hit, length=length, best=record.distance[now.rows])
        eps = torch.minimum(eps.nan_to_num(nan=math.inf), now.most)  # NaN where the logits are
        d += cosine(attack.step, attack.step / 100, t=t, steps=attack.steps) * unit(attack.direction(now, seen, t))
        now = replace(now, eps=eps, at=(now.x + attack.onto(d, eps)).clamp(0, 1))
        if bool(done.any()):
            now = pick_rows(now, rows_of(~done))
    forwards = passes + len(now.rows)
    if len(now.rows) > 0:
        z, finite = ask(model, now.at)
        hit = finite & goal.reached(z, now.y, *now.bound)
        trouble = torch.where(finite, FINE, BROKEN)
        record.note(now.rows, ball.norm(now.at - now.x), now.at, hit=hit, trouble=trouble, taken=attack.steps)
    return record.closest(forwards, passes), record.step


def median_distance(distance: PerExample, y: Labels, k: int) -> PerClass:
    """The radius at which half of a class is lost: NaN for a class without examples, possibly infinite.

    With an even number of examples it is the mean of the two in the middle.
    """
    return torch.stack([median(distance[y == c]) for c in range(k)])


def median(values: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """The median, where two infinities have infinity between them."""
    if len(values) == 0:
        return values.new_tensor(math.nan)
    ordered = values.sort().values
    return (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2  # torch.quantile makes NaN of two infs


def survival(distance: PerExample, y: Labels, k: int, *, radii: tuple[float, ...]) -> Float[Tensor, "r k"]:
    """The security curve: the share of each class whose nearest mistake is farther than each radius."""
    beyond = distance[None] > torch.tensor(radii, dtype=torch.float64, device=distance.device)[:, None]
    members = torch.nn.functional.one_hot(y, k).double()
    return beyond.double() @ members / members.sum(dim=0)


DDN_STEPS = AttackName(
    DDN,
    "ddn[:N]",
    "ddn:10",
    rf"ddn(?::{NUMBER})?",
    lambda threat, n: DDN(ball_in_norm(threat, L2, "ddn"), steps=int(n or 100), keep=threat.keep),
    "decoupled direction and norm: the smallest L2 distance in N steps, 100 unless given",
    "Rony et al. 2019",
    "at most N + 1 forwards, N backwards",
)
FMN_STEPS = AttackName(
    FMN,
    "fmn[:N]",
    "fmn:10",
    rf"fmn(?::{NUMBER})?",
    lambda threat, n: FMN(threat.ball, steps=int(n or 100), keep=threat.keep),
    "fast minimum norm: the smallest distance in N steps, 100 unless given",
    "Pintor et al. 2021",
    "at most N + 1 forwards, N backwards",
)
