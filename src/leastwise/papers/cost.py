"""What exhibits cost before anything runs: passes of single images, a backward pass counted as two forward ones."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from leastwise.data.registry import SOURCES
from leastwise.papers.exhibit import Exhibit
from leastwise.papers.recipes import Absent, Images, Measured, Recipe, Released, Trained, made_steps, trainings
from leastwise.papers.scales import SCALES

STEP = 3  # a forward and a backward pass
IMAGES = {"imagenet": {"train": 1_281_167, "test": 50_000}}  # what the table of data sets does not count
# Forward and backward passes of the attacks whose name has no number of steps: upper ends of `leastwise list attacks`.
PASSES = {
    "clean": 1,
    "fgsm": STEP + 1,
    "fgsm-rs": STEP + 2,
    "autoattack": 7_000 + 2 * 1_900,
    "cwinf": 5 * 20 * 1_000 * STEP,
    "nattack": 500 * 300,
    "transfer": 20 * STEP + 2,
}


@dataclass(frozen=True)
class Cost:
    trainings: int
    passes: int  # of single images through the networks of this scale

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.trainings + other.trainings, self.passes + other.passes)


def cost(recipes: Iterable[Recipe]) -> Cost:
    """Of all recipes together, each training and each audit once."""
    once = tuple(dict.fromkeys(recipes))
    needed = trainings(once)
    audits = [recipe for recipe in once if isinstance(recipe, Measured)]
    return Cost(len(needed), sum(map(training_passes, needed)) + sum(map(audit_passes, audits)))


def costs(exhibit: Exhibit) -> dict[str, Cost]:
    """Of an exhibit by itself at each scale; what the scale cannot offer costs nothing."""
    found = {}
    for name in SCALES:
        recipes = (one for parts in exhibit(name).values() for one in parts)
        found[name] = cost(one for one in recipes if not isinstance(one, Absent))
    return found


def training_passes(t: Trained) -> int:
    """Each image: the attack's steps, and a step of the network on one or two versions of it; test images to choose."""
    attack = STEP * t.threat.steps if t.threat else 0
    versions = 2 if t.method in ("trades", "me-trades", "mart") else 1
    by = t.keep.partition(":")[2]
    chosen = count(t.data, "test") * (1 + condition_passes(by)) if by else 0
    each = t.epochs * (attack + STEP * versions) + STEP * made_steps(t.data)
    return count(t.data, "train") * each + t.epochs * chosen


def audit_passes(m: Measured) -> int:
    times = m.model.epochs if m.each_epoch and isinstance(m.model, Trained) else 1
    return count(m.data, m.split) * times * sum(map(condition_passes, m.conditions))


def condition_passes(name: str) -> int:
    """At most: examples that are fooled early leave an attack."""
    name = name.partition("[")[0]
    if "+" in name:
        return sum(map(condition_passes, name.split("+")))
    if name.endswith("-grid"):
        return 4 * condition_passes(name.removesuffix("-grid"))
    if steps := re.fullmatch(r"(?:[a-z]*pgd|cw)(\d+)(?:@.*)?", name):
        return STEP * int(steps[1]) + 2
    if queries := re.fullmatch(r"(square|nattack|cwinf):(\d+)", name):
        return int(queries[2]) * {"square": 1, "nattack": 300, "cwinf": 5 * 20 * STEP}[queries[1]]
    if name == "apgd-ce":
        return 100 * STEP + 2
    return PASSES.get(name, 1)  # corruptions: one look


def count(images: Images, split: str) -> int:
    """Images of a data set's split after everything that leaves some out."""
    each = per_class_counts(images.name, split)
    kept = set(images.classes or range(len(each)))
    named = {part for part in images.change if isinstance(part, int)}
    if "binary" in images.change:
        kept &= named
    if "removed" in images.change:
        kept -= named
    most = max(each) if images.per_class is None else images.per_class
    return sum(min(each[c], most) for c in kept)


def per_class_counts(name: str, split: str) -> tuple[int, ...]:
    if name in IMAGES:
        return (IMAGES[name][split] // 1000,) * 1000
    facts = SOURCES[name].facts
    found = facts.per_class.get(split) or facts.per_class["val"]
    assert found is not None, f"the images of {name} are not counted"
    return (found,) * facts.k if isinstance(found, int) else found


def released(recipes: Iterable[Recipe]) -> tuple[Released, ...]:
    """Networks that have to be fetched, each once."""
    models = (recipe.model for recipe in recipes if isinstance(recipe, Measured))
    return tuple(dict.fromkeys(model for model in models if isinstance(model, Released)))
