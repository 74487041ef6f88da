"""Images as files, decoded batch by batch: memory does not grow with their number.

Every file is decoded once when a folder is first seen, so that what cannot be read is known before any work;
the findings are kept in the cache folder and used again while a file's size, dates and place on the disk stay the same,
or its content does. What an audit or a training is known by is the content of its files, read anew each time up to
`MOST_READ` bytes; of more, it is what was remembered, and every result says so.
"""

import hashlib
import json
import os
import stat
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image

from leastwise.core.files import sha256, write_atomic
from leastwise.core.progress import ProgressCallback, ignore_progress
from leastwise.core.text import name_some, one_line
from leastwise.data.cache import cache_root
from leastwise.data.classes import Groups
from leastwise.data.dataset import SKIPPED, Dataset
from leastwise.data.raster import open_raster

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"})
RESIZE = 256 / 224  # the shorter side before the centre crop, as a multiple of the crop (ImageNet's convention)
BLOCK = 1024  # files waiting to be examined at a time
REMEMBERED = 20  # blocks between two writings of the memory
MOST_READ = 2 << 30  # bytes whose content is read anew to be hashed: some seconds
REMEMBERED_ONLY = "so what they hold was compared by "  # in the note on files that were not
MAC_NOTES = "__MACOSX"  # what archives made on a Mac hold beside what was put into them
MEANING = b"3"  # of the memory; another number when `Found` comes to mean something else


class ExaminedFile(NamedTuple):
    """What decoding a file told."""

    width: int
    height: int
    mode: str  # PIL's: L, RGB, RGBA, …
    digest: str  # empty if the file could not be opened
    fault: str  # empty if the file is good


class ImageFiles:
    """Rows of decoded files: three channels, `size` pixels square (or the size they all have)."""

    def __init__(self, paths: Sequence[Path], digests: Sequence[str], shape: tuple[int, int], crop: int | None) -> None:
        self.paths, self.digests, self.crop = paths, digests, crop
        self.shape = (len(paths), 3, *shape)

    def __getitem__(self, rows: Int[np.ndarray, " m"], /) -> UInt8[np.ndarray, "m c h w"]:
        batch = np.empty((len(rows), *self.shape[1:]), np.uint8)
        with silence_pillow():
            for place, row in enumerate(rows):
                batch[place] = decode_file(self.paths[row], self.crop)
        return batch

    def fingerprint(self, rows: Int[np.ndarray, " m"], /) -> bytes:
        return repr((self.shape[1:], self.crop, [self.digests[row] for row in rows])).encode()

    def read_again(self, rows: Int[np.ndarray, " m"], /) -> "ImageFiles":
        """The same files, with the digests of some as they are now."""
        if self.describe_unread(rows):
            return self
        digests = list(self.digests)
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            for row, digest in zip(rows, pool.map(lambda row: hash_file(self.paths[row]), rows), strict=True):
                digests[row] = digest or digests[row]  # one that is gone is reported when it is decoded
        return ImageFiles(self.paths, digests, (self.shape[2], self.shape[3]), self.crop)

    def describe_unread(self, rows: Int[np.ndarray, " m"], /) -> str:
        """What is to be said where the files are too large to be read just to be recognised; else nothing."""
        size = sum(self.paths[row].stat().st_size for row in rows if self.paths[row].exists())
        if size <= MOST_READ:
            return ""
        how = "their names, sizes, dates and places on the disk"
        return f"{len(rows):,} image files have more than {MOST_READ >> 30} GB, {REMEMBERED_ONLY}{how}"


def hash_file(path: Path) -> str:
    """The digest of a file's content; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def decode_file(path: Path, crop: int | None) -> UInt8[np.ndarray, "c h w"]:
    """The pixels of a file, cropped if that was asked for."""
    try:
        with open_raster(path) as image:
            check_readable(image)
            rgb = to_eight_bit(image, "RGB")
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(f"{path} changed since the folder was checked and cannot be read ({error})") from None
    if crop is not None and rgb.size != (crop, crop):
        rgb = crop_centre(rgb, crop)
    return np.asarray(rgb).transpose(2, 0, 1)


@contextmanager
def silence_pillow() -> Iterator[None]:
    """Pillow's warnings (large images, odd metadata) say nothing that our faults and notes do not.

    Filters belong to the process: enter this where no other thread changes them.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\b")
        yield


