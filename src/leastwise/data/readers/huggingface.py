"""Reader of a Hugging Face data set on disk (what `save_to_disk` writes): Arrow files, memory-mapped.

Needs pyarrow (`pip install 'leastwise[hf]'`). Only columns of encoded images and class labels are read.
"""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from leastwise.data.dataset import Dataset
from leastwise.data.raster import open_raster
from leastwise.data.readers.arrow_bounds import check_columns, check_unpacked_size
from leastwise.data.readers.image_folder import (
    check_readable,
    crop_centre,
    is_sixteen_bit,
    silence_pillow,
    to_eight_bit,
)


class ArrowImages:
    """Encoded images in an Arrow table, decoded as they are read."""

    def __init__(self, column: Any, shape: tuple[int, int, int], crop: int | None) -> None:
        self.column, self.crop = column, crop
        self.shape = (len(column), *shape)

    def __getitem__(self, rows: Int[np.ndarray, " m"], /) -> UInt8[np.ndarray, "m c h w"]:
        batch = np.empty((len(rows), *self.shape[1:]), np.uint8)
        with silence_pillow():
            for place, row in enumerate(rows):
                image = decode_pixels(encoded_image(self.column, int(row)), self.shape[1], self.crop)
                if image.shape != self.shape[1:]:
                    raise ValueError(
                        f"image {row} has the size {image.shape[1:]}, but the first one {self.shape[2:]}: "
                        "say which square to cut out, as in --size 224"
                    )
                batch[place] = image
        return batch


def encoded_image(column: Any, row: int) -> bytes:
    """The bytes of the encoded image in a row."""
    value = column[row]
    # Only this part: another one may be a list of nothing, a thousand million long.
    content = value["bytes"].as_py() if value.is_valid else None
    if not isinstance(content, bytes):
        raise ValueError(f"image {row} is not stored in the data set itself: save it again with the images embedded")
    return content


def decode_pixels(content: bytes, channels: int, crop: int | None) -> UInt8[np.ndarray, "c h w"]:
    """The pixels of an encoded image, with as many channels as the others."""
    try:
        with open_raster(io.BytesIO(content)) as image:
            check_readable(image)
            plain = to_eight_bit(image, "L" if channels == 1 else "RGB")
    except Exception as error:  # a damaged image can fail in any way
        raise ValueError(f"an image of the data set cannot be decoded: {error}") from None
    if crop is not None and plain.size != (crop, crop):
        plain = crop_centre(plain, crop)
    array = np.asarray(plain)
    return array[None] if channels == 1 else array.transpose(2, 0, 1)


def is_huggingface(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    return (folder / "dataset_dict.json").is_file() or (folder / "dataset_info.json").is_file()


def read_huggingface(folder: Path, split: str, size: int | None = None) -> Dataset:
    """The split of a folder with several, or a folder with one."""
    if (folder / "dataset_dict.json").is_file():
        splits = read_json_object(folder / "dataset_dict.json").get("splits")
        if not (isinstance(splits, list) and all(isinstance(name, str) for name in splits)):
            raise ValueError(f"{folder / 'dataset_dict.json'} needs a list of splits: save the data set again")
        if split not in splits:
            raise ValueError(f"{folder} has no split {split!r}: choose {' or '.join(splits)}")
        folder = folder / split
    features = read_json_object(folder / "dataset_info.json").get("features")
    if not isinstance(features, dict):
        raise ValueError(f"{folder / 'dataset_info.json'} needs the features of the columns: save the data set again")
    image, label = (only_column(features, kind, folder) for kind in ("Image", "ClassLabel"))
    names = features[label].get("names")
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"{folder / 'dataset_info.json'} needs the names of the classes in {label!r}")
    table = read_arrow_table(folder)
    for column in (image, label):
        if column not in table.column_names:
            raise ValueError(f"{folder} has no column {column!r}: save the data set again")
    check_columns(table, image, label, folder=folder)
    images, labels = table.column(image), table.column(label)
    if len(images) == 0:
        raise ValueError(f"{folder} holds no images")
    if labels.null_count:
        raise ValueError(f"{labels.null_count} of the {len(labels)} images in {folder} have no label: leave them out")
    channels, height, width = first_shape(encoded_image(images, 0), folder)
    if size is not None:
        height = width = size
    return Dataset.of(ArrowImages(images, (channels, height, width), size), labels.to_numpy(), names)


def first_shape(content: bytes, folder: Path) -> tuple[int, int, int]:
    """Channels, height and width of the first image, which all others must have."""
    try:
        with silence_pillow(), open_raster(io.BytesIO(content)) as first:
            return 1 if first.mode == "L" or is_sixteen_bit(first) else 3, first.height, first.width
    except Exception:  # a damaged image can fail in any way
        raise ValueError(f"the first image in {folder} cannot be decoded: save the data set again") from None


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file, or a sentence on why there is none."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}): save the data set again") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} needs a JSON object, but holds a {type(value).__name__}: save the data set again")
    return value


def only_column(features: dict[str, Any], kind: str, folder: Path) -> str:
    """The name of the only column of a kind."""
    # A column of lists is described by a list.
    named = [name for name, feature in features.items() if isinstance(feature, dict) and feature.get("_type") == kind]
    if len(named) != 1:
        raise ValueError(f"{folder} needs one column of type {kind}, but has {', '.join(named) or 'none'}")
    return named[0]


def read_arrow_table(folder: Path) -> Any:
    """All Arrow files of a folder as one table that is mapped into memory."""
    try:
        import pyarrow
    except ImportError:
        raise ValueError("reading a Hugging Face data set needs pyarrow: pip install 'leastwise[hf]'") from None
    try:
        names = [part["filename"] for part in read_json_object(folder / "state.json")["_data_files"]]
        tables = []
        for name in names:
            # Memory maps: the pages belong to the file, so memory stays flat.
            file = pyarrow.memory_map(str(folder / Path(name).name))
            check_unpacked_size(file)
            file.seek(0)
            tables.append(pyarrow.ipc.open_stream(file).read_all())
    except (OSError, KeyError, TypeError, ValueError, pyarrow.ArrowException) as error:
        raise ValueError(f"{folder} is not a whole data set written by save_to_disk ({error})") from None
    return pyarrow.concat_tables(tables)
