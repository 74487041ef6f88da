"""Margins from the spread of features: the logit part of MR² (Zhu et al., ICLR 2026)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leastwise.core.types import Counts, Labels, Logits
from leastwise.models.classifier import Classifier
from leastwise.training.base import Epoch, NetworkLook, Policy, PolicyState
from leastwise.training.entries import NamedPolicy

SPREAD = "feature spread"


@dataclass(frozen=True)
class MR2(Policy):
    """The label's loss sees z / γ_y, γ_c = scale · K · r_c / Σ r, r_c = (|μ_c|² + |s_c|²)^(1/3).

    μ_c is the mean of the features that the head receives and |s_c|² their mean squared distance from it, for clean
    training images of class c after each epoch; in the first epoch γ = scale. Classes with a larger spread get softer
    logits, so larger margins. The paper's other part, a penalty on the spread itself, is not here, and its γ comes
    from all training images.
    """

    recipe_name: ClassVar[str] = "MR2"
    observes: ClassVar[bool] = True

    scale: float = 1.0

    def init(self, n: Counts) -> PolicyState:
        return {"margin": torch.full((len(n),), self.scale, dtype=torch.float64)}

    def label_logits(self, z: Logits, y: Labels, s: PolicyState) -> Logits:
        return z / s["margin"].to(z.device, z.dtype)[y][:, None]

    def observe(self, look: NetworkLook, s: PolicyState) -> Mapping[str, Tensor]:
        model = look.model
        if not isinstance(model, Classifier):
            raise ValueError("mr2 needs the features of the network: wrap it as a Classifier")
        with torch.no_grad():
            found = [(model.features(x).flatten(1).double().cpu(), y.cpu()) for x, y, _ in look.batches()]
        features, y = (torch.cat(parts) for parts in zip(*found, strict=True))
        spread = torch.full((look.data.k,), torch.nan, dtype=torch.float64)
        for c in set(y.tolist()):
            own = features[y == c]
            spread[c] = own.square().sum(dim=1).mean()  # = |μ|² + |s|²
        return {SPREAD: spread}

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        root = seen.observed[SPREAD] ** (1 / 3)
        return {"margin": (self.scale * root / root.nanmean()).nan_to_num(nan=self.scale)}


POLICIES = {
    "mr2": NamedPolicy(
        MR2(),
        "the label's loss of z/γ_y, γ_c ~ (|μ_c|² + |s_c|²)^⅓ of the features",
        "Zhu et al. 2026",
        "a look per epoch",
    ),
}
