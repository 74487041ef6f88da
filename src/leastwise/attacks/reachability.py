"""Which classes an example can be sent to: a targeted attack for every pair of example and class."""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from leastwise.attacks.base import BROKEN, FINE, NEVER, Attack, Outcome, Passes, ask, make_outcome, pick_rows, rows_of
from leastwise.attacks.combine import CombinedAttack
from leastwise.attacks.naming import NUMBER, AttackName
from leastwise.attacks.pgd import make_pgd
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels

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
    *,
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
    attack.toward(y)  # refuses an attack that cannot go to a class, whether or not there is somewhere to go
    if batch < 1:
        raise ValueError(f"a batch holds at least one pair, but saw {batch}")
    seen = [ask(model, some) for some in torch.split(x, batch)]
    clean, finite = torch.cat([z for z, _ in seen]), torch.cat([fine for _, fine in seen])
    k, forwards, backwards = clean.shape[1], len(x), 0
    tried = pairs_to_try(y, k, classes)
    reached, trouble = torch.zeros_like(tried), torch.full(tried.shape, FINE, device=x.device)
    reached[rows_of(finite), clean.argmax(dim=1)[finite]] = True
    x_adv, step = x.clone(), torch.where(finite & (clean.argmax(dim=1) != y), 0, NEVER)

    for target in clean.argsort(dim=1, stable=True).T:
        due = rows_of((tried & ~reached).gather(1, target[:, None]).squeeze(1))
        for first in range(0, len(due), batch):
            rows = due[first : first + batch]
            found = pick_rows(attack.toward(target), rows).run(model, x[rows], y[rows], noise.pick(rows))
            z, fine = ask(model, found.x_adv)
            reached[rows[fine], z.argmax(dim=1)[fine]] = True
            new = fine & (z.argmax(dim=1) != y[rows]) & (step[rows] == NEVER)
            x_adv[rows[new]] = found.x_adv[new]
            # A point that missed its target and is wrong all the same was seen at the end.
            step[rows[new]] = torch.where(found.step == NEVER, attack.last_step or 1, found.step)[new]
            trouble[rows, target[rows]] = torch.where(fine, found.trouble, BROKEN)
            forwards, backwards = forwards + found.forwards + len(rows), backwards + found.backwards
    return Reach(reached, tried, torch.where(reached, FINE, trouble), x_adv, step, forwards, backwards)


@dataclass(frozen=True)
class Everywhere(CombinedAttack):
    """Toward every class but the label's own: the pairs of classes that an attacker can choose from."""

    recipe_name: ClassVar[str] = "Everywhere"

    attack: Attack

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        found = reach(model, x, y, attack=self.attack, noise=noise)
        trouble = torch.where(found.tried, found.trouble, FINE).amax(dim=1)
        made = make_outcome(
            found.x_adv,
            found.step != NEVER,
            found.step,
            forwards=found.forwards,
            backwards=found.backwards,
            trouble=trouble,
        )
        return made._replace(reached=found.reached & found.tried)

    @property
    def inner(self) -> tuple[Attack, ...]:
        return (self.attack,)

    def with_inner(self, inner: tuple[Attack, ...]) -> "Everywhere":
        return replace(self, attack=inner[0])

    def cost(self, k: int) -> Passes | None:
        one = self.attack.cost(k)
        return one and Passes(1 + (k - 1) * (one.forwards + 1), (k - 1) * one.backwards)

    def __str__(self) -> str:
        return f"toward every other class: {self.attack}"


def pairs_to_try(y: Labels, k: int, classes: tuple[int, ...] | None) -> Bool[Tensor, "b k"]:
    """Which pairs of example and class are tried: the wanted classes, without the label's own."""
    classes = tuple(range(k)) if classes is None else classes
    if not all(0 <= c < k for c in classes):
        raise ValueError(f"the model has classes 0 to {k - 1}, but saw the targets {classes}")
    wanted = torch.zeros(k, dtype=torch.bool, device=y.device)
    wanted[list(classes)] = True
    return wanted.expand(len(y), k).scatter(1, y[:, None], False)


def reach_matrix(found: Reach, y: Labels) -> Float[Tensor, "k k"]:
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


REACH = AttackName(
    Everywhere,
    "reachN",
    "reach2",
    rf"reach{NUMBER}",
    lambda threat, steps: Everywhere(make_pgd(threat, steps, keep="fooled")),
    "N steps toward every other class: which class can be turned into which",
    "Madry et al. 2018",
    "K - 1 × pgdN, fewer where classes are reached on the way",
)
