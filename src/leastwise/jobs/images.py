"""Which images a job is about, as a value: a data set, whole or changed, and how it is read."""

from dataclasses import dataclass
from typing import ClassVar

from leastwise.audit.segmentation import ObjectPrior
from leastwise.audit.surgery import (
    colour_backgrounds,
    keep_two_classes,
    make_targeted_set,
    match_features,
    remove_class,
    replace_background,
)
from leastwise.data.classes import Groups
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.models.classifier import Classifier

PRIORS = {"tight": ObjectPrior(0.65), "wide": ObjectPrior(0.95)}  # objects expected smaller, and larger, than usual
SEARCH_STEPS = {"matched": 1000, "targeted_set": 100}  # of Ilyas et al., for images that are made with a network


@dataclass(frozen=True)
class ImageSet:
    """A data set, whole or changed.

    `change` names a function of `leastwise.audit.surgery` and its arguments: ("removed", 5), ("binary", 3, 5),
    ("coloured",), ("white_background",), ("matched",), ("targeted_set", "random"); the last two are made with a
    network.
    """

    recipe_name: ClassVar[str] = "Images"

    name: str
    change: tuple[str | int, ...] = ()
    classes: tuple[int, ...] = ()  # only these; all if empty
    per_class: int | None = None  # only the first images of each class
    steps: int | None = None  # of the search that makes images with a network; the usual number if None

    @property
    def needs_network(self) -> bool:
        """Whether the images are made with a network."""
        return bool(self.change) and self.change[0] in SEARCH_STEPS

    @property
    def search_steps(self) -> int:
        """The steps of the search that makes each image; none for images that are not made."""
        return (self.steps or SEARCH_STEPS[str(self.change[0])]) if self.needs_network else 0


def read_images(
    images: ImageSet,
    split: str = "test",
    made_with: Classifier | None = None,
    *,
    seed: int = 0,
    device: str = "cpu",
    groups: Groups = (),
) -> Dataset:
    """Read a set of images; `made_with` is the network that some of them are made with.

    `groups` are superclasses for a data set that has none of its own.
    """
    if images.steps is not None and not images.needs_network:
        raise ValueError(f"only images that are made with a network take steps, but saw {images}")
    data = load(images.name, split)
    if groups and not data.groups:
        data = data.with_groups(groups)
    if images.classes:
        data = data.only(list(images.classes))
    if images.per_class is not None:
        data = data.take(images.per_class)
    match images.change:
        case ():
            return data
        case ("removed", int(gone)):
            return remove_class(data, gone)
        case ("binary", int(first), int(second)):
            return keep_two_classes(data, first, second)
        case ("coloured",):
            return colour_backgrounds(data)
        case ("white_background",):
            return replace_background(data, colour=(1.0,) * data.shape[0])
        case ("white_background", str(expected)) if expected in PRIORS:
            return replace_background(data, colour=(1.0,) * data.shape[0], prior=PRIORS[expected])
    if made_with is None:
        raise ValueError(f"images changed by {images.change} are made with a network: give the one to use")
    match images.change:
        case ("matched",):
            return match_features(data, made_with, seed, steps=images.search_steps, device=device)
        case ("targeted_set", "random"):
            return make_targeted_set(data, made_with, seed, steps=images.search_steps, device=device)
    raise ValueError(f"there is no change {images.change} of images: see `leastwise.audit.surgery`")
