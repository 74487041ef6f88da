"""NAttack: learn a Gaussian whose samples fool the model, from the logits alone (Li et al., ICML 2019).

image(v) = x + project(½(tanh(v) + 1) - x), and the Gaussian N(m, sigma²) over v starts at m = arctanh(2x - 1) plus
0.001 of noise. A step draws directions e_1 … e_n, asks for the rewards R_k = ½ score(image(m + sigma·e_k)) and goes

    m ← m + lr / (n·sigma) · sum_k A_k e_k,    A_k = (R_k - mean R) / (std R + 1e-7).

The score is -max(log p_y - max_{j != y} log p_j, 0); differences of log-probabilities are differences of logits, so
that is `Margin(kappa=0)`. Every tenth step the image of m itself is tested.

Departures from the paper's scripts: the best other class is each sample's own (they keep the first sample's for all);
images that the model gets wrong count as fooled (they leave them out); m is tested after the last step too. The
directions of a step are the same for all examples, each with its own random sign per direction: every example still
sees independent Gaussian samples, those of two examples are uncorrelated, and drawing them costs as much for a batch as
for one image. A pixel at exactly 0 or 1 hardly moves in tanh space: that is the method's.

Not checked against the paper's scripts, which need TensorFlow 1.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from leastwise.attacks.base import (
    BROKEN,
    NEVER,
    GoalAttack,
    ModelAccess,
    Outcome,
    Passes,
    ask,
    make_outcome,
    pick_rows,
    rows_of,
)
from leastwise.attacks.choices import Keep
from leastwise.attacks.goals import Goal, Margin
from leastwise.attacks.naming import NUMBER, AttackName
from leastwise.attacks.threats import Ball, Linf
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Rows

BESIDE = 0.001  # the standard deviation of the start around the image, in tanh space
SHRINK = 1 - 1e-6  # keeps arctanh finite at 0 and 1
STD_TINY = 1e-7
EVERY = 10  # steps between two tests of the image of the mean
# Images per forward pass: no more than 256, and no more values than 256 images of 3×32×32 have (3 MB in float32).
IMAGES, VALUES = 256, 256 * 3 * 32 * 32

Samples = Float[Tensor, "b n"]  # one per example and sample
Directions = Float[Tensor, "n c h w"]


@dataclass(frozen=True)
class NAttack(GoalAttack):
    """`steps` steps of `population` queries each.

    `keep="fooled"` is the paper's: an example leaves at the first tested point that fools the model, the image itself
    being the first. With `take_samples` a sample of the population counts too, which the paper's attack lets go.
    """

    recipe_name: ClassVar[str] = "NAttack"
    needs: ClassVar[ModelAccess | None] = "queries"

    ball: Ball = Linf(8 / 255)
    goal: Goal = Margin(kappa=0.0)
    population: int = 300
    sigma: float = 0.1
    lr: float = 0.02
    steps: int = 500
    keep: Keep = "fooled"
    take_samples: bool = False

    def __post_init__(self) -> None:
        if self.population < 2:
            raise ValueError(f"NAttack compares samples, so its population is 2 or more, but saw {self.population}")
        if not (self.sigma > 0 and self.lr >= 0):
            raise ValueError(f"sigma must be positive and lr zero or more, but saw {self.sigma} and {self.lr}")
        if self.steps < 0:
            raise ValueError(f"an attack needs a number of steps, zero or more, but saw {self.steps}")
        if self.keep not in get_args(Keep):
            raise ValueError(f"keep must be {' or '.join(get_args(Keep))}, but saw {self.keep!r}")
        if self.take_samples and self.keep != "fooled":
            raise ValueError(f'take_samples ends an example at a sample and needs keep="fooled", but saw {self.keep!r}')

    def __str__(self) -> str:
        counted = "the last mean counts" if self.keep == "last" else f"every {EVERY}th mean counts"
        if self.take_samples:
            counted += " and every sample"
        queries = f"{self.steps} steps of {self.population} queries"
        return f"NAttack with {queries} on {self.goal}, {self.ball}, sigma {self.sigma:g}, lr {self.lr:g}, {counted}"

    @property
    def last_step(self) -> int:
        return self.steps

    def cost(self, k: int) -> Passes:
        tests = math.ceil(self.steps / EVERY) + 2  # of the mean, of the image itself and of the last point
        return Passes(self.goal.clean_forwards + tests + self.steps * (self.population + self.take_samples))

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        front = start_state(self, model, x, y, noise)
        found = QueryRecord(x.clone(), torch.full_like(y, NEVER), torch.zeros_like(y))
        forwards = len(x) * self.goal.clean_forwards
        early = self.keep == "fooled"

        if early:
            forwards += len(x)
            front = look(self.goal, model, front, point=x, steps=0, found=found)
        for t in range(self.steps):
            if early and t % EVERY == 0:
                forwards += len(front.rows)
                front = look(self.goal, model, front, point=image_of(front, front.mean), steps=t, found=found)
            if len(front.rows) == 0:
                break
            e, sign = directions(front, self.population, t), own_signs(front, self.population, t)
            seen = survey(self, model, front, e=e, sign=sign)
            forwards += len(front.rows) * self.population
            here, front = front, move_mean(self, front, e=e, sign=sign, seen=seen)
            if self.take_samples and bool(seen.reached.any()):
                forwards += len(front.rows)
                first = seen.reached.int().argmax(dim=1, keepdim=True)  # 0 where there is none: a query wasted
                sample = here.mean + self.sigma * images_of(sign.gather(1, first)) * e[first.squeeze(1)]
                front = look(self.goal, model, front, point=image_of(here, sample), steps=t + 1, found=found)

        if len(front.rows) > 0:
            forwards += len(front.rows)
            found.x_adv[front.rows] = image_of(front, front.mean)
            look(self.goal, model, front, point=found.x_adv[front.rows], steps=self.steps, found=found)
        return make_outcome(
            found.x_adv, found.step != NEVER, found.step, forwards=forwards, backwards=0, trouble=found.trouble
        )


@dataclass(frozen=True, eq=False)
class NAttackState:
    """The examples still in the batch, each with the mean of its Gaussian."""

    rows: Rows  # their places in the full batch
    x: Images
    y: Labels
    mean: Images  # in tanh space
    bound: tuple[Tensor, ...]
    ball: Ball
    noise: Noise
    trouble: Labels


class QueryRecord(NamedTuple):
    """What is known of the full batch; written in place."""

    x_adv: Images
    step: Labels
    trouble: Labels


class Survey(NamedTuple):
    """What the model says at each example's samples."""

    reward: Samples
    finite: Bool[Tensor, "b n"]
    reached: Bool[Tensor, "b n"]


