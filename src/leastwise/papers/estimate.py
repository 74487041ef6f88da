"""How long recipes take on this machine: the passes that are expected of them, times the measured time of one.

Attacks count at most what `cost` says, and images that fall leave most of them early: what is expected is a declared
share of it. The shares and the work besides passes are what the results under `results/lite` took (its evidence counts
passes, its run.json has seconds); `tests/papers/test_estimate.py` holds them to a factor of two.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch

from leastwise.data.registry import SOURCES
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import ReleasedNetwork
from leastwise.models.zoo.registry import build, find_architecture
from leastwise.papers.cost import (
    STEP,
    audit_passes,
    condition_passes,
    count_classes,
    count_images,
    training_passes,
)
from leastwise.papers.jobs import RECORD_IMAGES, RECORD_STEPS, find_followers
from leastwise.papers.recipes import Measured, Recipe, Trained

OVERHEAD = 0.4  # seconds of a task besides its passes: reading, checks, files (measured at smoke scale)
FIRST, MORE = 2, 64  # images of the trial batches; at most the batches of a training, and only where that is quick
QUICK = 0.1  # seconds
MAKING = {"white_background": 0.14}  # seconds to make an image; colours and edges are no pass of a network


@dataclass(frozen=True)
class AttackShare:
    """What is expected of an attack: a share of its most passes, and how much longer each takes than one of PGD."""

    robust: float  # of a network that was trained against attacks
    plain: float  # of any other
    work: float = 1.0


# By the beginning of a condition's name; others do all of their passes. AutoAttack goes on with what survived, about a
# third; most values of c and tau of C&W are never tried; NAttack draws and projects its samples besides asking.
EXPECTED = {
    "autoattack": AttackShare(0.33, 0.03, 1.5),
    "cwinf": AttackShare(0.02, 0.01, 2.0),
    "nattack": AttackShare(1.0, 1.0, 1.5),
}
ALL_OF_IT = AttackShare(1.0, 1.0)


@dataclass(frozen=True)
class Speed:
    """The seconds of a pass of one image, by network and data: timed once each, when first asked for."""

    device: str = "cpu"
    known: dict[tuple[str, tuple[int, int, int], int, int], float] = field(default_factory=dict)

    def seconds(self, recipe: Recipe) -> float:
        """What is expected."""
        return OVERHEAD + making_seconds(recipe) + expect_passes(recipe) * self.of_pass(recipe)

    def most_seconds(self, recipe: Recipe) -> float:
        """If no image leaves an attack before its end."""
        return self.seconds(recipe) + max(0.0, most_work(recipe) - expect_passes(recipe)) * self.of_pass(recipe)

    def of_pass(self, recipe: Recipe) -> float:
        model = recipe if isinstance(recipe, Trained) else recipe.model
        batch = min(MORE, recipe.batch_size) if isinstance(recipe, Trained) else MORE
        at = (model.arch, shape_of(model.arch, recipe.data), SOURCES[recipe.data.name].facts.k, batch)
        if at not in self.known:
            self.known[at] = time_pass(*at[:3], batch=batch, device=self.device)
        return self.known[at]


def count_passes(recipe: Recipe) -> int:
    """Of one task, at most. What is measured after every epoch is part of the training."""
    if isinstance(recipe, Measured):
        return audit_passes(replace(recipe, each_epoch=False))
    followed, _ = find_followers(recipe.scale)
    return training_passes(recipe) + sum(map(audit_passes, followed.get(recipe, ()))) + record_passes(recipe)


def expect_passes(recipe: Recipe) -> float:
    """The same as it is expected, in passes that take as long as one of PGD."""
    return weigh_passes(recipe, expected=True)


def most_work(recipe: Recipe) -> float:
    """At most, in passes that take as long as one of PGD."""
    return weigh_passes(recipe, expected=False)


def weigh_passes(recipe: Recipe, expected: bool) -> float:
    if isinstance(recipe, Trained):
        return float(count_passes(recipe))
    k, norm, robust = count_classes(recipe.data), recipe.threat.norm if recipe.threat else "linf", is_robust(recipe)
    each = 0.0
    for name in recipe.conditions:
        share = next((one for begin, one in EXPECTED.items() if name.startswith(begin)), ALL_OF_IT)
        part = (share.robust if robust else share.plain) if expected else 1.0
        each += part * share.work * condition_passes(name, k, norm)
    return count_images(recipe.data, recipe.split) * each


def is_robust(audit: Measured) -> bool:
    """Whether a network was trained against attacks."""
    if isinstance(audit.model, ReleasedNetwork):
        return not audit.model.weights.startswith("standard")
    return audit.model.threat is not None


def record_passes(t: Trained) -> int:
    """What a training measures of its own images after every epoch, where an exhibit shows it."""
    _, recorded = find_followers(t.scale)
    if t not in recorded:
        return 0
    attacked = len(recorded[t]) * min(RECORD_IMAGES, t.data.per_class or RECORD_IMAGES) if t.threat else 0
    return t.epochs * (count_images(t.data, "train") + attacked * (STEP * RECORD_STEPS + 1))


def making_seconds(recipe: Recipe) -> float:
    """To make the images, where that is no work of a network."""
    each = MAKING.get(str(recipe.data.change[0]), 0.0) if recipe.data.change else 0.0
    return each * count_images(recipe.data, recipe.split if isinstance(recipe, Measured) else "train")


def shape_of(arch: str, data: ImageSet) -> tuple[int, int, int]:
    """The shape of the images that a network gets."""
    found = find_architecture(arch)
    shape = SOURCES[data.name].facts.shape or (found.params.shape if found.params else (3, 224, 224))
    return (3, *shape[1:]) if data.change[:1] == ("coloured",) else shape


def time_pass(arch: str, shape: tuple[int, int, int], k: int, *, batch: int, device: str) -> float:
    """A forward and a backward pass of a batch, after one to warm up; as a forward pass of one image.

    On a processor the time of this process counts where it is less than that of the clock: what others take from it
    now they need not take later.
    """
    model = build(arch, shape, k).to(device)

    def step(images: int) -> float:
        x = torch.zeros(images, *shape, device=device, requires_grad=True)
        begun, spent = time.perf_counter(), time.process_time()
        model(x).logsumexp(dim=1).sum().backward()
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        clock, own = time.perf_counter() - begun, time.process_time() - spent
        return (min(clock, own) if device == "cpu" else clock) / images / STEP

    step(FIRST)
    slow = step(FIRST)
    return slow if slow * FIRST * STEP > QUICK else min(step(batch) for _ in range(3))


def total_seconds(recipes: Iterable[Recipe], speed: Speed) -> float:
    """The seconds of all recipes one after the other."""
    return sum(map(speed.seconds, recipes))
