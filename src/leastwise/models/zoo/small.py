"""`small`: a pre-activation residual network with BatchNorm, cheap enough to train adversarially on two cores."""

import torch
from torch import nn
from torch.nn import functional as F

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import Maps

WIDTHS = (16, 32, 64, 128)


class Block(nn.Module):
    """x + conv(relu(bn(conv(relu(bn(x)))))), with a 1x1 convolution on the shortcut where shapes change."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Maps) -> Maps:
        h = F.relu(self.bn1(x))
        return self.shortcut(h) + self.conv2(F.relu(self.bn2(self.conv1(h))))


def small(shape: Shape, k: int) -> nn.Module:
    channels, _, _ = shape
    blocks = [Block(i, o, stride=1 if i == o else 2) for i, o in zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False)]
    net = nn.Sequential(
        nn.Conv2d(channels, WIDTHS[0], 3, stride=2, padding=1, bias=False),
        *blocks,
        nn.BatchNorm2d(WIDTHS[-1]),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(WIDTHS[-1], k),
    )
    # Weights in channels-last order: the same function, faster on CPUs (`benchmarks/parts.py` measures by how much).
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
