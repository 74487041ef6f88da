"""Pixels as people have them (floats in [0, 1], normalised, channels last, Pillow images) -> uint8 `[m c h w]`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image

from leastwise.core.text import first_line
from leastwise.data.normalisations import list_candidates
from leastwise.data.readers.image_folder import check_readable, crop_centre, silence_pillow, to_eight_bit

OUTSIDE = 1e-3  # how far pixels may lie outside [0, 1] for the rounding of floats to explain it
OFF = 0.02  # of a step of 1/255: what a normalisation that is undone in float32 leaves
COLOURS = (1, 3)

EightBit = UInt8[np.ndarray, "m c h w"]


@dataclass
class PixelReader:
    """Makes uint8 of pixels, and remembers what a reader of the results should know about it.

    `mean` and `std` are those the pixels were normalised with; `size` is the square that is cut out of Pillow images.
    """

    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    size: int | None = None
    mode: str = ""  # of Pillow images: L or RGB, as the first one
    furthest: float = 0.0  # rounding, in steps of 1/255
    brightest: int = 0  # of images that came as integers

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or any(s <= 0 for s in self.std):
            raise ValueError(
                f"mean and std need the same number of channels, and std must be positive, but saw {self.mean} and "
                f"{self.std}: give both as the pixels were normalised"
            )

    def read_one(self, image: Any) -> EightBit:
        """A single image: `[c h w]`, `[h w c]`, `[h w]`, or of Pillow."""
        if isinstance(image, Image.Image):
            return self.read_pillow(image)
        array = to_array(image)
        if array.ndim == 2:
            return self.read(array[None, None])
        if array.ndim != 3:
            raise ValueError(f"an image needs the shape [channels, height, width], but has {list(array.shape)}")
        return self.read(array[None])

    def read_pillow(self, image: Image.Image) -> EightBit:
        """An image of Pillow; the first one decides whether all are grey."""
        if self.mean:
            raise ValueError("Pillow images are not normalised: leave mean and std out")
        with silence_pillow():
            try:
                check_readable(image)
                grey = image.mode in ("1", "L", "LA") or image.mode.startswith("I")
                self.mode = self.mode or ("L" if grey else "RGB")
                if self.mode == "L" and not grey:
                    raise ValueError('the first image is grey and this one has colours: convert("RGB") all of them')
                plain = to_eight_bit(image, self.mode)
            except (OSError, ValueError) as error:
                raise ValueError(f"an image cannot be read ({first_line(error)}): leave it out") from None
            if self.size is not None and plain.size != (self.size, self.size):
                plain = crop_centre(plain, self.size)
        array = np.asarray(plain)
        return array[None, None] if self.mode == "L" else np.ascontiguousarray(array.transpose(2, 0, 1))[None]

    def read(self, images: Any) -> EightBit:
        """A block of images: `[m c h w]`, `[m h w c]` or `[m h w]`, integers from 0 to 255 or floats in [0, 1]."""
        array = to_array(images)
        array = array[:, None] if array.ndim == 3 else array
        if array.ndim != 4:
            raise ValueError(f"images need the shape [n, channels, height, width], but have {list(array.shape)}")
        if array.shape[1] not in COLOURS and array.shape[3] in COLOURS:
            array = np.moveaxis(array, -1, 1)
        if self.size is not None:
            raise ValueError(
                "arrays have one size: a square is cut only out of files and Pillow images: leave size out"
            )
        if array.dtype.kind == "f":
            return self.round_floats(array)
        if self.mean:
            raise ValueError(f"pixels of type {array.dtype} are not normalised: leave mean and std out")
        if array.dtype.kind not in "iu":
            raise ValueError(f"pixels must be integers from 0 to 255 or floats in [0, 1], but have type {array.dtype}")
        if array.dtype != np.uint8 and (array.min(initial=0) < 0 or array.max(initial=0) > 255):
            raise ValueError(
                f"integer pixels must lie in 0 … 255, but saw {array.min()} to {array.max()}: rescale them to 8 bits"
            )
        self.brightest = max(self.brightest, int(array.max(initial=0)))
        return np.ascontiguousarray(array.astype(np.uint8, copy=False))

    def round_floats(self, array: Float[np.ndarray, "m c h w"]) -> EightBit:
        """Floats, perhaps normalised, to the nearest of 256 steps."""
        plain = array.astype(np.float32, copy=False)
        if not np.isfinite(plain).all():
            raise ValueError("pixels must be numbers, but some are NaN or infinite: look where they come from")
        if self.mean:
            if len(self.mean) not in (1, plain.shape[1]):
                raise ValueError(f"mean has {len(self.mean)} channels, but the images have {plain.shape[1]}")
            mean, std = (np.array(one, np.float32).reshape(1, -1, 1, 1) for one in (self.mean, self.std))
            plain = plain * std + mean
        low, high = float(plain.min(initial=0.0)), float(plain.max(initial=0.0))
        if low < -OUTSIDE or high > 1 + OUTSIDE:
            raise ValueError(self.describe_range(plain, low, high))
        steps = 255 * plain.clip(0, 1)
        whole = np.rint(steps)
        self.furthest = max(self.furthest, float(np.abs(steps - whole).max(initial=0.0)))
        return whole.astype(np.uint8)

    def describe_range(self, array: Float[np.ndarray, "m c h w"], low: float, high: float) -> str:
        """Why pixels outside [0, 1] are refused, and what would be right."""
        seen = f"pixels must lie in [0, 1], but saw {low:.3g} to {high:.3g}"
        if self.mean:
            return f"{seen} with mean and std undone: they are not the ones these pixels were normalised with"
        if low >= 0:
            return f"{seen}: divide them by 255, or give them as uint8"
        known = find_normalisation(array)
        if known:
            return f"{seen}: they seem to be normalised, which {known} undoes"
        return f"{seen}: give the mean= and std= that they were normalised with, or the pixels without normalisation"

    def remarks(self) -> tuple[str, ...]:
        """What to say about the pixels when all are read."""
        said = []
        if self.furthest > OFF:
            said.append(
                f"pixels were rounded to 8 bits: they are no multiples of 1/255, and moved by {self.furthest:.2f}/255 "
                "at most"
            )
        if self.brightest == 1:
            said.append("no pixel is brighter than 1 of 255: floats in [0, 1] cut to integers look like this")
        return tuple(said)


def to_array(value: Any) -> np.ndarray:
    """A tensor or an array of any library as numpy's, without a copy where that is possible."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().cpu()
        return (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy()
    return np.asarray(value)


def find_normalisation(array: Float[np.ndarray, "m c h w"]) -> str:
    """The usual mean and std that make multiples of 1/255 of these pixels, as they are given; else nothing."""
    few = array[:16].astype(np.float64)
    for one in list_candidates(array.shape[1]):
        if one.mean:
            mean, std = (np.array(part).reshape(1, -1, 1, 1) for part in (one.mean, one.std))
            steps = 255 * (few * std + mean)
            if steps.min() > -1 and steps.max() < 256 and np.abs(steps - np.rint(steps)).max() < OFF:
                return f"mean={one.mean}, std={one.std} ({one.name})"
    return ""
