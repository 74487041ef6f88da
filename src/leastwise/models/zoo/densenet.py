"""DenseNet-BC (Huang et al., CVPR 2017) for 32-pixel images: a 3x3 stem, growth 32, half the channels at transitions.

Names of kuangliu/pytorch-cifar: `dense1.0.bn1`, `trans1.conv`, `bn`, `linear`. Its layers put the new channels before
the old ones, torchvision's after them; the order is part of the layout.
"""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import Maps, chain, check_side, conv, pool_then, run_layers

GROWTH = 32
DENSENET121 = (6, 12, 24, 16)
DENSENET169 = (6, 12, 32, 32)


class NewFirst(nn.Sequential):
    """The new channels, then the old."""

    def forward(self, x: Maps) -> Maps:
        return torch.cat([run_layers(self, x), x], dim=1)


def layer(inputs: int) -> nn.Module:
    return NewFirst(
        OrderedDict(
            bn1=nn.BatchNorm2d(inputs),
            relu1=nn.ReLU(),
            conv1=conv(inputs, 4 * GROWTH, 1),
            bn2=nn.BatchNorm2d(4 * GROWTH),
            relu2=nn.ReLU(),
            conv2=conv(4 * GROWTH, GROWTH, 3),
        )
    )


def densenet(shape: Shape, k: int, counts: Sequence[int]) -> nn.Module:
    check_side("densenet", shape, 8)
    width = 2 * GROWTH
    layers: dict[str, nn.Module] = {"conv1": conv(shape[0], width, 3)}
    for i, count in enumerate(counts, start=1):
        layers[f"dense{i}"] = nn.Sequential(*(layer(width + GROWTH * j) for j in range(count)))
        width += GROWTH * count
        if i < len(counts):
            shrink = conv(width, width // 2, 1)
            layers[f"trans{i}"] = chain(bn=nn.BatchNorm2d(width), relu=nn.ReLU(), conv=shrink, pool=nn.AvgPool2d(2))
            width //= 2
    return chain(**layers, bn=nn.BatchNorm2d(width), relu=nn.ReLU(), **pool_then(linear=nn.Linear(width, k)))


def densenet121(shape: Shape, k: int) -> nn.Module:
    return densenet(shape, k, DENSENET121)


def densenet169(shape: Shape, k: int) -> nn.Module:
    return densenet(shape, k, DENSENET169)
