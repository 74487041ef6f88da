"""Weights per class: fair and important-class weighting (Benz et al., 2021)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from leastwise.core.types import Counts, PerClass
from leastwise.training.base import Epoch, Policy, PolicyState
from leastwise.training.entries import NamedPolicy

WatchedImages = Literal["train", "valid"]


@dataclass(frozen=True)
class FairWeighting(Policy):
    """L = γ_y · loss; after each epoch γ_c += alpha where the class is not above the overall accuracy, else -= alpha.

    Accuracy is under attack for methods that attack, on the training images as seen or on validation images: the paper
    leaves both open. So it does with γ <= 0, which an easy class reaches after 20 epochs: `floor` stops it there.
    """

    recipe_name: ClassVar[str] = "FairWeighting"

    alpha: float = 0.05
    floor: float = 0.05
    on: WatchedImages = "train"

    @property
    def needs_validation(self) -> bool:
        return self.on == "valid"

    def init(self, n: Counts) -> PolicyState:
        return {"weight": torch.ones(len(n), dtype=torch.float64)}

    def weights(self, s: PolicyState) -> PerClass:
        return s["weight"]

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        images = seen.valid if self.on == "valid" else seen.train
        assert images is not None, "the loop validates for a policy that says so"
        tally = images.attacked
        above = tally.accuracy > tally.overall  # NaN, a class without examples, is not above
        return {"weight": (s["weight"] + self.alpha * (1 - 2 * above.double())).clamp_min(self.floor)}


@dataclass(frozen=True)
class ImportantClass(Policy):
    """L = γ_y · loss with γ = `weight` for one class and 1 for the others. Classes count from 0 (there: 1)."""

    recipe_name: ClassVar[str] = "ImportantClass"

    label: int = 0
    weight: float = 10.0

    def init(self, n: Counts) -> PolicyState:
        if not 0 <= self.label < len(n):
            raise ValueError(f"there is no class {self.label} to weigh: choose 0 to {len(n) - 1}")
        return {"weight": torch.ones(len(n), dtype=torch.float64).index_fill(0, torch.tensor(self.label), self.weight)}

    def weights(self, s: PolicyState) -> PerClass:
        return s["weight"]


POLICIES = {
    "fair-weighting": NamedPolicy(
        FairWeighting(), "γ_y·loss, γ_c ± α by class accuracy against overall", "Benz et al. 2021", "nothing"
    ),
    "important-class": NamedPolicy(ImportantClass(), "γ_y·loss, γ fixed for one class", "Benz et al. 2021", "nothing"),
}
