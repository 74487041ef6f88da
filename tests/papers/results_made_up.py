"""Results that no network made, for every recipe of the papers: enough of everything that a page can show."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from leastwise.audit.evidence import Evidence
from leastwise.core.counts import Tally
from leastwise.data.classes import CIFAR10, CIFAR10_GROUPS, CIFAR100, CIFAR100_GROUPS, DIGITS, FASHION, STL10
from leastwise.insight.features import Moments
from leastwise.jobs.images import ImageSet, Picture
from leastwise.papers.jobs import GROUPS
from leastwise.papers.recipes import Measured, Recipe, Trained
from leastwise.papers.results import RecipeResult
from tests.insight.evidence_of_logits import evidence_of

NAMES = {
    "mnist": DIGITS,
    "svhn": DIGITS,
    "cifar10": CIFAR10,
    "stl10": STL10,
    "fashion-mini": FASHION,
    "cifar100": CIFAR100,
    "tiny-imagenet": tuple(f"n{c:03d}" for c in range(200)),
    "imagenet": tuple(f"kind {c}" for c in range(60)),  # fewer than there are: enough to be many
}
SUPERCLASSES = {"cifar10": CIFAR10_GROUPS, "cifar100": CIFAR100_GROUPS, **GROUPS}
TEMPERATURES = (2.0, 5.0, 10.0, 50.0)
EPOCHS = 6


def names_of(images: ImageSet) -> tuple[str, ...]:
    names = NAMES[images.name]
    match images.change:
        case ("removed", int(gone)):
            return tuple(name for c, name in enumerate(names) if c != gone)
        case ("binary", int(a), int(b)):
            return names[a], names[b]
    return names


def found(recipe: Recipe, each: int = 10) -> RecipeResult:
    """Accuracies that fall from class to class, alike for all networks of a data set but for chance."""
    rng = np.random.default_rng(zlib.crc32(repr(recipe).encode()))
    return of_training(recipe, rng) if isinstance(recipe, Trained) else of_audit(recipe, rng, each)


def of_training(recipe: Trained, rng: np.random.Generator) -> RecipeResult:
    k = len(names_of(recipe.data))
    n = torch.full((k,), 50)
    level = torch.from_numpy(chance(k))
    risen = [torch.from_numpy(rng.uniform(0.9, 1.0, k)) * level * e / EPOCHS for e in range(1, EPOCHS + 1)]
    clean = tuple(Tally(n, (n * p).long()) for p in risen)
    robust = tuple(Tally(n, (0.6 * tally.correct).long()) for tally in clean) if recipe.threat else ()
    return RecipeResult(epochs=clean, robust_epochs=robust)


def chance(k: int) -> np.ndarray:
    """Of a right answer: worst in the middle, so that no order of classes looks like it."""
    return np.linspace(0.95, 0.35, k)[np.random.default_rng(k).permutation(k)]


def of_audit(recipe: Measured, rng: np.random.Generator, each: int) -> RecipeResult:
    names, whole = names_of(recipe.data), NAMES[recipe.data.name]
    k = len(names)
    kept = [c for c, name in enumerate(whole) if name in names and c in (recipe.data.classes or range(len(whole)))]
    labels = np.repeat([names.index(whole[c]) for c in kept], each)
    ids = np.concatenate([np.arange(each) + each * c for c in kept])
    luck = np.random.default_rng(7).random(each * len(whole))[ids] + 0.1 * rng.random(len(ids))
    level = chance(len(whole))[[whole.index(names[y]) for y in labels]]
    logits = {}
    for number, condition in enumerate(recipe.conditions):
        right = luck < level * (1.0 if condition == "clean" else 0.75 - 0.04 * number)
        predicted = np.where(right, labels, (labels + rng.integers(1, min(4, k), len(labels))) % k)
        logits[condition] = 3 * np.eye(k)[predicted] + 0.3 * rng.normal(size=(len(labels), k))
    groups = SUPERCLASSES.get(recipe.data.name, ()) if not recipe.data.change or k == len(whole) else ()
    if recipe.data.change == ("coloured",):
        groups = (("on red", tuple(range(5))), ("on blue", tuple(range(5, 10))))
    evidence = with_recipe(evidence_of(logits, labels, names=names, groups=groups, ids=ids))
    moments = plane = None
    if "features" in recipe.keeps:
        features = np.abs(rng.normal(size=(len(labels), 6)) + rng.normal(size=(k, 6))[labels])
        moments, plane = Moments.of(features, labels, k), features[:, :2]
    tallies = [{name: some_of(evidence.tally(name), e) for name in recipe.conditions} for e in range(1, EPOCHS + 1)]
    shown = tuple(picture(i, recipe, k, rng) for i in (127, 3634)) if {"images", "logits"} & set(recipe.keeps) else ()
    return RecipeResult(
        evidence,
        moments,
        each=tuple(tallies) if recipe.each_epoch else (),
        entropies=tuple(dict.fromkeys(recipe.conditions, 2.0 - 0.1 * e) for e in range(EPOCHS))
        if recipe.each_epoch
        else (),
        plane=plane,
        pictures=shown,
    )


def with_recipe(evidence: Evidence) -> Evidence:
    """Grids of Temperature-PGD know their members, as an audit's do; each member fools all that the grid does."""
    attacks: list[tuple[str, Mapping[str, Any]]] = []
    conditions = dict(evidence.conditions)
    for name, record in evidence.conditions.items():
        if not name.endswith("-grid"):
            attacks.append((name, {"type": "PGD"}))
            continue
        members = [{"type": "PGD", "goal": {"type": "CE", "inverse_temperature": t}} for t in TEMPERATURES]
        attacks.append((name, {"type": "Grid", "members": members}))
        fooled = (~evidence.correct(name)).astype(np.int32)
        conditions[name] = replace(record, each=fooled * (2 ** len(members) - 1))
    recipe = {"model": "made", "data": "made", "conditions": attacks}
    return replace(evidence, conditions=conditions, recipe=json.dumps(recipe))


def some_of(tally: Tally, epoch: int) -> Tally:
    return Tally(tally.n, (tally.correct * epoch / EPOCHS).long())


def picture(number: int, recipe: Measured, k: int, rng: np.random.Generator) -> Picture:
    pixels = {name: rng.random((3, 8, 8)) for name in recipe.conditions}
    return Picture(number, pixels, {name: 2 * rng.normal(size=k) for name in recipe.conditions})
