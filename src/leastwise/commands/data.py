"""`leastwise data list | fetch | verify | sheet`."""

import difflib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich import box
from rich.table import Table
from rich.text import Text

from leastwise.commands.listing import some_splits
from leastwise.commands.shared import Screen, loaded, sized, use_data_dir

if TYPE_CHECKING:
    from leastwise.data import Source

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
        from leastwise.data import SOURCES
        from leastwise.data.offers import origin
        from leastwise.data.places import find

        table = Table(box=box.SIMPLE_HEAD, show_header=False, show_lines=True)
        for name, source in SOURCES.items():
            place = find(source.folders)
            here = "inside the package" if not source.folders else f"here: {place}" if place else "not here"
            lines = [source.about, f"splits: {some_splits(source.splits)}"]
            lines += [f"from {origin(offer)}" for offer in source.offers]
            table.add_row(Text(name, style="bold"), Text("\n".join([*lines, here])))
        Screen().print(table)


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
        from leastwise import report
        from leastwise.data.fetch import fetch
        from leastwise.data.places import write_root
        from leastwise.store import check_writable

        name, source = known(self.name)
        console = Screen()
        root = write_root()
        target = root / source.folders[0] if source.folders else root
        if source.folders and target.is_dir() and not self.fresh:
            report.say(console, f"{name} is there, in {target}: `leastwise data verify {name}` checks it")
            return
        check_writable(root)
        with report.transfer(console) as watch:
            given = Path(self.given) if self.given else None
            place = fetch(name, source, root, self.source, given, watch, partial(report.say, console))
        report.say(console, f"{name} is in {place}")
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

        from leastwise import report
        from leastwise.data.sheet import draw_all
        from leastwise.noise import Noise

        console = Screen()
        data = loaded(console, sized(self.data, self.size))
        if not 0 <= self.image < len(data):
            raise ValueError(f"there is no image {self.image}: this data set has 0 to {len(data) - 1}")
        batch = data.batch(np.array([self.image]))
        draw_all(batch.x, Noise(self.seed, batch.ids, "/sheet")).save(self.out)
        report.say(console, f"drawn: {self.out}")


Data = (
    Annotated[ListData, tyro.conf.subcommand("list")]
    | Annotated[Fetch, tyro.conf.subcommand("fetch")]
    | Annotated[Verify, tyro.conf.subcommand("verify")]
    | Annotated[Sheet, tyro.conf.subcommand("sheet")]
)


def known(name: str) -> "tuple[str, Source]":
    from leastwise.data import SOURCES

    if name not in SOURCES:
        near = difflib.get_close_matches(name, SOURCES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose {', '.join(SOURCES)}"
        raise ValueError(f"there is no data set {name!r}: {hint}")
    return name, SOURCES[name]


def check(console: Screen, name: str) -> None:
    """Files as fetched, facts as known, content as known."""
    from leastwise import report
    from leastwise.data.fetch import check_contents
    from leastwise.data.offers import content
    from leastwise.data.places import find

    _, source = known(name)
    place = find(source.folders)
    files = check_contents(place) if place else None
    if files:
        report.say(console, f"{name}: {files} files are as they were fetched")
    for split in source.splits:
        try:
            data = loaded(console, f"{name}/{split}")  # raises if a fact does not hold
        except FileNotFoundError:
            report.say(console, f"{name}/{split}: not here")
            continue
        said = f"{name}/{split}: {len(data):,} images of {data.k} classes, facts hold"
        if split in source.facts.content:
            if content(data) != source.facts.content[split]:
                raise ValueError(f"{name}/{split} differs from the official images or labels: fetch it with --fresh")
            said += ", every pixel and label is the official one"
        report.say(console, said)
        for note in data.notes:
            report.say(console, f"  {note}")
