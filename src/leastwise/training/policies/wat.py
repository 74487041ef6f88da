"""Worst-class adversarial training (Li and Liu, AAAI 2023)."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from leastwise.core.types import Counts, PerClass
from leastwise.training.base import Epoch, Policy, PolicyState
from leastwise.training.entries import NamedPolicy


@dataclass(frozen=True)
class WAT(Policy):
    """L = (w_y + w_0) · loss; w = k · softmax(eta · Σ_epochs cost) over the k classes and their average (0).

    A class's cost is its mean loss on the validation images. All weights are 1 in the first epoch, so that the loss
    is twice the method's, as in the code. Costs add up: weights sharpen over time.
    """

    recipe_name: ClassVar[str] = "WAT"

    eta: float = 0.1
    needs_validation_loss: ClassVar[bool] = True

    @property
    def needs_validation(self) -> bool:
        return True

    def init(self, n: Counts) -> PolicyState:
        k = len(n)
        return {"cost": torch.zeros(k + 1, dtype=torch.float64), "weight": torch.ones(k + 1, dtype=torch.float64)}

    def weights(self, s: PolicyState) -> PerClass:
        *_, average = s["weight"]
        return s["weight"][:-1] + average

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        assert seen.valid is not None, "the loop validates for a policy that says so"
        n = seen.valid.n
        per_class = torch.where(n > 0, seen.valid.loss / n.clamp_min(1), 0)
        cost = s["cost"] + torch.cat([per_class, (seen.valid.loss.sum() / n.sum())[None]])
        return {"cost": cost, "weight": len(n) * (self.eta * cost).softmax(dim=0)}


POLICIES = {
    "wat": NamedPolicy(
        WAT(), "(w_y + w_0)·loss, w ∝ exp(η·Σ validation loss)", "Li and Liu 2023", "validation per epoch"
    ),
}
