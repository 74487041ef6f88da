"""A labelled set of images whose examples keep their ids through every subset.

`images` is anything that gives uint8 arrays by row numbers (an array, a memory map, a reader that
decodes files); a subset only changes which rows are looked at, so memory stays flat.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, UInt8

from leastwise.core.files import sha256
from leastwise.core.noise import random_order
from leastwise.core.text import escape_unprintable
from leastwise.core.types import Images, Labels
from leastwise.data.classes import Groups

UNNAMED_CLASSES = 1000  # without names, that many are believed whatever the number of images
HASH_BLOCK = 1 << 24  # bytes hashed at a time, about
MANY_COPIES, MOST_HASHED = 0.01, 1 << 31  # of the images are told of; bytes of pixels up to which copies are looked for


@runtime_checkable
class ImageRows(Protocol):
    """Where pixels come from: `source[rows]` is uint8 `[n c h w]`. A numpy array is one."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __getitem__(self, rows: Int[np.ndarray, " n"], /) -> UInt8[np.ndarray, "n c h w"]: ...


@runtime_checkable
class Fingerprinted(Protocol):
    """Rows that know a digest of their content without decoding it, such as files whose bytes were hashed.

    `read_again` has the digests of what is there now; where that is too much to be read, `describe_unread` says so.
    """

    def fingerprint(self, rows: Int[np.ndarray, " n"], /) -> bytes: ...
    def read_again(self, rows: Int[np.ndarray, " n"], /) -> "Fingerprinted": ...
    def describe_unread(self, rows: Int[np.ndarray, " n"], /) -> str: ...


SKIPPED = "skipped "  # begins the note on files that could not be read
IS_PART = " is a declared part: "  # in the note of every data set that is one


