"""Networks to attack, with images on which attacks do different things, and the noise of a batch."""

import math
from functools import cache

import torch
from torch import nn

from leastwise.core.noise import Noise
from leastwise.models.classifier import Classifier
from leastwise.models.zoo.registry import build
from tests.conftest import SHAPE, K, Linear


def noise_for(x: torch.Tensor, seed: int = 0) -> Noise:
    return Noise(seed, torch.arange(len(x)), "/test")


@cache
def mixed(dtype: torch.dtype = torch.float64) -> tuple[Classifier, torch.Tensor, torch.Tensor]:
    """A network and images on which some examples are wrong at once, some fall on the way and some survive."""
    model = build("small", SHAPE, K, seed=3)
    with torch.no_grad():
        g = torch.Generator().manual_seed(2)
        for _ in range(20):
            model(torch.rand(64, *SHAPE, generator=g))
    model = model.to(dtype).eval()
    x = torch.rand(80, *SHAPE, generator=g, dtype=dtype)
    y = model(x).argmax(1)
    y[::9] = (y[::9] + 1) % K
    return model, x, y


def thirty_mixed() -> tuple[Classifier, torch.Tensor, torch.Tensor]:
    """The same network with the first thirty of its images."""
    model, x, y = mixed()
    return model, x[:30], y[:30]


class Watched(nn.Module):
    """Remembers every batch it was shown."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.shown = model, []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.shown.append(x.detach().clone())
        return self.model(x)


def linear(shape: tuple[int, ...], k: int, seed: int, dtype: torch.dtype) -> nn.Module:
    g = torch.Generator().manual_seed(seed)
    size = math.prod(shape)
    return Linear(torch.randn(k, size, generator=g, dtype=dtype), torch.zeros(k, dtype=dtype))


class Partly(nn.Module):
    """Broken where the mean of the image is above one half, as a network that overflows."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.model(x)
        return torch.where(x.flatten(1).mean(1, keepdim=True) > 0.5, torch.nan, z)
