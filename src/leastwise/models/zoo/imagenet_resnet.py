"""ResNet, wide ResNet and ResNeXt for ImageNet, torchvision's names.

He et al., CVPR 2016; Zagoruyko and Komodakis, BMVC 2016; Xie et al., CVPR 2017.
"""

from collections.abc import Sequence
from functools import partial

from torch import nn

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import chain, conv, he_normal, pool_then
from leastwise.models.zoo.resnet import BlockBuilder, basic, bottleneck, stages

WIDTHS = (256, 512, 1024, 2048)


def imagenet(channels: int, k: int, block: BlockBuilder, *, widths: Sequence[int], counts: Sequence[int]) -> nn.Module:
    return he_normal(
        chain(
            conv1=conv(channels, 64, 7, stride=2),
            bn1=nn.BatchNorm2d(64),
            relu=nn.ReLU(),
            maxpool=nn.MaxPool2d(3, 2, padding=1),
            **stages(block, 64, widths, counts=counts),
            **pool_then(fc=nn.Linear(widths[-1], k)),
        )
    )


def resnet18_imagenet(shape: Shape, k: int) -> nn.Module:
    return imagenet(shape[0], k, partial(basic, name="downsample"), widths=(64, 128, 256, 512), counts=(2, 2, 2, 2))


def resnet50_imagenet(shape: Shape, k: int) -> nn.Module:
    return imagenet(shape[0], k, partial(bottleneck, name="downsample"), widths=WIDTHS, counts=(3, 4, 6, 3))


def wide_resnet50_2(shape: Shape, k: int) -> nn.Module:
    return imagenet(shape[0], k, partial(bottleneck, narrow=2, name="downsample"), widths=WIDTHS, counts=(3, 4, 6, 3))


def resnext50_32x4d(shape: Shape, k: int) -> nn.Module:
    return imagenet(
        shape[0], k, partial(bottleneck, narrow=2, groups=32, name="downsample"), widths=WIDTHS, counts=(3, 4, 6, 3)
    )
