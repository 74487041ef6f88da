"""Two regularisers that Benz et al. (2021) mention without a formula; these are ours."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from leastwise.core.types import Counts, Labels, PerExample
from leastwise.training.base import Epoch, Policy, PolicyState, Terms
from leastwise.training.entries import NamedPolicy


@dataclass(frozen=True)
class ConfusionPenalty(Policy):
    """L = loss + weight · Σ_{j != y} M[y, j] · p_j, M the off-diagonal confusion of the last epoch, by rows.

    Under attack for methods that attack. A class that made no mistakes has no term.
    """

    recipe_name: ClassVar[str] = "Confusion"

    weight: float = 1.0

    def init(self, n: Counts) -> PolicyState:
        return {"confused": torch.zeros(len(n), len(n), dtype=torch.float64)}

    def penalty(self, terms: Terms, y: Labels, s: PolicyState) -> PerExample:
        p = terms.attacked.softmax(dim=1)
        rows = s["confused"].to(p.device, p.dtype)[y]
        return self.weight * (rows * p).sum(dim=1)

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        mistakes = seen.train.confusion.double().fill_diagonal_(0)
        return {"confused": mistakes / mistakes.sum(dim=1, keepdim=True).clamp_min(1)}


@dataclass(frozen=True)
class SimilarityPenalty(Policy):
    """L = loss + weight · mean over pairs of classes in the batch of max(0, cos(m_c, m_d)), m_c mean logits."""

    recipe_name: ClassVar[str] = "Similarity"

    weight: float = 1.0

    def penalty(self, terms: Terms, y: Labels, s: PolicyState) -> PerExample | None:
        z = terms.attacked
        present, place, n = torch.unique(y, return_inverse=True, return_counts=True)
        if len(present) < 2:
            return None
        means = (
            torch.zeros(len(present), z.shape[1], dtype=z.dtype, device=z.device).index_add(0, place, z) / n[:, None]
        )
        cosine = torch.nn.functional.cosine_similarity(means[:, None], means[None], dim=2)
        first, second = torch.triu_indices(len(present), len(present), 1, device=z.device)
        return (self.weight * cosine[first, second].clamp_min(0).mean()).expand(len(y))


POLICIES = {
    "confusion": NamedPolicy(
        ConfusionPenalty(),
        "loss + w·Σ_j M[y,j]·p_j, M last epoch's confusion",
        "Benz et al. 2021; formula ours",
        "nothing",
    ),
    "similarity": NamedPolicy(
        SimilarityPenalty(), "loss + w·mean max(0, cos(m_c, m_d))", "Benz et al. 2021; formula ours", "nothing"
    ),
}
