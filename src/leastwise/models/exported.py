"""Exported programs as modules that have an evaluation mode."""

import copy
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from leastwise.core.types import Images
from leastwise.models.foreign import silence_libraries


class Exported(nn.Module):
    """An exported graph, shielded from train() and eval(), which it refuses: its mode was fixed by the export."""

    def __init__(self, graph: nn.Module, content: str = "") -> None:
        super().__init__()
        self.graph = graph
        self.content = content  # hash of the file it came from; part of the digest like any plain setting

    def forward(self, x: Images) -> Any:
        return self.graph(x)

    def train(self, mode: bool = True) -> "Exported":
        self.training = mode
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Exported":
        with silence_libraries():  # torch warns about its own tree specifications when it copies them
            return Exported(copy.deepcopy(self.graph, memo), self.content)


def shield(net: Any) -> Any:
    """Exported programs and their graphs as modules that have an evaluation mode; anything else unchanged."""
    if isinstance(net, ExportedProgram):
        return Exported(net.module())
    # torch.export replaces `train` on the instance by a method that raises.
    if isinstance(net, torch.fx.GraphModule) and "train" in vars(net):
        return Exported(net)
    return net
