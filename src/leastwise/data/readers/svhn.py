"""Reader of SVHN's cropped digits (`train_32x32.mat` and so on). The files call digit 0 by the label 10."""

import math
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leastwise.data.classes import DIGITS
from leastwise.data.dataset import Dataset

HEADER = 128  # bytes; the last two say which byte comes first
MATRIX, COMPRESSED = 14, 15
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
NUMBERS = range(6, 16)  # classes of arrays: double, single and integers; the values may be stored in a smaller type
COMPLEX = 0x0800  # in the flags of an array
NAMES = 1  # type of a name
MOST_UNPACKED, MOST_PACKING = 64 << 20, 500  # bytes that any array may unpack to, and how many times its packed size


class Element(NamedTuple):
    """One part of a MATLAB file: its kind and its bytes."""

    kind: int
    content: bytes


def read_mat(path: Path, wanted: Collection[str]) -> dict[str, np.ndarray]:
    """The arrays of these names, in the type they are stored in; in memory the first axis runs fastest."""
    content = path.read_bytes()
    order = {b"IM": "<", b"MI": ">"}.get(content[HEADER - 2 : HEADER])
    if order is None:
        raise ValueError("it does not begin like a MATLAB 5 file")
    found = {}
    for element in read_elements(content[HEADER:], order):
        if element.kind == COMPRESSED:
            inner = list(read_elements(unpack_element(element.content), order))
            if len(inner) != 1:
                raise ValueError("a compressed part does not hold one array")
            element = inner[0]
        if element.kind != MATRIX:
            raise ValueError(f"it holds a part of kind {element.kind}, which is no array")
        name, array = read_numeric(element.content, order, wanted)
        if array is not None:
            found[name] = array
    return found


def read_elements(content: bytes, order: str) -> Iterator[Element]:
    """Parts one after the other, each with its kind and length in front and filled up to eight bytes."""
    at = 0
    while at < len(content):
        if len(content) - at < 8:
            raise ValueError("it is cut off")
        first, length = (int(v) for v in np.frombuffer(content, f"{order}u4", 2, at))
        if first >> 16:  # up to four bytes share the eight with their kind and length
            kind, length, start = first & 0xFFFF, first >> 16, at + 4
            if length > 4:
                raise ValueError("a short part is longer than four bytes")
            end = at + 8
        else:
            kind, start = first, at + 8
            padding = 0 if kind == COMPRESSED else -length % 8
            end = start + length + padding
        if start + length > len(content):
            raise ValueError(f"{length:,} bytes are announced, but {len(content) - start:,} are there")
        yield Element(kind, content[start : start + length])
        at = end


def unpack_element(content: bytes) -> bytes:
    """The content of a compressed part, unless it is there to fill the memory."""
    most = max(MOST_UNPACKED, MOST_PACKING * len(content))
    try:
        engine = zlib.decompressobj()
        whole = engine.decompress(content, most)
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked ({error})") from None
    if not engine.eof:
        raise ValueError("a compressed part is cut off or unpacks to far more than its size")
    return whole


def read_numeric(content: bytes, order: str, wanted: Collection[str]) -> tuple[str, np.ndarray | None]:
    """Name and values of an array; no values if it is not wanted."""
    parts = read_elements(content, order)
    flags, sizes, name = next(parts, None), next(parts, None), next(parts, None)
    if flags is None or sizes is None or name is None or name.kind != NAMES or len(flags.content) != 8:
        raise ValueError("an array lacks its flags, its size or its name")
    called = name.content.decode("latin-1")
    if called not in wanted:
        return called, None
    flag = int(np.frombuffer(flags.content, f"{order}u4", 1)[0])
    if flag & 0xFF not in NUMBERS or flag & COMPLEX:
        raise ValueError(f"{called} is not a plain array of numbers")
    if len(sizes.content) % 4:
        raise ValueError(f"{called} has no readable size")
    shape = tuple(int(v) for v in np.frombuffer(sizes.content, f"{order}i4"))
    values = next(parts, None)
    if values is None or values.kind not in TYPES:
        raise ValueError(f"{called} holds no numbers")
    stored = np.dtype(f"{order}{TYPES[values.kind]}")
    if min(shape, default=-1) < 0 or math.prod(shape) * stored.itemsize != len(values.content):
        raise ValueError(f"{called} announces the shape {list(shape)}, but {len(values.content):,} bytes are there")
    flat = np.frombuffer(values.content, stored).astype(stored.newbyteorder("="))
    return called, flat.reshape(shape, order="F")


def read_svhn(folder: Path, split: str) -> Dataset:
    """A split of the cropped digits; label 10 becomes class 0."""
    path = folder / f"{split}_32x32.mat"
    if not path.is_file():
        raise FileNotFoundError(2, "there is no such file", str(path))
    try:
        content = read_mat(path, ("X", "y"))
        pixels, labels = content["X"], content["y"].reshape(-1)
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(f"{path} is not a whole MATLAB file with X and y ({error}): fetch it again") from None
    if pixels.ndim != 4 or pixels.shape[2] != 3 or labels.dtype.kind not in "iu":
        raise ValueError(f"{path} needs X of shape [height, width, 3, n], but has {list(pixels.shape)}")
    return Dataset.of(pixels.transpose(3, 2, 0, 1), labels.astype(np.int64) % 10, DIGITS)
