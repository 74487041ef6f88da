"""Networks that stand in for the attacked one, to craft on."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import nn

from leastwise.core.types import Images, Logits
from leastwise.models.classifier import Classifier


@dataclass(frozen=True)
class Surrogate:
    """A network to craft on. Recipes know it by its name and digest."""

    recipe_name: ClassVar[str] = "Surrogate"

    name: str
    digest: str
    model: nn.Module = field(compare=False, repr=False, metadata={"recipe": False})


def make_surrogate(name: str, model: Classifier) -> Surrogate:
    """The surrogate of a classifier, with its digest."""
    return Surrogate(name, model.digest(), model)


def refuse_surrogate(name: str) -> Surrogate:
    """What a threat does that was not told how to load surrogates."""
    raise ValueError(f"the surrogate {name!r} of a transfer attack cannot be loaded here: use `leastwise audit`")


class MeanLogits(nn.Module):
    """Several networks as one: the mean of their logits."""

    def __init__(self, models: tuple[nn.Module, ...]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, x: Images) -> Logits:
        return torch.stack([model(x) for model in self.models]).mean(dim=0)
