"""Several processes that train one network, each with a part of every batch."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, distributed, nn

from leastwise.training.base import Seen


@dataclass(frozen=True)
class Ranks:
    """This process among others. Alone, nothing here does anything."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and talks."""
        return self.rank == 0

    def own_part(self, positions: "np.ndarray") -> "np.ndarray":
        """The share of this process: every size-th position."""
        return positions[self.rank :: self.size]

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Add each tensor up over all processes, in place; tensors of one type travel together."""
        if self.size == 1:
            return
        for dtype in sorted({t.dtype for t in tensors}, key=str):
            some = [t for t in tensors if t.dtype == dtype]
            flat = within_reach(torch.cat([t.detach().reshape(-1) for t in some]))
            distributed.all_reduce(flat)
            for t, part in zip(some, torch.split(flat, [t.numel() for t in some]), strict=True):
                t.detach().copy_(part.view(t.shape))

    def total(self, seen: Seen) -> Seen:
        """What all processes saw; counts are whole numbers, so they add up exactly."""
        held = {name: value.clone() for name, value in seen.tensors().items()}
        self.sum_(list(held.values()))
        return Seen.from_tensors(held)

    @torch.no_grad()
    def average_statistics(self, model: nn.Module) -> None:
        """BatchNorm sees its own part of the batch in every process; the running statistics become their mean."""
        buffers = [b for b in model.buffers() if b.is_floating_point()]
        if self.size > 1 and buffers:
            self.sum_(buffers)
            for buffer in buffers:
                buffer.div_(self.size)

    def wait(self) -> None:
        """Go on when all processes have come here."""
        if self.size > 1:
            distributed.barrier()


ALONE = Ranks()


def within_reach(flat: Tensor) -> Tensor:
    """A tensor where the processes can add it up: counts lie on the CPU, where NCCL does not look."""
    return flat.cuda() if distributed.get_backend() == "nccl" else flat


def find_ranks() -> Ranks:
    """This process among those of a group that somebody else made, or alone."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return ALONE
    return Ranks(distributed.get_rank(), distributed.get_world_size())


def join_ranks(device: str) -> Ranks:
    """The group that torchrun started this process in, or this process alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
        return ALONE
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return Ranks(distributed.get_rank(), distributed.get_world_size())
