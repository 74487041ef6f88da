"""`lw.data`: a data set from what people have."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leastwise.data.dataset import Dataset


def data(given: "str | Path | Dataset", *, split: str = "test") -> "Dataset":
    """A labelled set of images with stable ids: a known name, a folder, or a file of arrays.

    >>> import leastwise as lw
    >>> lw.data("fashion-mini").shape
    (1, 28, 28)
    """
    from leastwise.data.dataset import Dataset
    from leastwise.data.loading import load

    return given if isinstance(given, Dataset) else load(str(given), split)
