"""What has a name, read from a file: the registries themselves would have to import torch.

`python -m scripts.listing` writes the file from the registries (`make listing`); a test compares the two.
"""

import json
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("listing.json")


class ListingEntry(NamedTuple):
    """A name, what it stands for, and facts of less importance."""

    name: str
    about: str
    facts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()  # data sets only: where they can be fetched from
    folders: tuple[str, ...] = ()  # data sets only: what their folder may be called; none if inside the package


def read_listing() -> dict[str, list[ListingEntry]]:
    """Everything that has a name, by topic."""
    content = json.loads(FILE.read_text("utf-8"))
    return {
        topic: [
            ListingEntry(
                entry["name"],
                entry["about"],
                tuple(entry["facts"]),
                tuple(entry.get("origins", ())),
                tuple(entry.get("folders", ())),
            )
            for entry in entries
        ]
        for topic, entries in content.items()
    }
