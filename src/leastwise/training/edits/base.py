"""What every edit of a trained network promises, and what it may look at."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from leastwise.attacks.pgd import PGD
from leastwise.core.contract import Contract
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels
from leastwise.data.dataset import Dataset
from leastwise.models.classifier import Classifier
from leastwise.models.zoo.layers import last_layer

BATCH = 128


@dataclass(frozen=True, eq=False)
class EditImages:
    """What an edit may look at: images to train on, images to choose by, and the attack that is feared."""

    train: Dataset
    valid: Dataset
    attack: PGD
    seed: int = 0
    device: str = "cpu"

    def train_batches(self, model: Classifier, seed: int) -> Iterator[tuple[Images, Labels, Noise]]:
        """The training images once, in an order of their own, in the network's number format."""
        dtype = next(model.parameters()).dtype
        order = np.random.default_rng((seed, 1)).permutation(len(self.train))
        for places in np.array_split(order, max(1, round(len(order) / BATCH))):
            x, y, ids = (part.to(self.device) for part in self.train.batch(places))
            yield x.to(dtype), y, Noise(seed, ids, "/edit")


class NetworkEdit(Contract):
    """A change of a trained network that keeps its architecture. The network that is given stays as it is."""

    looks_at: str = ""  # which images it looks at: none, "valid", or "train"

    @abstractmethod
    def edit(self, model: Classifier, images: EditImages) -> Classifier:
        """A changed copy of the network."""


class NamedEdit(NamedTuple):
    """An edit by name, with its default settings."""

    make: Callable[[], NetworkEdit]
    equation: str
    paper: str
    passes: str


def copy_with_head(model: Classifier, what: str) -> tuple[Classifier, nn.Linear]:
    """A copy of a network, and the last layer of the copy, if that is linear with a row for each class."""
    changed = copy.deepcopy(model)
    try:
        _, head = last_layer(changed.net)
    except ValueError:
        head = None
    if not isinstance(head, nn.Linear) or head.out_features != model.k:
        raise ValueError(
            f"{what} changes a last linear layer with a row for each of the {model.k} classes, and this network does "
            "not end in one: choose another way"
        )
    return changed, head


@torch.no_grad()
def row_norms(head: nn.Linear) -> Tensor:
    """The Euclidean length of each class's row of weights."""
    return head.weight.norm(dim=1)
