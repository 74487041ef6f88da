"""Augmentations: frozen values that change a batch of images, with explicit noise.

All take pixels in [0, 1] and keep the size of the images. What happens to an example is a function of
the example and its own noise, never of its batch.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels
from leastwise.data.augment.draws import below, between, chosen
from leastwise.data.augment.idbh import ColorShape, Kind
from leastwise.data.augment.pillow_ops import looked_up


@runtime_checkable
class Augment(Protocol):
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
        return torch.where(chosen(self.p, noise.fork("flip"))[:, None, None, None], x.flip(3), x)


@dataclass(frozen=True)
class PadCrop:
    """Zero padding on all sides, then a window of the original size anywhere in it."""

    recipe_name: ClassVar[str] = "PadCrop"

    pad: int = 4

    def __post_init__(self) -> None:
        check_pixels(self.pad, 0)

    def __call__(self, x: Images, noise: Noise) -> Images:
        i, j = grid(x)
        down = below(2 * self.pad + 1, noise.fork("down")) - self.pad
        right = below(2 * self.pad + 1, noise.fork("right")) - self.pad
        return looked_up(x, i + column(down), j + column(right))


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
        strength = self.low + below(self.high - self.low + 1, noise.fork("strength"))
        lost_x = below(strength + 1, noise.fork("split"))
        lost_y = strength - lost_x
        i, j = grid(x)
        rows = moved(i, h, lost_y, noise.fork("vertical"))
        return looked_up(x, rows, moved(j, w, lost_x, noise.fork("horizontal")))


@dataclass(frozen=True)
class Cutout:
    """A black square with its centre on any pixel, cut off at the border (DeVries & Taylor, 2017)."""

    recipe_name: ClassVar[str] = "Cutout"

    side: int

    def __post_init__(self) -> None:
        check_pixels(self.side, 1)

    def __call__(self, x: Images, noise: Noise) -> Images:
        h, w = x.shape[2:]
        i, j = grid(x)
        top = below(h, noise.fork("row")) - self.side // 2
        left = below(w, noise.fork("column")) - self.side // 2
        return torch.where(within(i, top, self.side) & within(j, left, self.side), 0, x)


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
        area = h * w * between(*self.scale, noise.fork("area").uniform(tries, torch.float64))
        low, high = torch.tensor(self.ratio, dtype=torch.float64).log().tolist()
        ratio = between(low, high, noise.fork("ratio").uniform(tries, torch.float64)).exp()
        height, width = (area * ratio).sqrt().round().long(), (area / ratio).sqrt().round().long()
        fits = (height < h) & (width < w)
        first = fits.int().argmax(dim=1, keepdim=True)
        height, width = (size.gather(1, first).squeeze(1) for size in (height, width))
        i, j = grid(x)
        box = within(i, below((h - height + 1).clamp_min(1), noise.fork("row")), height)
        box = box & within(j, below((w - width + 1).clamp_min(1), noise.fork("column")), width)
        erased = chosen(self.p, noise.fork("erase")) & fits.any(dim=1)
        return torch.where(box & erased[:, None, None, None], self.fill, x)


def grid(x: Images) -> tuple[Tensor, Tensor]:
    """Row numbers `[1 h 1]` and column numbers `[1 1 w]`."""
    h, w = x.shape[2:]
    return torch.arange(h, device=x.device)[None, :, None], torch.arange(w, device=x.device)[None, None, :]


def column(value: Labels) -> Tensor:
    return value[:, None, None]


def within(place: Tensor, start: Labels, size: int | Labels) -> Tensor:
    """`[b 1 …]`: which rows or columns lie in the stretch of that start and size."""
    stop = start + size
    return ((place >= column(start)) & (place < column(stop)))[:, None]


def moved(place: Tensor, size: int, lost: Labels, noise: Noise) -> Tensor:
    """Where each row or column of the canvas comes from: a window shorter by `lost`, or outside (-1)."""
    source = place + column(below(lost + 1, noise.fork("from")))
    to = below(lost + 1, noise.fork("to"))
    inside = within(place, to, size - lost).squeeze(1)
    return torch.where(inside, source - column(to), -1)


def check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"a probability lies between 0 and 1, but saw {p}")


def check_pixels(n: int, least: int) -> None:
    if n < least:
        raise ValueError(f"a number of pixels must be {least} or more, but saw {n}")


def idbh(kind: Kind, crop: int, erase: Erase) -> Chain:
    """The order of Li & Spratling: flip, CropShift, ColorShape, erase. It replaces padding and cropping."""
    return Chain((Flip(), CropShift(0, crop), ColorShape(kind), erase))


IDBH: dict[str, Chain] = {
    "cifar10-weak": idbh("colour", 10, Erase(p=0.5)),
    "cifar10-strong": idbh("colour", 10, Erase(p=1.0)),
    "svhn": idbh("shape", 8, Erase(p=1.0, scale=(0.02, 0.5))),
}


class Named(NamedTuple):
    augment: Chain
    about: str


AUGMENTATIONS: dict[str, Named] = {
    "none": Named(Chain(), "the images as they are"),
    "flip": Named(Chain((Flip(),)), "mirror every other image"),
    "crop-flip": Named(Chain((PadCrop(4), Flip())), "pad by 4 pixels, crop at random, mirror every other image"),
    "cutout": Named(
        Chain((PadCrop(4), Flip(), Cutout(16))), "crop-flip and a black square of 16 pixels (DeVries & Taylor 2017)"
    ),
    "idbh-weak": Named(IDBH["cifar10-weak"], "IDBH as published for CIFAR-10, erasing half of the images"),
    "idbh-strong": Named(IDBH["cifar10-strong"], "IDBH as published for CIFAR-10, erasing every image"),
    "idbh-svhn": Named(IDBH["svhn"], "IDBH as published for SVHN; it mirrors digits too"),
}


def augmentation(name: str) -> Chain:
    if name not in AUGMENTATIONS:
        raise ValueError(f"there is no augmentation {name!r}: choose {' or '.join(AUGMENTATIONS)}")
    return AUGMENTATIONS[name].augment
