"""Pre-activation ResNet-18 (He et al., ECCV 2016) for 32-pixel images.

Two layouts with the same names are in use: with BatchNorm and ReLU before the pooling, as in the paper and in the
robust-overfitting code (`bn`); and without them, as in kuangliu/pytorch-cifar. The shortcuts of both project
relu(bn(x)). A third, of the fast-adversarial-training code of 2020, has the names of the second but projects x itself:
its files fit both, and only the right one computes what was trained.
"""

from collections import OrderedDict
from functools import partial

from torch import nn

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import Maps, chain, conv, pool_then, run_layers
from leastwise.models.zoo.resnet import stages


class Projected(nn.Sequential):
    """body(relu(bn(x))) + shortcut(x)."""

    def forward(self, x: Maps) -> Maps:
        *body, shortcut = self
        return run_layers(body, x) + shortcut(x)


class PreActivated(nn.Sequential):
    """body(a) + shortcut(a) with a = relu(bn(x)), or body(a) + x where the shapes allow it; the shortcut comes last."""

    def forward(self, x: Maps) -> Maps:
        bn, relu, *body, shortcut = self
        a = relu(bn(x))
        return run_layers(body, a) + (x if isinstance(shortcut, nn.Identity) else shortcut(a))


def block(inputs: int, outputs: int, stride: int, *, kind: type[nn.Sequential] = PreActivated) -> nn.Module:
    same = stride == 1 and inputs == outputs
    return kind(
        OrderedDict(
            **two_convolutions(inputs, outputs, stride),
            shortcut=nn.Identity() if same else nn.Sequential(conv(inputs, outputs, 1, stride=stride)),
        )
    )


def two_convolutions(inputs: int, outputs: int, stride: int) -> dict[str, nn.Module]:
    return {
        "bn1": nn.BatchNorm2d(inputs),
        "relu1": nn.ReLU(),
        "conv1": conv(inputs, outputs, 3, stride=stride),
        "bn2": nn.BatchNorm2d(outputs),
        "relu2": nn.ReLU(),
        "conv2": conv(outputs, outputs, 3),
    }


def trunk(channels: int, kind: type[nn.Sequential] = PreActivated) -> dict[str, nn.Module]:
    return {
        "conv1": conv(channels, 64, 3),
        **stages(partial(block, kind=kind), 64, (64, 128, 256, 512), counts=(2, 2, 2, 2)),
    }


def preact_resnet18(shape: Shape, k: int) -> nn.Module:
    return chain(**trunk(shape[0]), bn=nn.BatchNorm2d(512), relu=nn.ReLU(), **pool_then(linear=nn.Linear(512, k)))


def preact_resnet18_nobn(shape: Shape, k: int) -> nn.Module:
    return chain(**trunk(shape[0]), **pool_then(linear=nn.Linear(512, k)))


def preact_resnet18_fast(shape: Shape, k: int) -> nn.Module:
    return chain(**trunk(shape[0], Projected), **pool_then(linear=nn.Linear(512, k)))
