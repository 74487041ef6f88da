"""`leastwise data list | fetch | verify | sheet | masks`."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich import box
from rich.table import Table
from rich.text import Text

from leastwise.cli.listing import read_listing
from leastwise.cli.options import load_data, use_data_dir
from leastwise.core.text import Screen, say

Name = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
Folder = Annotated[str, tyro.conf.arg(metavar="DIR")]
OfferKind = Literal["", "official", "npm", "debian"]


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
    source: OfferKind = ""
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
        from leastwise.data.verify import find_source
        from leastwise.report.terminal.view import transfer

        name, source = self.name, find_source(self.name)
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
            place = fetch(name, source, root, which=self.source, given=given, watch=watch, tell=partial(say, console))
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
        check(Screen(), self.name)


@dataclass(frozen=True)
class ContactSheet:
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
        data = load_data(console, self.data, size=self.size)
        if not 0 <= self.image < len(data):
            raise ValueError(f"there is no image {self.image}: this data set has 0 to {len(data) - 1}")
        for note in data.notes:
            say(console, note)
        batch = data.batch(np.array([self.image]))
        draw_all_changes(batch.x, Noise(self.seed, batch.ids, "/sheet")).save(self.out)
        say(console, f"drawn: {self.out}")


@dataclass(frozen=True)
class MaskSheet:
    """Draw images of a class on white by the masks that are found for them, tight, usual and wide, to judge by eye."""

    data: Annotated[str, tyro.conf.arg(metavar="DATA")] = "fashion-mini"
    """NAME, NAME/SPLIT or a path, as for `leastwise audit`; images with three channels have colours to go by"""
    cls: Annotated[str, tyro.conf.arg(name="class", metavar="NAME")] = ""
    """the class whose images are drawn; the first one unless given"""
    images: int = 50
    """how many, from the first of the class"""
    size: int = 0
    """image files only: the side of the square to cut out; 0 to take them as they are"""
    data_dir: Folder = ""
    """where known data sets lie"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("masks.png")
    """the PNG to write"""

    def run(self) -> None:
        use_data_dir(self.data_dir)
        from leastwise.audit.mask_sheet import draw_mask_sheet
        from leastwise.audit.segmentation import ObjectPrior
        from leastwise.jobs.images import PRIORS

        console = Screen()
        if self.images < 1:
            raise ValueError(f"a sheet needs images, but saw --images {self.images}")
        data = load_data(console, self.data, size=self.size)
        name = self.cls or data.names[0]
        if name not in data.names:
            raise ValueError(f"there is no class {name!r}: choose {', '.join(data.names[:12])} …")
        some = data.only([data.names.index(name)]).take(self.images)
        priors = {"tight": PRIORS["tight"], "usual": ObjectPrior(), "wide": PRIORS["wide"]}
        draw_mask_sheet(some, priors).save(self.out)
        say(console, f"drawn: {self.out}, {len(some)} images of {name}")


Data = (
    Annotated[ListData, tyro.conf.subcommand("list")]
    | Annotated[Fetch, tyro.conf.subcommand("fetch")]
    | Annotated[Verify, tyro.conf.subcommand("verify")]
    | Annotated[ContactSheet, tyro.conf.subcommand("sheet")]
    | Annotated[MaskSheet, tyro.conf.subcommand("masks")]
)


def check(console: Screen, name: str) -> None:
    """Verify a data set and say what was found."""
    from leastwise.data.verify import verify

    verify(name, partial(load_data, console), partial(say, console))
