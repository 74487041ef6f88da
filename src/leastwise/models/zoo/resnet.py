"""ResNets for 32-pixel images (He et al., CVPR 2016: the widths meant for ImageNet behind a 3x3 stem), and ResNet-9.

ResNet-18, 34 and 50 have the parameter names of kuangliu/pytorch-cifar, which most adversarial-training code shares.
ResNet-9 has no canonical layout. This is the widespread one after David Page's DAWNBench entry: each convolution has a
bias, BatchNorm and ReLU; two residual pairs; global max pooling; a linear layer with bias. Page's own has no biases
and divides the logits by 8.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from torch import nn
from torch.nn import functional as F

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import Maps, chain, check_side, conv, pool_then, run_layers

BlockBuilder = Callable[[int, int, int], nn.Module]  # input channels, output channels, stride -> block


class Residual(nn.Sequential):
    """relu(body(x) + shortcut(x)); the shortcut is the last child."""

    def forward(self, x: Maps) -> Maps:
        *body, shortcut = self
        return F.relu(run_layers(body, x) + shortcut(x))


def projection(inputs: int, outputs: int, stride: int) -> nn.Module:
    """The identity where shapes allow it, else a 1x1 convolution and BatchNorm (option B of the paper)."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(conv(inputs, outputs, 1, stride=stride), nn.BatchNorm2d(outputs))


def basic(
    inputs: int, outputs: int, stride: int, *, name: str = "shortcut", shortcut: BlockBuilder = projection
) -> nn.Module:
    return Residual(
        OrderedDict(
            conv1=conv(inputs, outputs, 3, stride=stride),
            bn1=nn.BatchNorm2d(outputs),
            relu1=nn.ReLU(),
            conv2=conv(outputs, outputs, 3),
            bn2=nn.BatchNorm2d(outputs),
            **{name: shortcut(inputs, outputs, stride)},
        )
    )


def bottleneck(
    inputs: int, outputs: int, stride: int, *, narrow: int = 4, groups: int = 1, name: str = "shortcut"
) -> nn.Module:
    """The 3x3 convolution has 1/`narrow` of the outputs; it carries the stride, unlike in the paper."""
    width = outputs // narrow
    return Residual(
        OrderedDict(
            conv1=conv(inputs, width, 1),
            bn1=nn.BatchNorm2d(width),
            relu1=nn.ReLU(),
            conv2=conv(width, width, 3, stride=stride, groups=groups),
            bn2=nn.BatchNorm2d(width),
            relu2=nn.ReLU(),
            conv3=conv(width, outputs, 1),
            bn3=nn.BatchNorm2d(outputs),
            **{name: projection(inputs, outputs, stride)},
        )
    )


def stages(block: BlockBuilder, stem: int, widths: Sequence[int], *, counts: Sequence[int]) -> dict[str, nn.Module]:
    """`layer1`, `layer2`, …: each has `counts` blocks, and each after the first halves the image."""
    inputs = (stem, *widths)
    return {
        f"layer{i + 1}": nn.Sequential(
            block(inputs[i], width, 1 if i == 0 else 2), *(block(width, width, 1) for _ in range(count - 1))
        )
        for i, (width, count) in enumerate(zip(widths, counts, strict=True))
    }


def resnet(channels: int, k: int, block: BlockBuilder, *, widths: Sequence[int], counts: Sequence[int]) -> nn.Module:
    return chain(
        conv1=conv(channels, 64, 3),
        bn1=nn.BatchNorm2d(64),
        relu=nn.ReLU(),
        **stages(block, 64, widths, counts=counts),
        **pool_then(linear=nn.Linear(widths[-1], k)),
    )


def resnet18(shape: Shape, k: int) -> nn.Module:
    return resnet(shape[0], k, basic, widths=(64, 128, 256, 512), counts=(2, 2, 2, 2))


def resnet34(shape: Shape, k: int) -> nn.Module:
    return resnet(shape[0], k, basic, widths=(64, 128, 256, 512), counts=(3, 4, 6, 3))


def resnet50(shape: Shape, k: int) -> nn.Module:
    return resnet(shape[0], k, bottleneck, widths=(256, 512, 1024, 2048), counts=(3, 4, 6, 3))


class Skip(nn.Sequential):
    """x + body(x)."""

    def forward(self, x: Maps) -> Maps:
        return x + run_layers(self, x)


def unit(inputs: int, outputs: int, *pool: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), *pool)


def resnet9(shape: Shape, k: int) -> nn.Module:
    check_side("resnet9", shape, 8)
    return chain(
        conv1=unit(shape[0], 64),
        conv2=unit(64, 128, nn.MaxPool2d(2)),
        res1=Skip(unit(128, 128), unit(128, 128)),
        conv3=unit(128, 256, nn.MaxPool2d(2)),
        conv4=unit(256, 512, nn.MaxPool2d(2)),
        res2=Skip(unit(512, 512), unit(512, 512)),
        classifier=nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(512, k)),
    )
