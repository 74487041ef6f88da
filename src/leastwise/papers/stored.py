"""Where results of recipes lie, which are there, and how they are read back.

A folder belongs to a recipe by the key in its claim. Nothing else is asked: neither the data nor the network has to be
on this machine to draw a finished result, and a result of an older version counts as long as its recipe is the same.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from leastwise import __version__
from leastwise.audit.evidence_file import PACKED_FILE, load_evidence
from leastwise.core.counts import Tally
from leastwise.core.files import sha256, write_atomic
from leastwise.core.recipe import recipe_key
from leastwise.insight.features import Moments
from leastwise.jobs.folder import claimed
from leastwise.papers.recipes import Measured, Recipe, Released, Trained, networks
from leastwise.papers.results import Picture, RecipeResult
from leastwise.training.resume import EPOCHS, WEIGHTS

FEATURES = "features.safetensors"  # moments by class, and a plane
PICTURES = "pictures.safetensors"
KEPT = {"features": FEATURES, "logits": PICTURES, "images": PICTURES}
OWN = "own"  # the name of the look at a training's own images
KEY_SHOWN = 8


@dataclass(frozen=True)
class Store:
    """The results of one scale."""

    results: Path
    scale: str

    @property
    def root(self) -> Path:
        return self.results / self.scale

    def folder(self, recipe: Recipe) -> Path:
        kind = "trainings" if isinstance(recipe, Trained) else "audits"
        model = recipe if isinstance(recipe, Trained) else recipe.model
        return self.root / kind / f"{slug(model)}-{recipe_key(recipe)[:KEY_SHOWN]}"

    def claim(self, recipe: Recipe) -> dict[str, Any]:
        """What the claim of its folder says besides the engine's own facts."""
        made_with = {} if isinstance(recipe, Trained) else {"networks": self.digests(recipe)}
        return {"declared": recipe_key(recipe)} | made_with

    def digests(self, recipe: Measured) -> list[str]:
        files = [self.folder(one) / WEIGHTS for one in networks(recipe)]
        return [digest(file) for file in files if file.is_file()]

    def has(self, recipe: Recipe) -> bool:
        """Whether it is finished; an audit of a network that was trained anew since is not."""
        folder, claim = self.folder(recipe), claimed(self.folder(recipe))
        if claim is None or claim.get("declared") != recipe_key(recipe) or not same_major(claim.get("leastwise", "")):
            return False
        if not all((folder / name).is_file() for name in files(recipe)):
            return False
        if isinstance(recipe, Trained):
            return True
        if recipe.each_epoch and not self.each_epoch(recipe):
            return False
        known = self.digests(recipe)
        return not known or known == claim.get("networks")

    def begun(self, recipe: Recipe) -> bool:
        return not self.has(recipe) and claimed(self.folder(recipe)) is not None

    def version(self, recipe: Recipe) -> str:
        """The version of leastwise that made a finished result."""
        return str((claimed(self.folder(recipe)) or {}).get("leastwise", ""))

    def found(self, recipe: Recipe) -> RecipeResult:
        """A finished result."""
        folder = self.folder(recipe)
        if isinstance(recipe, Trained):
            lines = epochs(folder)
            own = tuple(line["looks"][OWN]["clean"] for line in lines if OWN in line.get("looks", {}))
            return RecipeResult(epochs=tuple(map(tally, own)), dynamics=lines)
        moments, plane = features(folder) if "features" in recipe.keeps else (None, None)
        pictures = read_pictures(folder, recipe.conditions) if (folder / PICTURES).is_file() else ()
        evidence = load_evidence(folder)
        if not recipe.each_epoch:
            return RecipeResult(evidence, moments, plane=plane, pictures=pictures)
        looks = self.each_epoch(recipe)
        each = tuple({name: tally(counts) for name, counts in look.items()} for look in looks)
        entropies = tuple({name: mean_entropy(counts) for name, counts in look.items()} for look in looks)
        return RecipeResult(evidence, moments, each=each, entropies=entropies, plane=plane, pictures=pictures)

    def each_epoch(self, recipe: Measured) -> tuple[Mapping[str, Any], ...]:
        """What its training measured for it after every epoch: by condition, counts and mean entropies of the classes.

        Nothing where that was not asked for when it was trained.
        """
        assert isinstance(recipe.model, Trained), "only a training has epochs"
        folder = self.folder(recipe.model)
        lines = epochs(folder) if (folder / EPOCHS).is_file() else ()
        return tuple(line["looks"][recipe_key(recipe)] for line in lines if recipe_key(recipe) in line.get("looks", {}))


