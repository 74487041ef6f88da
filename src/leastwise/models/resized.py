"""A network behind the resizing that it was trained with, so that images of another size may be given to it.

The resizing is part of the network: attacks move the pixels of the images as they are given, and eps is in those.
"""

import math
from typing import Literal, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from leastwise.core.types import Images

Interpolation = Literal["nearest", "bilinear", "bicubic"]

LARGEST = 4096  # pixels of a side that anybody trains with; a batch of larger ones would not fit into memory


class Preparation(NamedTuple):
    """How images are brought to the size that a network takes: resized, and then cut to their middle."""

    resize: tuple[int, ...]  # height and width, or the shorter side alone
    crop: tuple[int, int] | None = None
    method: Interpolation = "bilinear"

    def check(self, what: str) -> "Preparation":
        """Refuse sizes that no image has."""
        sizes = (*self.resize, *(self.crop or ()))
        if not self.resize or not all(1 <= size <= LARGEST for size in sizes):
            shown = " × ".join(map(str, sizes)) or "nothing"
            raise ValueError(f"{what} resizes images to {shown}, but a side has 1 to {LARGEST} pixels: mend its size")
        return self

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """The height and width after resizing, before anything is cut off."""
        if len(self.resize) == 2:
            return self.resize[0], self.resize[1]
        (short,) = self.resize
        if height <= width:
            return short, math.floor(short * width / height)
        return math.floor(short * height / width), short

    def target(self, height: int, width: int) -> tuple[int, int]:
        """The height and width that the network sees of images of some size."""
        made = self.resized(height, width)
        return made if self.crop is None else (min(self.crop[0], made[0]), min(self.crop[1], made[1]))

    def leaves(self, height: int, width: int) -> bool:
        """Whether images of that size are given to the network as they are."""
        return self.target(height, width) == (height, width)

    def __str__(self) -> str:
        side = "shorter side " if len(self.resize) == 1 else ""
        cut = f" and cut to {self.crop[0]} × {self.crop[1]}" if self.crop else ""
        return f"{side}{' × '.join(map(str, self.resize))}, {self.method}{cut}"


class Resized(nn.Module):
    """Images of the size that the network takes pass as they are; others are resized and cut first.

    Sizes that shrink are smoothed as Pillow does; nothing is rounded to bytes, so that gradients pass.
    """

    def __init__(self, net: nn.Module, preparation: Preparation) -> None:
        super().__init__()
        self.net, self.preparation = net, preparation

    def forward(self, x: Images) -> Tensor:
        return self.net(self.prepare(x))

    def prepare(self, x: Images) -> Float[Tensor, "b c high wide"]:
        """The images as the network sees them."""
        height, width = x.shape[-2:]
        if self.preparation.leaves(height, width):
            return x
        size, method = self.preparation.resized(height, width), self.preparation.method
        if method == "nearest":
            x = F.interpolate(x, size, mode="nearest-exact")
        else:
            x = F.interpolate(x, size, mode=method, antialias=True, align_corners=False)
        high, wide = self.preparation.target(height, width)
        top, left = round((size[0] - high) / 2), round((size[1] - wide) / 2)
        return x[..., top : top + high, left : left + wide]
