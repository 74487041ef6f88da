"""From declarations to things: the images and the attacks that a recipe names."""

from leastwise.attacks.base import Attack
from leastwise.attacks.clean import Clean
from leastwise.attacks.corruptions import Corrupted
from leastwise.attacks.naming import Threat
from leastwise.attacks.registry import make_attack
from leastwise.attacks.surrogate import Surrogate, make_surrogate
from leastwise.attacks.threats import L2, Linf
from leastwise.audit.auditor import Conditions
from leastwise.audit.surgery import (
    colour_backgrounds,
    keep_two_classes,
    make_targeted_set,
    match_features,
    remove_class,
    replace_background,
)
from leastwise.data.classes import Groups
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.models.classifier import Classifier
from leastwise.papers.recipes import Images, Measured, made, made_steps
from leastwise.papers.recipes import Threat as Radius

TRANSFER = "transfer"  # the condition that is crafted on a surrogate
BALLS: dict[str, type[Linf] | type[L2]] = {"linf": Linf, "l2": L2}
# Superclasses where the data set has none of its own, so that a small scale goes through the same steps.
GROUPS: dict[str, Groups] = {"fashion-mini": (("shoes and bags", (5, 7, 8, 9)), ("clothes", (0, 1, 2, 3, 4, 6)))}
NO_ATTACK = Radius(0.0, 0.0)


def dataset(
    images: Images, split: str = "test", made_with: Classifier | None = None, seed: int = 0, device: str = "cpu"
) -> Dataset:
    """The images of a recipe; `made_with` is the network that some of them are made with."""
    if images.steps is not None and not made(images):
        raise ValueError(f"only images that are made with a network take steps, but saw {images}")
    data = load(images.name, split)
    if not data.groups and images.name in GROUPS:
        data = data.with_groups(GROUPS[images.name])
    if images.classes:
        data = data.only(list(images.classes))
    if images.per_class is not None:
        data = data.take(images.per_class)
    match images.change:
        case ():
            return data
        case ("removed", int(gone)):
            return remove_class(data, gone)
        case ("binary", int(first), int(second)):
            return keep_two_classes(data, first, second)
        case ("coloured",):
            return colour_backgrounds(data)
        case ("replace_background",):
            return replace_background(data, colour=(1.0,) * data.shape[0])
    if made_with is None:
        raise ValueError(f"images changed by {images.change} are made with a network: give the one to use")
    match images.change:
        case ("matched",):
            return match_features(data, made_with, seed, made_steps(images), device=device)
        case ("targeted_set", "random"):
            return make_targeted_set(data, made_with, seed, steps=made_steps(images), device=device)
    raise ValueError(f"there is no change {images.change} of images: see `leastwise.audit.surgery`")


def ball_of(radius: Radius) -> Linf | L2:
    if radius.norm not in BALLS:
        raise ValueError(f"there is no norm {radius.norm!r} among {', '.join(BALLS)}")
    return BALLS[radius.norm](radius.eps)


def conditions(measured: Measured, crafted_on: Classifier | None = None) -> Conditions:
    """The attacks of a recipe by their names; `crafted_on` is the surrogate of a transfer."""
    if measured.keep not in ("last", "fooled"):
        raise ValueError(f"an attack counts by its last step or by any (fooled), but saw {measured.keep!r}")
    if (measured.surrogate is not None) != (TRANSFER in measured.conditions):
        raise ValueError("a surrogate and the condition transfer need each other: give both or none")
    radius = measured.threat or NO_ATTACK
    ball = ball_of(radius)

    def load(name: str) -> Surrogate:
        if crafted_on is None:
            raise ValueError("a transfer attack is crafted on another network: give the surrogate")
        return make_surrogate(name, crafted_on)

    threat = Threat(ball, radius.step, "last" if measured.keep == "last" else "fooled", load)
    found = tuple((name, make_condition(name, threat)) for name in measured.conditions)
    attacked = [name for name, one in found if not isinstance(one, Clean | Corrupted)]
    if bool(attacked) != (measured.threat is not None):
        raise ValueError(f"attacks need a radius and nothing else does, but saw {measured.threat} for {attacked}")
    return found


def make_condition(name: str, threat: Threat) -> Attack:
    """The attack of that name; `transfer` is crafted on the surrogate of the recipe, which the threat loads."""
    return make_attack(f"{TRANSFER}:standard" if name == TRANSFER else name, threat)
