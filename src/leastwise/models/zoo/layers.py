"""Parts that several architectures share: layers in a row, heads, and batch-instance normalisation.

Batch-instance normalisation (Nam and Kim, NeurIPS 2018): each channel chooses between the batch and the image.
"""

import copy
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from leastwise.core.types import Shape

Maps = Float[Tensor, "b _ _ _"]  # feature maps: their sizes change from layer to layer
Tokens = Float[Tensor, "b _ _"]
Vectors = Float[Tensor, "b _"]


def chain(**layers: nn.Module) -> nn.Sequential:
    """Layers in the order they run, each under its name."""
    return nn.Sequential(OrderedDict(layers))


def run_layers(layers: Iterable[nn.Module], x: Maps) -> Maps:
    for layer in layers:
        x = layer(x)
    return x


def conv(inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size (stride 1) or divides it by the stride, rounding up."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)


def pool_then(**last: nn.Module) -> dict[str, nn.Module]:
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


class BatchInstanceNorm2d(nn.Module):
    """y = γ · (ρ · BN(x) + (1 − ρ) · IN(x)) + b with one gate ρ per channel, 1 at the start.

    IN uses each image's own mean and variance, in training and in evaluation.
    Gates want ten times the learning rate, no weight decay (`gate_parameters`), and `clip_gates` after each step.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.channels, self.eps, self.momentum = channels, eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.gate = nn.Parameter(torch.ones(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: Maps) -> Maps:
        if self.training:
            self.num_batches_tracked.add_(1)
        batch = F.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight * self.gate,
            self.bias,
            self.training,
            self.momentum,
            self.eps,
        )
        # A group per channel is instance normalisation, three times as fast on a CPU as torch's own.
        return batch + torch.group_norm(x, self.channels, self.weight * (1 - self.gate), None, self.eps)


def with_bin(net: nn.Module) -> nn.Module:
    """A copy of the network with its BatchNorms replaced; weights, statistics and their names stay."""
    changed = copy.deepcopy(net)
    found = [(name, layer) for name, layer in changed.named_modules() if isinstance(layer, nn.BatchNorm2d)]
    if not found:
        raise ValueError("batch-instance normalisation replaces BatchNorm2d layers, but this network has none")
    for name, layer in found:
        if not (layer.affine and layer.track_running_stats and layer.momentum is not None):
            raise ValueError(f"the BatchNorm {name!r} needs weights, running statistics and a momentum to be replaced")
        changed.set_submodule(name, replace_norm(layer, layer.momentum))
    return changed


def replace_norm(layer: nn.BatchNorm2d, momentum: float) -> BatchInstanceNorm2d:
    new = BatchInstanceNorm2d(layer.num_features, layer.eps, momentum).to(layer.weight.device, layer.weight.dtype)
    new.load_state_dict({**layer.state_dict(), "gate": new.gate})
    return new.train(layer.training)


def gate_parameters(net: nn.Module) -> list[nn.Parameter]:
    return [layer.gate for layer in net.modules() if isinstance(layer, BatchInstanceNorm2d)]


@torch.no_grad()
def clip_gates(net: nn.Module) -> None:
    """Put every gate back into [0, 1]."""
    for gate in gate_parameters(net):
        gate.clamp_(0, 1)


class CosineHead(nn.Module):
    """Hypersphere embedding (Pang et al., NeurIPS 2020): the logit of a class is cos θ, the cosine of the angle between
    the feature and the class's row, in [-1, 1]; no bias.

    `scaled=False` returns the cosines ("raw"), which is how the released networks answer and are audited;
    `scaled=True` returns s · cos θ ("scaled"), which is what the training loss sees.

    Departure: the released code projects the rows onto the sphere in place at each forward pass, so no gradient knows
    of the norm and weight decay acts on the step off the sphere. Here the normalisation is part of the function.
    """

    is_head = True  # `Classifier.features` returns what it receives, as with a last linear layer

    def __init__(self, in_features: int, out_features: int, scale: float = 15.0, scaled: bool = False) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.scale, self.scaled = scale, scaled
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))  # as nn.Linear does

    def forward(self, features: Vectors) -> Vectors:
        cosines = F.linear(F.normalize(features, dim=1), F.normalize(self.weight, dim=1))
        return self.scale * cosines if self.scaled else cosines


class BottleneckHead(nn.Module):
    """Features of two dimensions, so that the angles between classes can be drawn: d → 2 → k, the last without bias.

    From the single-class study of the maximum-entropy paper, which leaves the bias of the first layer open.
    """

    def __init__(self, in_features: int, out_features: int, width: int = 2, bias: bool = True) -> None:
        super().__init__()
        self.project = nn.Linear(in_features, width, bias=bias)
        self.classify = nn.Linear(width, out_features, bias=False)

    def forward(self, features: Vectors) -> Vectors:
        return self.classify(self.project(features))


def last_layer(net: nn.Module) -> tuple[str, nn.Linear | CosineHead]:
    """The layer that turns features into logits, with its name: the last linear layer or cosine head."""
    found = [(name, layer) for name, layer in net.named_modules() if isinstance(layer, nn.Linear | CosineHead)]
    if not found:
        raise ValueError("features need a network that ends in a linear layer, but this one has none")
    return found[-1]


def with_head(net: nn.Module, make: Callable[[int, int], nn.Module]) -> nn.Module:
    """A copy of the network that ends in `make(features, classes)` instead of its last layer."""
    changed = copy.deepcopy(net)
    name, last = last_layer(changed)
    changed.set_submodule(name, make(last.in_features, last.out_features))
    return changed
