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


def roots() -> tuple[Path, ...]:
    """Where data is looked for, first place first."""
    named = (write_root(),) if os.environ.get(VARIABLE) else ()
    return (*named, cache_root() / "data")


def find(folders: Sequence[str]) -> Path | None:
    """The first of these folders that exists under one of the roots and is not empty."""
    for root in roots():
        for name in folders:
            place = root / name
            if place.is_dir() and any(place.iterdir()):
                return place
    return None
