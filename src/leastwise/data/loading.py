"""Data sets by name or path."""

import re
from pathlib import Path

import numpy as np

from leastwise.core.progress import ProgressCallback, ignore_progress
from leastwise.data.cache import describe_missing, find_folder
from leastwise.data.dataset import Dataset
from leastwise.data.readers.arrays import read_npy, read_npz
from leastwise.data.readers.huggingface import is_huggingface, read_huggingface
from leastwise.data.readers.image_folder import list_folders, list_images, read_folder
from leastwise.data.registry import SOURCES
from leastwise.data.source import KnownFacts, Source, check_part, drop_counts, read_part, suggest_part

DEFAULT = "fashion-mini"
# ImageNet's test labels are secret; its validation set is what people report.
STAND_INS = {"test": "val", "val": "test"}
HELD_OUT = ("test", "val", "validation", "valid", "dev")  # what folders call it
LARGEST_SIZE = 4096  # pixels; a float batch of 50 would be 10 GB


def load(spec: str, split: str = "test", watch: ProgressCallback = ignore_progress) -> Dataset:
    """A data set from `NAME`, `NAME/SPLIT` or a path; `split` is used when the name has none.

    `@SIZE` at the end (`imagenet/val@299`, `photos@64`) resizes image files and cuts out their middle square.
    A path is an `.npz`, an `.npy`, a folder with one sub-folder of images per class, or a Hugging Face data set.
    """
    if not spec.strip():
        raise ValueError("the name or path of the data set is empty: for the folder you are in, write .")
    place, size = parse_size(spec)
    name, _, named_split = place.partition("/")
    if name in SOURCES:
        return load_known(name, SOURCES[name], named_split, wanted=split, size=size, watch=watch)
    path = Path(place)
    if not path.exists():
        raise ValueError(
            f"there is no data set or file {place!r}: known sets are {', '.join(SOURCES)}; "
            "a path that looks like a name is written ./NAME"
        )
    if path.is_dir():
        return (
            read_huggingface(path, split, size) if is_huggingface(path) else load_folder(path, split, size, watch=watch)
        )
    readers = {".npz": read_npz, ".npy": read_npy}
    if path.suffix not in readers:
        raise ValueError(f"cannot tell how to read {place!r}: give an .npz, an .npy or a folder of images")
    if size is not None:
        raise ValueError(f"{place} holds arrays, and only image files are cut to a size: leave the size out")
    return readers[path.suffix](path)


def parse_size(spec: str) -> tuple[str, int | None]:
    """`photos@64` is `photos` and 64."""
    match = re.fullmatch(r"(.+)@(\d+)", spec)
    if match is None or Path(spec).exists():
        return spec, None
    if int(match[2]) < 1:
        raise ValueError(f"a size must be 1 pixel or more, but saw {match[2]}")
    if len(match[2]) > 9 or int(match[2]) > LARGEST_SIZE:
        raise ValueError(f"a size may be {LARGEST_SIZE} pixels at most, but saw {match[2][:20]}")
    return match[1], int(match[2])


def with_size(data: str, size: int) -> str:
    """`--size 64` is short for DATA@64."""
    if size < 0:
        raise ValueError(f"the size must be 1 pixel or more, but saw {size}")
    return f"{data}@{size}" if size else data


def load_known(
    name: str, source: Source, named: str, *, wanted: str, size: int | None, watch: ProgressCallback
) -> Dataset:
    """A split of a data set that has a name, checked against what is known of it."""
    split = named or (wanted if wanted in source.splits else STAND_INS.get(wanted, wanted))
    if split not in source.splits:
        raise ValueError(f"{name} has no split {split!r}: choose {list_splits(source.splits)}")
    if size is not None and not source.as_files:
        raise ValueError(f"{name} has images of one size, {source.facts.shape}: leave the size out")
    folder = find_folder(source.folders) if source.folders else Path()
    if folder is None:
        raise ValueError(describe_missing(name, source.folders))
    part = read_part(folder, source.splits, split) if source.folders else None
    data = read_source(source, folder, split, size=size, watch=watch)
    if part is None:
        hint = suggest_part(source.facts, split, folder, data=data) if source.folders else ""
        check_facts(source.facts, name, split, data=data, hint=hint)
        return data
    check_facts(drop_counts(source.facts, split), name, split, data=data)
    return check_part(part, source.facts, split, name=name, data=data)


def list_splits(splits: tuple[str, ...]) -> str:
    """The splits of a data set in words, not all of them if there are many."""
    return " or ".join(splits) if len(splits) < 5 else f"one of {', '.join(splits[:3])} … {splits[-1]}"


def load_folder(path: Path, split: str, size: int | None, *, watch: ProgressCallback) -> Dataset:
    """A folder of class folders, or of splits that hold them."""
    wanted = (split, *HELD_OUT) if split in HELD_OUT else (split,)
    splits = split_folders(path, {"train", *HELD_OUT, split})
    if splits is None:
        return read_folder(path, size, watch)
    found = [splits[name] for name in wanted if name in splits]
    if not found:
        raise ValueError(
            f"{path} holds {' and '.join(splits) or 'no class folders'}, but the split {split!r} is wanted: "
            f"put a folder for each class into {path / split}"
        )
    return read_folder(found[0], size, watch)


def split_folders(path: Path, names: set[str]) -> dict[str, Path] | None:
    """The sub-folders that are splits, or nothing if the sub-folders are classes.

    A split has class folders inside. One alone beside folders with images is a class that is called like a split.
    """
    named = [inner for inner in list_folders(path) if inner.name in names]
    others = [inner for inner in list_folders(path) if inner.name not in names]
    splits = {inner.name: inner for inner in named if list_folders(inner)}
    if named and not others:
        return splits
    return splits if len(splits) > 1 or (splits and not any(map(list_images, others))) else None


def check_facts(facts: KnownFacts, name: str, split: str, *, data: Dataset, hint: str = "") -> None:
    """Refuse a data set that is not what is known of it; `hint` is what may be done besides fetching it again."""
    wrong = []
    if data.k != facts.k:
        wrong.append(f"{facts.k} classes are known, but it has {data.k}")
    if facts.shape is not None and data.shape != facts.shape:
        wrong.append(f"images of shape {facts.shape} are known, but they have {data.shape}")
    expected = facts.per_class.get(split)
    if (
        expected is not None
        and data.k == facts.k
        and not np.array_equal(data.counts, np.broadcast_to(expected, facts.k))
    ):
        known = expected if isinstance(expected, int) else sum(expected)
        of = "of each class" if isinstance(expected, int) else "in all"
        wrong.append(f"{known:,} images {of} are known, but it has {len(data):,} ({data.counts.tolist()[:10]} …)")
    first = facts.first_labels.get(split, ())
    if tuple(data.labels[: len(first)].tolist()) != first:
        wrong.append(f"its labels begin {data.labels[: len(first)].tolist()} instead of {list(first)}")
    if wrong:
        raise ValueError(
            f"{name}/{split} is not the data set it is known as: {'; '.join(wrong)}; "
            f"fetch it again with `leastwise data fetch {name} --fresh`{hint}"
        )


def read_source(source: Source, folder: Path, split: str, *, size: int | None, watch: ProgressCallback) -> Dataset:
    """A split of a known data set out of its folder; sets of image files take a size and tell their progress."""
    if source.as_files:
        return source.read(folder, split, size, watch=watch)
    return source.read(folder, split)
