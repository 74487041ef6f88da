"""VGG with BatchNorm (Simonyan and Zisserman, ICLR 2015) for 32-pixel images: one linear layer instead of three.

Names of kuangliu/pytorch-cifar: `features.N`, `classifier`. Pooling rounds up, which is the same at 32 pixels and
leaves something of smaller images. Weights start as He's normals: from torch's default the images of a batch are hardly
told apart until BatchNorm's statistics have settled.
"""

from collections.abc import Sequence

from torch import nn

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import chain, he_normal, pool_then

WIDTHS = (64, 128, 256, 512, 512)
VGG16 = (2, 2, 3, 3, 3)
VGG19 = (2, 2, 4, 4, 4)


def features(channels: int, counts: Sequence[int], ceil: bool) -> nn.Sequential:
    """Per stage: convolutions with bias, BatchNorm and ReLU, then a pooling that halves the image."""
    layers: list[nn.Module] = []
    for width, count in zip(WIDTHS, counts, strict=True):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2, ceil_mode=ceil))
    return nn.Sequential(*layers)


def vgg(channels: int, k: int, counts: Sequence[int]) -> nn.Module:
    return he_normal(chain(features=features(channels, counts, ceil=True), **pool_then(classifier=nn.Linear(512, k))))


def vgg16_bn(shape: Shape, k: int) -> nn.Module:
    return vgg(shape[0], k, VGG16)


def vgg19_bn(shape: Shape, k: int) -> nn.Module:
    return vgg(shape[0], k, VGG19)
