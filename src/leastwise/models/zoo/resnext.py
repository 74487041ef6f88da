"""ResNeXt-29 (Xie et al., CVPR 2017) for 32-pixel images: bottlenecks with grouped convolutions, three stages of three.

Names and sizes of kuangliu/pytorch-cifar, whose stem is a 1x1 convolution of 64 channels and whose blocks are twice as
wide as their groups together.
"""

from collections.abc import Callable
from functools import partial

from torch import nn

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import chain, conv, pool_then
from leastwise.models.zoo.resnet import bottleneck, stages


def resnext29(groups: int, group_width: int) -> Callable[[Shape, int], nn.Module]:
    def make(shape: Shape, k: int) -> nn.Module:
        widths = [2 * groups * group_width * 2**i for i in range(3)]
        block = partial(bottleneck, narrow=2, groups=groups)
        return chain(
            conv1=conv(shape[0], 64, 1),
            bn1=nn.BatchNorm2d(64),
            relu=nn.ReLU(),
            **stages(block, 64, widths, counts=(3, 3, 3)),
            **pool_then(linear=nn.Linear(widths[-1], k)),
        )

    return make
