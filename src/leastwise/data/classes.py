"""Class names and superclasses of the known data sets, and groups from a user's file."""

from collections.abc import Sequence
from pathlib import Path

Groups = tuple[tuple[str, tuple[int, ...]], ...]  # superclasses: a name and its classes

DIGITS = tuple("0123456789")
FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
STL10 = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")

# Tian et al. (KDD 2021), Table 2.
CIFAR10_GROUPS: Groups = (("transportation", (0, 1, 8, 9)), ("animals", (2, 3, 4, 5, 6, 7)))
STL10_GROUPS: Groups = (("transportation", (0, 2, 8, 9)), ("animals", (1, 3, 4, 5, 6, 7)))

# CIFAR-100: each superclass with its five classes. Sorted, the class names are the official order.
CIFAR100_TABLE: dict[str, str] = {
    "aquatic mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food containers": "bottle bowl can cup plate",
    "fruit and vegetables": "apple mushroom orange pear sweet_pepper",
    "household electrical devices": "clock keyboard lamp telephone television",
    "household furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large carnivores": "bear leopard lion tiger wolf",
    "large man-made outdoor things": "bridge castle house road skyscraper",
    "large natural outdoor scenes": "cloud forest mountain plain sea",
    "large omnivores and herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium-sized mammals": "fox porcupine possum raccoon skunk",
    "non-insect invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles 1": "bicycle bus motorcycle pickup_truck train",
    "vehicles 2": "lawn_mower rocket streetcar tank tractor",
}
CIFAR100 = tuple(sorted(name for row in CIFAR100_TABLE.values() for name in row.split()))
CIFAR100_GROUPS: Groups = tuple(
    (group, tuple(CIFAR100.index(name) for name in row.split())) for group, row in CIFAR100_TABLE.items()
)


def read_groups(path: Path, names: Sequence[str]) -> Groups:
    """A line `group: class, class, …` for each superclass; classes by name or index, `#` begins a comment."""
    groups: list[tuple[str, tuple[int, ...]]] = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        group, colon, members = line.partition(":")
        if not (colon and group.strip() and members.strip()):
            raise ValueError(f"{path}, line {number}: write `group: class, class, …`, but saw {line!r}")
        if group.strip() in dict(groups):
            raise ValueError(f"{path}, line {number}: the group {group.strip()!r} was there before: write it once")
        groups.append((group.strip(), tuple(class_index(word.strip(), names, path) for word in members.split(","))))
    if not groups:
        raise ValueError(f"{path} names no group: write a line `group: class, class, …` for each")
    return tuple(groups)


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, with or without a byte-order mark."""
    try:
        return path.read_text("utf-8-sig")  # some editors put a mark before the first letter
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8: save it as UTF-8") from None


def class_index(word: str, names: Sequence[str], path: Path) -> int:
    """The number of a class that a line of a file names by name or number."""
    if word in names:
        return list(names).index(word)
    if word.isdecimal() and int(word) < len(names):
        return int(word)
    raise ValueError(f"{path} names a class {word!r} that the data does not have: its classes are {', '.join(names)}")
