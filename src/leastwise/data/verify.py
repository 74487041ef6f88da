"""Checking a known data set on this machine: files as they were fetched, facts as known, every pixel as published."""

from collections.abc import Callable
from pathlib import Path

from leastwise.core.text import did_you_mean
from leastwise.data.cache import describe_missing, find_folder
from leastwise.data.dataset import Dataset
from leastwise.data.download.fetch import check_contents
from leastwise.data.registry import SOURCES
from leastwise.data.source import Debian, Npm, Official, Source, hash_content, read_part

# How the names of a split's files begin, where not with the split itself.
BEGINNINGS = {"train": ("train", "data_batch_"), "test": ("test", "t10k")}


def find_source(name: str) -> Source:
    """What is known about a data set; a name that is not known is answered with the nearest one that is."""
    if name not in SOURCES:
        raise ValueError(f"there is no data set {name!r}: {did_you_mean(name, SOURCES)}")
    return SOURCES[name]


def verify(name: str, read: Callable[[str], Dataset], tell: Callable[[str], None]) -> None:
    """Check all splits that are here and tell what was found; ValueError if one is not whole or not the published one.

    `read` loads a split by its name and raises if a fact does not hold.
    """
    source = find_source(name)
    place = find_folder(source.folders) if source.folders else Path()
    if place is None:
        raise ValueError(describe_missing(name, source.folders))
    files = check_contents(place) if source.folders else None
    if files:
        tell(f"{name}: {files} files are as they were fetched")
    count = 0
    for split in source.splits:
        try:
            data = read(f"{name}/{split}")
        except FileNotFoundError as error:
            if has_some_files(source, place, split):
                lacks = ", ".join(missing_files(source, place, split)) or error.filename
                raise ValueError(f"{name}/{split} is not whole: {place} lacks {lacks}; fetch it with --fresh") from None
            tell(f"{name}/{split}: not here")
            continue
        count += 1
        part = read_part(place, source.splits, split) if source.folders else None
        holds = "facts hold" if part is None else "a declared part, as declared"
        said = f"{name}/{split}: {len(data):,} images of {data.k} classes, {holds}"
        if split in source.facts.content and part is None:
            if hash_content(data) != source.facts.content[split]:
                raise ValueError(f"{name}/{split} differs from the official images or labels: fetch it with --fresh")
            said += ", every pixel and label is the official one"
        tell(said)
        for note in data.notes:
            tell(f"  {note}")
    if not count:
        raise ValueError(f"{place} holds no files of {name}: fetch it with `leastwise data fetch {name} --fresh`")


def has_some_files(source: Source, place: Path, split: str) -> bool:
    """Whether any file of the split is there, in any form."""
    present = {path.stem for path in place.iterdir()}
    forms = split_forms(source, split)
    return (place / split).exists() or any(Path(file).stem in present for form in forms for file in form)


def missing_files(source: Source, place: Path, split: str) -> list[str]:
    """What the split lacks of the form that it is in: the one with the fewest gaps, then with the most of its names."""
    present = {path.name for path in place.iterdir()}
    stems = {Path(name).stem for name in present}
    gaps = [
        (len(gap), -len(form & present), sorted(gap))
        for form in split_forms(source, split)
        if (gap := {file for file in form if Path(file).stem not in stems})
    ]
    if not gaps:
        return []
    _, exact, names = min(gaps)
    return names if exact else [Path(file).stem for file in names]  # a form without the endings that we know


def split_forms(source: Source, split: str) -> list[set[str]]:
    """The names of the split's files, for each source that lists them."""
    begin = BEGINNINGS.get(split, (split.rpartition("-")[0] or split,))  # fog-3 is in fog.npy
    names = []
    for offer in source.offers:
        match offer:
            case Official(files):
                names.append([name for file in files for name in file.keep or (file.name,)])
            case Npm(keep=keep) | Debian(keep=keep):
                names.append(list(keep))
    return [{name for name in form if name.startswith(begin)} for form in names]
