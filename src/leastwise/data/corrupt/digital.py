"""The digital corruptions: contrast, elastic transform, pixelate, JPEG, saturate. Results are not clipped here."""

from collections.abc import Callable
from io import BytesIO

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from leastwise.core.noise import Noise
from leastwise.core.types import Images
from leastwise.data.corrupt.blur import smooth_image
from leastwise.data.raster import open_raster


def contrast(x: Images, noise: Noise, factor: float) -> Images:  # noqa: ARG001 (every corruption has one form)
    """Distances from the mean of each channel of the image are multiplied by the factor."""
    mean = x.mean(dim=(2, 3), keepdim=True)
    return (x - mean) * factor + mean


def saturate(x: Images, noise: Noise, factor: float, offset: float) -> Images:  # noqa: ARG001
    """HSV saturation s becomes s·factor + offset within [0, 1]; hue and value stay.

    At fixed hue and value, value minus channel is proportional to s. A grey pixel of a colour image has hue
    0 and turns red if the offset asks for it, as published; images with one channel have no saturation and
    stay as they are.
    """
    if x.shape[1] == 1:
        return x
    value, low = x.amax(dim=1, keepdim=True), x.amin(dim=1, keepdim=True)
    before = (value - low) / torch.where(value > 0, value, 1)
    after = (before * factor + offset).clamp(0, 1)
    red = torch.tensor([0.0, 1.0, 1.0], dtype=x.dtype, device=x.device).view(1, 3, 1, 1)
    share = torch.where(before > 0, (value - x) / torch.where(before > 0, before, 1), value * red)
    return value - share * after


def jpeg_compression(x: Images, noise: Noise, quality: int) -> Images:  # noqa: ARG001
    """The image after the JPEG encoder and decoder of Pillow."""

    def compress(image: Image.Image) -> Image.Image:
        file = BytesIO()
        image.save(file, "JPEG", quality=quality)
        return open_raster(file)

    return change_each_image(x, compress)


def pixelate(x: Images, noise: Noise, factor: float) -> Images:  # noqa: ARG001
    """Shrunk by the factor and enlarged again, both with Pillow's box filter (at both published sizes)."""
    h, w = x.shape[2:]
    small = (max(1, int(w * factor)), max(1, int(h * factor)))
    return change_each_image(
        x, lambda image: image.resize(small, Image.Resampling.BOX).resize((w, h), Image.Resampling.BOX)
    )


def elastic_transform(x: Images, noise: Noise, amplitude: float, sigma: float, jitter: float, unit: float) -> Images:
    """A random affine map, then a smoothed random displacement of every pixel.

    Lengths are in units of `unit` times the shorter side: 1 for CIFAR, 244/224 for ImageNet, where the
    published script uses 244 (for 224) with all lengths. Departure: OpenCV rounds the places of the affine
    map to 1/32 pixel; here they are exact.
    """
    length = unit * min(x.shape[2:])
    x = sample_bilinear(x, *affine_places(x, noise.fork("affine"), jitter * length), mirror=True)
    u = noise.fork("displacement").uniform((2, *x.shape[2:]), x.dtype)
    move = amplitude * length * smooth_image(2 * u - 1, sigma * length, 3.0, edge="reflect")
    rows, columns = pixel_places(x)
    return sample_bilinear(x, rows + move[:, 1], columns + move[:, 0], mirror=False)


def affine_places(x: Images, noise: Noise, jitter: float) -> tuple[Float[Tensor, "b h w"], Float[Tensor, "b h w"]]:
    """Where each pixel comes from when three corners of the central square move by up to jitter."""
    h, w = x.shape[2:]
    half = min(h, w) // 3
    signs = torch.tensor([[1, 1], [1, -1], [-1, -1]], dtype=x.dtype, device=x.device)
    corners = torch.tensor([w // 2, h // 2], dtype=x.dtype, device=x.device) + half * signs
    moved = corners + jitter * (2 * noise.uniform((3, 2), x.dtype) - 1)
    back = torch.linalg.solve(F.pad(moved, (0, 1), value=1.0), corners.expand_as(moved))
    rows, columns = pixel_places(x)
    column, row = torch.einsum("phw,bpq->qbhw", torch.stack([columns, rows, torch.ones_like(rows)]), back)
    return row, column


def pixel_places(x: Images) -> tuple[Float[Tensor, "h w"], Float[Tensor, "h w"]]:
    """The row and the column of every pixel."""
    rows, columns = torch.meshgrid(
        *(torch.arange(n, dtype=x.dtype, device=x.device) for n in x.shape[2:]), indexing="ij"
    )
    return rows, columns


def sample_bilinear(
    x: Images, rows: Float[Tensor, "b h w"], columns: Float[Tensor, "b h w"], *, mirror: bool
) -> Images:
    """Bilinear interpolation at places in pixels; beyond the edge the image is mirrored (or else reflected)."""
    h, w = x.shape[2:]
    if mirror:
        grid = torch.stack([2 * columns / (w - 1) - 1, 2 * rows / (h - 1) - 1], dim=3)
    else:
        grid = torch.stack([(2 * columns + 1) / w - 1, (2 * rows + 1) / h - 1], dim=3)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=mirror)


def change_each_image(x: Images, change: Callable[[Image.Image], Image.Image]) -> Images:
    """What Pillow makes of each image, with 8 bits."""
    changed = [np.asarray(change(image)).reshape(*x.shape[2:], -1) for image in to_pillow(x)]
    return torch.from_numpy(np.stack(changed)).permute(0, 3, 1, 2).to(x) / 255


def to_pillow(x: Images) -> list[Image.Image]:
    """Images of one or three channels as Pillow's."""
    bytes_ = (255 * x.clamp(0, 1)).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
    return [Image.fromarray(p[:, :, 0] if p.shape[2] == 1 else p) for p in bytes_]
