"""The thin ResNets of He et al. (CVPR 2016) for 32-pixel images: 16, 32, 64 channels, depth 6n + 2.

Two layouts are in use. The paper's parameter-free shortcuts (option A) with the names of
akamaster/pytorch_resnet_cifar10: `linear` is the last layer. Projections (option B, `-b` here) with the names of
chenyaofo/pytorch-cifar-models, which are torchvision's: `downsample.0`, `downsample.1`, and `fc` at the end.
"""

from collections.abc import Callable
from functools import partial

from torch import nn
from torch.nn import functional as F

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import Maps, chain, conv, he_normal, pool_then
from leastwise.models.zoo.resnet import BlockBuilder, basic, stages

WIDTHS = (16, 32, 64)


class Padding(nn.Module):
    """Every other pixel, with channels of zeros on both sides."""

    def __init__(self, more: int) -> None:
        super().__init__()
        self.before, self.after = more // 2, more - more // 2

    def forward(self, x: Maps) -> Maps:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.before, self.after))


def padding(inputs: int, outputs: int, stride: int) -> nn.Module:
    return nn.Identity() if stride == 1 else Padding(outputs - inputs)


def trunk(channels: int, block: BlockBuilder, depth: int) -> dict[str, nn.Module]:
    count = (depth - 2) // 6
    return {
        "conv1": conv(channels, 16, 3),
        "bn1": nn.BatchNorm2d(16),
        "relu": nn.ReLU(),
        **stages(block, 16, WIDTHS, counts=(count, count, count)),
    }


def option_a(depth: int) -> Callable[[Shape, int], nn.Module]:
    def make(shape: Shape, k: int) -> nn.Module:
        block, linear = partial(basic, shortcut=padding), nn.Linear(64, k)
        nn.init.kaiming_normal_(linear.weight)
        return he_normal(chain(**trunk(shape[0], block, depth), **pool_then(linear=linear)), "fan_in")

    return make


def option_b(depth: int) -> Callable[[Shape, int], nn.Module]:
    def make(shape: Shape, k: int) -> nn.Module:
        block = partial(basic, name="downsample")
        return he_normal(chain(**trunk(shape[0], block, depth), **pool_then(fc=nn.Linear(64, k))))

    return make
