"""Readers of numpy arrays: `.npz` archives and `.npy` files.

Pickled content is refused: `allow_pickle=False` means an object array raises instead of running code.
Arrays are memory-mapped wherever the file holds them uncompressed (`.npy`, and what `numpy.savez` writes).
"""

import math
import zipfile
from io import BufferedIOBase
from pathlib import Path
from typing import IO

import numpy as np
from jaxtyping import Int, Integer, UInt8

from leastwise.core.files import replacing
from leastwise.core.text import escape_unprintable, one_line
from leastwise.data.classes import Groups, read_text
from leastwise.data.dataset import Dataset, ImageRows

SAVED_AT_ONCE = 256  # images
LARGE, MOST_PACKING = 32 << 20, 50  # bytes from which packing is looked at, and how many times smaller it may make
LOCAL_HEADER = 30  # bytes before the name in a zip entry's own header


class ChannelsLast:
    """`[n h w c]` seen as `[n c h w]`, row by row, so that a memory map is never copied whole."""

    def __init__(self, array: UInt8[np.ndarray, "n h w c"]) -> None:
        n, h, w, c = array.shape
        self.array, self.shape, self.dtype = array, (n, c, h, w), array.dtype

    def __getitem__(self, rows: Int[np.ndarray, " m"], /) -> UInt8[np.ndarray, "m c h w"]:
        return np.ascontiguousarray(np.moveaxis(self.array[rows], -1, 1))


def read_npz_split(path: Path, _folder: Path, split: str) -> Dataset:
    """One split of a file that holds several, its arrays named `train_images`, `test_images` and so on."""
    return read_npz(path, prefix=f"{split}_")


def read_npz(path: Path, prefix: str = "") -> Dataset:
    """The data set in `path`: `images`, `labels` and, if wanted, `names` and `ids`.

    `prefix` selects among several sets in one archive. `fine_labels` with `coarse_labels` and their names
    (CIFAR-100 as it is often stored) become classes and superclasses.
    """
    if not path.is_file():
        raise FileNotFoundError(2, "there is no such file", str(path))
    try:
        with zipfile.ZipFile(path) as archive:
            held = [name.removesuffix(".npy") for name in archive.namelist()]
        if prefix + "labels" not in held and prefix + "fine_labels" in held:
            return read_two_levels(path, prefix)
        wanted = [name for name in ("images", "labels", "names", "ids") if prefix + name in held]
        arrays = {name: read_member(path, prefix + name) for name in wanted}
        if "names" not in arrays and "names" in held:
            arrays["names"] = read_member(path, "names")
        names = decode_names(arrays["names"]) if "names" in arrays else None
    except Exception as error:  # a damaged archive can fail in any way
        raise ValueError(
            f"{path} is not a readable .npz of plain arrays ({describe_error(error)}): save it with numpy.savez"
        ) from None
    if not {"images", "labels"} <= set(arrays):
        raise ValueError(
            f"{path} needs the arrays {prefix}images and {prefix}labels, but holds {', '.join(held) or 'nothing'}: "
            "save it with numpy.savez(path, images=…, labels=…, names=…)"
        )
    return Dataset.of(with_channels_first(arrays["images"]), arrays["labels"], names, ids=arrays.get("ids"))


def read_two_levels(path: Path, prefix: str) -> Dataset:
    """A data set with fine and coarse labels; the coarse ones are its superclasses."""
    images, fine, coarse = (read_member(path, prefix + name) for name in ("images", "fine_labels", "coarse_labels"))
    fine_names, coarse_names = (decode_names(read_member(path, name)) for name in ("fine_names", "coarse_names"))
    return Dataset.of(with_channels_first(images), fine, fine_names).with_groups(
        find_groups(fine, coarse, coarse_names)
    )


def decode_names(names: np.ndarray) -> list[str]:
    """Class names as text, whichever way numpy stored them."""
    if names.ndim != 1:
        raise ValueError(f"names need the shape [classes], but have {list(names.shape)}")
    return [
        name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else str(name) for name in names.tolist()
    ]


def describe_error(error: Exception) -> str:
    """What an error says, in one line that a terminal can show."""
    return escape_unprintable(one_line(error)) or type(error).__name__


def find_groups(fine: Integer[np.ndarray, " n"], coarse: Integer[np.ndarray, " n"], names: list[str]) -> Groups:
    """Superclasses from two labels per example; a class with examples in two superclasses is a mistake."""
    pairs = sorted({(int(f), int(c)) for f, c in zip(fine, coarse, strict=True)})
    if len(pairs) != len({f for f, _ in pairs}):
        raise ValueError("a class must belong to one superclass, but some examples of one class disagree")
    return tuple((name, tuple(f for f, c in pairs if c == index)) for index, name in enumerate(names))


