"""DenseNet-121 and 161 (Huang et al., CVPR 2017) for ImageNet, torchvision's names.

The files torchvision published in 2017 spell `norm.1` where its code says `norm1`: `OLD_NAMES` maps them.
"""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from leastwise.core.types import Shape
from leastwise.models.zoo.densenet import DENSENET121
from leastwise.models.zoo.layers import Maps, chain, check_side, conv, he_normal, pool_then, run_layers

DENSENET161 = (6, 12, 36, 24)

OLD_NAMES = ((r"\.(norm|conv)\.([12])\.", r".\1\2."),)


class OldFirst(nn.Sequential):
    """The old channels, then the new."""

    def forward(self, x: Maps) -> Maps:
        return torch.cat([x, run_layers(self, x)], dim=1)


def layer(inputs: int, growth: int) -> nn.Module:
    return OldFirst(
        OrderedDict(
            norm1=nn.BatchNorm2d(inputs),
            relu1=nn.ReLU(),
            conv1=conv(inputs, 4 * growth, 1),
            norm2=nn.BatchNorm2d(4 * growth),
            relu2=nn.ReLU(),
            conv2=conv(4 * growth, growth, 3),
        )
    )


def densenet(shape: Shape, k: int, counts: Sequence[int], *, growth: int) -> nn.Module:
    check_side("densenet for ImageNet", shape, 29)
    width = 2 * growth
    layers: dict[str, nn.Module] = {
        "conv0": conv(shape[0], width, 7, stride=2),
        "norm0": nn.BatchNorm2d(width),
        "relu0": nn.ReLU(),
        "pool0": nn.MaxPool2d(3, 2, padding=1),
    }
    for i, count in enumerate(counts, start=1):
        block = {f"denselayer{j + 1}": layer(width + growth * j, growth) for j in range(count)}
        layers[f"denseblock{i}"] = chain(**block)
        width += growth * count
        if i < len(counts):
            shrink = conv(width, width // 2, 1)
            layers[f"transition{i}"] = chain(
                norm=nn.BatchNorm2d(width), relu=nn.ReLU(), conv=shrink, pool=nn.AvgPool2d(2)
            )
            width //= 2
    features = chain(**layers, norm5=nn.BatchNorm2d(width))
    return he_normal(chain(features=features, relu=nn.ReLU(), **pool_then(classifier=nn.Linear(width, k))), "fan_in")


def densenet121_imagenet(shape: Shape, k: int) -> nn.Module:
    return densenet(shape, k, DENSENET121, growth=32)


def densenet161(shape: Shape, k: int) -> nn.Module:
    return densenet(shape, k, DENSENET161, growth=48)
