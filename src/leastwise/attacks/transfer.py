"""Points crafted on other networks and tried on this one, which is only asked (Tian et al., KDD 2021, section 5).

A substitute network f' stands in for the target f: x' = attack(f', x, y), and x' counts if f is wrong there.
Departures: an image that the target gets wrong as it is counts without any crafting, and several substitutes may be
given (their per-example worst case, or one attack on their mean logits).
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import nn

from leastwise.attacks.base import (
    BROKEN,
    FINE,
    Attack,
    ModelAccess,
    Outcome,
    Passes,
    ask,
    make_outcome,
    pick_rows,
    rows_of,
)
from leastwise.attacks.combine import CombinedAttack, merge_outcomes
from leastwise.attacks.goals import CE
from leastwise.attacks.naming import AttackName, Threat
from leastwise.attacks.pgd import PGD
from leastwise.attacks.surrogate import MeanLogits, Surrogate
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels
from leastwise.models.classifier import Classifier, inference

Ensemble = Literal["worst", "mean"]  # each surrogate in turn on what survived; or one attack on the mean of the logits


@dataclass(frozen=True)
class Transfer(CombinedAttack):
    """Craft on the surrogates, score on the target; with one surrogate that is the target, white-box PGD.

    The attack runs to its end whatever its `keep`: a point that just fools the surrogate seldom fools another network.
    The surrogates stay on their device, and are in evaluation mode while they are used. All draw the same noise.
    """

    recipe_name: ClassVar[str] = "Transfer"
    needs: ClassVar[ModelAccess | None] = "labels"

    attack: Attack
    surrogates: tuple[Surrogate, ...]
    ensemble: Ensemble = "worst"

    def __post_init__(self) -> None:
        if not self.surrogates:
            raise ValueError("a transfer attack needs at least one surrogate to craft on")
        if self.ensemble not in get_args(Ensemble):
            raise ValueError(f"the ensemble must be {' or '.join(get_args(Ensemble))}, but saw {self.ensemble!r}")
        for one in self.surrogates:
            if self.attack.gradients and isinstance(one.model, Classifier) and not one.model.gradients:
                raise ValueError(f"the surrogate {one.name} gives no gradients: craft on a network")

    def __str__(self) -> str:
        names = " and ".join(one.name for one in self.surrogates)
        several = "" if len(self.surrogates) == 1 else f" ({'worst of' if self.ensemble == 'worst' else 'mean logits'})"
        return f"{self.attack.to_the_end()}, crafted on {names}{several}"

    @property
    def gradients(self) -> bool:
        return False  # of the target

    @property
    def logits(self) -> bool:
        return False

    @property
    def other_networks(self) -> tuple[Surrogate, ...]:
        return (*self.surrogates, *super().other_networks)

    @property
    def inner(self) -> tuple[Attack, ...]:
        return (self.attack,)

    def with_inner(self, inner: tuple[Attack, ...]) -> "Transfer":
        return replace(self, attack=inner[0])

    def cost(self, k: int) -> Passes | None:
        """Passes of the surrogates count like the target's."""
        one, count = self.attack.to_the_end().cost(k), len(self.surrogates)
        return one and Passes(1 + count * (one.forwards + 1), count * one.backwards)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        attack = self.attack.to_the_end()
        z, finite = ask(model, x)
        check_classes(self.surrogates, z.shape[1])
        trouble = torch.where(finite, FINE, BROKEN)
        found = make_outcome(
            x,
            finite & attack.has_reached(model, x, z, y),
            torch.zeros_like(y),
            forwards=len(x),
            backwards=0,
            trouble=trouble,
        )
        for number, substitute in enumerate(substitutes(self)):
            rows = rows_of(~found.fooled)
            if len(rows) == 0:
                break
            here = x[rows], y[rows], noise.pick(rows)
            more = craft_elsewhere(pick_rows(attack, rows), model, *here, substitute=substitute)
            found = merge_outcomes(found, rows, more, number=number)
        return found


def substitutes(attack: Transfer) -> tuple[nn.Module, ...]:
    """The networks to craft on, one after the other."""
    models = tuple(one.model for one in attack.surrogates)
    return models if attack.ensemble == "worst" else (MeanLogits(models),)


def craft_elsewhere(
    attack: Attack, target: nn.Module, x: Images, y: Labels, noise: Noise, *, substitute: nn.Module
) -> Outcome:
    """Craft on one, score on the other; passes of both count, and of each network behind a mean of logits."""
    with inference(substitute):
        made = attack.run(substitute, x, y, noise)
    z, finite = ask(target, made.x_adv)
    networks = len(substitute.models) if isinstance(substitute, MeanLogits) else 1
    steps = torch.full_like(y, attack.last_step)
    trouble = torch.where(finite, made.trouble, BROKEN)
    fooled = finite & attack.has_reached(target, x, z, y)
    forwards, backwards = networks * made.forwards + len(x), networks * made.backwards
    return make_outcome(made.x_adv, fooled, steps, forwards=forwards, backwards=backwards, trouble=trouble)


def check_classes(surrogates: tuple[Surrogate, ...], k: int) -> None:
    """Refuse a surrogate with another number of classes than the target."""
    for one in surrogates:
        seen = one.model.k if isinstance(one.model, Classifier) else k
        if seen != k:
            raise ValueError(
                f"the surrogate {one.name} has {seen} classes and the target {k}: craft on one with the same"
            )


TRANSFER_STEPS = 20


def make_transfer(threat: Threat, files: str) -> Transfer:
    """PGD crafted on the networks of some files, which the threat knows how to load."""
    attack = PGD(threat.ball, CE(), threat.step, TRANSFER_STEPS, keep="last")
    return Transfer(attack, tuple(threat.load(file) for file in files.split("+")))


TRANSFER = AttackName(
    Transfer,
    "transfer:FILE[+FILE]",
    "",
    r"transfer:([^\[\]]+)",
    make_transfer,
    f"PGD-{TRANSFER_STEPS} crafted on other networks, each on what survived; takes MODEL's --arch, --mean, --std",
    "Tian et al. 2021",
    f"{TRANSFER_STEPS} + 1 forwards, {TRANSFER_STEPS} backwards of each surrogate; 1 + 1 forwards",
)