def is_sixteen_bit(image: Image.Image) -> bool:
    """Grey with 16 bits. Pillow keeps those of a .pgm in 32-bit integers, but in 0 … 65535 as well."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")


def check_readable(image: Image.Image) -> None:
    """Refuse what would be shown wrongly or fill the memory, before any pixel is decoded."""
    width, height = image.size
    if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
        raise ValueError(f"{width}x{height} pixels are too many: make it smaller")
    if image.mode in ("I", "F") and not is_sixteen_bit(image):
        raise ValueError("32-bit pixels: save it as 8-bit")


def to_eight_bit(image: Image.Image, mode: str) -> Image.Image:
    """The image as "L" or "RGB" with 0 … 255: 65535 / 255 = 257, where Pillow's own conversion cuts off above 255."""
    if is_sixteen_bit(image):
        image = Image.fromarray(((np.asarray(image).astype(np.int64) + 128) // 257).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert(mode)


def crop_centre(image: Image.Image, side: int) -> Image.Image:
    """The shorter side becomes 256/224 of `side`, then the middle square is cut out, rounded as torchvision does."""
    short = round(RESIZE * side)
    width, height = (int(short * length / min(image.size)) for length in image.size)
    left, top = round((width - side) / 2), round((height - side) / 2)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + side, top + side))


