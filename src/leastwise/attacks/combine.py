"""Several attacks as one."""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from leastwise.attacks.base import (
    NEVER,
    AnyAttack,
    Attack,
    ModelAccess,
    Outcome,
    Passes,
    make_outcome,
    pick_rows,
    rows_of,
)
from leastwise.attacks.codes import GRID
from leastwise.attacks.surrogate import Surrogate
from leastwise.attacks.threats import Ball, Radius
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask, Rows

AnyCombined = TypeVar("AnyCombined", bound="CombinedAttack")

MOST = 31  # members whose bits fit into what evidence stores


class CombinedAttack(Attack, contract=True):
    """An attack made of others: it permits what any of them does, and needs what any of them needs."""

    needs: ClassVar[ModelAccess | None] = None

    @property
    @abstractmethod
    def inner(self) -> tuple[Attack, ...]:
        """The attacks it is made of."""

    @abstractmethod
    def with_inner(self: AnyCombined, inner: tuple[Attack, ...]) -> AnyCombined:
        """The same combination of other attacks, as many as before."""

    def with_radius(self: AnyCombined, eps: Radius, step: Radius | None) -> AnyCombined:
        return self.with_inner(tuple(one.at(eps, step) for one in self.inner))

    def is_within_threat(self, x: Images, x_adv: Images) -> Mask:
        return reduce(torch.logical_or, (one.allows(x, x_adv) for one in self.inner))

    @property
    def common_ball(self) -> Ball | None:
        balls = {str(one.common_ball): one.common_ball for one in self.inner}
        return next(iter(balls.values())) if len(balls) == 1 else None

    @property
    def any_mistake(self) -> bool:
        return all(one.any_mistake for one in self.inner)

    @property
    def other_networks(self) -> tuple[Surrogate, ...]:
        return tuple(network for one in self.inner for network in one.other_networks)

    @property
    def gives_up(self) -> bool:
        return any(one.gives_up for one in self.inner)

    @property
    def gradients(self) -> bool:
        return any(one.gradients for one in self.inner)

    @property
    def logits(self) -> bool:
        return any(one.logits for one in self.inner)

    def notes(self, k: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(note for one in self.inner for note in one.notes(k)))

    def to_the_end(self: AnyCombined) -> AnyCombined:
        return self.with_inner(tuple(one.to_the_end() for one in self.inner))


class SeveralAttacks(CombinedAttack, contract=True):
    """A combination of different attacks: its field `members`."""

    members: tuple[Attack, ...]

    @property
    def inner(self) -> tuple[Attack, ...]:
        return self.members

    def with_inner(self: AnyAttack, inner: tuple[Attack, ...]) -> AnyAttack:
        return replace(self, members=inner)  # type: ignore[type-var]

    def cost(self, k: int) -> Passes | None:
        each = [member.cost(k) for member in self.members]
        known = [one for one in each if one is not None]
        return sum(known, start=Passes(0)) if len(known) == len(each) else None


@dataclass(frozen=True)
class Cascade(SeveralAttacks):
    """Each member attacks only what survived the ones before: the per-example worst case.

    All members draw the same noise, so a member finds here what it would find alone.
    """

    recipe_name: ClassVar[str] = "Cascade"

    members: tuple[Attack, ...]
    room: int = field(default=0, compare=False, metadata={"recipe": False})  # rows of a pass, if more than the images

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("a cascade needs at least one attack")

    def __str__(self) -> str:
        return "the worst of: " + "; ".join(str(member) for member in self.members)

    def with_room(self, room: int) -> "Cascade":
        return replace(self, room=room)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        room = max(self.room, len(x))
        found = self.members[0].with_room(room).run(model, x, y, noise)
        for number, member in enumerate(self.members[1:], start=1):
            rows = rows_of(~found.fooled)
            if len(rows) == 0:
                break
            more = pick_rows(member, rows).with_room(room).run(model, x[rows], y[rows], noise.pick(rows))
            found = merge_outcomes(found, rows, more, number=number)
        return found


@dataclass(frozen=True)
class Grid(SeveralAttacks):
    """All members attack everyone, so that each one's strength is known beside the per-example worst case.

    `each` of the outcome has the members that fooled an example, `by` the first of them (or the last member).
    """

    recipe_name: ClassVar[str] = GRID

    members: tuple[Attack, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.members) <= MOST:
            raise ValueError(f"a grid has 1 to {MOST} attacks, but saw {len(self.members)}")

    def __str__(self) -> str:
        return "each and the worst of: " + "; ".join(str(member) for member in self.members)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        found = self.members[0].run(model, x, y, noise)
        for number, member in enumerate(self.members[1:], start=1):
            more = member.run(model, x, y, noise)
            rows = rows_of(~found.fooled)
            left = merge_outcomes(found, rows, pick_outcome(more, rows), number=number)
            cost = found.forwards + more.forwards, found.backwards + more.backwards
            each = found.each | (more.fooled.to(found.each.dtype) << number)
            found = left._replace(each=each, forwards=cost[0], backwards=cost[1])
        return found


@dataclass(frozen=True)
class Restarts(CombinedAttack):
    """The same attack several times from other random starts, each on what survived. The first is the attack alone."""

    recipe_name: ClassVar[str] = "Restarts"

    attack: Attack
    times: int = 5

    def __post_init__(self) -> None:
        if self.times < 1:
            raise ValueError(f"an attack is run at least once, but saw {self.times} restarts")

    def __str__(self) -> str:
        return f"{self.attack}, {self.times} times"

    @property
    def inner(self) -> tuple[Attack, ...]:
        return (self.attack,)

    def with_inner(self, inner: tuple[Attack, ...]) -> "Restarts":
        return replace(self, attack=inner[0])

    def cost(self, k: int) -> Passes | None:
        one = self.attack.cost(k)
        return one and one * self.times

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        found = self.attack.run(model, x, y, noise)
        for number in range(1, self.times):
            rows = rows_of(~found.fooled)
            if len(rows) == 0:
                break
            again = noise.pick(rows).fork("restart", number)
            more = pick_rows(self.attack, rows).run(model, x[rows], y[rows], again)
            found = merge_outcomes(found, rows, more, number=number)
        return found


def merge_outcomes(found: Outcome, rows: Rows, more: Outcome, *, number: int) -> Outcome:
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


def nothing_found(x: Images, y: Labels) -> Outcome:
    """Nothing was tried and nobody is fooled."""
    return make_outcome(x, torch.zeros_like(y, dtype=torch.bool), y, forwards=0, backwards=0)


def merge_run(found: Outcome, rows: Rows, more: Outcome, *, begun: int) -> Outcome:
    """What is known after one more run on `rows`, of the same attack, which took `begun` steps before."""
    step = torch.where(more.fooled, more.step + begun, NEVER)
    return merge_outcomes(found, rows, more._replace(step=step), number=0)


def pick_outcome(found: Outcome, rows: Rows) -> Outcome:
    """Some of the examples, with the cost of all."""
    kept = {name: part[rows] for name, part in found._asdict().items() if isinstance(part, Tensor)}
    return found._replace(**kept)  # type: ignore[arg-type]
