"""Two-class linear models and images that no attack moves to a pixel bound."""

import torch

from leastwise.models.classifier import Classifier
from tests.conftest import SHAPE, random_linear


def grey(b: int, seed: int = 0) -> torch.Tensor:
    """Images near mid-grey: no eps used here reaches a pixel bound."""
    g = torch.Generator().manual_seed(seed)
    return 0.5 + 0.1 * (torch.rand(b, *SHAPE, generator=g, dtype=torch.float64) - 0.5)


def binary(seed: int) -> tuple[Classifier, torch.Tensor]:
    """A two-class model and the normal w of its boundary."""
    model = random_linear(2, seed=seed)
    weight = model.net.weight.detach()
    assert isinstance(weight, torch.Tensor)
    return model, weight[0] - weight[1]
