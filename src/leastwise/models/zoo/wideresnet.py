"""Wide ResNets (Zagoruyko and Komodakis, BMVC 2016): depth 6n + 4, pre-activation blocks, no dropout.

The names are those of xternalz/WideResNet-pytorch, which TRADES, MART, AWP and RobustBench share (`block1.layer.0.bn1`,
`convShortcut`, `fc`). Checkpoints of TRADES carry a second first block, `sub_block1`, that its network never ran.
"""

from collections import OrderedDict
from collections.abc import Callable

from torch import nn

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import chain, conv, he_normal, pool_then
from leastwise.models.zoo.preact import PreActivated, two_convolutions
from leastwise.models.zoo.resnet import stages

UNUSED = ("sub_block1.",)


def block(inputs: int, outputs: int, stride: int) -> nn.Module:
    shortcut = nn.Identity() if inputs == outputs else conv(inputs, outputs, 1, stride=stride)
    return PreActivated(OrderedDict(**two_convolutions(inputs, outputs, stride), convShortcut=shortcut))


def wide_resnet(depth: int, width: int) -> Callable[[Shape, int], nn.Module]:
    count, rest = divmod(depth - 4, 6)
    if rest != 0 or count < 1 or width < 1:
        above = 6 * max(count + 1, 1) + 4
        nearest = f"wrn-{max(above - 6, 10)}-{max(width, 1)} or wrn-{max(above, 16)}-{max(width, 1)}"
        raise ValueError(
            f"wrn-{depth}-{width} cannot be built, for a wide ResNet has depth 6n + 4 (10, 16, 22, 28, 34, …) and a "
            f"width of at least 1: choose {nearest}"
        )

    def make(shape: Shape, k: int) -> nn.Module:
        widths = (16 * width, 32 * width, 64 * width)
        layers = stages(block, 16, widths, counts=(count, count, count)).values()
        fc = nn.Linear(widths[-1], k)
        nn.init.zeros_(fc.bias)
        net = chain(
            conv1=conv(shape[0], 16, 3),
            **{f"block{i}": chain(layer=layer) for i, layer in enumerate(layers, start=1)},
            bn1=nn.BatchNorm2d(widths[-1]),
            relu=nn.ReLU(),
            **pool_then(fc=fc),
        )
        return he_normal(net)

    return make
