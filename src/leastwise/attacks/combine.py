"""Several attacks as one."""

from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

import torch
from torch import Tensor, nn

from leastwise.attacks.active_set import pick_rows, rows_of
from leastwise.attacks.base import Attack, Outcome, call, notes, uses_gradients
from leastwise.attacks.threats import Radius
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask, Rows

MOST = 31  # members whose bits fit into what evidence stores


@dataclass(frozen=True)
class Cascade:
    """Each member attacks only what survived the ones before: the per-example worst case.

    All members draw the same noise, so a member finds here what it would find alone.
    """

    recipe_name: ClassVar[str] = "Cascade"

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

    @property
    def gradients(self) -> bool:
        return any(uses_gradients(member) for member in self.members)

    def notes(self, k: int) -> tuple[str, ...]:
        return together(self.members, k)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        found = self.members[0].run(model, x, y, noise)
        for number, member in enumerate(self.members[1:], start=1):
            rows = rows_of(~found.fooled)
            if len(rows) == 0:
                break
            more = roomy(pick_rows(member, rows), len(x)).run(model, x[rows], y[rows], noise.pick(rows))
            found = after(found, rows, more, number)
        return found


@dataclass(frozen=True)
class Grid:
    """All members attack everyone, so that each one's strength is known beside the per-example worst case.

    `each` of the outcome has the members that fooled an example, `by` the first of them (or the last member).
    """

    recipe_name: ClassVar[str] = "Grid"

    members: tuple[Attack, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.members) <= MOST:
            raise ValueError(f"a grid has 1 to {MOST} attacks, but saw {len(self.members)}")

    def __str__(self) -> str:
        return "each and the worst of: " + "; ".join(str(member) for member in self.members)

    def __call__(self, model: nn.Module, x: Images, y: Labels, seed: int = 0) -> Images:
        return call(self, model, x, y, seed)

    def at(self, eps: Radius, step: Radius | None = None) -> "Grid":
        return replace(self, members=tuple(member.at(eps, step) for member in self.members))

    def allows(self, x: Images, x_adv: Images) -> Mask:
        return reduce(torch.logical_or, (member.allows(x, x_adv) for member in self.members))

    @property
    def gradients(self) -> bool:
        return any(uses_gradients(member) for member in self.members)

    def notes(self, k: int) -> tuple[str, ...]:
        return together(self.members, k)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        found = self.members[0].run(model, x, y, noise)
        for number, member in enumerate(self.members[1:], start=1):
            more = member.run(model, x, y, noise)
            rows = rows_of(~found.fooled)
            left = after(found, rows, pick_outcome(more, rows), number)
            cost = found.forwards + more.forwards, found.backwards + more.backwards
            each = found.each | (more.fooled.to(found.each.dtype) << number)
            found = left._replace(each=each, forwards=cost[0], backwards=cost[1])
        return found


@dataclass(frozen=True)
class Restarts:
    """The same attack several times from other random starts, each on what survived. The first is the attack alone."""

    recipe_name: ClassVar[str] = "Restarts"

    attack: Attack
    times: int = 5

    def __post_init__(self) -> None:
        if self.times < 1:
            raise ValueError(f"an attack is run at least once, but saw {self.times} restarts")

    def __str__(self) -> str:
        return f"{self.attack}, {self.times} times"

    def __call__(self, model: nn.Module, x: Images, y: Labels, seed: int = 0) -> Images:
        return call(self, model, x, y, seed)

    def at(self, eps: Radius, step: Radius | None = None) -> "Restarts":
        return replace(self, attack=self.attack.at(eps, step))

    def allows(self, x: Images, x_adv: Images) -> Mask:
        return self.attack.allows(x, x_adv)

    @property
    def gradients(self) -> bool:
        return uses_gradients(self.attack)

    def notes(self, k: int) -> tuple[str, ...]:
        return notes(self.attack, k)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        found = self.attack.run(model, x, y, noise)
        for number in range(1, self.times):
            rows = rows_of(~found.fooled)
            if len(rows) == 0:
                break
            again = noise.pick(rows).fork("restart", number)
            found = after(found, rows, pick_rows(self.attack, rows).run(model, x[rows], y[rows], again), number)
        return found


def after(found: Outcome, rows: Rows, more: Outcome, number: int) -> Outcome:
    """What is known after member `number` attacked the survivors `rows`."""
    return Outcome(
        found.x_adv.index_copy(0, rows, more.x_adv),
        found.fooled.index_copy(0, rows, more.fooled),
        found.step.index_copy(0, rows, more.step),
        found.by.index_fill(0, rows, number),
        found.forwards + more.forwards,
        found.backwards + more.backwards,
        found.trouble.index_copy(
            0, rows, torch.maximum(more.trouble, torch.where(more.fooled, 0, found.trouble[rows]))
        ),
        found.each.index_copy(0, rows, found.each[rows] | (more.fooled.to(found.each.dtype) << min(number, MOST - 1))),
    )


def roomy(attack: Attack, room: int) -> Attack:
    """An attack that may fill its passes up to the size of the batch that the survivors come from."""
    return replace(attack, room=room) if hasattr(attack, "room") else attack  # type: ignore[type-var]


def pick_outcome(found: Outcome, rows: Rows) -> Outcome:
    """Some of the examples, with the cost of all."""
    kept = {name: part[rows] for name, part in found._asdict().items() if isinstance(part, Tensor)}
    return found._replace(**kept)  # type: ignore[arg-type]


def together(members: tuple[Attack, ...], k: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for member in members for note in notes(member, k)))
