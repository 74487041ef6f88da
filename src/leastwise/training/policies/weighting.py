"""Weights per class: fair and important-class weighting (Benz et al., 2021), and tools against unbalanced data."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from leastwise.core.losses import ce
from leastwise.core.types import Counts, Labels, PerClass
from leastwise.training.base import Epoch, Policy, State, Terms, per_example

On = Literal["train", "valid"]


@dataclass(frozen=True)
class FairWeighting(Policy):
    """L = γ_y · loss; after each epoch γ_c += alpha where the class is not above the overall accuracy, else -= alpha.

    Accuracy is under attack for methods that attack, on the training images as seen or on validation images: the paper
    leaves both open. So it does with γ <= 0, which an easy class reaches after 20 epochs: `floor` stops it there.
    """

    recipe_name: ClassVar[str] = "FairWeighting"

    alpha: float = 0.05
    floor: float = 0.05
    on: On = "train"

    def init(self, n: Counts) -> State:
        return {"weight": torch.ones(len(n), dtype=torch.float64)}

    def weights(self, s: State) -> PerClass:
        return s["weight"]

    def update(self, s: State, seen: Epoch) -> State:
        tally = (seen.valid if self.on == "valid" and seen.valid is not None else seen.train).attacked
        above = tally.accuracy > tally.overall  # NaN, a class without examples, is not above
        return {"weight": (s["weight"] + self.alpha * (1 - 2 * above.double())).clamp_min(self.floor)}


@dataclass(frozen=True)
class ImportantClass(Policy):
    """L = γ_y · loss with γ = `weight` for one class and 1 for the others. Classes count from 0 (there: 1)."""

    recipe_name: ClassVar[str] = "ImportantClass"

    label: int = 0
    weight: float = 10.0

    def init(self, n: Counts) -> State:
        if not 0 <= self.label < len(n):
            raise ValueError(f"there is no class {self.label} to weigh: choose 0 to {len(n) - 1}")
        return {"weight": torch.ones(len(n), dtype=torch.float64).index_fill(0, torch.tensor(self.label), self.weight)}

    def weights(self, s: State) -> PerClass:
        return s["weight"]


@dataclass(frozen=True)
class EffectiveNumber(Policy):
    """L = w_y · loss, w_c in proportion to (1 - beta) / (1 - beta^n_c), 1 on average (Cui et al., CVPR 2019)."""

    recipe_name: ClassVar[str] = "EffectiveNumber"

    beta: float = 0.9999

    def init(self, n: Counts) -> State:
        present = n > 0
        weight = torch.where(present, (1 - self.beta) / (1 - self.beta ** n.double()), 0)
        return {"weight": weight * present.sum() / weight.sum()}

    def weights(self, s: State) -> PerClass:
        return s["weight"]


@dataclass(frozen=True)
class Balanced(Policy):
    """Every class is drawn equally often, whatever its number of images."""

    recipe_name: ClassVar[str] = "Balanced"

    def init(self, n: Counts) -> State:
        return {"share": (n > 0).double() / (n > 0).sum()}

    def sampling(self, s: State) -> PerClass:
        return s["share"]


@dataclass(frozen=True)
class LDAM(Policy):
    """label = CE(scale · (z - Δ_y e_y), y), Δ_c in proportion to n_c^(-1/4), at most `largest` (Cao et al. 2019).

    It takes the place of the label's cross-entropy. The paper has normalised features and rows and scale 30, which is
    `--model …+cosine` here; on ordinary logits 1 is the scale that changes nothing else.
    """

    recipe_name: ClassVar[str] = "LDAM"

    largest: float = 0.5
    scale: float = 1.0

    def init(self, n: Counts) -> State:
        margin = torch.where(n > 0, n.clamp_min(1).double() ** -0.25, 0)
        return {"margin": self.largest * margin / margin.max()}

    def terms(self, terms: Terms, y: Labels, s: State) -> Terms:
        z = terms.attacked if terms.clean is None else terms.clean
        off = torch.zeros_like(z).scatter(1, y[:, None], per_example(s["margin"], y, z)[:, None])
        return terms._replace(label=ce(self.scale * (z - off), y))
