"""Which classes an example can be sent to: a targeted attack for every pair of example and class."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from leastwise.attacks.active_set import ask, pick_rows, rows_of
from leastwise.attacks.base import BROKEN, FINE, NEVER, Attack, Outcome, outcome
from leastwise.attacks.goals import Targeted
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Radius
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask, Rows

BATCH = 256  # pairs in a batch
NOWHERE = -1  # the worst target of a class without examples


class Reach(NamedTuple):
    """`reached[i, c]`: a point in the ball of example i (the image itself included) was seen that the model calls c.

    `tried` are the pairs that were asked about; the label's own class never is.
    """

    reached: Bool[Tensor, "b k"]
    tried: Bool[Tensor, "b k"]
    trouble: Int[Tensor, "b k"]  # of pairs that were not reached: why that may mean little (FLAT, BROKEN)
    x_adv: Images  # the first point seen that the model does not call y; the image itself where there was none
    step: Labels  # steps of the attempt that found it; 0 for images that are wrong as they are, NEVER for survivors
    forwards: int
    backwards: int


def reach(
    model: nn.Module,
    x: Images,
    y: Labels,
    attack: Attack,
    noise: Noise,
    classes: tuple[int, ...] | None = None,
    batch: int = BATCH,
) -> Reach:
    """Attack toward every class (or those in `classes`) but the label's own, at most `batch` pairs at a time.

    The attack is any with a `goal`, which becomes `Targeted`; a pair leaves its batch when it is reached. Each example
    goes from its least likely class to its likeliest, and the point of an attempt counts for the class it ended in,
    the target or not, as one more forward pass sees it: that class needs no attempt any more. All attempts of an
    example draw the same noise, and what is found does not depend on the batch.
    """
    if not hasattr(attack, "goal"):
        raise ValueError(f"reaching classes needs an attack with a goal, such as PGD, but saw {type(attack).__name__}")
    if batch < 1:
        raise ValueError(f"a batch holds at least one pair, but saw {batch}")
    seen = [ask(model, some) for some in torch.split(x, batch)]
    clean, finite = torch.cat([z for z, _ in seen]), torch.cat([fine for _, fine in seen])
    k, forwards, backwards = clean.shape[1], len(x), 0
    tried = asked(y, k, classes)
    reached, trouble = torch.zeros_like(tried), torch.full(tried.shape, FINE, device=x.device)
    reached[rows_of(finite), clean.argmax(dim=1)[finite]] = True
    x_adv, step = x.clone(), torch.where(finite & (clean.argmax(dim=1) != y), 0, NEVER)

    for target in clean.argsort(dim=1, stable=True).T:
        due = rows_of((tried & ~reached).gather(1, target[:, None]).squeeze(1))
        for first in range(0, len(due), batch):
            rows = due[first : first + batch]
            found = toward(attack, target, rows).run(model, x[rows], y[rows], noise.pick(rows))
            z, fine = ask(model, found.x_adv)
            reached[rows[fine], z.argmax(dim=1)[fine]] = True
            new = fine & (z.argmax(dim=1) != y[rows]) & (step[rows] == NEVER)
            x_adv[rows[new]] = found.x_adv[new]
            # A point that missed its target and is wrong all the same was seen at the end.
            step[rows[new]] = torch.where(found.step == NEVER, getattr(attack, "steps", None) or 1, found.step)[new]
            trouble[rows, target[rows]] = torch.where(fine, found.trouble, BROKEN)
            forwards, backwards = forwards + found.forwards + len(rows), backwards + found.backwards
    return Reach(reached, tried, torch.where(reached, FINE, trouble), x_adv, step, forwards, backwards)


@dataclass(frozen=True)
class Everywhere:
    """Toward every class but the label's own: the pairs of classes that an attacker can choose from."""

    recipe_name: ClassVar[str] = "Everywhere"

    attack: PGD

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        found = reach(model, x, y, self.attack, noise)
        trouble = torch.where(found.tried, found.trouble, FINE).amax(dim=1)
        made = outcome(found.x_adv, found.step != NEVER, found.step, found.forwards, found.backwards, trouble)
        return made._replace(reached=found.reached & found.tried)

    def allows(self, x: Images, x_adv: Images) -> Mask:
        return self.attack.allows(x, x_adv)

    def at(self, eps: Radius, step: Radius | None = None) -> "Everywhere":
        return Everywhere(self.attack.at(eps, step))

    def __str__(self) -> str:
        return f"toward every other class: {self.attack}"


def toward(attack: Any, target: Labels, rows: Rows) -> Attack:
    """The attack on some of the examples, each toward its own class and done when there; not to targets of its own."""
    ways = {"keep": "fooled", "targets": 0}
    held = {name: way for name, way in ways.items() if hasattr(attack, name)}
    return pick_rows(replace(attack, goal=Targeted(target), **held), rows)


def asked(y: Labels, k: int, classes: tuple[int, ...] | None) -> Bool[Tensor, "b k"]:
    classes = tuple(range(k)) if classes is None else classes
    if not all(0 <= c < k for c in classes):
        raise ValueError(f"the model has classes 0 to {k - 1}, but saw the targets {classes}")
    wanted = torch.zeros(k, dtype=torch.bool, device=y.device)
    wanted[list(classes)] = True
    return wanted.expand(len(y), k).scatter(1, y[:, None], False)


def matrix(found: Reach, y: Labels) -> Float[Tensor, "k k"]:
    """Row i, column j: the share of class i's examples that can be sent to class j.

    NaN where nobody tried: on the diagonal, for classes without examples, and for targets that were left out.
    """
    k = found.tried.shape[1]
    empty = torch.zeros(k, k, dtype=torch.float64, device=y.device)
    sent = empty.index_add(0, y, (found.reached & found.tried).double())
    return sent / empty.index_add(0, y, found.tried.double())


def worst_target(shares: Float[Tensor, "k k"]) -> Int[Tensor, " k"]:
    """For each class, the class that most of its examples can be sent to (the first of equals)."""
    known = ~shares.isnan()
    return torch.where(known.any(dim=1), shares.where(known, -torch.inf).argmax(dim=1), NOWHERE)
