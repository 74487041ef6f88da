"""Reader of the idx format of MNIST and Fashion-MNIST, compressed or not.

A header of two zero bytes, a type code, the number of dimensions and each length (big-endian), then the values.
"""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from leastwise.data.dataset import Dataset

UNSIGNED_BYTE = 0x08
MOST_UNPACKED, MOST_PACKING = 64 << 20, 100  # bytes that any file may unpack to, and how many times its size
PREFIX = {"train": "train", "test": "t10k"}


def read_idx(path: Path) -> np.ndarray:
    """The array in an idx file of unsigned bytes."""
    try:
        content = unpack_gzip(path) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked ({error}): fetch it again") from None
    if len(content) < 4 or content[:3] != bytes((0, 0, UNSIGNED_BYTE)):
        raise ValueError(f"{path} is not an idx file of bytes: it begins with {content[:4].hex() or 'nothing'}")
    dimensions = content[3]
    start = 4 + 4 * dimensions
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
    if len(content) != start + math.prod(shape):
        raise ValueError(
            f"{path} is cut off or too long: {math.prod(shape):,} values of shape {list(shape)} are announced, "
            f"but {max(len(content) - start, 0):,} bytes follow; fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def unpack_gzip(path: Path) -> bytes:
    """The content of a compressed file, unless it is there to fill the memory: digits shrink to a fifth."""
    most = max(MOST_UNPACKED, MOST_PACKING * path.stat().st_size)
    with gzip.open(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path} unpacks to more than {MOST_PACKING} times its size: fetch it again")
    return content


def read_idx_set(folder: Path, split: str, names: tuple[str, ...]) -> Dataset:
    """Images and labels of one split, `train-images-idx3-ubyte` and so on, with or without `.gz`."""
    images, labels = (
        read_idx(find_idx_file(folder, f"{PREFIX[split]}-{kind}-ubyte")) for kind in ("images-idx3", "labels-idx1")
    )
    if images.ndim != 3 or labels.ndim != 1:
        raise ValueError(f"{folder} has images of shape {list(images.shape)} and labels of shape {list(labels.shape)}")
    return Dataset.of(images[:, None], labels, names)


def find_idx_file(folder: Path, name: str) -> Path:
    """The file of that name, compressed or not."""
    found = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
    if not found:
        raise FileNotFoundError(2, "there is no such file, nor one ending in .gz", str(folder / name))
    return found[0]
