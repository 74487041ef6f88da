"""Batch-instance normalisation (Nam and Kim, NeurIPS 2018): each channel chooses between the batch and the image."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leastwise.models.layout import Maps


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
        changed.set_submodule(name, replacement(layer, layer.momentum))
    return changed


def replacement(layer: nn.BatchNorm2d, momentum: float) -> BatchInstanceNorm2d:
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
