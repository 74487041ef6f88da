"""What may stand in place of a network's last linear layer."""

import copy
import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from leastwise.models.layout import Vectors


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
