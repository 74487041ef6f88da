"""`leastwise data list | fetch | verify | sheet`."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich import box
from rich.table import Table
from rich.text import Text

from leastwise.cli.listing import read_listing
from leastwise.cli.options import loaded, sized, use_data_dir
from leastwise.core.text import did_you_mean
from leastwise.report.terminal.screen import Screen, say

if TYPE_CHECKING:
    from leastwise.data.source import Source

Name = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
Folder = Annotated[str, tyro.conf.arg(metavar="DIR")]
Sort = Literal["", "official", "npm", "debian"]


@dataclass(frozen=True)
class ListData:
    """The known data sets, whether they are here, and where they come from."""

    data_dir: Folder = ""
    """where data sets lie; the variable LEASTWISE_DATA, or the cache, unless given"""

    def run(self) -> None:
        use_data_dir(self.data_dir)
        from leastwise.data.cache import describe_absent_root, find_folder

        table = Table(box=box.SIMPLE_HEAD, show_header=False, show_lines=True)
        for entry in read_listing()["data"]:
            place = find_folder(entry.folders)
            here = "inside the package" if not entry.folders else f"here: {place}" if place else "not here"
            lines = [entry.about, f"splits: {', '.join(entry.facts)}", *(f"from {origin}" for origin in entry.origins)]
            table.add_row(Text(entry.name, style="bold"), Text("\n".join([*lines, here])))
        console = Screen()
        console.print(table)
        if absent := describe_absent_root():
            say(console, absent)


@dataclass(frozen=True)
class Fetch:
    """Download a known data set, check it, and keep it in a cache outside the repository.

    An interrupted download goes on when the same command is given again.
    """

    name: Name
    """`leastwise data list` shows them"""
    source: Sort = ""
    """which source to use; they are tried in the order of the list unless given"""
    given: Annotated[str, tyro.conf.arg(name="from", metavar="PATH")] = ""
    """official files downloaded elsewhere: the archive, or the folder they are in"""
    data_dir: Folder = ""
    """where to put it; the variable LEASTWISE_DATA, or the cache, unless given"""
    fresh: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """fetch it again although it is there"""

    def run(self) -> None:
        use_data_dir(self.data_dir)
        from leastwise.core.files import check_writable
        from leastwise.data.cache import find_folder, write_root
        from leastwise.data.download.fetch import fetch
        from leastwise.report.terminal.progress import transfer

        name, source = known(self.name)
        console = Screen()
        there = None if self.fresh else find_folder(source.folders)
        if there is not None:
            checks = f"`leastwise data verify {name}` checks it"
            say(console, f"{name} is there, in {there}: {checks}, and --fresh fetches it again")
            return
        root = write_root()
        check_writable(root)
        with transfer(console) as watch:
            given = Path(self.given) if self.given else None
            place = fetch(name, source, root, self.source, given, watch, partial(say, console))
        say(console, f"{name} is in {place}")
        check(console, name)


@dataclass(frozen=True)
class Verify:
    """Check the files of a data set, what is known about it, and every pixel where its digest is known."""

    name: Name
    data_dir: Folder = ""
    """where it lies; the variable LEASTWISE_DATA, or the cache, unless given"""

    def run(self) -> None:
        use_data_dir(self.data_dir)
        check(Screen(), known(self.name)[0])


@dataclass(frozen=True)
class Sheet:
    """Draw all corruptions and augmentations of one image into a PNG, to look at."""

    data: Annotated[str, tyro.conf.arg(metavar="DATA")] = "fashion-mini"
    """NAME, NAME/SPLIT or a path, as for `leastwise audit`"""
    image: int = 0
    """which image: its position in the data set"""
    size: int = 0
    """image files only: the side of the square to cut out; 0 to take them as they are"""
    seed: int = 0
    """seed of the noise"""
    data_dir: Folder = ""
    """where known data sets lie"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("sheet.png")
    """the PNG to write"""

    def run(self) -> None:
        use_data_dir(self.data_dir)
        import numpy as np

        from leastwise.core.noise import Noise
        from leastwise.data.contact_sheet import draw_all_changes

        console = Screen()
        data = loaded(console, sized(self.data, self.size))
        if not 0 <= self.image < len(data):
            raise ValueError(f"there is no image {self.image}: this data set has 0 to {len(data) - 1}")
        batch = data.batch(np.array([self.image]))
        draw_all_changes(batch.x, Noise(self.seed, batch.ids, "/sheet")).save(self.out)
        say(console, f"drawn: {self.out}")


