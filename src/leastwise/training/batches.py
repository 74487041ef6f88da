"""Which images make up the batches of an epoch: a function of the recipe, the epoch and the policies' states."""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int

from leastwise.core.noise import Noise, random_order
from leastwise.core.types import PerClass
from leastwise.data.dataset import Batch, Dataset
from leastwise.training.distributed import Ranks

EXTRA_IDS = 1 << 40  # added to the ids of pseudo-labelled images, so that none is met twice


class BatchPlan(NamedTuple):
    """A batch by positions: in the labelled data, in the pseudo-labelled data, and the ids that noise belongs to."""

    rows: "np.ndarray"
    extra: "np.ndarray"
    noise_ids: "np.ndarray"

    @property
    def size(self) -> int:
        return len(self.rows) + len(self.extra)

    def part(self, ranks: Ranks) -> "BatchPlan":
        """What this process trains on."""
        rows, extra = ranks.own_part(self.rows), ranks.own_part(self.extra)
        labelled, others = np.split(self.noise_ids, [len(self.rows)])
        return BatchPlan(rows, extra, np.concatenate([ranks.own_part(labelled), ranks.own_part(others)]))

    def images(self, data: Dataset, extra: Dataset | None) -> Batch:
        """The images themselves, with labels and ids."""
        known = data.batch(self.rows)
        if extra is None or len(self.extra) == 0:
            return known
        more = extra.batch(self.extra)
        x, y, ids = (torch.cat(parts) for parts in zip(known, more, strict=True))
        ids[len(self.rows) :] += EXTRA_IDS
        return Batch(x, y, ids)


def plan_batches(
    data: Dataset,
    batch_size: int,
    *,
    extra: Dataset | None = None,
    extra_share: float = 0.0,
    shares: PerClass | None = None,
    seed: int = 0,
    epoch: int = 0,
) -> list[BatchPlan]:
    """Every image once in random order; or, with `shares`, as many draws, each class in proportion to its share.

    With pseudo-labelled images an epoch has as many updates as without, as in RST's code: of the labelled images, only
    the share that fits.
    """
    if shares is None:
        order = random_order(torch.from_numpy(data.ids), seed, "shuffle", draw=epoch).numpy()
        noise_ids = data.ids[order]
    else:
        order = draw_rows(data.labels, shares, seed=seed, epoch=epoch)
        noise_ids = np.arange(len(order))  # an image may come twice, and then differs in its noise
    labelled = batch_size if extra is None else max(1, round(batch_size * (1 - extra_share)))
    # Even batches: a short last one would weigh its examples more, and BatchNorm cannot see just one.
    count = math.ceil(len(order) / batch_size)
    order, noise_ids = order[: count * labelled], noise_ids[: count * labelled]
    rows, ids = np.array_split(order, count), np.array_split(noise_ids, count)
    more = [np.empty(0, dtype=np.int64)] * count
    if extra is not None:
        wanted = count * (batch_size - labelled)
        mixed = random_order(torch.from_numpy(extra.ids), seed, "extra", draw=epoch).numpy()
        more = np.array_split(np.resize(mixed, wanted), count)
    found = []
    for some, other, names in zip(rows, more, ids, strict=True):
        extra_ids = extra.ids[other] + EXTRA_IDS if extra is not None else other
        found.append(BatchPlan(some, other, np.concatenate([names, extra_ids])))
    return found


def draw_rows(labels: Int[np.ndarray, " n"], shares: PerClass, *, seed: int, epoch: int) -> "np.ndarray":
    """As many draws as there are images, with replacement: a class by its share, then any of its images."""
    counts = np.bincount(labels, minlength=len(shares))
    present = counts > 0
    weight = np.where(present, shares.cpu().double().numpy(), 0)
    u = Noise(seed, torch.arange(len(labels)), "/draws", epoch).uniform((2,), torch.float64).numpy()
    edges = np.cumsum(weight / weight.sum())
    classes = np.minimum(np.searchsorted(edges, u[:, 0], side="right"), np.flatnonzero(weight)[-1])
    by_class = np.argsort(labels, kind="stable")
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    place = np.minimum((u[:, 1] * counts[classes]).astype(np.int64), counts[classes] - 1)
    return by_class[first[classes] + place]
