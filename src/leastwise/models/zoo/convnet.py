"""A plain convolutional network: three strided convolutions and a linear layer."""

from torch import nn

from leastwise.core.types import Shape


def convnet(shape: Shape, k: int) -> nn.Module:
    channels, _, _ = shape
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(256, k),
    )
