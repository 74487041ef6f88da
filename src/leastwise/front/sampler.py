"""The order in which a loader of somebody else's gives the images of an epoch to a step."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.utils.data import Sampler

from leastwise.core.noise import random_order
from leastwise.core.types import PerClass
from leastwise.training.batches import draw_rows
from leastwise.training.distributed import find_ranks


class ClassSampler(Sampler[int]):
    """The positions of an epoch's images, for a loader: another order in every epoch, as `leastwise train` has it.

    `now` says how many epochs are over, and in what proportion classes are drawn, or None for every image once. In a
    group of processes each has its part of the order, as many images in each.
    """

    def __init__(
        self, labels: np.ndarray, ids: np.ndarray, seed: int, *, now: Callable[[], tuple[int, PerClass | None]]
    ) -> None:
        self.labels, self.ids, self.seed, self.now = labels, ids, seed, now

    def __iter__(self) -> Iterator[int]:
        epoch, shares = self.now()
        if shares is None:
            order = random_order(torch.from_numpy(self.ids), self.seed, "shuffle", draw=epoch).numpy()
        else:
            order = draw_rows(self.labels, shares, seed=self.seed, epoch=epoch)
        return iter(find_ranks().own_part(order)[: len(self)].tolist())

    def __len__(self) -> int:
        return len(self.labels) // find_ranks().size