Data = (
    Annotated[ListData, tyro.conf.subcommand("list")]
    | Annotated[Fetch, tyro.conf.subcommand("fetch")]
    | Annotated[Verify, tyro.conf.subcommand("verify")]
    | Annotated[Sheet, tyro.conf.subcommand("sheet")]
)


def known(name: str) -> "tuple[str, Source]":
    from leastwise.data.registry import SOURCES

    if name not in SOURCES:
        raise ValueError(f"there is no data set {name!r}: {did_you_mean(name, SOURCES)}")
    return name, SOURCES[name]


# How the names of a split's files begin, where not with the split itself.
BEGINNINGS = {"train": ("train", "data_batch_"), "test": ("test", "t10k")}


def check(console: Screen, name: str) -> None:
    """Files as fetched, facts as known, content as known."""
    from leastwise.data.cache import describe_missing, find_folder
    from leastwise.data.download.fetch import check_contents
    from leastwise.data.source import hash_content

    _, source = known(name)
    place = find_folder(source.folders) if source.folders else Path()
    if place is None:
        raise ValueError(describe_missing(name, source.folders))
    files = check_contents(place) if source.folders else None
    if files:
        say(console, f"{name}: {files} files are as they were fetched")
    read = 0
    for split in source.splits:
        try:
            data = loaded(console, f"{name}/{split}")  # raises if a fact does not hold
        except FileNotFoundError as error:
            if some_of(source, place, split):
                lacks = ", ".join(missing(source, place, split)) or error.filename
                raise ValueError(f"{name}/{split} is not whole: {place} lacks {lacks}; fetch it with --fresh") from None
            say(console, f"{name}/{split}: not here")
            continue
        read += 1
        said = f"{name}/{split}: {len(data):,} images of {data.k} classes, facts hold"
        if split in source.facts.content:
            if hash_content(data) != source.facts.content[split]:
                raise ValueError(f"{name}/{split} differs from the official images or labels: fetch it with --fresh")
            said += ", every pixel and label is the official one"
        say(console, said)
        for note in data.notes:
            say(console, f"  {note}")
    if not read:
        raise ValueError(f"{place} holds no files of {name}: fetch it with `leastwise data fetch {name} --fresh`")


def some_of(source: "Source", place: Path, split: str) -> bool:
    """Whether any file of the split is there, in any form."""
    present = {path.stem for path in place.iterdir()}
    return (place / split).exists() or any(Path(file).stem in present for form in forms(source, split) for file in form)


def missing(source: "Source", place: Path, split: str) -> list[str]:
    """What the split lacks of the form that it is in: the one with the fewest gaps, then with the most of its names."""
    present = {path.name for path in place.iterdir()}
    stems = {Path(name).stem for name in present}
    gaps = [
        (len(gap), -len(form & present), sorted(gap))
        for form in forms(source, split)
        if (gap := {file for file in form if Path(file).stem not in stems})
    ]
    if not gaps:
        return []
    _, exact, names = min(gaps)
    return names if exact else [Path(file).stem for file in names]  # a form without the endings that we know


def forms(source: "Source", split: str) -> list[set[str]]:
    """The names of the split's files, for each source that lists them."""
    from leastwise.data.source import Debian, Npm, Official

    begin = BEGINNINGS.get(split, (split.rpartition("-")[0] or split,))  # fog-3 is in fog.npy
    names = []
    for offer in source.offers:
        match offer:
            case Official(files):
                names.append([name for file in files for name in file.keep or (file.name,)])
            case Npm(keep=keep) | Debian(keep=keep):
                names.append(list(keep))
    return [{name for name in form if name.startswith(begin)} for form in names]
