"""A mean of two networks of one architecture: along the line between them a fair network may cost less."""

import copy
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from leastwise.models.classifier import Classifier
from leastwise.training.edits.base import EditImages, NetworkEdit
from leastwise.training.weights import measure_statistics


@dataclass(frozen=True)
class Soup(NetworkEdit):
    """w ← (1 - share) · w + share · w', w' the weights of another network, such as a fair fine-tuning of this one.

    BatchNorm's statistics are measured anew on the training images: a mean of two networks' statistics belongs to
    neither. The recipe knows the other network by its digest.
    """

    recipe_name: ClassVar[str] = "Soup"
    looks_at = "train"

    digest: str
    share: float = 0.5
    other: Classifier | None = field(default=None, compare=False, repr=False, metadata={"recipe": False})

    def edit(self, model: Classifier, images: EditImages) -> Classifier:
        assert self.other is not None and self.other.digest() == self.digest, "whoever makes a soup brings the network"
        return mix_networks(model, self.other, self.share, images=images)


def mix_networks(model: Classifier, other: Classifier, share: float, *, images: EditImages) -> Classifier:
    """The network whose weights lie so far on the way from one to the other."""
    mine, theirs = model.state_dict(), other.state_dict()
    apart = list(mine.keys() ^ theirs.keys())
    apart += [name for name in mine.keys() & theirs.keys() if mine[name].shape != theirs[name].shape]
    if apart:
        raise ValueError(f"only networks of one architecture can be mixed, and these differ in {sorted(apart)[0]}")
    changed = copy.deepcopy(model)
    with torch.no_grad():
        weights = {
            name: value.lerp(theirs[name].to(value), share) if value.is_floating_point() else value.clone()
            for name, value in mine.items()
        }
    changed.load_state_dict(weights)
    mode = changed.training
    measure_statistics(changed.to(images.device), images.train, images.device)
    return changed.train(mode)
