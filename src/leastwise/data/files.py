"""Images as files, decoded batch by batch: memory does not grow with their number.

Every file is decoded once when a folder is first seen, so that what cannot be read is known before any work;
the findings are kept in the cache folder and used again while a file's size and date stay the same.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image

from leastwise.data.dataset import Dataset, Groups
from leastwise.data.places import cache_root
from leastwise.store import sha256, write_json

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"})
RESIZE = 256 / 224  # the shorter side before the centre crop, as a multiple of the crop (ImageNet's convention)
SHOWN = 3  # names listed in a note

Watch = Callable[[int, int], None]


class Found(NamedTuple):
    """What decoding a file told."""

    width: int
    height: int
    mode: str  # PIL's: L, RGB, RGBA, …
    digest: str
    fault: str  # empty if the file is good


class ImageFiles:
    """Rows of decoded files: three channels, `size` pixels square (or the size they all have)."""

    def __init__(self, paths: Sequence[Path], digests: Sequence[str], shape: tuple[int, int], crop: int | None) -> None:
        self.paths, self.digests, self.crop = paths, digests, crop
        self.shape = (len(paths), 3, *shape)

    def __getitem__(self, rows: Int[np.ndarray, " m"], /) -> UInt8[np.ndarray, "m c h w"]:
        batch = np.empty((len(rows), *self.shape[1:]), np.uint8)
        for place, row in enumerate(rows):
            batch[place] = decode(self.paths[row], self.crop)
        return batch

    def fingerprint(self, rows: Int[np.ndarray, " m"], /) -> bytes:
        return repr((self.shape[1:], self.crop, [self.digests[row] for row in rows])).encode()


def decode(path: Path, crop: int | None) -> UInt8[np.ndarray, "c h w"]:
    try:
        with Image.open(path) as image:
            rgb = image.convert("RGB")
            if crop is not None and rgb.size != (crop, crop):
                rgb = centre_crop(rgb, crop)
            return np.asarray(rgb).transpose(2, 0, 1)
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{path} changed since the folder was checked and cannot be read ({error})") from None


def centre_crop(image: Image.Image, side: int) -> Image.Image:
    """The shorter side becomes 256/224 of `side`, then the middle square is cut out."""
    width, height = image.size
    factor = round(RESIZE * side) / min(width, height)
    width, height = max(side, round(width * factor)), max(side, round(height * factor))
    left, top = round((width - side) / 2), round((height - side) / 2)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + side, top + side))


def is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith(".")


def read_folder(folder: Path, size: int | None = None, watch: Watch = lambda done, total: None) -> Dataset:
    """A folder with one sub-folder per class, in the order of their names. An empty one is a class without examples."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not classes:
        raise ValueError(f"{folder} has no sub-folders: put the images of each class into a folder of its own")
    files = [(path, label) for label, part in enumerate(classes) for path in sorted(part.rglob("*")) if is_image(path)]
    return dataset_of_files(folder, files, [path.name for path in classes], size, watch=watch)


def dataset_of_files(
    folder: Path,
    files: Sequence[tuple[Path, int]],
    names: Sequence[str],
    size: int | None,
    groups: Groups = (),
    watch: Watch = lambda done, total: None,
) -> Dataset:
    """Labelled files as a data set, without those that cannot be read; `notes` says what was left out or converted.

    ids are positions in the listing, so a file that becomes unreadable does not renumber the others.
    """
    if not files:
        raise ValueError(f"{folder} holds no images: files ending in {', '.join(sorted(SUFFIXES))} are looked for")
    found = examine([path for path, _ in files], folder, watch)
    good = [index for index, one in enumerate(found) if not one.fault]
    if not good:
        raise ValueError(f"none of the {len(files)} images under {folder} can be read: {found[0].fault}")
    sizes = {(found[index].height, found[index].width) for index in good}
    if size is None and len(sizes) > 1:
        smallest, largest = (f"{w}x{h}" for h, w in (min(sizes), max(sizes)))
        raise ValueError(
            f"the images under {folder} have {len(sizes)} sizes, {smallest} to {largest}: "
            "say which square to cut out, as in --size 224"
        )
    shape = (size, size) if size is not None else next(iter(sizes))
    images = ImageFiles([files[i][0] for i in good], [found[i].digest for i in good], shape, size)
    labels = np.array([files[i][1] for i in good], dtype=np.int64)
    data = Dataset.of(images, labels, names, np.array(good, dtype=np.int64)).grouped(groups)
    return data.noted(*notes(folder, files, found, data))


def notes(folder: Path, files: Sequence[tuple[Path, int]], found: Sequence[Found], data: Dataset) -> list[str]:
    bad = [(path, one.fault) for (path, _), one in zip(files, found, strict=True) if one.fault]
    grey = [path for (path, _), one in zip(files, found, strict=True) if one.mode in ("1", "L", "LA", "I;16")]
    empty = [name for name, n in zip(data.names, data.counts, strict=True) if n == 0]
    said = []
    if bad:
        listed = [f"{path.relative_to(folder)} ({fault})" for path, fault in bad]
        said.append(f"skipped {counted(len(bad), 'file')} that cannot be read: {some(listed)}")
    if empty:
        said.append(f"{counted(len(empty), 'class', 'classes')} without images: {some(empty)}")
    if 0 < len(grey) < len(files) - len(bad):
        listed = [str(path.relative_to(folder)) for path in grey]
        said.append(f"{counted(len(grey), 'greyscale image')} made into three equal channels: {some(listed)}")
    return said


def counted(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")


def examine(paths: Sequence[Path], folder: Path, watch: Watch) -> list[Found]:
    """Decode every file once, or remember having done it."""
    memory = cache_root() / "examined" / f"{sha256(str(folder.resolve()).encode())[:16]}.json"
    known: dict[str, list[str | int]] = {}
    if memory.is_file():
        try:
            known = json.loads(memory.read_text())
        except ValueError:
            known = {}  # a damaged memory is made anew

    def stamp(path: Path) -> str:
        facts = path.stat()
        return f"{path.relative_to(folder)}|{facts.st_size}|{facts.st_mtime_ns}"

    stamps = [stamp(path) for path in paths]
    missing = [index for index, key in enumerate(stamps) if key not in known]
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # decoding releases the interpreter's lock
        for done, (index, one) in enumerate(
            zip(missing, pool.map(lambda i: look(paths[i]), missing), strict=True), start=1
        ):
            known[stamps[index]] = list(one)
            watch(done, len(missing))
    if missing:
        write_json(memory, {key: known[key] for key in stamps})
    return [Found(*known[key]) for key in stamps]  # type: ignore[arg-type]


def look(path: Path) -> Found:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    try:
        with Image.open(path) as image:
            width, height, mode = *image.size, image.mode
            image.draft("RGB", (8, 8))  # JPEG: all of the file is read, but few pixels are made
            image.load()
        return Found(width, height, mode, digest, "")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        reason = " ".join(str(error).replace(str(path), "it").split())
        return Found(0, 0, "", digest, reason)
