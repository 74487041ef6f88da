"""Data sets by name or path."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from leastwise.data.arrays import read_npz
from leastwise.data.dataset import Batch, Dataset

__all__ = ["DEFAULT", "SOURCES", "Batch", "Dataset", "Source", "load"]

EMBEDDED = Path(__file__).parent / "fashion_mini.npz"
DEFAULT = "fashion-mini"


class Source(NamedTuple):
    """A known data set: its splits, how to read one, and what it is."""

    splits: tuple[str, ...]
    read: Callable[[str], Dataset]
    about: str


SOURCES: dict[str, Source] = {
    "fashion-mini": Source(
        ("train", "test"),
        lambda split: read_npz(EMBEDDED, prefix=f"{split}_"),
        "the first 600 training and 200 test images of each Fashion-MNIST class, inside the package",
    ),
}


def load(spec: str, split: str = "test") -> Dataset:
    """A data set from `NAME`, `NAME/SPLIT` or a path; `split` is used when the name has none."""
    name, _, named_split = spec.partition("/")
    if name in SOURCES:
        source, split = SOURCES[name], named_split or split
        if split not in source.splits:
            raise ValueError(f"{name} has no split {split!r}: choose {' or '.join(source.splits)}")
        return source.read(split)
    path = Path(spec)
    if not path.exists():
        raise ValueError(
            f"there is no data set or file {spec!r}: known sets are {', '.join(SOURCES)}; "
            "a path that looks like a name is written ./NAME"
        )
    if path.suffix != ".npz":
        raise ValueError(f"cannot tell how to read {spec!r}: give an .npz file with images and labels")
    return read_npz(path)
