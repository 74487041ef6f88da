"""Several attacks as one."""

from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import nn

from leastwise.attacks.base import Attack, Outcome, call
from leastwise.balls import Radius
from leastwise.noise import Noise
from leastwise.types import Images, Labels, Mask


@dataclass(frozen=True)
class Cascade:
    """Each member attacks only what survived the ones before: the per-example worst case.

    All members draw the same noise, so a member finds here what it would find alone.
    """

    members: tuple[Attack, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("a cascade needs at least one attack")

    def __str__(self) -> str:
        return "the worst of: " + "; ".join(str(member) for member in self.members)

    def __call__(self, model: nn.Module, x: Images, y: Labels, seed: int = 0) -> Images:
        return call(self, model, x, y, seed)

    def at(self, eps: Radius, step: Radius | None = None) -> "Cascade":
        return replace(self, members=tuple(member.at(eps, step) for member in self.members))

    def allows(self, x: Images, x_adv: Images) -> Mask:
        return reduce(torch.logical_or, (member.allows(x, x_adv) for member in self.members))

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        found = self.members[0].run(model, x, y, noise)
        for number, member in enumerate(self.members[1:], start=1):
            rows = (~found.fooled).nonzero().squeeze(1)
            if len(rows) == 0:
                break
            more = member.run(model, x[rows], y[rows], noise.pick(rows))
            found = Outcome(
                found.x_adv.index_copy(0, rows, more.x_adv),
                found.fooled.index_copy(0, rows, more.fooled),
                found.step.index_copy(0, rows, more.step),
                found.by.index_fill(0, rows, number),
                found.forwards + more.forwards,
                found.backwards + more.backwards,
            )
        return found
