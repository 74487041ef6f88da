"""What the readers of other projects' files share: lazy imports, silence, and the first comparison with the data."""

import importlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from leastwise.core.types import Shape
from leastwise.models.resized import Preparation


class ForeignNetwork(NamedTuple):
    """A network from someone's file or library, what is stated beside it, and what to tell the user."""

    net: nn.Module
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    outputs: int | None = None  # how many it has, if that is known
    labels: tuple[str, ...] = ()  # how it calls them
    preparation: Preparation | None = None  # how it resizes images


def import_optional(package: str, extra: str, why: str) -> Any:
    """A package that only some users need; heavy ones would slow every command down if they were always imported.

    Without an extra of ours the user installs it by its own name.
    """
    try:
        with silence_libraries():
            return importlib.import_module(package)
    except ImportError as error:
        library = f"'leastwise[{extra}]'" if extra else package.partition(".")[0]
        raise ValueError(f"{why} needs {package} ({error}): pip install {library}") from None


@contextmanager
def silence_libraries() -> Iterator[None]:
    """Other libraries log and warn about what we report in one sentence, or about their own future."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def check_stated_input(path: Path, takes: Sequence[Any], shape: Shape) -> None:
    """`takes` is what the file states as its input: batch, channels, height, width; what is no number is free."""
    stated = [size if isinstance(size, int) else None for size in takes]
    fits = len(stated) == 4 and all(size in (None, have) for size, have in zip(stated[1:], shape, strict=False))
    if not fits:
        wants = " × ".join("any" if size is None else str(size) for size in stated[1:]) or "nothing"
        have = " × ".join(map(str, shape))
        raise ValueError(f"{path} takes images of {wants}, but the data has {have}: resize the data or export it anew")


def check_outputs(what: Path | str, outputs: int, k: int) -> None:
    """Refuse a network with another number of outputs than the data has classes."""
    if outputs != k:
        raise ValueError(
            f"{what} has {outputs} outputs, but the data has {k} classes: "
            "use the data set it was trained on, or relabel the data"
        )


def format_numbers(values: Sequence[float]) -> str:
    """Numbers with four digits, for a sentence."""
    return ", ".join(f"{value:.4g}" for value in values)
