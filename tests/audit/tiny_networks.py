"""Tiny networks trained on Fashion-MNIST in a second, and modules that put functions around them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leastwise.data.dataset import Dataset
from leastwise.data.loading import load

K = 10


class Through(nn.Module):
    """A function before a network and another behind it."""

    def __init__(
        self,
        net: nn.Module,
        before: Callable[[Tensor], Tensor] = lambda x: x,
        after: Callable[[Any], Any] = lambda z: z,
    ) -> None:
        super().__init__()
        self.net, self.before, self.after = net, before, after

    def forward(self, x: Tensor) -> Any:
        return self.after(self.net(self.before(x)))


class Whole(nn.Module):
    """A network inside a function of it and the images."""

    def __init__(self, net: nn.Module, function: Callable[[nn.Module, Tensor], Any]) -> None:
        super().__init__()
        self.net, self.function = net, function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.net, x)


@cache
def audited_images() -> Dataset:
    return load("fashion-mini/test").take(10)


@cache
def training_images() -> tuple[Tensor, Tensor]:
    data = load("fashion-mini/train").take(60)
    x, y, _ = data.batch(np.arange(len(data)))
    return x, y


def train(net: nn.Module, epochs: int = 8) -> nn.Module:
    """A few epochs of Adam: enough for about 75 % on clean images."""
    x, y = training_images()
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(50):
            optimiser.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return net.eval().requires_grad_(False)


def convolutional(act: type[nn.Module] = nn.ReLU, *, norm: nn.Module | None = None, bias: bool = True) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, 2, bias=bias),
        nn.Identity() if norm is None else norm,
        act(),
        nn.Conv2d(8, 16, 3, 2, bias=bias),
        act(),
        nn.Flatten(),
        nn.Linear(400, K, bias=bias),
    )


@cache
def plain() -> nn.Module:
    return train(convolutional())


@cache
def other() -> nn.Module:
    torch.manual_seed(7)
    return train(nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, K)))


class Patches(nn.Module):
    """A small vision transformer: patches of 7 pixels, one block of attention."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.embed = nn.Conv2d(1, 24, 7, 7)
        self.place = nn.Parameter(0.02 * torch.randn(1, 16, 24))
        self.norm, self.attention = nn.LayerNorm(24), nn.MultiheadAttention(24, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24))
        self.head = nn.Linear(24, K)

    def forward(self, x: Tensor) -> Tensor:
        t = self.embed(x).flatten(2).transpose(1, 2) + self.place
        n = self.norm(t)
        t = t + self.attention(n, n, n, need_weights=False)[0]
        return self.head((t + self.mlp(t)).mean(dim=1))


def with_other(function: Callable[[nn.Module, nn.Module, Tensor], Tensor]) -> nn.Module:
    """Both networks, trained before the audit begins."""
    second = other()
    return Whole(plain(), lambda net, x: function(net, second, x))