def is_image(path: Path) -> bool:
    """Whether its name is that of an image; whether it can be read is found out when it is examined."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def list_images(folder: Path) -> list[Path]:
    """All image files, in the order of their names. Links to folders are followed, but never to the same one twice,
    nor to one that holds this folder. A folder that may not be opened is listed itself, to be reported as a fault.
    """
    found: list[Path] = []

    def refused(error: OSError) -> None:
        if isinstance(error, PermissionError):
            found.append(Path(error.filename))

    seen = {str(above) for above in folder.resolve().parents}
    for place, inner, names in os.walk(folder, followlinks=True, onerror=refused):
        real = os.path.realpath(place)
        if real in seen:
            inner.clear()
            continue
        seen.add(real)
        inner.sort()
        found += [path for path in (Path(place, name) for name in names) if is_image(path)]
    return sorted(found)


def list_folders(folder: Path) -> list[Path]:
    """The folders inside a folder that are not hidden, in the order of their names."""
    return sorted(
        path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".") and path.name != MAC_NOTES
    )


class MixedSizes(ValueError):
    """Image files of several sizes, and nobody said which square to cut out of them."""


def read_folder(folder: Path, size: int | None = None, watch: ProgressCallback = ignore_progress) -> Dataset:
    """A folder with one sub-folder per class, in the order of their names. An empty one is a class without examples."""
    classes = list_folders(folder)
    if not classes:
        raise ValueError(f"{folder} has no sub-folders: put the images of each class into a folder of its own")
    files = [(path, label) for label, part in enumerate(classes) for path in list_images(part)]
    names = [path.name for path in classes]
    made = make_dataset(folder, files, names, size=size, watch=watch)
    numbers = [int(name) for name in names if name.isdecimal()]
    if len(numbers) == len(names) and numbers != sorted(numbers):
        first = next(c for c, number in enumerate(numbers) if number != sorted(numbers)[c])
        order = f"in the order of their letters: class {first} is {names[first]}"
        made = made.with_notes(f"the folders are called by numbers and stand {order}; write 02 for 2 if that is wrong")
    return made


def make_dataset(
    folder: Path,
    files: Sequence[tuple[Path, int]],
    names: Sequence[str],
    *,
    size: int | None,
    groups: Groups = (),
    watch: ProgressCallback = ignore_progress,
) -> Dataset:
    """Labelled files as a data set, without those that cannot be read; `notes` says what was left out or converted.

    ids are positions in the listing, so a file that becomes unreadable does not renumber the others.
    """
    if not files:
        raise ValueError(f"{folder} holds no images: files ending in {', '.join(sorted(SUFFIXES))} are looked for")
    found = examine_files([path for path, _ in files], folder, watch)
    good = [index for index, one in enumerate(found) if not one.fault]
    if not good:
        raise ValueError(f"none of the {len(files)} images under {folder} can be read: {found[0].fault}")
    sizes = {(found[index].height, found[index].width) for index in good}
    if size is None and len(sizes) > 1:
        smallest, largest = (f"{w}x{h}" for h, w in (min(sizes), max(sizes)))
        raise MixedSizes(
            f"the images under {folder} have {len(sizes)} sizes, {smallest} to {largest}: "
            "say which square to cut out, as in --size 224"
        )
    shape = (size, size) if size is not None else next(iter(sizes))
    images = ImageFiles([files[i][0] for i in good], [found[i].digest for i in good], shape, size)
    labels = np.array([files[i][1] for i in good], dtype=np.int64)
    data = Dataset.of(images, labels, names, ids=np.array(good, dtype=np.int64)).with_groups(groups)
    return data.with_notes(*describe_files(folder, files, found, data=data))


def describe_files(
    folder: Path, files: Sequence[tuple[Path, int]], found: Sequence[ExaminedFile], *, data: Dataset
) -> list[str]:
    """What the reader should know: files left out, files converted, classes without images."""
    bad = [(path, one.fault) for (path, _), one in zip(files, found, strict=True) if one.fault]
    grey = [path for (path, _), one in zip(files, found, strict=True) if one.mode in ("1", "L", "LA", "I;16")]
    clear = [
        path for (path, _), one in zip(files, found, strict=True) if one.mode in ("RGBA", "LA", "PA", "La", "RGBa")
    ]
    empty = [name for name, n in zip(data.names, data.counts, strict=True) if n == 0]
    said = []
    if bad:
        listed = [f"{path.relative_to(folder)} ({fault})" for path, fault in bad]
        said.append(f"{SKIPPED}{count_text(len(bad), 'file')} that cannot be read: {name_some(listed)}")
    if clear:
        listed = [str(path.relative_to(folder)) for path in clear]
        said.append(f"the transparency of {count_text(len(clear), 'image')} was left out: {name_some(listed)}")
    if empty:
        said.append(f"{count_text(len(empty), 'class', 'classes')} without images: {name_some(empty)}")
    if 0 < len(grey) < len(files) - len(bad):
        listed = [str(path.relative_to(folder)) for path in grey]
        said.append(f"{count_text(len(grey), 'greyscale image')} made into three equal channels: {name_some(listed)}")
    return said


def count_text(n: int, one: str, many: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def examine_files(paths: Sequence[Path], folder: Path, watch: ProgressCallback) -> list[ExaminedFile]:
    """Decode every file once, or remember having done it."""
    memory = cache_root() / "examined" / f"{sha256(os.fsencode(folder.resolve()), MEANING)[:16]}.json"
    known = recall(memory)
    seen = {
        one.digest: one for one in known.values() if one.digest
    }  # a file that was only moved, or written again, is not decoded
    stamps = [make_stamp(path, folder) for path in paths]
    missing = [index for index, key in enumerate(stamps) if key not in known]
    try:
        # Decoding releases the interpreter's lock.
        with silence_pillow(), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            for done in range(0, len(missing), BLOCK):
                block = missing[done : done + BLOCK]
                for place, one in enumerate(pool.map(lambda index: examine_file(paths[index], seen), block)):
                    known[stamps[block[place]]] = one
                    watch(done + place + 1, len(missing))
                if (done // BLOCK) % REMEMBERED == REMEMBERED - 1:
                    remember(memory, known, stamps)
    finally:  # an interrupted examination goes on where it stopped
        if missing:
            remember(memory, known, stamps)
    return [known[key] for key in stamps]


def make_stamp(path: Path, folder: Path) -> str:
    """What changes when a file does: a copy with the size and date of another has a place, or a time of change, of its
    own."""
    try:
        facts = path.stat()
    except OSError:  # a broken link, or a folder that may not be entered
        return str(path.relative_to(folder))
    place = f"{facts.st_ino}|{facts.st_ctime_ns}"
    return f"{path.relative_to(folder)}|{facts.st_size}|{facts.st_mtime_ns}|{place}"


def recall(memory: Path) -> dict[str, ExaminedFile]:
    """What is remembered; a memory that is damaged or out of reach is made anew."""
    try:
        return {key: ExaminedFile(*facts) for key, facts in json.loads(memory.read_text("ascii")).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def remember(memory: Path, known: dict[str, ExaminedFile], stamps: Sequence[str]) -> None:
    """Keep what is known about the files that are there; those that could not be opened are tried again next time."""
    kept = {key: known[key] for key in stamps if key in known and known[key].digest}
    with suppress(OSError):  # only a convenience
        write_atomic(memory, json.dumps(kept, indent=0).encode("ascii"))  # escapes what is not Unicode in a name


def examine_file(path: Path, seen: Mapping[str, ExaminedFile]) -> ExaminedFile:
    """Decode one file to find its size, mode and digest, or the fault that keeps it from being read.

    `seen` has what was found in contents by their digests.
    """
    digest = ""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError("not a file that can be read" if not path.is_dir() else "a folder that may not be opened")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest in seen:
            return seen[digest]
        with open_raster(path) as image:
            check_readable(image)
            width, height, mode = *image.size, "I;16" if is_sixteen_bit(image) else image.mode
            image.draft("RGB", (8, 8))  # JPEG: all of the file is read, but few pixels are made
            image.load()
        return ExaminedFile(width, height, mode, digest, "")
    except Exception as error:  # a damaged file can fail in any way
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        return ExaminedFile(0, 0, "", digest, one_line(said.replace(str(path), "it")))
