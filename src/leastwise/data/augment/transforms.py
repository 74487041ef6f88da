"""Augmentations: frozen values that change a batch of images, with explicit noise.

All take pixels in [0, 1] and keep the size of the images. What happens to an example is a function of
the example and its own noise, never of its batch.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from leastwise.core.noise import Noise
from leastwise.core.recipe import ADDED_LATER
from leastwise.core.types import Images, Labels
from leastwise.data.augment.pillow_ops import look_up_pixels
from leastwise.data.augment.sampling import draw_below, draw_mask, interpolate


@runtime_checkable
class Augment(Protocol):
    """What changes a batch of images; the noise decides how."""

    def __call__(self, x: Images, noise: Noise) -> Images: ...


@dataclass(frozen=True)
class Chain:
    """One augmentation after the other."""

    recipe_name: ClassVar[str] = "Chain"

    parts: tuple[Augment, ...] = ()

    def __call__(self, x: Images, noise: Noise) -> Images:
        for number, part in enumerate(self.parts):
            x = part(x, noise.fork("part", number))
        return x


@dataclass(frozen=True)
class Flip:
    """Mirror left and right with probability p."""

    recipe_name: ClassVar[str] = "Flip"

    p: float = 0.5

    def __post_init__(self) -> None:
        check_probability(self.p)

    def __call__(self, x: Images, noise: Noise) -> Images:
        return torch.where(draw_mask(self.p, noise.fork("flip"))[:, None, None, None], x.flip(3), x)


@dataclass(frozen=True)
class PadCrop:
    """Padding on all sides, then a window of the original size anywhere in it.

    The padding is black, or with `reflect` the image mirrored at its outermost pixels, as CFA's code has it.
    """

    recipe_name: ClassVar[str] = "PadCrop"

    pad: int = 4
    reflect: bool = field(default=False, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        check_pixels(self.pad, 0)

    def __call__(self, x: Images, noise: Noise) -> Images:
        i, j = pixel_grid(x)
        down = draw_below(2 * self.pad + 1, noise.fork("down")) - self.pad
        right = draw_below(2 * self.pad + 1, noise.fork("right")) - self.pad
        rows, columns = i + as_column(down), j + as_column(right)
        if self.reflect:
            h, w = x.shape[2:]
            if self.pad >= min(h, w):
                raise ValueError(f"images of {h}x{w} pixels cannot be mirrored {self.pad} pixels outwards: lower it")
            rows, columns = reflect_places(rows, h), reflect_places(columns, w)
        return look_up_pixels(x, rows, columns)


def reflect_places(places: Tensor, size: int) -> Tensor:
    """Places outside of 0 … size - 1 mirrored at the outermost ones, which are not repeated."""
    return size - 1 - (size - 1 - places.abs()).abs()


@dataclass(frozen=True)
class CropShift:
    """Cut out a window and put it anywhere on a black canvas (Li & Spratling, ICLR 2023).

    Strength s is a whole number from low to high, both included; c_x is uniform in 0 … s and c_y = s - c_x;
    the window has the size (w - c_x, h - c_y). Both offsets are uniform.
    """

    recipe_name: ClassVar[str] = "CropShift"

    low: int = 0
    high: int = 10

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise ValueError(f"CropShift needs strengths 0 <= low <= high, but saw {self.low} and {self.high}")

    def __call__(self, x: Images, noise: Noise) -> Images:
        h, w = x.shape[2:]
        if self.high >= min(h, w):
            raise ValueError(f"CropShift of up to {self.high} pixels needs larger images, but saw {h}×{w}: lower it")
        strength = self.low + draw_below(self.high - self.low + 1, noise.fork("strength"))
        lost_x = draw_below(strength + 1, noise.fork("split"))
        lost_y = strength - lost_x
        i, j = pixel_grid(x)
        rows = shift_window(i, h, lost_y, noise=noise.fork("vertical"))
        return look_up_pixels(x, rows, shift_window(j, w, lost_x, noise=noise.fork("horizontal")))


@dataclass(frozen=True)
class Cutout:
    """A black square with its centre on any pixel, cut off at the border (DeVries & Taylor, 2017)."""

    recipe_name: ClassVar[str] = "Cutout"

    side: int

    def __post_init__(self) -> None:
        check_pixels(self.side, 1)

    def __call__(self, x: Images, noise: Noise) -> Images:
        h, w = x.shape[2:]
        i, j = pixel_grid(x)
        top = draw_below(h, noise.fork("row")) - self.side // 2
        left = draw_below(w, noise.fork("column")) - self.side // 2
        return torch.where(is_within(i, top, self.side) & is_within(j, left, self.side), 0, x)


ERASE_TRIES = 10  # of torchvision's RandomErasing


@dataclass(frozen=True)
class Erase:
    """A rectangle set to `fill`, with probability p (Zhong et al., AAAI 2020; torchvision's RandomErasing).

    Its share of the area is uniform in `scale`, its height over width log-uniform in `ratio`. A rectangle
    as high or as wide as the image is drawn again; after ten of those the image stays as it is.
    """

    recipe_name: ClassVar[str] = "Erase"

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    fill: float = 0.0

    def __post_init__(self) -> None:
        check_probability(self.p)
        if not (0 <= self.scale[0] <= self.scale[1] <= 1 and 0 < self.ratio[0] <= self.ratio[1]):
            raise ValueError(
                f"Erase needs shares of the area 0 <= low <= high <= 1 and ratios 0 < low <= high, "
                f"but saw {self.scale} and {self.ratio}"
            )

    def __call__(self, x: Images, noise: Noise) -> Images:
        h, w = x.shape[2:]
        tries = (ERASE_TRIES,)
        area = h * w * interpolate(*self.scale, noise.fork("area").uniform(tries, torch.float64))
        low, high = torch.tensor(self.ratio, dtype=torch.float64).log().tolist()
        ratio = interpolate(low, high, noise.fork("ratio").uniform(tries, torch.float64)).exp()
        height, width = (area * ratio).sqrt().round().long(), (area / ratio).sqrt().round().long()
        fits = (height < h) & (width < w)
        first = fits.int().argmax(dim=1, keepdim=True)
        height, width = (size.gather(1, first).squeeze(1) for size in (height, width))
        i, j = pixel_grid(x)
        box = is_within(i, draw_below((h - height + 1).clamp_min(1), noise.fork("row")), height)
        box = box & is_within(j, draw_below((w - width + 1).clamp_min(1), noise.fork("column")), width)
        erased = draw_mask(self.p, noise.fork("erase")) & fits.any(dim=1)
        return torch.where(box & erased[:, None, None, None], self.fill, x)


def pixel_grid(x: Images) -> tuple[Tensor, Tensor]:
    """Row numbers `[1 h 1]` and column numbers `[1 1 w]`."""
    h, w = x.shape[2:]
    return torch.arange(h, device=x.device)[None, :, None], torch.arange(w, device=x.device)[None, None, :]


def as_column(value: Labels) -> Tensor:
    """A number per example, shaped to be compared with rows or columns of pixels."""
    return value[:, None, None]


def is_within(place: Tensor, start: Labels, size: int | Labels) -> Tensor:
    """`[b 1 …]`: which rows or columns lie in the stretch of that start and size."""
    stop = start + size
    return ((place >= as_column(start)) & (place < as_column(stop)))[:, None]


def shift_window(place: Tensor, size: int, lost: Labels, *, noise: Noise) -> Tensor:
    """Where each row or column of the canvas comes from: a window shorter by `lost`, or outside (-1)."""
    source = place + as_column(draw_below(lost + 1, noise.fork("from")))
    to = draw_below(lost + 1, noise.fork("to"))
    inside = is_within(place, to, size - lost).squeeze(1)
    return torch.where(inside, source - as_column(to), -1)


def check_probability(p: float) -> None:
    """Refuse a probability outside [0, 1]."""
    if not 0 <= p <= 1:
        raise ValueError(f"a probability lies between 0 and 1, but saw {p}")


def check_pixels(n: int, least: int) -> None:
    """Refuse a number of pixels below the least that makes sense."""
    if n < least:
        raise ValueError(f"a number of pixels must be {least} or more, but saw {n}")
