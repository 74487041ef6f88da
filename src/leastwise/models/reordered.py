"""A network whose outputs are put into another order, or some of them left out."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from leastwise.core.types import Images, Logits
from leastwise.models.classifier import logits_of


class Reordered(nn.Module):
    """Output c of this is output `order[c]` of the network."""

    index: Tensor

    def __init__(self, net: nn.Module, order: Sequence[int]) -> None:
        super().__init__()
        self.net, self.order = net, tuple(order)
        self.register_buffer("index", torch.tensor(self.order), persistent=False)

    def forward(self, x: Images) -> Logits:
        return logits_of(self.net(x)).index_select(1, self.index)
