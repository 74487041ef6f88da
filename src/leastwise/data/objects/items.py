"""What a data set or a loader gives, item by item or batch by batch: which part is the image, and which the label."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from leastwise.core.text import did_you_mean
from leastwise.data.objects.pixels import PixelReader, to_array

IMAGE_KEYS = ("image", "images", "img", "pixel_values", "pixels", "x", "jpg", "png")
LABEL_KEYS = ("label", "labels", "fine_label", "target", "targets", "class", "y", "cls")

Item = tuple[Any, Any]  # an image, or several, and as many labels


def split_item(item: Any) -> Item:
    """Image and label of what a data set gives: a pair, more than a pair, or a mapping with names that say so."""
    if isinstance(item, Mapping):
        return item[find_key(item, IMAGE_KEYS, "image")], item[find_key(item, LABEL_KEYS, "label")]
    if isinstance(item, Sequence) and not isinstance(item, str) and len(item) >= 2:
        return item[0], item[1]
    raise ValueError(
        f"every item of a data set must be an image and its label, but saw {type(item).__name__}: return (image, label)"
    )


def find_key(keys: Any, known: Sequence[str], what: str) -> str:
    """The key, or column, that holds the images or the labels."""
    found = [key for key in known if key in keys]
    if not found:
        raise ValueError(f"no {what} is among {', '.join(map(str, keys))}: call it {known[0]!r}")
    return found[0]


def is_batch(item: Item) -> bool:
    """Whether an item holds several images, with a label each."""
    image, label = item
    if isinstance(image, Image.Image) or isinstance(label, str | int):
        return False
    if isinstance(image, Sequence) and not hasattr(image, "ndim"):
        return bool(len(image)) and (isinstance(image[0], Image.Image) or np.ndim(to_array(image[0])) >= 2)
    return int(getattr(image, "ndim", 0)) == 4 or (
        int(getattr(image, "ndim", 0)) == 3 and np.ndim(to_array(label)) == 1
    )


class Apart(list[Any]):
    """Several items that were not joined to a batch: images may be Pillow's, or labels words."""


@dataclass
class ItemReader:
    """Images as uint8 and labels as numbers, or as words where they are words."""

    pixels: PixelReader
    words: bool | None = None  # whether labels are names of classes; None before the first
    labels: list[Any] = field(default_factory=list)

    def read(self, given: Any) -> Iterator[UInt8[np.ndarray, "m c h w"]]:
        """The images of an item, of a batch, or of several items; their labels are remembered."""
        if isinstance(given, Apart):
            for one in given:
                yield from self.read(one)
            return
        item = split_item(given)
        image, label = item
        if not is_batch(item):
            self.labels.append(self.read_label(label))
            yield self.pixels.read_one(image)
            return
        blocks = [self.pixels.read(image)] if hasattr(image, "ndim") else [self.pixels.read_one(one) for one in image]
        values, n = to_array(label), sum(map(len, blocks))
        if values.shape != (n,):
            raise ValueError(describe_vectors(values.shape, n))
        self.labels.extend(self.read_label(value) for value in values)
        yield from blocks

    def read_label(self, label: Any) -> Any:
        """One label as a plain number or word."""
        value = label if isinstance(label, str) else to_array(label)
        if not isinstance(value, str):
            if value.ndim or value.dtype.kind == "f":
                raise ValueError(describe_vectors(value.shape, 1, str(value.dtype)))
            value = value.item()
        if self.words is not None and self.words != isinstance(value, str):
            raise ValueError(f"labels must be numbers or names, not both, but saw {label!r}: use one of them")
        self.words = isinstance(value, str)
        return value if self.words else int(value)


def describe_vectors(shape: Sequence[int], n: int, kind: str = "") -> str:
    """Why labels that are vectors, or fractions, are refused."""
    seen = f"shape {list(shape)}" + (f" and type {kind}" if kind else "")
    return (
        f"every image needs one label, a whole number from 0, but saw labels of {seen} for {n} "
        f"image{'s' if n > 1 else ''}: for one-hot labels give their argmax, and leave soft labels and several labels "
        "an image out"
    )


def number_labels(labels: Sequence[Any], names: Sequence[str] | None) -> tuple["np.ndarray", list[str] | None]:
    """Labels as numbers, with the names of the classes; words are numbered in the order of the names."""
    known = None if names is None else [str(name) for name in names]
    if not labels or not isinstance(labels[0], str):
        return np.array(labels, dtype=np.int64), known
    known = sorted(set(labels)) if known is None else known
    place = {name: number for number, name in enumerate(known)}
    unknown = sorted({label for label in labels if label not in place})
    if unknown:
        raise ValueError(f"the label {unknown[0]!r} is none of the names: {did_you_mean(unknown[0], known)}")
    return np.array([place[label] for label in labels], dtype=np.int64), known


def follow(given: Any, look: Callable[[Any], Any]) -> Any:
    """What `look` finds first on an object, or on the data set inside it (loaders, subsets, joined data sets)."""
    for one in unwrap(given):
        found = look(one)
        if found is not None:
            return found
    return None


def unwrap(given: Any) -> Iterator[Any]:
    """The object, the data set that it is made from, and so on."""
    seen = 0
    while given is not None and seen < 32:
        yield given
        several = getattr(given, "datasets", None)
        given = several[0] if isinstance(several, list | tuple) and several else getattr(given, "dataset", None)
        seen += 1


def find_names(given: Any) -> list[str] | None:
    """The names of the classes, if the object says them: `classes`, `class_names`, `class_to_idx`."""

    def look(one: Any) -> list[str] | None:
        for name in ("classes", "class_names"):
            held = getattr(one, name, None)
            if isinstance(held, list | tuple) and held and all(isinstance(each, str) for each in held):
                return list(held)
        numbers = getattr(one, "class_to_idx", None)
        return sorted(numbers, key=numbers.__getitem__) if isinstance(numbers, dict) and numbers else None

    found: list[str] | None = follow(given, look)
    return found
