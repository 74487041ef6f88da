"""`leastwise list`."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro
from rich.table import Table
from rich.text import Text

from leastwise.cli.listing import ListingEntry, read_listing
from leastwise.core.text import Screen

Topic = Literal["all", "attacks", "augmentations", "claims", "corruptions", "data", "methods", "models", "papers"]


@dataclass(frozen=True)
class List:
    """Show what has a name: attacks, augmentations, claims, corruptions, data sets, methods, models, papers."""

    kind: Annotated[tyro.conf.Positional[Topic], tyro.conf.arg(metavar="KIND")] = "all"
    """attacks, augmentations, claims, corruptions, data, methods, models, papers, or all"""

    def run(self) -> None:
        console = Screen()
        for topic, entries in read_listing().items():
            if self.kind in ("all", topic):
                console.print(Text(f"{topic}\n", "bold"))
                # Two columns stay readable in a narrow terminal, where five would leave a word to each line.
                table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
                table.add_column(no_wrap=True)
                table.add_column()
                for entry in entries:
                    table.add_row(Text(entry.name), Text.assemble(entry.about, *second_line(entry)))
                console.print(table, "")


def second_line(entry: ListingEntry) -> tuple[tuple[str, str], ...]:
    """The facts of an entry, with their style; nothing if it has none."""
    said = " · ".join(fact for fact in entry.facts if fact)
    return ((f"\n{said}", "dim"),) if said else ()
