"""Points crafted on other networks and tried on this one, which is only asked (Tian et al., KDD 2021, section 5).

A substitute network f' stands in for the target f: x' = attack(f', x, y), and x' counts if f is wrong there.
Departures: an image that the target gets wrong as it is counts without any crafting, and several substitutes may be
given (their per-example worst case, or one attack on their mean logits).
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import nn

from leastwise.attacks.active_set import ask, pick_rows, rows_of
from leastwise.attacks.base import BROKEN, FINE, Attack, Outcome, call, notes, outcome, uses_gradients
from leastwise.attacks.combine import Cascade, Grid, Restarts, after
from leastwise.attacks.goals import mistaken
from leastwise.attacks.threats import Radius
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Logits, Mask
from leastwise.models.classifier import Classifier, inference

Ensemble = Literal["worst", "mean"]  # each surrogate in turn on what survived; or one attack on the mean of the logits


@dataclass(frozen=True)
class Surrogate:
    """A network to craft on. Recipes know it by its name and digest."""

    recipe_name: ClassVar[str] = "Surrogate"

    name: str
    digest: str
    model: nn.Module = field(compare=False, repr=False, metadata={"recipe": False})


def surrogate(name: str, model: Classifier) -> Surrogate:
    return Surrogate(name, model.digest(), model)


class MeanLogits(nn.Module):
    """Several networks as one: the mean of their logits."""

    def __init__(self, models: tuple[nn.Module, ...]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, x: Images) -> Logits:
        return torch.stack([model(x) for model in self.models]).mean(dim=0)


@dataclass(frozen=True)
class Transfer:
    """Craft on the surrogates, score on the target; with one surrogate that is the target, white-box PGD.

    The attack runs to its end whatever its `keep`: a point that just fools the surrogate seldom fools another network.
    The surrogates stay on their device, and are in evaluation mode while they are used. All draw the same noise.
    """

    recipe_name: ClassVar[str] = "Transfer"

    attack: Attack
    surrogates: tuple[Surrogate, ...]
    ensemble: Ensemble = "worst"

    gradients: ClassVar[bool] = False  # of the target

    def __post_init__(self) -> None:
        if not self.surrogates:
            raise ValueError("a transfer attack needs at least one surrogate to craft on")
        if self.ensemble not in get_args(Ensemble):
            raise ValueError(f"the ensemble must be {' or '.join(get_args(Ensemble))}, but saw {self.ensemble!r}")
        for one in self.surrogates:
            if uses_gradients(self.attack) and not getattr(one.model, "gradients", True):
                raise ValueError(f"the surrogate {one.name} gives no gradients: craft on a network")

    def __str__(self) -> str:
        names = " and ".join(one.name for one in self.surrogates)
        several = "" if len(self.surrogates) == 1 else f" ({'worst of' if self.ensemble == 'worst' else 'mean logits'})"
        return f"{to_the_end(self.attack)}, crafted on {names}{several}"

    def __call__(self, model: nn.Module, x: Images, y: Labels, seed: int = 0) -> Images:
        return call(self, model, x, y, seed)

    def at(self, eps: Radius, step: Radius | None = None) -> "Transfer":
        return replace(self, attack=self.attack.at(eps, step))

    def allows(self, x: Images, x_adv: Images) -> Mask:
        return self.attack.allows(x, x_adv)

    def notes(self, k: int) -> tuple[str, ...]:
        return notes(self.attack, k)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        attack = to_the_end(self.attack)
        z, finite = ask(model, x)
        check_classes(self.surrogates, z.shape[1])
        trouble = torch.where(finite, FINE, BROKEN)
        found = outcome(x, finite & hit(attack, model, x, z, y), torch.zeros_like(y), len(x), 0, trouble)
        for number, substitute in enumerate(self.substitutes()):
            rows = rows_of(~found.fooled)
            if len(rows) == 0:
                break
            more = through(substitute, pick_rows(attack, rows), model, x[rows], y[rows], noise.pick(rows))
            found = after(found, rows, more, number)
        return found

    def substitutes(self) -> tuple[nn.Module, ...]:
        models = tuple(one.model for one in self.surrogates)
        return models if self.ensemble == "worst" else (MeanLogits(models),)


def through(substitute: nn.Module, attack: Attack, target: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
    """Craft on one, score on the other; passes of both count, and of each network behind a mean of logits."""
    with inference(substitute):
        made = attack.run(substitute, x, y, noise)
    z, finite = ask(target, made.x_adv)
    networks = len(substitute.models) if isinstance(substitute, MeanLogits) else 1
    steps = torch.full_like(y, getattr(attack, "steps", 1))
    trouble = torch.where(finite, made.trouble, BROKEN)
    fooled = finite & hit(attack, target, x, z, y)
    cost = networks * made.forwards + len(x), networks * made.backwards
    return outcome(made.x_adv, fooled, steps, *cost, trouble)


def hit(attack: Attack, model: nn.Module, x: Images, z: Logits, y: Labels) -> Mask:
    """What the attack wanted of the surrogate, in the target's logits z."""
    goal = getattr(attack, "goal", None)
    # Goals that remember the clean logits (KL) have no target class: any mistake counts.
    return mistaken(z, y) if goal is None or goal.clean_forwards else goal.reached(z, y, *goal.bind(model, x, y))


def to_the_end(attack: Any) -> Any:
    """The attack without leaving at the first point that fools."""
    match attack:
        case Cascade() | Grid():
            return replace(attack, members=tuple(to_the_end(member) for member in attack.members))
        case Restarts():
            return replace(attack, attack=to_the_end(attack.attack))
    ends = {"keep": "last", "patience": 0}
    return replace(attack, **{name: end for name, end in ends.items() if hasattr(attack, name)})


def check_classes(surrogates: tuple[Surrogate, ...], k: int) -> None:
    for one in surrogates:
        seen = getattr(one.model, "k", k)
        if seen != k:
            raise ValueError(
                f"the surrogate {one.name} has {seen} classes and the target {k}: craft on one with the same"
            )