def start_state(attack: NAttack, model: nn.Module, x: Images, y: Labels, noise: Noise) -> NAttackState:
    """Everybody at a little beside the image, in tanh space."""
    beside = BESIDE * noise.fork("start").normal(tuple(x.shape[1:]), x.dtype)
    return NAttackState(
        rows=torch.arange(len(x), device=x.device),
        x=x,
        y=y,
        mean=torch.atanh((2 * x - 1) * SHRINK) + beside,
        bound=attack.goal.bind(model, x, y),
        ball=attack.ball,
        noise=noise,
        trouble=torch.zeros_like(y),
    )


def image_of(front: NAttackState, v: Images) -> Images:
    """The point of tanh space as an image inside the ball; ½(tanh(v) + 1) is the logistic function of 2v."""
    return front.ball.project(v.mul(2).sigmoid_().sub_(front.x)).add_(front.x).clamp_(0, 1)


def look(
    goal: Goal, model: nn.Module, front: NAttackState, *, point: Images, steps: int, found: QueryRecord
) -> NAttackState:
    """Ask at one point per example, note who is fooled there, and let them go."""
    if len(front.rows) == 0:  # not every model takes an empty batch
        return front
    z, finite = ask(model, point)
    wrong = finite & goal.reached(z, front.y, *front.bound)
    trouble = front.trouble.masked_fill(~finite, BROKEN)
    found.trouble[front.rows] = trouble
    fallen = front.rows[wrong]
    found.x_adv[fallen], found.step[fallen] = point[wrong], steps
    front = replace(front, trouble=trouble)
    return pick_rows(front, rows_of(~wrong)) if bool(wrong.any()) else front


