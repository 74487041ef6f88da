"""What an audit keeps besides its evidence: moments of the features, and single images with their logits."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from leastwise.audit.auditor import Auditor
from leastwise.core.files import write_atomic
from leastwise.data.dataset import Dataset
from leastwise.insight.features import Moments, measure_moments, own_plane, principal_plane, project_images
from leastwise.models.classifier import inference

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
