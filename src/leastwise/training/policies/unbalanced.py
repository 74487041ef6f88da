"""Tools against unbalanced data: sampling, weights and margins by the number of images that a class has."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from leastwise.core.types import Counts, Labels, Logits, PerClass
from leastwise.training.base import Policy, PolicyState, per_example
from leastwise.training.entries import NamedPolicy


@dataclass(frozen=True)
class Balanced(Policy):
    """Every class is drawn equally often, whatever its number of images."""

    recipe_name: ClassVar[str] = "Balanced"

    def init(self, n: Counts) -> PolicyState:
        return {"share": (n > 0).double() / (n > 0).sum()}

    def sampling(self, s: PolicyState) -> PerClass:
        return s["share"]


@dataclass(frozen=True)
class EffectiveNumber(Policy):
    """L = w_y · loss, w_c in proportion to (1 - beta) / (1 - beta^n_c), 1 on average (Cui et al., CVPR 2019)."""

    recipe_name: ClassVar[str] = "EffectiveNumber"

    beta: float = 0.9999
    needs_counts: ClassVar[bool] = True

    def init(self, n: Counts) -> PolicyState:
        present = n > 0
        weight = torch.where(present, (1 - self.beta) / (1 - self.beta ** n.double()), 0)
        return {"weight": weight * present.sum() / weight.sum()}

    def weights(self, s: PolicyState) -> PerClass:
        return s["weight"]


@dataclass(frozen=True)
class LDAM(Policy):
    """The label's loss sees scale · (z - Δ_y e_y), Δ_c in proportion to n_c^(-1/4), at most `largest` (Cao et al.).

    Whatever that loss is, cross-entropy, smoothed or boosted; entropies and divergences see z. The paper has normalised
    features and rows and scale 30, which is `--model …+cosine` here; on ordinary logits 1 changes nothing else.
    """

    recipe_name: ClassVar[str] = "LDAM"

    largest: float = 0.5
    scale: float = 1.0
    needs_counts: ClassVar[bool] = True

    def init(self, n: Counts) -> PolicyState:
        margin = torch.where(n > 0, n.clamp_min(1).double() ** -0.25, 0)
        return {"margin": self.largest * margin / margin.max()}

    def label_logits(self, z: Logits, y: Labels, s: PolicyState) -> Logits:
        off = torch.zeros_like(z).scatter(1, y[:, None], per_example(s["margin"], y, z)[:, None])
        return self.scale * (z - off)


POLICIES = {
    "balanced": NamedPolicy(Balanced(), "every class drawn equally often", "", "nothing"),
    "effective-number": NamedPolicy(EffectiveNumber(), "w_y·loss, w_c ∝ (1-β)/(1-β^n_c)", "Cui et al. 2019", "nothing"),
    "ldam": NamedPolicy(LDAM(), "CE(z - Δ_y·e_y, y), Δ_c ∝ n_c^(-1/4)", "Cao et al. 2019", "nothing"),
}
