"""Image operations of Pillow, written for batches: the same 8-bit results with one strength per example.

`Levels` are pixels as whole numbers from 0 to 255, held in float32: Pillow computes on 8-bit images and
cuts fractions off, and histograms need levels. Integer sums keep each image independent of its batch.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from leastwise.core.types import Images, PerExample

Levels = Float[Tensor, "b c h w"]

TOP = 255
FIXED = 16  # Pillow finds nearest neighbours in fixed-point numbers with 16 fractional bits


def to_levels(x: Images) -> Levels:
    """Pixels in [0, 1] as levels 0 to 255."""
    return (TOP * x).round().float()


def to_pixels(v: Levels, dtype: torch.dtype) -> Images:
    """Levels 0 to 255 as pixels in [0, 1]."""
    return v.to(dtype) / TOP


def saturation(v: Levels, factor: PerExample) -> Levels:
    """Saturation goes from grey (0) through the image (1) to more colourful; a grey image stays as it is."""
    return blend(to_grey(v), v, factor)


def brightness(v: Levels, factor: PerExample) -> Levels:
    """Brightness goes from black (0) through the image (1)."""
    return blend(torch.zeros_like(v), v, factor)


def contrast(v: Levels, factor: PerExample) -> Levels:
    """Contrast goes from the mean grey level, rounded (0), through the image (1)."""
    flat = to_grey(v).double().flatten(1)
    mean = (flat.sum(dim=1) / flat.shape[1] + 0.5).floor().float()
    return blend(mean.view(-1, 1, 1, 1), v, factor)


def sharpness(v: Levels, factor: PerExample) -> Levels:
    """Sharpness goes from the image under a 3×3 filter of ones with a 5 in the middle (0) through the image (1).

    The outermost pixels have no full neighbourhood and keep their values.
    """
    total = F.avg_pool2d(v, 3, stride=1, divisor_override=1) + 4 * v[:, :, 1:-1, 1:-1]
    smooth = v.clone()
    smooth[:, :, 1:-1, 1:-1] = (total / 13 + 0.5).floor()
    return blend(smooth, v, factor)


def autocontrast(v: Levels) -> Levels:
    """Each channel stretched so that its darkest pixel is 0 and its lightest 255; a flat channel stays."""
    low, high = v.double().amin(dim=(2, 3), keepdim=True), v.double().amax(dim=(2, 3), keepdim=True)
    # In this order, because Pillow cuts fractions off: number / tensor would round a reciprocal first.
    scale = torch.full_like(low, TOP) / (high - low).clamp_min(1)
    stretched = (v * scale - low * scale).floor().float()
    return torch.where(high > low, stretched, v)


def equalise(v: Levels) -> Levels:
    """Each channel's levels mapped through its cumulative histogram; a channel with too few levels stays."""
    b, c, h, w = v.shape
    flat = v.long().view(b * c, h * w)
    channel = torch.arange(b * c, device=v.device)[:, None]
    counts = torch.bincount((flat + (TOP + 1) * channel).flatten(), minlength=b * c * (TOP + 1)).view(b * c, TOP + 1)
    lightest = counts.gather(1, flat.amax(dim=1, keepdim=True))
    step = (h * w - lightest) // TOP
    below = counts.cumsum(dim=1) - counts
    mapped = ((step // 2 + below) // step.clamp_min(1)).clamp(max=TOP)
    return torch.where(step > 0, mapped.gather(1, flat), flat).view(b, c, h, w).float()


def shear(v: Levels, angle: PerExample, along_x: Bool[Tensor, " b"]) -> Levels:
    """Rows (`along_x`) or columns slide by tan(angle in radians) per pixel from the centre."""
    slide = angle.double().tan()
    zero, one = torch.zeros_like(slide), torch.ones_like(slide)
    return affine(v, make_matrices(one, torch.where(along_x, slide, zero), torch.where(along_x, zero, slide), one))


def rotate(v: Levels, degrees: PerExample) -> Levels:
    """Counter-clockwise about the centre."""
    angle = degrees.double().deg2rad()
    return affine(v, make_matrices(angle.cos(), -angle.sin(), angle.sin(), angle.cos()))


def affine(v: Levels, matrix: Float[Tensor, "b 2 2"]) -> Levels:
    """The output pixel at offset d from the centre is the input pixel that holds matrix · d, or black outside."""
    h, w = v.shape[2:]
    centre = torch.tensor([w / 2, h / 2], dtype=torch.float64, device=v.device)
    first = centre + (matrix * (0.5 - centre)).sum(dim=2)  # where the middle of the first pixel comes from
    along, start = to_fixed_point(matrix)[..., None, None], to_fixed_point(first)[..., None, None]
    i = torch.arange(h, device=v.device)[:, None]
    j = torch.arange(w, device=v.device)
    source = (start + along[:, :, 0] * j + along[:, :, 1] * i) >> FIXED
    return look_up_pixels(v, rows=source[:, 1], cols=source[:, 0])


def look_up_pixels(x: Images, rows: Int[Tensor, " b #h #w"], cols: Int[Tensor, " b #h #w"]) -> Images:
    """Every output pixel is the input pixel at its (row, column), or 0 where that lies outside the image."""
    b, c, h, w = x.shape
    known = (rows >= 0) & (rows < h) & (cols >= 0) & (cols < w)
    place = (rows.clamp(0, h - 1) * w + cols.clamp(0, w - 1)).view(b, 1, h * w)
    found = x.flatten(2).gather(2, place.expand(b, c, h * w)).view(b, c, h, w)
    return torch.where(known[:, None], found, 0)


def blend(plain: Float[Tensor, " b #c #h #w"], v: Levels, factor: PerExample) -> Levels:
    """A point on the line from a plain image (0) through the image itself (1), cut off to levels as Pillow does."""
    return (plain + factor.float().view(-1, 1, 1, 1) * (v - plain)).clamp(0, TOP).floor()


def to_grey(v: Levels) -> Float[Tensor, "b 1 h w"]:
    """Luma of ITU-R 601-2 in Pillow's integer arithmetic; grey images as they are."""
    if v.shape[1] == 1:
        return v
    if v.shape[1] != 3:
        raise ValueError(f"colour operations need images with 1 or 3 channels, but saw {v.shape[1]}")
    red, green, blue = v.long().unbind(dim=1)
    return ((19595 * red + 38470 * green + 7471 * blue + (1 << 15)) >> 16).float()[:, None]


def make_matrices(a: PerExample, b: PerExample, c: PerExample, d: PerExample) -> Float[Tensor, "b 2 2"]:
    """A 2×2 matrix for each example, from its four entries."""
    return torch.stack([a, b, c, d], dim=1).view(-1, 2, 2)


def to_fixed_point(value: Float[Tensor, "..."]) -> Int[Tensor, "..."]:
    """The number in Pillow's fixed-point arithmetic."""
    return (value * (1 << FIXED) + 0.5).floor().long()
