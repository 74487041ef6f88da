"""What iterative attacks share: the examples still in the batch, and a look at the model.

The state of an attack is a frozen dataclass whose tensors have one row per example, so that when examples leave the
batch all their rows leave with them: `pick_rows(state, rows)`.
"""

from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from leastwise.attacks.base import BROKEN, FINE, FLAT
from leastwise.attacks.goals import Goal
from leastwise.core.types import Images, Labels, Logits, Mask, PerExample, Rows

RowState = TypeVar("RowState")


def pick_rows(state: RowState, rows: Rows) -> RowState:
    """The state, or the attack, of some of the examples: every tensor in it has one row per example."""
    return pick_tensors(state, rows)


def pick_tensors(value: Any, rows: Rows) -> Any:
    """Any value with the rows of some examples in every tensor that it holds."""
    match value:
        case Tensor():
            return value.index_select(0, rows)  # several times as fast as value[rows]
        case tuple():
            return keep_or_replace(value, tuple(pick_tensors(part, rows) for part in value))
    if is_dataclass(value) and not isinstance(value, type):
        held = {f.name: getattr(value, f.name) for f in fields(value)}
        changed = {name: pick_tensors(part, rows) for name, part in held.items()}
        return value if all(changed[name] is held[name] for name in held) else replace(value, **changed)
    return value


def keep_or_replace(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
    """The old tuple if nothing in it changed, so that frozen values are not made anew."""
    return old if all(a is b for a, b in zip(old, new, strict=True)) else new


def rows_of(mask: Mask) -> Rows:
    """The places at which a mask is true."""
    return mask.nonzero().squeeze(1)


def runs_per_pass(waiting: int, left: int, room: int) -> int:
    """How many of the runs that wait are made side by side: a pass of few examples costs nearly as much as one of many.

    A function of counts: `left` examples are still undecided, and a pass may hold `room` rows.
    """
    return max(1, min(waiting, room // left))


class Slope(NamedTuple):
    """What the model says at a point: logits, the goal's score and its gradient there."""

    z: Logits
    score: PerExample
    gradient: Images  # zero where it is not finite: the sign of NaN would move nothing either
    trouble: Labels  # FLAT or BROKEN where there is nothing to follow

    @property
    def broken(self) -> Mask:
        return self.trouble == BROKEN


def slope(model: nn.Module, goal: Goal, at: Images, *, bound: tuple[Tensor, ...]) -> Slope:
    """One forward and one backward pass."""
    at = at.detach().requires_grad_()
    with torch.enable_grad():
        z = model(at)
        score = goal.score(z, *bound)
        (gradient,) = torch.autograd.grad(score.sum(), at)
    size = gradient.abs().amax(dim=(1, 2, 3))  # NaN if any entry is
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
