"""Inception-v3 (Szegedy et al., CVPR 2016) for ImageNet at 299 pixels, torchvision's names.

Torchvision re-centres its input inside the network (`transform_input`) when it loads its published weights. Here the
Classifier owns the normalisation: mean (.5, .5, .5) and std (.5, .5, .5) give those weights what they expect.

Departures: the logits of the auxiliary classifier are never computed; no dropout before the last layer, because its
draws would come from a global generator and a continued run could not repeat them.
"""

import torch
from torch import nn
from torch.nn import functional as F

from leastwise.core.types import Shape
from leastwise.models.zoo.imagenet_googlenet import Passed, unit
from leastwise.models.zoo.layers import Maps, chain, check_side, pool_then

UNUSED = ("AuxLogits.",)

ROW, COLUMN = (1, 7), (7, 1)  # a 7x7 convolution in two steps


class BlockA(nn.Module):
    """Branches of 1x1, 5x5 and double 3x3 convolutions, and of pooling."""

    def __init__(self, inputs: int, pool: int) -> None:
        super().__init__()
        self.branch1x1 = unit(inputs, 64, 1)
        self.branch5x5_1 = unit(inputs, 48, 1)
        self.branch5x5_2 = unit(48, 64, 5, padding="same")
        self.branch3x3dbl_1 = unit(inputs, 64, 1)
        self.branch3x3dbl_2 = unit(64, 96, 3, padding="same")
        self.branch3x3dbl_3 = unit(96, 96, 3, padding="same")
        self.branch_pool = unit(inputs, pool, 1)

    def forward(self, x: Maps) -> Maps:
        five = self.branch5x5_2(self.branch5x5_1(x))
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch1x1(x), five, double, self.branch_pool(mean3x3(x))], dim=1)


class BlockB(nn.Module):
    """Halves the image."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch3x3 = unit(inputs, 384, 3, stride=2)
        self.branch3x3dbl_1 = unit(inputs, 64, 1)
        self.branch3x3dbl_2 = unit(64, 96, 3, padding="same")
        self.branch3x3dbl_3 = unit(96, 96, 3, stride=2)

    def forward(self, x: Maps) -> Maps:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch3x3(x), double, F.max_pool2d(x, 3, 2)], dim=1)


class BlockC(nn.Module):
    """Branches of 7-pixel convolutions along rows and columns, and of pooling."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.branch1x1 = unit(inputs, 192, 1)
        self.branch7x7_1 = unit(inputs, width, 1)
        self.branch7x7_2 = unit(width, width, ROW, padding="same")
        self.branch7x7_3 = unit(width, 192, COLUMN, padding="same")
        self.branch7x7dbl_1 = unit(inputs, width, 1)
        self.branch7x7dbl_2 = unit(width, width, COLUMN, padding="same")
        self.branch7x7dbl_3 = unit(width, width, ROW, padding="same")
        self.branch7x7dbl_4 = unit(width, width, COLUMN, padding="same")
        self.branch7x7dbl_5 = unit(width, 192, ROW, padding="same")
        self.branch_pool = unit(inputs, 192, 1)

    def forward(self, x: Maps) -> Maps:
        seven = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        return torch.cat([self.branch1x1(x), seven, double, self.branch_pool(mean3x3(x))], dim=1)


class BlockD(nn.Module):
    """Halves the image."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch3x3_1 = unit(inputs, 192, 1)
        self.branch3x3_2 = unit(192, 320, 3, stride=2)
        self.branch7x7x3_1 = unit(inputs, 192, 1)
        self.branch7x7x3_2 = unit(192, 192, ROW, padding="same")
        self.branch7x7x3_3 = unit(192, 192, COLUMN, padding="same")
        self.branch7x7x3_4 = unit(192, 192, 3, stride=2)

    def forward(self, x: Maps) -> Maps:
        three = self.branch3x3_2(self.branch3x3_1(x))
        seven = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return torch.cat([three, seven, F.max_pool2d(x, 3, 2)], dim=1)


class BlockE(nn.Module):
    """Branches that end in 1x3 and 3x1 convolutions side by side, and of pooling."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch1x1 = unit(inputs, 320, 1)
        self.branch3x3_1 = unit(inputs, 384, 1)
        self.branch3x3_2a = unit(384, 384, (1, 3), padding="same")
        self.branch3x3_2b = unit(384, 384, (3, 1), padding="same")
        self.branch3x3dbl_1 = unit(inputs, 448, 1)
        self.branch3x3dbl_2 = unit(448, 384, 3, padding="same")
        self.branch3x3dbl_3a = unit(384, 384, (1, 3), padding="same")
        self.branch3x3dbl_3b = unit(384, 384, (3, 1), padding="same")
        self.branch_pool = unit(inputs, 192, 1)

    def forward(self, x: Maps) -> Maps:
        three = self.branch3x3_1(x)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        split = [
            self.branch3x3_2a(three),
            self.branch3x3_2b(three),
            self.branch3x3dbl_3a(double),
            self.branch3x3dbl_3b(double),
        ]
        return torch.cat([self.branch1x1(x), *split, self.branch_pool(mean3x3(x))], dim=1)


def mean3x3(x: Maps) -> Maps:
    return F.avg_pool2d(x, 3, stride=1, padding=1)


def inception_v3(shape: Shape, k: int) -> nn.Module:
    check_side("inception-v3", shape, 75)
    return chain(
        Conv2d_1a_3x3=unit(shape[0], 32, 3, stride=2),
        Conv2d_2a_3x3=unit(32, 32, 3),
        Conv2d_2b_3x3=unit(32, 64, 3, padding=1),
        maxpool1=nn.MaxPool2d(3, 2),
        Conv2d_3b_1x1=unit(64, 80, 1),
        Conv2d_4a_3x3=unit(80, 192, 3),
        maxpool2=nn.MaxPool2d(3, 2),
        Mixed_5b=BlockA(192, pool=32),
        Mixed_5c=BlockA(256, pool=64),
        Mixed_5d=BlockA(288, pool=64),
        Mixed_6a=BlockB(288),
        Mixed_6b=BlockC(768, width=128),
        Mixed_6c=BlockC(768, width=160),
        Mixed_6d=BlockC(768, width=160),
        Mixed_6e=BlockC(768, width=192),
        AuxLogits=Passed(conv0=unit(768, 128, 1), conv1=unit(128, 768, 5), fc=nn.Linear(768, k)),
        Mixed_7a=BlockD(768),
        Mixed_7b=BlockE(1280),
        Mixed_7c=BlockE(2048),
        **pool_then(fc=nn.Linear(2048, k)),
    )
