"""What exhibits cost before anything runs: passes of single images, a backward pass counted as two forward ones."""

from collections.abc import Iterable
from dataclasses import dataclass

from leastwise.attacks.naming import Threat
from leastwise.data.registry import SOURCES
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import ReleasedNetwork
from leastwise.papers.exhibit import Exhibit
from leastwise.papers.jobs import BALLS, make_condition, stand_in
from leastwise.papers.recipes import Absent, Measured, Recipe, Trained, trainings
from leastwise.papers.scales import SCALES

STEP = 3  # a forward and a backward pass
ONE_CLASS = "single-class-at"
IMAGES = {"imagenet": {"train": 1_281_167, "test": 50_000}}  # what the table of data sets does not count


@dataclass(frozen=True)
class Cost:
    """What recipes take, counted before they run."""

    trainings: int
    passes: int  # of single images through the networks of this scale

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.trainings + other.trainings, self.passes + other.passes)


def total_cost(recipes: Iterable[Recipe]) -> Cost:
    """Of all recipes together, each training and each audit once."""
    once = tuple(dict.fromkeys(recipes))
    needed = trainings(once)
    audits = [recipe for recipe in once if isinstance(recipe, Measured)]
    return Cost(len(needed), sum(map(training_passes, needed)) + sum(map(audit_passes, audits)))


def costs_by_scale(exhibit: Exhibit) -> dict[str, Cost]:
    """Of an exhibit by itself at each scale; what the scale cannot offer costs nothing."""
    found = {}
    for name in SCALES:
        recipes = (one for parts in exhibit(name).values() for one in parts)
        found[name] = total_cost(one for one in recipes if not isinstance(one, Absent))
    return found


def training_passes(t: Trained) -> int:
    """Each image: the attack's steps, and a step of the network on one or two versions of it; test images to choose."""
    attacked = 1 / count_classes(t.data) if t.method == ONE_CLASS else 1  # the others are trained on as they are
    attack = round(attacked * STEP * t.threat.steps) if t.threat else 0
    versions = 2 if t.method in ("trades", "me-trades", "mart") else 1
    by = t.keep.partition(":")[2]
    norm = t.threat.norm if t.threat else "linf"
    chosen = count_images(t.data, "test") * (1 + condition_passes(by, count_classes(t.data), norm)) if by else 0
    each = t.epochs * (attack + STEP * versions) + STEP * t.data.search_steps
    return count_images(t.data, "train") * each + t.epochs * chosen


def audit_passes(m: Measured) -> int:
    """Every condition on every image, after every epoch if so asked."""
    times = m.model.epochs if m.each_epoch and isinstance(m.model, Trained) else 1
    k, norm = count_classes(m.data), m.threat.norm if m.threat else "linf"
    return count_images(m.data, m.split) * times * sum(condition_passes(name, k, norm) for name in m.conditions)


def condition_passes(name: str, k: int, norm: str = "linf") -> int:
    """At most, for an image of k classes: images that are fooled early leave an attack. Unknown names are refused."""
    passes = make_condition(name, Threat(BALLS[norm](1.0), 1.0, load=stand_in)).cost(k)
    if passes is None:
        raise ValueError(f"nobody knows what {name} costs: its class should say so in `cost`")
    return passes.forwards + (STEP - 1) * passes.backwards


def count_images(images: ImageSet, split: str) -> int:
    """Images of a data set's split after everything that leaves some out."""
    each = per_class_counts(images.name, split)
    most = max(each) if images.per_class is None else images.per_class
    return sum(min(each[c], most) for c in kept_classes(images))


def count_classes(images: ImageSet) -> int:
    """Classes that a network for these images tells apart."""
    return len(kept_classes(images))


def kept_classes(images: ImageSet) -> set[int]:
    """The classes that are left of a data set's."""
    k = 1000 if images.name in IMAGES else SOURCES[images.name].facts.k
    kept = set(images.classes or range(k))
    named = {part for part in images.change if isinstance(part, int)}
    if "binary" in images.change:
        kept &= named
    if "removed" in images.change:
        kept -= named
    return kept


def per_class_counts(name: str, split: str) -> tuple[int, ...]:
    """The images of each class in a data set's split."""
    if name in IMAGES:
        return (IMAGES[name][split] // 1000,) * 1000
    facts = SOURCES[name].facts
    found = facts.per_class.get(split) or facts.per_class["val"]
    assert found is not None, f"the images of {name} are not counted"
    return (found,) * facts.k if isinstance(found, int) else found


def find_released(recipes: Iterable[Recipe]) -> tuple[ReleasedNetwork, ...]:
    """Networks that have to be fetched, each once."""
    models = (recipe.model for recipe in recipes if isinstance(recipe, Measured))
    return tuple(dict.fromkeys(model for model in models if isinstance(model, ReleasedNetwork)))
