"""What iterative attacks share: the examples still in the batch, and a look at the model.

The state of an attack is a frozen dataclass whose tensors have one row per example, so that when examples leave the
batch all their rows leave with them: `pick_rows(state, rows)`.
"""

from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from leastwise.attacks.base import BROKEN, FINE, FLAT
from leastwise.attacks.goals import Goal
from leastwise.balls import L1, L2, Linf
from leastwise.noise import Noise
from leastwise.types import Images, Labels, Logits, Mask, PerExample, Rows

State = TypeVar("State")


def pick_rows(state: State, rows: Rows) -> State:
    """The state of some of the examples. Numbers stay; tensors, tuples, noise and balls lose the other rows."""
    held = {f.name: getattr(state, f.name) for f in fields(state)}  # type: ignore[arg-type]
    return replace(state, **{name: picked(value, rows) for name, value in held.items()})  # type: ignore[type-var]


def picked(value: Any, rows: Rows) -> Any:
    match value:
        case Tensor():
            return value[rows]
        case tuple():
            return tuple(picked(part, rows) for part in value)
        case Noise() | Linf() | L2() | L1():
            return value.pick(rows)
    return value


def rows_of(mask: Mask) -> Rows:
    return mask.nonzero().squeeze(1)


class Slope(NamedTuple):
    """What the model says at a point: logits, the goal's score and its gradient there."""

    z: Logits
    score: PerExample
    gradient: Images  # zero where it is not finite: the sign of NaN would move nothing either
    trouble: Labels  # FLAT or BROKEN where there is nothing to follow

    @property
    def broken(self) -> Mask:
        return self.trouble == BROKEN


def slope(model: nn.Module, goal: Goal, at: Images, bound: tuple[Tensor, ...]) -> Slope:
    """One forward and one backward pass."""
    at = at.detach().requires_grad_()
    with torch.enable_grad():
        z = model(at)
        score = goal.score(z, *bound)
        (gradient,) = torch.autograd.grad(score.sum(), at)
    size = gradient.flatten(1).abs().amax(dim=1)  # NaN if any entry is
    finite = size.isfinite() & z.detach().isfinite().all(dim=1)
    if not bool(finite.all()):
        gradient = torch.where(finite.view(-1, 1, 1, 1), gradient, 0)
    trouble = torch.where(finite, torch.where(size == 0, FLAT, FINE), BROKEN)
    return Slope(z.detach(), score.detach(), gradient, trouble)


def ask(model: nn.Module, x: Images) -> tuple[Logits, Mask]:
    """One forward pass: the logits, and for which examples they are finite."""
    with torch.no_grad():
        z = model(x)
    return z, z.isfinite().all(dim=1)
