"""Policies that look at who is taken for whom under attack: CSR and Sy-FAR."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from leastwise.core.losses import ce
from leastwise.core.recipe import name_of_type
from leastwise.core.types import Counts, Labels, PerExample
from leastwise.training.base import Epoch, Objective, PartWeights, Policy, PolicyState, Terms
from leastwise.training.entries import NamedPolicy, PublishedSetting


@dataclass(frozen=True)
class CSR(Policy):
    """L = (1 - share)·label + beta·KL + share·G[ŷ, y]·CE(f(x'), y), ŷ the answer to x' (Jin et al., ICLR 2025).

    G = u v^T, of the leading singular vectors of the counts of mistakes under attack, prediction by label: the gradient
    of their spectral norm. It is stretched to [low, high]. The counts are those of the validation images before the
    first epoch, and of the training images of the epoch before later on. The paper fine-tunes a robust network for two
    epochs at the rate 0.001; compare with the same fine-tuning without it, which its reviewers missed.
    """

    recipe_name: ClassVar[str] = "CSR"

    share: float = 0.3
    low: float = 0.01
    high: float = 2.01
    needs_first_look: ClassVar[bool] = True

    @property
    def needs_validation(self) -> bool:
        return True

    def init(self, n: Counts) -> PolicyState:
        return {"cost": torch.ones(len(n), len(n), dtype=torch.float64)}

    def obstacle(self, objective: Objective) -> str:
        return why_not_attacked("CSR", objective)

    def part_weights(self, terms: Terms, y: Labels, s: PolicyState) -> PartWeights:
        ones = torch.ones_like(terms.label)
        return PartWeights((1 - self.share) * ones, ones)

    def penalty(self, terms: Terms, y: Labels, s: PolicyState) -> PerExample:
        z = terms.attacked
        cost = s["cost"].to(z.device, z.dtype)[z.argmax(dim=1), y]
        return self.share * cost * ce(z, y)

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        looked = seen.valid if seen.number == 0 else seen.train
        assert looked is not None, "the loop looks at the validation images for a policy that says so"
        return {"cost": spectral_costs(looked.confusion.T, self.low, self.high)}


def spectral_costs(confusion: Int[Tensor, "k k"], low: float, high: float) -> Float[Tensor, "k k"]:
    """The gradient of the largest singular value of the mistakes, stretched to [low, high]; ones without mistakes."""
    mistakes = confusion.double().fill_diagonal_(0)
    if not bool(mistakes.any()):
        return torch.ones_like(mistakes)
    u, _, v = torch.linalg.svd(mistakes)
    gradient = torch.outer(u[:, 0].abs(), v[0].abs())  # of counts: Perron's vectors, which have one sign
    return low + (high - low) * (gradient - gradient.min()) / (gradient.max() - gradient.min())


@dataclass(frozen=True)
class SyFAR(Policy):
    """L = loss + weight · Σ_{i < j} (C_ij - C_ji)², C_ij the mean probability of j on the batch's images of class i.

    Under attack. Only pairs with both classes in the batch count. Sy-FAR (Najjar et al., 2025) asks for symmetric
    confusion instead of equal classes; the square, and the weight, are ours.
    """

    recipe_name: ClassVar[str] = "Sy-FAR"

    weight: float = 1.0

    def obstacle(self, objective: Objective) -> str:
        return why_not_attacked("Sy-FAR", objective)

    def penalty(self, terms: Terms, y: Labels, s: PolicyState) -> PerExample:
        p = terms.attacked.softmax(dim=1)
        present, place, n = torch.unique(y, return_inverse=True, return_counts=True)
        sums = torch.zeros(len(present), p.shape[1], dtype=p.dtype, device=p.device).index_add(0, place, p)
        confusion = (sums / n[:, None])[:, present]
        asymmetry = torch.triu(confusion - confusion.T).square().sum()
        return (self.weight * asymmetry).expand(len(y))


def why_not_attacked(name: str, objective: Objective) -> str:
    """Why there are no mistakes under attack to look at; empty if there are."""
    if objective.attack is not None:
        return ""
    return f"{name} looks at mistakes under attack, and {name_of_type(type(objective))} does not attack: use trades"


POLICIES = {
    "csr": NamedPolicy(
        CSR(),
        "0.7·CE + β·KL + 0.3·G[ŷ,y]·CE(f(x'), y), G the gradient of the confusion's spectral norm",
        "Jin et al. 2025",
        "a look at validation images",
        PublishedSetting((), "frl", validation_steps=10, fine_tunes=True),
    ),
    "sy-far": NamedPolicy(
        SyFAR(), "loss + w·Σ (C_ij - C_ji)², C the batch's mean p(x') by class", "Najjar et al. 2025", "nothing"
    ),
}
