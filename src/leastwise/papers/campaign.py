"""All work of a scale in the order in which it is worth its time, so that any free hour makes progress.

What many claims need, and what is cheap, comes first. Several processes may work side by side: each takes the next
piece that is not done and that nobody else has in hand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from leastwise.core.files import is_locked
from leastwise.data.cache import find_folder
from leastwise.data.registry import SOURCES
from leastwise.papers.exhibit import Exhibit
from leastwise.papers.recipes import Measured, Recipe, Trained, list_replicas, trainings
from leastwise.papers.registry import EXHIBITS, keep_roles, list_recipes
from leastwise.papers.stored import PaperStore


@dataclass(frozen=True)
class Stage:
    """Exhibits, or some of their rows, that are done together."""

    about: str
    exhibits: tuple[str, ...]
    rows: tuple[str, ...] = ()  # of all of them, with * for anything; every row if there are none
    replicas: bool = False  # other seeds of what is replicated, in the place of the rows themselves
    slow: bool = False  # of the other seeds also what takes ten minutes or more


SLOW = "autoattack"
# Where claims compare ways of training.
SEEDED = (
    *("tradeoff2022/table4", "tradeoff2022/fig1ab", "tradeoff2022/fig1c", "tradeoff2022/fig2", "tradeoff2022/fig6"),
    *("tradeoff2022/fig7", "tradeoff2022/table3", "tian2021/table4", "tian2021/fig4c"),
    *("benz2021/fig2", "benz2021/fig15", "ahn/table1", "tian2021/table5"),
)
STAGES = (
    Stage("the networks that most exhibits share", ("tradeoff2022/table4", "tradeoff2022/fig1ab", "benz2021/fig2")),
    Stage("a smaller beta for dog, and white backgrounds", ("tian2021/table4", "tian2021/fig6")),
    Stage("coloured digits", ("tian2021/fig5",)),
    Stage("MART and HE", ("tian2021/table1", "tian2021/table3", "tian2021/fig3a", "tian2021/fig3bcd")),
    Stage(
        "digits", ("tian2021/table5", "tian2021/fig1", "tian2021/fig2", "benz2021/fig3", "benz2021/fig7"), ("mnist*",)
    ),
    Stage("one important class", ("benz2021/table1",)),
    Stage("confusions of a hundred classes", ("benz2021/fig13",)),
    Stage("optimisers", ("benz2021/fig6",)),
    Stage("architectures", ("benz2021/fig4",)),
    Stage("fair methods on CIFAR-100", ("ahn/table1", "ahn/fig3", "ahn/fig9")),
    Stage("cat against each other class", ("tradeoff2022/fig5",)),
    Stage("one class attacked in training", ("tradeoff2022/fig4", "tradeoff2022/fig3", "tradeoff2022/fig8")),
    Stage("second and third seeds", SEEDED, replicas=True),
    Stage("homing", ("tian2021/fig4b",)),
    Stage("weights of the divergence", ("tradeoff2022/table2", "tradeoff2022/fig9", "tradeoff2022/table3")),
    Stage("radii of training", ("ahn/fig1", "ahn/fig2abcd", "ahn/fig2efgh")),
    Stage("robust and non-robust features", ("benz2021/fig14",)),
    Stage("Tiny-ImageNet", ("benz2021/fig5",), ("tiny-imagenet*",)),
    Stage("further betas for dog", ("tian2021/fig4c",)),
    Stage("everything else", tuple(EXHIBITS), slow=True),
    Stage("further seeds of everything else", tuple(EXHIBITS), replicas=True, slow=True),
)


def rank_work(scale: str, exhibits: Sequence[Exhibit] = ()) -> tuple[Recipe, ...]:
    """Everything that a scale offers, or what some exhibits need of it, in order of rank: needs first, each once."""
    wanted = {one.id for one in exhibits} or set(EXHIBITS)
    found: dict[Recipe, None] = {}
    for stage in STAGES:
        chosen = tuple(EXHIBITS[name] for name in stage.exhibits if name in wanted)
        some = keep_roles(chosen, stage.rows) if stage.rows and chosen else chosen
        recipes, _ = list_recipes(some, scale)
        if stage.replicas:
            recipes = tuple(other for one in recipes for other in list_replicas(one))
        for recipe in recipes:
            if stage.slow or not stage.replicas or not is_slow(recipe):
                found |= dict.fromkeys((*trainings([recipe]), recipe))
    return tuple(found)


def is_slow(recipe: Recipe) -> bool:
    """Whether it takes ten minutes or more."""
    return isinstance(recipe, Measured) and SLOW in recipe.conditions


def list_open_work(scale: str, store: PaperStore, exhibits: Sequence[Exhibit] = ()) -> Iterator[Recipe]:
    """What is not done, can be done now, and is in nobody's hands, in order of rank, each piece once.

    After each piece the first open one is looked up anew: others may have done or given up something meanwhile.
    """
    ranked = [one for one in rank_work(scale, exhibits) if is_at_hand(one)]
    begun: set[Recipe] = set()
    while True:
        store.store.look_again()
        found = (one for one in ranked if one not in begun and not store.has(one))
        recipe = next((one for one in found if has_needs(one, store) and not is_taken(one, store)), None)
        if recipe is None:
            return
        begun.add(recipe)
        yield recipe


def is_at_hand(recipe: Recipe) -> bool:
    """Whether its images are on this machine, and its network can be trained."""
    folders = SOURCES[recipe.data.name].folders
    trained = isinstance(recipe, Trained) or isinstance(recipe.model, Trained)
    return trained and (not folders or find_folder(folders) is not None)


def has_needs(recipe: Recipe, store: PaperStore) -> bool:
    """Whether the networks that it needs are trained."""
    if isinstance(recipe, Trained):
        return recipe.source is None or store.has(recipe.source)
    return all(store.has(one) for one in trainings([replace(recipe, each_epoch=False)]))


def is_taken(recipe: Recipe, store: PaperStore) -> bool:
    """Whether another process works on it."""
    return is_locked(store.folder(recipe))
