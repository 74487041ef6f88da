"""Data sets by name or path."""

import re
from pathlib import Path

from leastwise.data.arrays import read_npy, read_npz, save_npz
from leastwise.data.classes import read_groups
from leastwise.data.dataset import Batch, Dataset, Groups
from leastwise.data.files import Watch, read_folder
from leastwise.data.huggingface import is_huggingface, read_huggingface
from leastwise.data.offers import Source, read_source
from leastwise.data.places import find
from leastwise.data.sources import SOURCES

__all__ = ["DEFAULT", "SOURCES", "Batch", "Dataset", "Groups", "Source", "load", "read_groups", "save_npz"]

DEFAULT = "fashion-mini"
STAND_INS = {
    "test": "val",
    "val": "test",
}  # ImageNet's test labels are secret; its validation set is what people report


def load(spec: str, split: str = "test", watch: Watch = lambda done, total: None) -> Dataset:
    """A data set from `NAME`, `NAME/SPLIT` or a path; `split` is used when the name has none.

    `@SIZE` at the end (`imagenet/val@299`, `photos@64`) resizes image files and cuts out their middle square.
    A path is an `.npz`, an `.npy`, a folder with one sub-folder of images per class, or a Hugging Face data set.
    """
    place, size = sized(spec)
    name, _, named_split = place.partition("/")
    if name in SOURCES:
        return load_known(name, SOURCES[name], named_split, split, size, watch)
    path = Path(place)
    if not path.exists():
        raise ValueError(
            f"there is no data set or file {place!r}: known sets are {', '.join(SOURCES)}; "
            "a path that looks like a name is written ./NAME"
        )
    if path.is_dir():
        return read_huggingface(path, split, size) if is_huggingface(path) else load_folder(path, split, size, watch)
    readers = {".npz": read_npz, ".npy": read_npy}
    if path.suffix not in readers:
        raise ValueError(f"cannot tell how to read {place!r}: give an .npz, an .npy or a folder of images")
    if size is not None:
        raise ValueError(f"{place} holds arrays, and only image files are cut to a size: leave the size out")
    return readers[path.suffix](path)


def sized(spec: str) -> tuple[str, int | None]:
    """`photos@64` is `photos` and 64."""
    match = re.fullmatch(r"(.+)@(\d+)", spec)
    if match is None or Path(spec).exists():
        return spec, None
    if int(match[2]) < 1:
        raise ValueError(f"a size must be 1 pixel or more, but saw {match[2]}")
    return match[1], int(match[2])


def load_known(name: str, source: Source, named: str, wanted: str, size: int | None, watch: Watch) -> Dataset:
    split = named or (wanted if wanted in source.splits else STAND_INS.get(wanted, wanted))
    if split not in source.splits:
        raise ValueError(f"{name} has no split {split!r}: choose {choices(source.splits)}")
    if size is not None and not source.as_files:
        raise ValueError(f"{name} has images of one size, {source.facts.shape}: leave the size out")
    folder = find(source.folders) if source.folders else Path()
    if folder is None:
        raise ValueError(
            f"{name} is not on this machine: run `leastwise data fetch {name}`, or set LEASTWISE_DATA to a folder "
            f"that holds {source.folders[0]}"
        )
    data = read_source(source, folder, split, size, watch)
    source.facts.check(name, split, data)
    return data


def choices(splits: tuple[str, ...]) -> str:
    return " or ".join(splits) if len(splits) < 5 else f"one of {', '.join(splits[:3])} … {splits[-1]}"


def load_folder(path: Path, split: str, size: int | None, watch: Watch) -> Dataset:
    """A folder of class folders; if it has a sub-folder called like the split, that one."""
    inner = [path / name for name in (split, STAND_INS.get(split, split)) if (path / name).is_dir()]
    return read_folder(inner[0] if inner else path, size, watch)
