"""Data sets: by name, from files, changed and corrupted. Images are uint8 until a batch asks for them.

The package is a function, too: `lw.data(x)` reads x, whatever it is (`leastwise.front.datasets.data`).
Networks and attacks are elsewhere: data sets that are made with a network are in `leastwise.audit.surgery`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names, make_callable

if TYPE_CHECKING:
    from leastwise.data.classes import read_groups
    from leastwise.data.dataset import Batch, Dataset
    from leastwise.data.loading import load
    from leastwise.data.readers.arrays import save_npz
    from leastwise.data.registry import SOURCES

__all__ = ["SOURCES", "Batch", "Dataset", "load", "read_groups", "save_npz"]

__getattr__ = lazy_names(
    __name__,
    {
        "loading": "load",
        "dataset": "Dataset Batch",
        "classes": "read_groups",
        "readers.arrays": "save_npz",
        "registry": "SOURCES",
    },
)

make_callable(__name__, "leastwise.front.datasets", "data")
