"""Which images a job is about, as a value: a data set, whole or changed, and how it is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from leastwise.audit.auditor import Auditor
from leastwise.audit.segmentation import ObjectPrior
from leastwise.audit.surgery import (
    colour_backgrounds,
    keep_two_classes,
    make_targeted_set,
    match_features,
    remove_class,
    replace_background,
)
from leastwise.core.files import write_atomic
from leastwise.data.classes import Groups
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.insight.features import Moments, measure_moments, own_plane, principal_plane, project_images
from leastwise.models.classifier import Classifier, inference

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


FEATURES = "features.safetensors"  # moments by class, and a plane
PICTURES = "pictures.safetensors"


class Picture(NamedTuple):
    """One test image by condition (or step of an attack): its pixels [c h w] in [0, 1] and the logits [k]."""

    id: int
    pixels: Mapping[str, Float[np.ndarray, "c h w"]]
    logits: Mapping[str, Float[np.ndarray, " k"]]


def keep_features(auditor: Auditor, data: Dataset, folder: Path) -> None:
    """Write the moments of the features, and the features in two dimensions, where there are that many."""
    found = measure_moments(auditor.model, data, device=auditor.device)
    many = (found.n > 0).sum() > 2 and found.centre.shape[1] > 1
    plane = own_plane() if found.centre.shape[1] == 2 else principal_plane(found) if many else None
    arrays = {"n": found.n, "centre": found.centre, "scatter": found.scatter}
    if plane is not None:
        points = project_images(auditor.model, data, plane, device=auditor.device)[0]
        arrays["plane"] = points[np.argsort(data.ids)].astype(np.float32)
    write_atomic(folder / FEATURES, save_arrays({name: np.ascontiguousarray(part) for name, part in arrays.items()}))


def read_features(folder: Path) -> tuple[Moments, "np.ndarray | None"]:
    arrays = load_arrays((folder / FEATURES).read_bytes())
    plane = arrays.get("plane")
    return Moments(arrays["n"], arrays["centre"], arrays["scatter"]), None if plane is None else plane.astype(float)


def keep_pictures(auditor: Auditor, data: Dataset, ids: Iterable[int], *, folder: Path) -> None:
    """Write single images under every condition, with their logits, named by place, id, kind and condition."""
    pictures = [take_picture(auditor, data, position) for position in find_positions(tuple(ids), data)]
    arrays = {
        f"{place}/{one.id}/{kind}/{name}": np.ascontiguousarray(value, dtype=np.float32)
        for place, one in enumerate(pictures)
        for kind, held in (("pixels", one.pixels), ("logits", one.logits))
        for name, value in held.items()
    }
    write_atomic(folder / PICTURES, save_arrays(arrays))


def take_picture(auditor: Auditor, data: Dataset, position: int) -> Picture:
    """One image under every condition. Noise belongs to the image, so it meets the same attack as in the audit."""
    x, y, ids = (part.to(auditor.device) for part in data.batch(np.array([position])))
    pixels, logits = {}, {}
    for name, attack in auditor.recipe.conditions:
        with inference(auditor.model):
            z, outcome = auditor.attack_batch(name, attack, x, y=y, ids=ids, crafted_on=auditor.model)
        pixels[name], logits[name] = outcome.x_adv[0].cpu().numpy(), z[0].cpu().numpy()
    return Picture(int(ids[0]), pixels, logits)


def find_positions(ids: tuple[int, ...], data: Dataset) -> list[int]:
    """Where images lie; a data set without them shows the first ones instead."""
    places = {int(one): at for at, one in enumerate(data.ids)}
    others = iter(at for one, at in places.items() if one not in set(ids))
    return [places[one] if one in places else next(others) for one in ids]


def read_pictures(folder: Path, conditions: tuple[str, ...]) -> tuple[Picture, ...]:
    arrays = load_arrays((folder / PICTURES).read_bytes())
    places = sorted({(int(place), int(number)) for place, number, _ in (name.split("/", 2) for name in arrays)})

    def held(place: int, number: int, kind: str) -> dict[str, Any]:
        return {name: arrays[f"{place}/{number}/{kind}/{name}"] for name in conditions}

    return tuple(Picture(at[1], held(*at, "pixels"), held(*at, "logits")) for at in places)