class Batch(NamedTuple):
    """Pixels in [0, 1], labels and ids of some examples."""

    x: Images
    y: Labels
    ids: Labels


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Images, labels and stable ids. Unbalanced sets and classes without examples are normal."""

    images: ImageRows
    labels: Int[np.ndarray, " n"]
    names: tuple[str, ...]
    ids: Int[np.ndarray, " n"]
    rows: Int[np.ndarray, " n"]
    groups: Groups = ()
    notes: tuple[str, ...] = ()  # what the reader of these files should know: what was skipped or converted

    @classmethod
    def of(
        cls,
        images: ImageRows,
        labels: np.ndarray,
        names: Sequence[str] | None = None,
        *,
        ids: np.ndarray | None = None,
    ) -> "Dataset":
        """Check and assemble. Without names the classes are "0", "1", …; without ids, row numbers."""
        labels = np.asarray(labels)
        if len(images.shape) != 4:
            raise ValueError(f"images need the shape [n, channels, height, width], but saw {list(images.shape)}")
        if getattr(images, "dtype", np.uint8) != np.uint8:
            raise ValueError(
                f"images need the type uint8 (0 to 255), but saw {getattr(images, 'dtype', None)}: "
                "for floats in [0, 1], multiply by 255 and round"
            )
        if min(images.shape[1:]) < 1:
            raise ValueError(f"images need at least one pixel and one channel, but saw the shape {list(images.shape)}")
        if images.shape[1] not in (1, 3) and images.shape[3] in (2, 4):  # [n h w 4], not images four pixels wide
            raise ValueError(
                f"images of the shape {list(images.shape)} seem to have an alpha channel at the end: drop it, and give "
                "[n, channels, height, width]"
            )
        if labels.dtype.kind not in "iu":
            raise ValueError(f"labels need an integer type, but saw {labels.dtype}: convert them to int64")
        if labels.shape != (images.shape[0],):
            raise ValueError(f"every image needs one label, but saw {images.shape[0]} images and labels {labels.shape}")
        if len(labels) == 0:
            raise ValueError("a data set needs at least one image, but saw none")
        labels = labels.astype(np.int64)
        if names is None:
            if labels.max() >= max(UNNAMED_CLASSES, len(labels)):
                raise ValueError(
                    f"{len(labels)} images without class names have labels up to {labels.max()}: renumber them from 0, "
                    "or give the name of every class"
                )
            names = [str(c) for c in range(int(labels.max(initial=-1)) + 1)]
        names = tuple(escape_unprintable(str(name)) for name in names)
        if len(set(names)) != len(names):
            raise ValueError(f"every class needs its own name, but saw {', '.join(names)}")
        check_labels(labels, len(names))
        rows = np.arange(len(labels), dtype=np.int64)
        ids = rows if ids is None else np.asarray(ids)
        if ids.dtype.kind not in "iu":
            raise ValueError(f"ids need an integer type, but saw {ids.dtype}: convert them to int64")
        ids = ids.astype(np.int64)
        if ids.shape != labels.shape or len(np.unique(ids)) != len(ids):
            raise ValueError(
                f"every image needs its own id, but saw {len(np.unique(ids))} ids for {len(labels)} images"
            )
        return cls(images, labels, names, ids, rows)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        counts = sorted(set(self.counts.tolist()))
        each = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        shown = ", ".join(self.names[:3]) + (", …" if self.k > 3 else "")
        said = f"Dataset of {len(self):,} images of {'x'.join(map(str, self.shape))}, {self.k} classes with {each} each"
        return "\n".join([f"{said}: {shown}", *(f"  {note}" for note in self.notes[:8])])

    @property
    def k(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, c, h, w = self.images.shape
        return c, h, w

    @property
    def counts(self) -> Int[np.ndarray, " k"]:
        """Examples per class."""
        return np.bincount(self.labels, minlength=self.k)

    def only(self, classes: Sequence[int | str]) -> "Dataset":
        """The examples of some classes, by index or name. The other classes stay in `names`, empty."""
        return self.where(np.isin(self.labels, [self.index(c) for c in classes]))

    def without(self, cls: int | str) -> "Dataset":
        """Everything but one class."""
        return self.where(self.labels != self.index(cls))

    def keep(self, classes: Sequence[int | str]) -> "Dataset":
        """Some classes, as the only ones there are, in the order given; superclasses keep those that stay."""
        numbers = [self.index(c) for c in classes]
        new = {c: number for number, c in enumerate(numbers)}
        groups = [(name, tuple(new[c] for c in members if c in new)) for name, members in self.groups]
        kept = self.only(numbers).relabel(new, [self.names[c] for c in numbers])
        return replace(kept, groups=tuple(group for group in groups if group[1]))

    def take(self, per_class: int) -> "Dataset":
        """The first examples of each class, in order; a class with fewer keeps what it has."""
        if per_class < 1:
            raise ValueError(f"images per class must be 1 or more, but saw {per_class}")
        return self.where(self.place_in_class(np.arange(len(self))) < per_class)

    def split(self, valid_per_class: int, seed: int = 0) -> tuple["Dataset", "Dataset"]:
        """(training, validation): a random choice of each class goes to validation."""
        short = [name for name, n in zip(self.names, self.counts, strict=True) if 0 < n <= valid_per_class]
        if short:
            raise ValueError(
                f"taking {valid_per_class} validation images per class would leave nothing to train on for "
                f"{', '.join(short)}: ask for fewer"
            )
        order = random_order(torch.from_numpy(self.ids), seed, "split").numpy()
        valid = self.place_in_class(order) < valid_per_class
        return self.where(~valid), self.where(valid)

    def relabel(self, mapping: Mapping[int, int], names: Sequence[str] | None = None) -> "Dataset":
        """New labels, class by class; with `names`, a new list of classes.

        Without `names` classes that are not mentioned keep their label; with `names` every class that
        has examples must be mentioned, so that a label never means another class by accident.
        """
        present = set(np.unique(self.labels).tolist())
        if names is not None and (left := present - set(mapping)):
            raise ValueError(f"with new names every class needs a new label, but {sorted(left)} have none: add them")
        table = {c: mapping.get(c, c) for c in present}
        labels = np.array([table[c] for c in self.labels.tolist()], dtype=np.int64)
        names = self.names if names is None else tuple(names)
        check_labels(labels, len(names))
        return replace(self, labels=labels, names=names, groups=())

    def batches(self, size: int, order: Int[np.ndarray, " m"] | None = None) -> Iterator[Batch]:
        """Batches in the given order of positions (all, in sequence, by default); pixels become floats in [0, 1]."""
        order = np.arange(len(self)) if order is None else order
        for start in range(0, len(order), size):
            yield self.batch(order[start : start + size])

    def batch(self, positions: Int[np.ndarray, " m"]) -> Batch:
        pixels = torch.from_numpy(np.ascontiguousarray(self.images[self.rows[positions]]))
        return Batch(
            pixels.float().div_(255), torch.from_numpy(self.labels[positions]), torch.from_numpy(self.ids[positions])
        )

    def with_groups(self, groups: Groups) -> "Dataset":
        """The same examples with superclasses; a class belongs to one of them at most."""
        members = [c for _, classes in groups for c in classes]
        if len(set(members)) != len(members) or not set(members) <= set(range(self.k)):
            raise ValueError(f"every class may be in one group only and must be 0 to {self.k - 1}, but saw {groups}")
        return replace(self, groups=groups)

    def with_notes(self, *notes: str) -> "Dataset":
        return replace(self, notes=(*self.notes, *notes))

    @property
    def part_notes(self) -> tuple[str, ...]:
        """What every result of these images has to repeat: that they are a part, or that not all of them were read."""
        unread = self.images.describe_unread(self.rows) if isinstance(self.images, Fingerprinted) else ""
        return (
            *(note for note in self.notes if IS_PART in note or note.startswith(SKIPPED)),
            *([unread] if unread else []),
        )

    def where(self, keep: "np.ndarray") -> "Dataset":
        return replace(self, labels=self.labels[keep], ids=self.ids[keep], rows=self.rows[keep])

    def index(self, cls: int | str) -> int:
        """The index of a class given by index or name."""
        if isinstance(cls, str):
            if cls not in self.names:
                raise ValueError(f"there is no class {cls!r} in this data set: its classes are {', '.join(self.names)}")
            return self.names.index(cls)
        if not 0 <= cls < self.k:
            raise ValueError(f"class {cls} is out of range: this data set has classes 0 to {self.k - 1}")
        return cls

    def place_in_class(self, order: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """For each example, how many of its class come before it in `order`."""
        by_class = order[np.argsort(self.labels[order], kind="stable")]
        first = np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        place = np.empty(len(self), dtype=np.int64)
        place[by_class] = np.arange(len(self)) - first[self.labels[by_class]]
        return place

    def describe_copies(self) -> str:
        """A sentence if many images are exact copies of others; empty if not, or if nobody can read all of them."""
        images = self.images
        if not isinstance(images, Fingerprinted) and len(self) * int(np.prod(self.shape)) > MOST_HASHED:
            return ""

        def content(row: Int[np.ndarray, " one"]) -> bytes:
            held = images.fingerprint(row) if isinstance(images, Fingerprinted) else images[row]
            return held if isinstance(held, bytes) else np.ascontiguousarray(held).tobytes()

        known = np.fromiter((hash(content(row[None])) for row in self.rows), np.int64, len(self))
        _, first, which = np.unique(known, return_index=True, return_inverse=True)
        copies = len(self) - len(first)
        if copies < MANY_COPIES * len(self):
            return ""
        other = int((self.labels != self.labels[first][which]).sum())
        torn = f", {other} of them with another label" if other else ""
        return (
            f"{copies} of {len(self)} images are exact copies of others{torn}: intervals and tests take all for images "
            "of their own and are too sure; leave the copies out"
        )

    def digest(self) -> str:
        """A hash of pixels, labels, ids and names: the same examples give the same digest."""
        size = max(1, HASH_BLOCK // int(np.prod(self.shape)))
        files = self.images.read_again(self.rows) if isinstance(self.images, Fingerprinted) else None

        def content(rows: Int[np.ndarray, " m"]) -> bytes:
            return np.ascontiguousarray(self.images[rows]).tobytes() if files is None else files.fingerprint(rows)

        blocks = (self.rows[i : i + size] for i in range(0, len(self), size))
        pixels = sha256(*(sha256(content(rows)).encode() for rows in blocks))
        return sha256(
            pixels.encode(), self.labels.tobytes(), self.ids.tobytes(), *(name.encode() for name in self.names)
        )


def check_labels(labels: Int[np.ndarray, " n"], k: int) -> None:
    """Refuse labels that are not the number of a class."""
    if len(labels) and not (labels.min() >= 0 and labels.max() < k):
        raise ValueError(
            f"labels must be 0 to {k - 1} for {k} classes, but saw {labels.min()} to {labels.max()}: "
            "renumber them or name all classes"
        )
