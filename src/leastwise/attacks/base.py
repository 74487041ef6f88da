"""The contract every attack keeps, and the condition that attacks nothing."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from leastwise.attacks.codes import BROKEN as BROKEN
from leastwise.attacks.codes import FINE as FINE
from leastwise.attacks.codes import FLAT as FLAT
from leastwise.attacks.codes import NEVER as NEVER
from leastwise.attacks.threats import Radius
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Logits, Mask
from leastwise.models.classifier import inference

Keep = Literal["last", "fooled"]  # run to the end; or let examples leave at their first misclassified point


class Outcome(NamedTuple):
    """What an attack found, and what it cost in passes of single examples."""

    x_adv: Images
    fooled: Mask
    step: Labels  # steps (gradients, or queries) taken when first seen misclassified; 0 before any, NEVER for survivors
    by: Labels  # which member of a combined attack ended with this point; 0 for a single attack
    forwards: int
    backwards: int
    trouble: Labels  # of survivors: why surviving may mean little (FLAT, BROKEN); FINE for the others
    each: Labels  # bit m is set if member m of a combined attack fooled it; bit 0 for a single attack
    reached: Bool[Tensor, "b k"] | None = None  # classes it was turned into, of an attack that tries all of them


def outcome(
    x_adv: Images, fooled: Mask, step: Labels, forwards: int, backwards: int, trouble: Labels | None = None
) -> Outcome:
    """The outcome of a single attack. `step` and `trouble` need not know who was fooled."""
    step = torch.where(fooled, step, NEVER)
    trouble = torch.zeros_like(step) if trouble is None else torch.where(fooled, FINE, trouble)
    return Outcome(x_adv, fooled, step, torch.zeros_like(step), forwards, backwards, trouble, fooled.to(step.dtype))


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


def notes(attack: Attack, k: int) -> tuple[str, ...]:
    """What a user with k classes should know about the attack; one with something to say has a method `notes(k)`."""
    return attack.notes(k) if hasattr(attack, "notes") else ()


@dataclass(frozen=True)
class Clean:
    """No perturbation: the images as they are."""

    recipe_name: ClassVar[str] = "Clean"

    gradients: ClassVar[bool] = False

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        with torch.no_grad():
            return self.seen(model(x), x, y)

    def seen(self, z: Logits, x: Images, y: Labels) -> Outcome:
        """The outcome, where the logits at the images are known already."""
        finite = z.isfinite().all(dim=1)
        trouble = torch.where(finite, FINE, BROKEN)
        return outcome(x, finite & (z.argmax(dim=1) != y), torch.zeros_like(y), len(x), 0, trouble)

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
