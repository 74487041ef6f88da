"""What an exhibit needs, as values: networks to train or to fetch, and what to measure on them.

Data sets, architectures, methods and attacks have the names of the command line. Everything is a recipe: frozen,
comparable, with one canonical JSON, so that exhibits which need the same training share it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import ReleasedNetwork

Setting = float | int | str | tuple[float, ...] | tuple[int, ...]
Settings = tuple[tuple[str, Setting], ...]


@dataclass(frozen=True)
class PaperThreat:
    """The radius, and the step and steps of the attack inside a training."""

    recipe_name: ClassVar[str] = "Threat"

    eps: float
    step: float
    steps: int = 10
    norm: str = "linf"


@dataclass(frozen=True)
class Trained:
    """A network by its training. As a need of its own: the class-wise record that the training kept of its epochs."""

    recipe_name: ClassVar[str] = "Trained"

    data: ImageSet
    arch: str
    method: str = "standard"
    settings: Settings = ()  # of the method (beta) or of another part (important-class.weight), sorted by name
    threat: PaperThreat | None = None
    fair: tuple[str, ...] = ()  # how classes are treated differently: names of policies
    average: str = ""  # of the weights
    epochs: int = 100
    batch_size: int = 128
    optimiser: str = "sgd"
    rate: float = 0.1
    schedule: str = "steps"
    drops: tuple[int, ...] = ()  # epochs at which steps divide the rate by ten
    weight_decay: float = 2e-4
    augment: str = "crop-flip"
    extra: str = ""  # pseudo-labelled images that share each batch
    keep: str = "last"  # or "best-test:pgd20": the epoch that a paper chose on its test images
    source: "Trained | None" = None  # the network that its images are made with, or that it starts from
    seed: int = 0
    scale: str = "full"

    @property
    def options(self) -> dict[str, Setting]:
        return dict(self.settings)


@dataclass(frozen=True)
class Measured:
    """An audit of a network: class-wise results under each condition, and what else is kept of it."""

    recipe_name: ClassVar[str] = "Measured"

    model: Trained | ReleasedNetwork
    data: ImageSet
    conditions: tuple[str, ...] = ("clean",)
    threat: PaperThreat | None = None  # the radius and the step; the conditions' names have the steps
    surrogate: Trained | None = None  # where the condition `transfer` crafts
    split: str = "test"
    keep: str = "last"  # what counts is the last step of an attack, as in the code that the papers build on
    each_epoch: bool = False  # measured again after every epoch
    keeps: tuple[str, ...] = ()  # features, logits, images
    scale: str = "full"


@dataclass(frozen=True)
class Absent:
    """What a scale cannot offer; its cells stay empty and say why."""

    recipe_name: ClassVar[str] = "Absent"

    wanted: "Measured | Trained"
    reason: str


Recipe = Measured | Trained


def trainings(recipes: Iterable[Recipe]) -> tuple[Trained, ...]:
    """Every training that the recipes need, each once, sources before what is made with them."""
    found: dict[Trained, None] = {}
    for recipe in recipes:
        for network in networks(recipe):
            if network.source is not None:
                found |= dict.fromkeys(trainings([network.source]))
            found[network] = None
    return tuple(found)


def networks(recipe: Recipe) -> tuple[Trained, ...]:
    if isinstance(recipe, Trained):
        return (recipe,)
    return tuple(one for one in (recipe.surrogate, recipe.model) if isinstance(one, Trained))
