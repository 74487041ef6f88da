"""GoogLeNet (Szegedy et al., CVPR 2015) with BatchNorm for 32-pixel images.

Names of kuangliu/pytorch-cifar: `pre_layers`, `a3.b1.0` … `b5.b4.1`, `linear`. The 5x5 branch is two 3x3 convolutions.
"""

import torch
from torch import nn

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import Maps, chain, he_normal, pool_then

Widths = tuple[int, int, int, int, int, int]  # 1x1; reduction and 3x3; reduction and 5x5; after the pool

# The inception table of the paper.
A3: Widths = (64, 96, 128, 16, 32, 32)
B3: Widths = (128, 128, 192, 32, 96, 64)
A4: Widths = (192, 96, 208, 16, 48, 64)
B4: Widths = (160, 112, 224, 24, 64, 64)
C4: Widths = (128, 128, 256, 24, 64, 64)
D4: Widths = (112, 144, 288, 32, 64, 64)
E4: Widths = (256, 160, 320, 32, 128, 128)
A5: Widths = (256, 160, 320, 32, 128, 128)
B5: Widths = (384, 192, 384, 48, 128, 128)


class Parallel(nn.ModuleDict):
    """The channels of all branches, one after the other."""

    def forward(self, x: Maps) -> Maps:
        return torch.cat([branch(x) for branch in self.values()], dim=1)


def unit(inputs: int, outputs: int, kernel: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.BatchNorm2d(outputs), nn.ReLU()]


def inception(inputs: int, widths: Widths) -> nn.Module:
    one, reduce3, three, reduce5, five, pool = widths
    return Parallel(
        {
            "b1": nn.Sequential(*unit(inputs, one, 1)),
            "b2": nn.Sequential(*unit(inputs, reduce3, 1), *unit(reduce3, three, 3)),
            "b3": nn.Sequential(*unit(inputs, reduce5, 1), *unit(reduce5, five, 3), *unit(five, five, 3)),
            "b4": nn.Sequential(nn.MaxPool2d(3, 1, padding=1), *unit(inputs, pool, 1)),
        }
    )


def googlenet(shape: Shape, k: int) -> nn.Module:
    net = chain(
        pre_layers=nn.Sequential(*unit(shape[0], 192, 3)),
        a3=inception(192, A3),
        b3=inception(256, B3),
        pool3=nn.MaxPool2d(3, 2, padding=1),
        a4=inception(480, A4),
        b4=inception(512, B4),
        c4=inception(512, C4),
        d4=inception(512, D4),
        e4=inception(528, E4),
        pool4=nn.MaxPool2d(3, 2, padding=1),
        a5=inception(832, A5),
        b5=inception(832, B5),
        **pool_then(linear=nn.Linear(1024, k)),
    )
    return he_normal(net)