def directions(front: NAttackState, population: int, t: int) -> Directions:
    """The directions of step t, standard normal, the same for every example of every batch."""
    everyone = replace(front.noise, ids=front.noise.ids.new_zeros(1))
    # The quantile function makes one normal number of each uniform one, where Box and Muller's needs two.
    u = everyone.fork("directions", t).uniform((population, *front.x.shape[1:]), front.x.dtype)
    return u.mul_(2).sub_(1).erfinv_().mul_(math.sqrt(2)).squeeze(0)


def own_signs(front: NAttackState, population: int, t: int) -> Samples:
    """Which way each example goes along each direction."""
    return (front.noise.fork("signs", t).uniform((population,), front.x.dtype) < 0.5).to(front.x.dtype).mul_(2).sub_(1)


def survey(attack: NAttack, model: nn.Module, front: NAttackState, *, e: Directions, sign: Samples) -> Survey:
    """The rewards of all samples, some images at a time."""
    b, n = sign.shape
    at_once = max(1, min(IMAGES, VALUES // front.x[0].numel()))
    parts = []
    for pair in torch.split(torch.arange(b * n, device=sign.device), at_once):
        own = pick_rows(front, pair // n)
        sample = torch.addcmul(own.mean, e[pair % n], images_of(sign.flatten()[pair]), value=attack.sigma)
        z, finite = ask(model, image_of(own, sample))
        reached = finite & attack.goal.reached(z, own.y, *own.bound)
        parts.append((attack.goal.score(z, *own.bound) / 2, finite, reached))
    return Survey(*(torch.cat(part).view(b, n) for part in zip(*parts, strict=True)))


def move_mean(attack: NAttack, front: NAttackState, *, e: Directions, sign: Samples, seen: Survey) -> NAttackState:
    """Move the mean to where the rewards are."""
    weight = (advantages(seen.reward, seen.finite) * sign).to(e.dtype)
    pull = (weight @ e.flatten(1)).view_as(front.x)
    return replace(
        front,
        mean=front.mean.add(pull, alpha=attack.lr / (attack.population * attack.sigma)),
        trouble=front.trouble.masked_fill(~seen.finite.all(dim=1), BROKEN),
    )


def advantages(reward: Samples, finite: Bool[Tensor, "b n"]) -> Samples:
    """Rewards with mean 0 and standard deviation 1; what is not finite has no say.

    Counted from the best reward, in float64: equal rewards are then exactly 0, where the rounding of their mean,
    divided by 1e-7, would move the Gaussian at random.
    """
    best = reward.masked_fill(~finite, -math.inf).amax(dim=1, keepdim=True)
    behind = torch.where(finite, reward - best, 0).double()
    count = finite.sum(dim=1, keepdim=True).clamp_min(1)
    centred = torch.where(finite, behind - behind.sum(dim=1, keepdim=True) / count, 0)
    std = (centred.square().sum(dim=1, keepdim=True) / count).sqrt()
    return centred / (std + STD_TINY)


def images_of(value: Float[Tensor, "..."]) -> Float[Tensor, "m 1 1 1"]:
    """One number per image, in a form that multiplies images."""
    return value.reshape(-1, 1, 1, 1)


NATTACK = AttackName(
    NAttack,
    "nattack[:N]",
    "nattack:10",
    rf"nattack(?::{NUMBER})?",
    lambda threat, n: NAttack(threat.ball, steps=int(n or 500), keep=threat.keep),
    "a Gaussian of adversarial points, learnt from queries; N rounds of 300, 500 unless given",
    "Li et al. 2019",
    "at most 300 N + N / 10 forwards",
)
