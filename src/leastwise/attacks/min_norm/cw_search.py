"""The search that Carlini and Wagner's attacks share.

Every example has its own c, tau, Adam state and clock, so one that is through with a c takes the next at once, and the
batch shrinks only by examples that have finished.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from leastwise.attacks.base import BROKEN, FINE, ask, pick_rows, pick_tensors, rows_of, slope
from leastwise.attacks.goals import Goal
from leastwise.attacks.min_norm.search import (
    Closest,
    NearestMistake,
    SearchRecord,
    check_target,
    margin_goal,
)
from leastwise.attacks.threats import column
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Logits, Mask, PerExample

SHRINK = 0.999999  # keeps arctanh finite at black and white, as in both references
BETA1, BETA2 = 0.9, 0.999
LARGEST_C = 1e10  # the authors' bound; without one, c would overflow after some forty searches


@dataclass(frozen=True, eq=False)
class Descent:
    """The examples still searching. The images here are written in place."""

    rows: Tensor  # their places in the full batch
    x: Images
    centre: Images  # x as the tanh gives it back: from x itself D would pull, and Adam makes a step of any small pull
    y: Labels
    bound: tuple[Tensor, ...]
    w: Images  # the current point, before the tanh
    m: Images  # Adam's mean gradient, and its mean square
    v: Images
    t: Labels  # Adam's iterations since it was last started
    checked: PerExample  # the loss when progress was last looked at
    c: PerExample
    low: PerExample  # the largest c that failed, and the smallest that succeeded
    high: PerExample
    search: Labels  # how many c are done with
    won: Mask  # whether the current c has succeeded
    tau: PerExample  # CWInf only


class CarliniWagner(NearestMistake, contract=True):
    """The search that both norms share; its hooks are the distance D and what success at a c means."""

    iterations: int
    searches: int
    lr: float
    c: float
    confidence: float
    patience: float
    bisections: int
    adam_eps: ClassVar[float]

    @abstractmethod
    def size(self, d: Images, tau: PerExample) -> tuple[PerExample, Images]:
        """D and its gradient."""

    @abstractmethod
    def stalled(self, loss: PerExample, checked: PerExample) -> Mask:
        """Where the loss has not fallen enough since it was last looked at, or is not a number."""

    @abstractmethod
    def advance(self, now: Descent, at: Images, *, hit: Mask, distance: PerExample, over: Mask) -> Descent:
        """What becomes of each search after an iteration; `over` are those that are through with their c."""

    def search(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> tuple[Closest, Labels]:
        return descend(self, model, x, y)


def descend(attack: CarliniWagner, model: nn.Module, x: Images, y: Labels) -> tuple[Closest, Labels]:
    """The nearest mistakes, and after how many gradients each was first inside the ball."""
    keep = attack.keep
    check_target(attack.target, y)
    goal, record = margin_goal(attack.target), SearchRecord.of(attack.ball, x)
    bound = goal.bind(model, x, y)
    now = start_descent(attack, x, y, bound=bound)
    z, finite = ask(model, x)
    wrong = finite & goal.reached(z, y, *bound)
    record.note(
        now.rows, torch.zeros_like(record.distance), x, hit=wrong, trouble=torch.where(finite, FINE, BROKEN), taken=0
    )
    now = pick_rows(now, rows_of(~record.done(now.rows, keep)))
    passes = taken = 0
    while len(now.rows) > 0:
        passes += len(now.rows)
        now = iterate(attack, model, goal, now=now, record=record, taken=taken)
        taken += 1
        done = record.done(now.rows, keep) | (now.search >= attack.searches)
        if bool(done.any()):
            now = pick_rows(now, rows_of(~done))
    more = pull_back(attack, model, goal, y=y, bound=bound, record=record, taken=taken) if attack.bisections else 0
    return record.closest(len(x) + passes + more, passes), record.step


def start_descent(attack: CarliniWagner, x: Images, y: Labels, *, bound: tuple[Tensor, ...]) -> Descent:
    """Everybody at the image, with the first c."""
    number = torch.zeros(len(x), dtype=x.dtype, device=x.device)
    w = before_tanh(x)
    return Descent(
        rows=torch.arange(len(x), device=x.device),
        x=x,
        centre=after_tanh(w),
        y=y,
        bound=bound,
        w=w,
        m=torch.zeros_like(x),
        v=torch.zeros_like(x),
        t=torch.zeros_like(y),
        checked=number + math.inf,
        c=number + attack.c,
        low=number,
        high=number + math.inf,
        search=torch.zeros_like(y),
        won=number > 0,
        tau=number + 1,
    )


def iterate(
    attack: CarliniWagner, model: nn.Module, goal: Goal, *, now: Descent, record: SearchRecord, taken: int
) -> Descent:
    """One iteration of Adam for everyone, each at its own."""
    at = after_tanh(now.w)
    distance = attack.ball.norm(at - now.x)
    seen = slope(model, goal, at, bound=now.bound)
    hit = ~seen.broken & is_confident(attack, goal, z=seen.z, y=now.y, bound=now.bound)
    record.note(now.rows, distance, at, hit=hit, trouble=seen.trouble, taken=taken)

    short = (attack.confidence - seen.score).clamp_min(0)
    size, inward = attack.size(at - now.centre, now.tau)
    loss = size + now.c * short
    slope_of_tanh = 2 * at * (1 - at)
    t = step_adam(attack, now, (inward - column(now.c * (short > 0), at) * seen.gradient) * slope_of_tanh)

    look = now.t % math.ceil(attack.patience * attack.iterations) == 0
    over = (look & attack.stalled(loss, now.checked)) | (t == attack.iterations)
    checked = torch.where(look, loss, now.checked)
    return attack.advance(replace(now, t=t, checked=checked), at, hit=hit, distance=distance, over=over)


def is_confident(attack: CarliniWagner, goal: Goal, *, z: Logits, y: Labels, bound: tuple[Tensor, ...]) -> Mask:
    """Where the goal is reached by the margin that is asked for."""
    return goal.reached(z, y, *bound) & (goal.score(z, *bound) >= attack.confidence)


def step_adam(attack: CarliniWagner, now: Descent, gradient: Images) -> Labels:
    """A step in place; returns the clocks after it."""
    t = now.t + 1
    now.m.mul_(BETA1).add_(gradient, alpha=1 - BETA1)
    now.v.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
    root = (now.v / column(1 - BETA2 ** t.double(), gradient)).sqrt_().add_(attack.adam_eps)
    now.w.addcdiv_(now.m * column(-attack.lr / (1 - BETA1 ** t.double()), gradient), root)
    return t


def before_tanh(x: Images) -> Images:
    """The point of tanh space that stands for an image."""
    return ((2 * x - 1) * SHRINK).atanh()


def after_tanh(w: Images) -> Images:
    """The image that a point of tanh space stands for."""
    return (w.tanh() + 1) / 2


def restart_adam(now: Descent, who: Mask, at: Images) -> Descent:
    """Adam anew from a point, for some."""
    if not bool(who.any()):
        return now
    now.w[who] = before_tanh(at[who])
    now.m[who], now.v[who] = 0, 0
    return replace(now, t=now.t.masked_fill(who, 0), checked=now.checked.masked_fill(who, math.inf))


def take_next_c(now: Descent, over: Mask) -> Descent:
    """Those whose c is over try the next, from the image."""
    if not bool(over.any()):
        return now
    high = torch.where(over & now.won, now.c, now.high)
    low = torch.where(over & ~now.won, now.c, now.low)
    c = torch.where(over, torch.where(high.isinf(), (10 * now.c).clamp_max(LARGEST_C), (low + high) / 2), now.c)
    now = replace(now, c=c, low=low, high=high, won=now.won & ~over, search=now.search + over.to(now.search.dtype))
    return restart_adam(now, over, now.x)


def pull_back(
    attack: CarliniWagner,
    model: nn.Module,
    goal: Goal,
    *,
    y: Labels,
    bound: tuple[Tensor, ...],
    record: SearchRecord,
    taken: int,
) -> int:
    """Bisect between each image and its nearest mistake; returns the forward passes it took."""
    everyone = torch.arange(len(y), device=y.device)
    rows = rows_of(record.distance.isfinite() & ~record.done(everyone, attack.keep))
    if len(rows) == 0:
        return 0
    x, y, bound = record.x[rows], y[rows], pick_tensors(bound, rows)
    far = record.x_adv[rows] - x
    low, high = torch.zeros_like(record.distance[rows]), torch.ones_like(record.distance[rows])
    for _ in range(attack.bisections):
        middle = (low + high) / 2
        at = x + column(middle, x) * far
        z, finite = ask(model, at)
        hit = finite & is_confident(attack, goal, z=z, y=y, bound=bound)
        record.note(rows, attack.ball.norm(at - x), at, hit=hit, trouble=torch.where(finite, FINE, BROKEN), taken=taken)
        low, high = torch.where(hit, low, middle), torch.where(hit, middle, high)
    return attack.bisections * len(rows)
