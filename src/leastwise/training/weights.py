"""Sets of weights beside those that are being trained: copies, averages, and the statistics that belong to them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from leastwise.data.dataset import Dataset

BATCH = 250


def clone_weights(weights: Mapping[str, Tensor] | None) -> dict[str, Tensor] | None:
    """A copy that does not follow the original."""
    return None if weights is None else {name: value.clone() for name, value in weights.items()}


@contextmanager
def temporary_weights(model: nn.Module, weights: Mapping[str, Tensor] | None) -> Iterator[None]:
    """Other weights inside, the model's own on leaving; None changes nothing."""
    if weights is None:
        yield
        return
    own = clone_weights(model.state_dict())
    model.load_state_dict(weights)
    try:
        yield
    finally:
        assert own is not None
        model.load_state_dict(own)


def move_average(
    average: dict[str, Tensor] | None, present: Mapping[str, Tensor], share: float
) -> dict[str, Tensor] | None:
    """The average, moved in place by a share towards the present weights; a copy of them where there is none yet."""
    if average is None:
        return clone_weights(present)
    for name, value in average.items():
        if value.is_floating_point():
            value.lerp_(present[name], share)
        else:
            value.copy_(present[name])
    return average


@torch.no_grad()
def measure_statistics(model: nn.Module, data: Dataset, device: str) -> None:
    """BatchNorm's running statistics with the present weights, over the images as they are; leaves train mode on."""
    dtype = next(model.parameters()).dtype
    norms = [module for module in model.modules() if keeps_running_mean(module)]
    momenta = [norm.momentum for norm in norms]
    model.train()
    for count, positions in enumerate(np.array_split(np.arange(len(data)), -(-len(data) // BATCH)), 1):
        for norm in norms:
            norm.momentum = 1 / count  # type: ignore[assignment]
        model(data.batch(positions).x.to(device, dtype))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


def keeps_running_mean(module: nn.Module) -> bool:
    """Whether a layer follows the mean of its inputs by a momentum, as BatchNorm does and layers written after it."""
    return "momentum" in vars(module) and any(name == "running_mean" for name, _ in module.named_buffers(recurse=False))
