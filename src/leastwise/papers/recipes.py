"""What an exhibit needs, as values: networks to train or to fetch, and what to measure on them.

Data sets, architectures, methods and attacks have the names of the command line. Everything is a recipe: frozen,
comparable, with one canonical JSON, so that exhibits which need the same training share it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
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


SEEDS = (1, 2)  # beside the 0 of every declaration
# Ways of training that claims compare with each other, by method and fair policies, on the data that most of them use.
REPLICATED = {
    ("standard", ()),
    ("pgd-at", ()),
    ("trades", ()),
    ("me-at", ()),
    ("me-trades", ()),
}
DATA, ARCHS = "cifar10", ("resnet18", "resnet9", "small", "small-cnn", "wrn-34-10")
# On other data a few trainings tell how far seeds lie apart; that is the yardstick of all comparisons there.
YARDSTICKS = {("pgd-at", ()), ("trades", ())}
RADII = (8 / 255, 0.3)
# Under these only networks are compared with themselves, and images are the sample.
ONE_SEED = ("cwinf", "nattack", "transfer")
NOT_REPLICATED = (1.0, 9.0, 12.0, 18.0, 24.0)  # lambdas of which one seed is enough: they are points of a curve


def is_replicated(t: Trained) -> bool:
    """Whether claims want further seeds of a training."""
    plain = not t.data.change and t.arch in ARCHS and t.seed == 0 and t.source is None and "idbh" not in t.augment
    usual = t.threat is None or any(abs(t.threat.eps - eps) < 0.001 for eps in RADII)
    lam = t.options.get("beta")
    ordinary = t.optimiser == "sgd" and t.schedule in ("steps", "one-cycle") and t.weight_decay >= 1e-4
    return (
        plain
        and usual
        and ordinary
        and (t.method, t.fair) in (REPLICATED if t.data.name == DATA else YARDSTICKS)
        and not isinstance(lam, tuple)
        and lam not in NOT_REPLICATED
        and not (t.method == "trades" and lam == 15.0)
    )


def with_seed(recipe: Recipe, seed: int) -> Recipe:
    """The same of another seed. What is measured after every epoch is measured at the end only.

    Single images are shown of the declared seed: of others none are kept, and asking for them was never fulfilled.
    """
    if isinstance(recipe, Trained):
        return replace(recipe, seed=seed)
    assert isinstance(recipe.model, Trained), "others' networks have one seed"
    kept = tuple(one for one in recipe.keeps if one == "features")
    return replace(recipe, model=replace(recipe.model, seed=seed), each_epoch=False, keeps=kept)


def list_replicas(recipe: Recipe) -> tuple[Recipe, ...]:
    """The other seeds of a recipe; none where one is enough. A record of a training is not replicated."""
    if not isinstance(recipe, Measured) or not isinstance(recipe.model, Trained) or recipe.surrogate is not None:
        return ()
    if all(name.startswith(ONE_SEED) for name in recipe.conditions):
        return ()
    return tuple(with_seed(recipe, seed) for seed in SEEDS) if is_replicated(recipe.model) else ()
