"""A declared part of a known data set: a small file beside the data says that some of it is left out on purpose.

`part.json` in the folder of the data set holds, for each split that is a part, how many images of each class there
are, and perhaps why: `{"train": 80, "why": "the first 80 training images of each class"}`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from leastwise.core.escaping import escape_unprintable
from leastwise.data.classes import read_text
from leastwise.data.dataset import IS_PART, Dataset
from leastwise.data.source import ImagesPerClass, KnownFacts

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
