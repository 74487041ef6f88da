"""The words the networks are written in.

Most networks are chains of named layers, and the names are the point: a state dict that others published loads when
each parameter sits under the name its authors gave it. Layers without parameters may have any name.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

Shape = tuple[int, int, int]  # channels, height, width

Maps = Float[Tensor, "b _ _ _"]  # feature maps: their sizes change from layer to layer
Tokens = Float[Tensor, "b _ _"]
Vectors = Float[Tensor, "b _"]


def chain(**layers: nn.Module) -> nn.Sequential:
    """Layers in the order they run, each under its name."""
    return nn.Sequential(OrderedDict(layers))


def through(layers: Iterable[nn.Module], x: Maps) -> Maps:
    for layer in layers:
        x = layer(x)
    return x


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size (stride 1) or divides it by the stride, rounding up."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)


def pooled(**last: nn.Module) -> dict[str, nn.Module]:
    """Mean over all positions, then what follows: any image size gives the same number of features."""
    return {"pool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten(), **last}


def he_normal(net: nn.Module, mode: Literal["fan_in", "fan_out"] = "fan_out") -> nn.Module:
    """Convolution weights from N(0, 2 / fan) (He et al., 2015), their biases 0; changes the network it is given."""
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode=mode, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return net


def check_side(name: str, shape: Shape, least: int) -> None:
    """Refuse images that would shrink to nothing before the last layer."""
    _, height, width = shape
    if min(height, width) < least:
        raise ValueError(
            f"{name} needs images of at least {least} x {least} pixels, but saw {height} x {width}: "
            "choose a network for smaller images, or enlarge them"
        )
