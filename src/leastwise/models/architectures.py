"""The table of networks that can be built by name."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import nn

from leastwise.models.classifier import Classifier
from leastwise.models.convnet import convnet
from leastwise.models.residual import small

Shape = tuple[int, int, int]  # channels, height, width


class Architecture(NamedTuple):
    make: Callable[[Shape, int], nn.Module]  # image shape, number of classes -> network
    about: str


ARCHITECTURES: dict[str, Architecture] = {
    "convnet": Architecture(convnet, "three strided convolutions, no BatchNorm"),
    "small": Architecture(small, "pre-activation residual network with BatchNorm, cheap enough to train on two cores"),
}


def architecture(name: str) -> Architecture:
    if name not in ARCHITECTURES:
        raise ValueError(f"there is no architecture {name!r}: choose {' or '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def build(
    arch: str, shape: Shape, k: int, mean: Sequence[float] = (), std: Sequence[float] = (), seed: int = 0
) -> Classifier:
    """A freshly initialised network; the weights depend on the seed alone and no global generator moves."""
    make = architecture(arch).make
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        return Classifier(make(shape, k), k, mean, std, arch)
