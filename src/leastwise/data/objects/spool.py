"""Images that come one by one, kept until all are there: in memory while they are few, then in a file of the cache."""

import tempfile
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from jaxtyping import Int, UInt8

from leastwise.data.cache import cache_root

IN_MEMORY = 64 << 20  # bytes of pixels
SAME_SIZE = "all images need one size: resize them, or cut a square out of each with size="


class SpooledImages:
    """Rows of a file that nobody else sees and that is gone with the process, mapped into memory."""

    def __init__(self, file: IO[bytes], array: UInt8[np.ndarray, "n c h w"]) -> None:
        self.array = array
        weakref.finalize(self, file.close)  # some systems remove it when it is closed
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, rows: Int[np.ndarray, " m"], /) -> UInt8[np.ndarray, "m c h w"]:
        return np.asarray(self.array[rows])


@dataclass
class Spool:
    """Blocks of images of one size."""

    most: int = IN_MEMORY
    shape: tuple[int, ...] = ()
    count: int = 0
    blocks: list["np.ndarray"] = field(default_factory=list)
    file: IO[bytes] | None = None

    def add(self, block: UInt8[np.ndarray, "m c h w"]) -> None:
        """Keep some more images."""
        if self.count and block.shape[1:] != self.shape:
            seen = "x".join(map(str, block.shape[1:]))
            raise ValueError(
                f"image {self.count} is {seen}, but the first is {'x'.join(map(str, self.shape))}: {SAME_SIZE}"
            )
        self.shape = block.shape[1:]
        self.count += len(block)
        if self.file is not None:
            self.file.write(block.tobytes())
            return
        self.blocks.append(block)
        if self.count * int(np.prod(self.shape)) > self.most:
            folder = make_folder(cache_root() / "spool")
            self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  it lives as long as its images
            for kept in self.blocks:
                self.file.write(kept.tobytes())
            self.blocks = []

    def finish(self) -> "np.ndarray | SpooledImages":
        """All images. Grey ones lie as `[n h w]`, as in the files of known data sets: torch computes the same bits."""
        if self.count == 0:
            raise ValueError("a data set needs at least one image, but the object gave none")
        shape = (self.count, *self.shape)
        if self.file is None:
            array = np.concatenate(self.blocks)
            return as_grey(array) if self.shape[0] == 1 else array
        self.file.flush()
        array = np.memmap(self.file, np.uint8, "r", 0, shape)
        return SpooledImages(self.file, as_grey(array) if self.shape[0] == 1 else array)


def as_grey(array: UInt8[np.ndarray, "n 1 h w"]) -> UInt8[np.ndarray, "n 1 h w"]:
    """The same images with the strides of `[n h w]` seen as `[n 1 h w]`."""
    return array[:, 0][:, None]


def make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
