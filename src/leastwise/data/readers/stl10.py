"""Reader of STL-10's binary files: 96 x 96 images stored column by column, labels from 1."""

from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8

from leastwise.data.classes import STL10, STL10_GROUPS
from leastwise.data.dataset import Dataset

SHAPE = (3, 96, 96)


class Columns:
    """Memory-mapped images whose columns come first; each is turned as it is read."""

    def __init__(self, path: Path) -> None:
        size = path.stat().st_size
        one = int(np.prod(SHAPE))
        if size == 0 or size % one:
            raise ValueError(f"{path} is cut off: its {size:,} bytes are not whole images of {one:,}; fetch it again")
        self.pixels = np.memmap(path, np.uint8, "r", shape=(size // one, *SHAPE))
        self.shape = self.pixels.shape

    def __getitem__(self, rows: Int[np.ndarray, " m"], /) -> UInt8[np.ndarray, "m c h w"]:
        return np.ascontiguousarray(self.pixels[rows].transpose(0, 1, 3, 2))


def read_stl10(folder: Path, split: str) -> Dataset:
    """A split of STL-10, with its two superclasses."""
    labels = np.frombuffer((folder / f"{split}_y.bin").read_bytes(), np.uint8).astype(np.int64)
    return Dataset.of(Columns(folder / f"{split}_X.bin"), labels - 1, STL10).with_groups(STL10_GROUPS)