def read_member(path: Path, name: str) -> np.ndarray:
    """One array of an archive: memory-mapped if it is stored as it is, read if it is compressed."""
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo(name + ".npy")
        with archive.open(entry) as file:
            head, begin = read_header(file), file.tell()
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size < 1 << 20:  # small ones are read and checked
            check_size(head[3], entry.file_size - begin)
            check_packing(entry)
            with archive.open(entry) as file:
                return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
    with path.open("rb") as plain:
        plain.seek(entry.header_offset)
        local = plain.read(LOCAL_HEADER)
    sizes = int.from_bytes(local[26:28], "little"), int.from_bytes(local[28:30], "little")  # name, extra field
    return map_array(path, entry.header_offset + LOCAL_HEADER + sum(sizes) + begin, head)


def read_header(file: IO[bytes] | BufferedIOBase) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, whether columns come first, type and bytes of the array that follows."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("object arrays would need pickle")
    if any(length < 0 for length in shape):
        raise ValueError(f"an array cannot have the shape {list(shape)}")
    return shape, fortran, dtype, math.prod(shape) * dtype.itemsize


def map_array(path: Path, start: int, head: tuple[tuple[int, ...], bool, np.dtype, int]) -> np.ndarray:
    """The array whose values begin at `start`, not read until it is used."""
    shape, fortran, dtype, size = head
    check_size(size, path.stat().st_size - start)
    if size == 0:
        return np.empty(shape, dtype)  # nothing cannot be mapped
    return np.memmap(path, dtype, "r", start, shape, order="F" if fortran else "C")


def check_size(announced: int, held: int) -> None:
    """Refuse an array that announces more than its file holds, before numpy asks for the memory."""
    if announced > held:
        raise ValueError(f"{announced:,} bytes are announced, but {held:,} are there")


def check_packing(entry: zipfile.ZipInfo) -> None:
    """Images shrink to a half, digits to a tenth; what unpacks to much more is there to fill the memory."""
    if entry.file_size > LARGE and entry.file_size > MOST_PACKING * entry.compress_size:
        raise ValueError(
            f"{entry.compress_size:,} bytes would unpack to {entry.file_size:,}: save it without compression"
        )


def read_npy(path: Path) -> Dataset:
    """`images.npy` with `labels.npy` beside it (or `X_images.npy` with `X_labels.npy`), and `names.txt` if there."""
    labels = path.with_name(path.name.replace("images", "labels"))
    if labels == path or not labels.is_file():
        labels = path.with_name("labels.npy")
    if labels == path or not labels.is_file():
        raise ValueError(f"{path} needs its labels beside it, as {labels.name}: save them with numpy.save")
    names = path.with_name("names.txt")
    lines = [line.strip() for line in read_text(names).splitlines() if line.strip()] if names.is_file() else None
    return Dataset.of(with_channels_first(map_npy(path)), map_npy(labels), lines)


def map_npy(path: Path) -> np.ndarray:
    """The array of a `.npy` file, not read until it is used."""
    try:
        with path.open("rb") as file:
            head, begin = read_header(file), file.tell()
        return map_array(path, begin, head)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(
            f"{path} is not a readable .npy of plain numbers ({describe_error(error)}): save it with numpy.save"
        ) from None


def with_channels_first(images: np.ndarray) -> ImageRows:
    """`[n h w]` and `[n h w c]` become `[n c h w]`; other shapes are left for the data set to judge."""
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.dtype == np.uint8 and images.shape[1] not in (1, 3) and images.shape[3] in (1, 3):
        return ChannelsLast(images)
    return images


def save_npz(path: Path, data: Dataset) -> None:
    """Write the examples, names and ids as an archive that `load` maps into memory; some rows at a time."""
    head = {"descr": "|u1", "fortran_order": False, "shape": (len(data), *data.shape)}
    with replacing(path) as whole, zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, head)
            for start in range(0, len(data), SAVED_AT_ONCE):
                rows = data.rows[start : start + SAVED_AT_ONCE]
                file.write(np.ascontiguousarray(data.images[rows]).tobytes())
        for name, values in (("labels", data.labels), ("names", np.array(data.names)), ("ids", data.ids)):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, values, allow_pickle=False)