def slug(model: Trained | Released) -> str:
    """A few words that tell a reader what it is."""
    if isinstance(model, Released):
        return plain_words("released", model.weights)
    change = "-".join(map(str, model.data.change))
    return plain_words(model.data.name, change, model.arch, model.method, *model.fair)


def plain_words(*words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", "-".join(word for word in words if word).lower()).strip("-")


def files(recipe: Recipe) -> tuple[str, ...]:
    """What a finished result has."""
    if isinstance(recipe, Trained):
        return WEIGHTS, EPOCHS
    if unknown := set(recipe.keeps) - set(KEPT):
        raise ValueError(f"{', '.join(sorted(unknown))} cannot be kept: choose {', '.join(KEPT)}")
    return PACKED_FILE, *dict.fromkeys(KEPT[name] for name in recipe.keeps)


def digest(file: Path) -> str:
    return read_once(file, file.stat().st_mtime_ns)


@cache
def read_once(file: Path, _changed: int) -> str:
    return sha256(file.read_bytes())


def same_major(version: str) -> bool:
    return version.partition(".")[0] == __version__.partition(".")[0]


def epochs(folder: Path) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in (folder / EPOCHS).read_text().splitlines())


def tally(counts: Mapping[str, Any]) -> Tally:
    return Tally(torch.tensor(counts["n"]), torch.tensor(counts["correct"]))


def mean_entropy(counts: Mapping[str, Any]) -> float:
    """Over all images, from the means of the classes; a class without images has none."""
    total = sum(n * mean for n, mean in zip(counts["n"], counts["entropy"], strict=True) if n)
    return float(total / sum(counts["n"]))


def write_features(folder: Path, moments: Moments, plane: "np.ndarray | None") -> None:
    arrays = {"n": moments.n, "centre": moments.centre, "scatter": moments.scatter}
    arrays |= {} if plane is None else {"plane": plane.astype(np.float32)}
    write_atomic(folder / FEATURES, save_arrays({name: np.ascontiguousarray(part) for name, part in arrays.items()}))


def features(folder: Path) -> tuple[Moments, "np.ndarray | None"]:
    arrays = load_arrays((folder / FEATURES).read_bytes())
    plane = arrays.get("plane")
    return Moments(arrays["n"], arrays["centre"], arrays["scatter"]), None if plane is None else plane.astype(float)


def write_pictures(folder: Path, pictures: tuple[Picture, ...]) -> None:
    """Named by place, id, kind and condition."""
    arrays = {
        f"{place}/{one.id}/{kind}/{name}": np.ascontiguousarray(value, dtype=np.float32)
        for place, one in enumerate(pictures)
        for kind, held in (("pixels", one.pixels), ("logits", one.logits))
        for name, value in held.items()
    }
    write_atomic(folder / PICTURES, save_arrays(arrays))


def read_pictures(folder: Path, conditions: tuple[str, ...]) -> tuple[Picture, ...]:
    arrays = load_arrays((folder / PICTURES).read_bytes())
    places = sorted({(int(place), int(number)) for place, number, _ in (name.split("/", 2) for name in arrays)})

    def held(place: int, number: int, kind: str) -> dict[str, Any]:
        return {name: arrays[f"{place}/{number}/{kind}/{name}"] for name in conditions}

    return tuple(Picture(at[1], held(*at, "pixels"), held(*at, "logits")) for at in places)
