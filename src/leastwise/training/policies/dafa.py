"""Distance-aware fair adversarial training (Lee et al., ICLR 2024)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from leastwise.attacks.pgd import PGD
from leastwise.core.recipe import name_of_type
from leastwise.core.types import Counts, Labels, PerClass
from leastwise.training.base import (
    Epoch,
    Objective,
    PartWeights,
    Policy,
    PolicyState,
    RadiusFactors,
    Terms,
    per_example,
)
from leastwise.training.entries import NamedPolicy


@dataclass(frozen=True)
class DAFA(Policy):
    """After a warm-up, once: W_i = 1 + scale · Σ_{j != i} (p_i(j) · p_j(j) if p_i(i) < p_j(j), else -p_j(i) · p_i(i)).

    p_i(j) is the mean adversarial probability of class j on the training images of class i in the last epoch of the
    warm-up, as seen. Then the label term is multiplied by W_y, and radius and step too; the divergence is not. The
    paper warms up for 70 of 110 epochs, with scale 1 on CIFAR-10 and 1.5 on CIFAR-100.
    """

    recipe_name: ClassVar[str] = "DAFA"

    scale: float = 1.0
    warmup: float = 70 / 110  # share of the epochs
    needs_length: ClassVar[bool] = True

    def init(self, n: Counts) -> PolicyState:
        return {"weight": torch.ones(len(n), dtype=torch.float64)}

    def obstacle(self, objective: Objective) -> str:
        if objective.attack is not None:
            return ""
        return f"DAFA changes radii, and {name_of_type(type(objective))} does not attack: use pgd-at or trades"

    def radii(self, attack: PGD, y: Labels, s: PolicyState) -> RadiusFactors:
        w = s["weight"].to(y.device)[y]
        return RadiusFactors(w, w)

    def part_weights(self, terms: Terms, y: Labels, s: PolicyState) -> PartWeights:
        w = per_example(s["weight"], y, terms.label)
        return PartWeights(w, torch.ones_like(w))

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        if seen.number != max(1, round(self.warmup * seen.of)):
            return s
        n = seen.train.n[:, None]
        p = torch.where(n > 0, seen.train.probability / n.clamp_min(1), 0)
        return {"weight": class_weights(p, self.scale)}


def class_weights(p: Float[Tensor, "k k"], scale: float) -> PerClass:
    """The harder class of every pair gains exactly what the easier one loses, so without ties they add up to k.

    Not below 0: radii cannot be negative, and with a large scale the formula can be.
    """
    own = p.diagonal()
    harder = own[:, None] < own[None, :]
    moved = torch.where(harder, p * own[None, :], -(p.T * own[:, None])).fill_diagonal_(0)
    return (1 + scale * moved.sum(dim=1)).clamp_min(0)


POLICIES = {
    "dafa": NamedPolicy(DAFA(), "W_y·CE + β·KL, eps_c = W_c·eps, W from class to class", "Lee et al. 2024", "nothing"),
}
