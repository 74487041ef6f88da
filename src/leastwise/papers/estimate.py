"""How long recipes take on this machine: their passes, times the measured time of one."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch

from leastwise.data.registry import SOURCES
from leastwise.jobs.images import ImageSet
from leastwise.models.zoo.registry import build, find_architecture
from leastwise.papers.cost import STEP, audit_passes, count_images, training_passes
from leastwise.papers.jobs import find_followers
from leastwise.papers.recipes import Measured, Recipe, Trained

OVERHEAD = 0.4  # seconds of a task besides its passes: reading, checks, files (measured at smoke scale)
FIRST, MORE = 2, 64  # images of the trial batches; at most the batches of a training, and only where that is quick
QUICK = 0.1  # seconds


@dataclass(frozen=True)
class Speed:
    """The seconds of a pass of one image, by network and data: timed once each, when first asked for."""

    device: str = "cpu"
    known: dict[tuple[str, tuple[int, int, int], int, int], float] = field(default_factory=dict)

    def seconds(self, recipe: Recipe) -> float:
        model = recipe if isinstance(recipe, Trained) else recipe.model
        batch = min(MORE, recipe.batch_size) if isinstance(recipe, Trained) else MORE
        at = (model.arch, shape_of(model.arch, recipe.data), SOURCES[recipe.data.name].facts.k, batch)
        if at not in self.known:
            self.known[at] = time_pass(*at[:3], batch=batch, device=self.device)
        return OVERHEAD + count_passes(recipe) * self.known[at]


def count_passes(recipe: Recipe) -> int:
    """Of one task. What is measured after every epoch is part of the training."""
    if isinstance(recipe, Measured):
        return audit_passes(replace(recipe, each_epoch=False))
    followed, recorded = find_followers(recipe.scale)
    looks = sum(audit_passes(one) for one in followed.get(recipe, ()))
    own = recipe.epochs * count_images(recipe.data, "train") if recipe in recorded else 0
    return training_passes(recipe) + looks + own


def shape_of(arch: str, data: ImageSet) -> tuple[int, int, int]:
    """The shape of the images that a network gets."""
    found = find_architecture(arch)
    shape = SOURCES[data.name].facts.shape or (found.params.shape if found.params else (3, 224, 224))
    return (3, *shape[1:]) if data.change[:1] == ("coloured",) else shape


def time_pass(arch: str, shape: tuple[int, int, int], k: int, *, batch: int, device: str) -> float:
    """A forward and a backward pass of a batch, after one to warm up; as a forward pass of one image."""
    model = build(arch, shape, k).to(device)

    def step(images: int) -> float:
        x = torch.zeros(images, *shape, device=device, requires_grad=True)
        begun = time.perf_counter()
        model(x).logsumexp(dim=1).sum().backward()
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        return (time.perf_counter() - begun) / images / STEP

    step(FIRST)
    slow = step(FIRST)
    return slow if slow * FIRST * STEP > QUICK else min(step(batch) for _ in range(3))


def total_seconds(recipes: Iterable[Recipe], speed: Speed) -> float:
    """The seconds of all recipes one after the other."""
    return sum(map(speed.seconds, recipes))
