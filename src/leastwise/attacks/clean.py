"""The condition that attacks nothing."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from leastwise.attacks.base import BROKEN, FINE, Attack, ModelAccess, Outcome, Passes, make_outcome
from leastwise.attacks.naming import AttackName
from leastwise.attacks.threats import Radius
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Logits, Mask


@dataclass(frozen=True)
class Clean(Attack):
    """No perturbation: the images as they are."""

    recipe_name: ClassVar[str] = "Clean"
    needs: ClassVar[ModelAccess | None] = "nothing"

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        with torch.no_grad():
            return clean_outcome(model(x), x, y)

    def __str__(self) -> str:
        return "no perturbation"

    def cost(self, k: int) -> Passes:
        return Passes(1)

    def with_radius(self, eps: Radius, step: Radius | None) -> "Clean":
        return self

    def is_within_threat(self, x: Images, x_adv: Images) -> Mask:
        return (x == x_adv).flatten(1).all(dim=1)


def clean_outcome(z: Logits, x: Images, y: Labels) -> Outcome:
    """The outcome of the images as they are, where the logits there are known already."""
    finite = z.isfinite().all(dim=1)
    trouble = torch.where(finite, FINE, BROKEN)
    return make_outcome(
        x, finite & (z.argmax(dim=1) != y), torch.zeros_like(y), forwards=len(x), backwards=0, trouble=trouble
    )


CLEAN = AttackName(
    Clean, "clean", "clean", r"clean", lambda threat: Clean(), "the images as they are", paper="", cost="1 forward"
)
