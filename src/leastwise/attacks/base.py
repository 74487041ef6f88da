"""The contract every attack keeps, and the condition that attacks nothing."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import nn

from leastwise.balls import Radius
from leastwise.models import inference
from leastwise.noise import Noise
from leastwise.types import Images, Labels, Logits, Mask

NEVER = -1  # the step of an example that was not fooled


class Outcome(NamedTuple):
    """What an attack found, and what it cost in passes of single examples."""

    x_adv: Images
    fooled: Mask
    step: Labels  # gradient steps taken when first seen misclassified; 0 before any, NEVER for survivors
    by: Labels  # which member of a combined attack ended with this point; 0 for a single attack
    forwards: int
    backwards: int


@runtime_checkable
class Attack(Protocol):
    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        """Attack a batch. The model's mode is the caller's business; its parameters get no `.grad`."""
        ...

    def allows(self, x: Images, x_adv: Images) -> Mask:
        """Which points the threat model permits."""
        ...

    def at(self, eps: Radius, step: Radius | None = None) -> "Attack":
        """The same attack with another radius, possibly one per example; the step stays unless given."""
        ...


def uses_gradients(attack: Attack) -> bool:
    """Whether the attack needs the model's input gradient; one that only asks for logits says `gradients = False`."""
    return getattr(attack, "gradients", True)


@dataclass(frozen=True)
class Clean:
    """No perturbation: the images as they are."""

    gradients: ClassVar[bool] = False

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        with torch.no_grad():
            return self.seen(model(x), x, y)

    def seen(self, z: Logits, x: Images, y: Labels) -> Outcome:
        """The outcome, where the logits at the images are known already."""
        fooled = z.argmax(dim=1) != y
        return Outcome(x, fooled, torch.where(fooled, 0, NEVER), torch.zeros_like(y), len(x), 0)

    def __str__(self) -> str:
        return "no perturbation"

    def at(self, eps: Radius, step: Radius | None = None) -> "Clean":
        return self

    def allows(self, x: Images, x_adv: Images) -> Mask:
        return (x == x_adv).flatten(1).all(dim=1)


def call(attack: Attack, model: nn.Module, x: Images, y: Labels, seed: int = 0) -> Images:
    """The short form `attack(model, x, y)`: evaluation mode, and ids 0, 1, … for the noise."""
    ids = torch.arange(len(x), device=x.device)
    with inference(model):
        return attack.run(model, x, y, Noise(seed, ids, "/attack")).x_adv
