"""Where data sets lie on this machine: a folder the user names, and a cache outside any repository."""

import os
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "LEASTWISE_DATA"


def cache_root() -> Path:
    """The cache folder of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leastwise"


def write_root() -> Path:
    """Where fetched data goes: the folder the user names, or the cache."""
    return Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else cache_root() / "data"


def data_roots() -> tuple[Path, ...]:
    """Where data is looked for, first place first."""
    if not os.environ.get(VARIABLE):
        return (cache_root() / "data",)
    named = write_root()
    if named.exists() and not named.is_dir():
        raise ValueError(f"{named} is a file, but {VARIABLE} or --data-dir must name a folder")
    return named, cache_root() / "data"


def describe_absent_root() -> str:
    """A clause about the folder that the user names, if it does not exist."""
    if not os.environ.get(VARIABLE) or write_root().exists():
        return ""
    return f"the folder {write_root()} that {VARIABLE} names does not exist"


def describe_missing(name: str, folders: Sequence[str]) -> str:
    """What to do about a data set that `find` does not find."""
    absent = describe_absent_root()
    return (
        f"{name} is not on this machine: run `leastwise data fetch {name}`, or set {VARIABLE} to a folder that holds "
        f"{folders[0]}{f', and {absent}' if absent else ''}"
    )


def find_folder(folders: Sequence[str]) -> Path | None:
    """The first of these folders that exists under one of the roots and is not empty."""
    for root in data_roots():
        for name in folders:
            place = root / name
            if place.is_dir() and any(place.iterdir()):
                return place
    return None
