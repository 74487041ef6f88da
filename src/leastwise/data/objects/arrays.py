"""Images and labels that lie in memory: tensors, arrays, or lists of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from leastwise.core.progress import ProgressCallback
from leastwise.data.dataset import Dataset, ImageRows
from leastwise.data.objects.items import describe_vectors
from leastwise.data.objects.loaders import Reading
from leastwise.data.objects.pixels import PixelReader, to_array
from leastwise.data.objects.spool import Spool
from leastwise.data.readers.arrays import with_channels_first

AT_ONCE = 256  # images that are converted at a time


def read_arrays(images: Any, labels: Any, how: Reading) -> Dataset:
    """Images with their labels. uint8 arrays are used as they lie there; others are converted block by block."""
    values, rows = list_labels(labels), read_rows(images, how.pixels, how.watch)
    if rows.shape[0] != len(values):
        raise ValueError(f"every image needs one label, but saw {rows.shape[0]} images and {len(values)} labels")
    return how.assemble(rows, values)


def read_rows(images: Any, pixels: PixelReader, watch: ProgressCallback) -> ImageRows:
    """Images as rows of uint8."""
    if is_array(images):
        array = to_array(images)
        if array.dtype == np.uint8 and array.ndim in (3, 4) and not pixels.mean and pixels.size is None:
            return with_channels_first(array)
        blocks = (pixels.read(array[start : start + AT_ONCE]) for start in range(0, len(array), AT_ONCE))
    else:
        blocks = (pixels.read_one(image) for image in images)
    spool = Spool()
    for block in blocks:
        spool.add(block)
        watch(spool.count, len(images))
    return spool.finish()


def is_array(value: Any) -> bool:
    return isinstance(value, torch.Tensor | np.ndarray) or (hasattr(value, "ndim") and hasattr(value, "__array__"))


def is_pair(given: Any) -> bool:
    """Whether something is images and their labels: two things of one length, the first with the shape of images."""
    if not (isinstance(given, tuple | list) and len(given) == 2):
        return False
    images, labels = given
    if is_array(images):
        return int(images.ndim) >= 3 and (is_array(labels) or isinstance(labels, Sequence))
    return isinstance(images, Sequence) and isinstance(given, tuple) and not isinstance(images, str)


def list_labels(labels: Any) -> list[Any]:
    """Labels as plain numbers or words, one each."""
    array = to_array(labels)
    if array.dtype.kind in "US":
        return [str(value) for value in array.tolist()]
    if array.dtype == object and all(isinstance(value, str) for value in array.tolist()):
        return list(array.tolist())
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(describe_vectors(array.shape, len(array) if array.ndim else 1, str(array.dtype)))
    return list(array.tolist())
