"""The blur corruptions, and the smoothing, motion and zoom that weather is made with.

Edges are named as in scipy: nearest (a a | a b c), reflect (b a | a b c), mirror (c b | a b c).
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from leastwise.core.noise import Noise
from leastwise.core.types import Images, PerExample

Edge = Literal["nearest", "reflect", "mirror"]
Indices = Int[Tensor, "..."]

INSIDE: dict[Edge, Callable[[Indices, int], Indices]] = {
    "nearest": lambda i, n: i.clamp(0, n - 1),
    "reflect": lambda i, n: torch.minimum(i % (2 * n), 2 * n - 1 - i % (2 * n)),
    "mirror": lambda i, n: torch.minimum(i % (2 * n - 2), 2 * n - 2 - i % (2 * n - 2)),
}


def gaussian_blur(x: Images, noise: Noise, sigma: float) -> Images:  # noqa: ARG001 (every corruption has one form)
    """Smoothing with a Gaussian of `sigma` pixels."""
    return smooth_image(x, sigma)


def glass_blur(x: Images, noise: Noise, sigma: float, shift: int, rounds: int) -> Images:
    """Smooth, let pixels take the value of near ones, smooth.

    The published script is written as an exchange of two pixels, but on colour arrays its assignment goes
    through numpy views and only copies one over the other; the published sets are made that way, and so is this.
    Departure: it also cuts the first smoothing to 8 bits, which is left out.
    """
    x = smooth_image(x, sigma)
    order = scatter_pixels(noise, x.shape[2], x.shape[3], shift=shift, rounds=rounds)
    moved = x.flatten(2).gather(2, order[:, None].expand(-1, x.shape[1], -1))
    return smooth_image(moved.view_as(x), sigma)


def defocus_blur(x: Images, noise: Noise, radius: float, alias: float) -> Images:  # noqa: ARG001
    """Convolution with a disk whose rim is softened by `alias`."""
    return convolve(x, make_disk(radius, alias).to(x))


def motion_blur(x: Images, noise: Noise, radius: float, sigma: float) -> Images:
    """Blur along an angle drawn from (-45, 45) degrees."""
    return blur_along(x, radius, sigma, degrees=90 * noise.uniform((), x.dtype) - 45)


def zoom_blur(x: Images, noise: Noise, largest: float, step: float) -> Images:  # noqa: ARG001
    """The mean of the image and of its zooms by 1, 1 + step, …, largest (so the image counts twice)."""
    factors = np.arange(1, largest + step / 2, step)
    return (x + sum(enlarge_centre(x, float(factor)) for factor in factors)) / (len(factors) + 1)


def smooth_image(x: Float[Tensor, "*_ h w"], sigma: float, reach: float = 4.0, *, edge: Edge = "nearest") -> Tensor:
    """Gaussian smoothing as scipy.ndimage.gaussian_filter does it, with the kernel cut at `reach` sigma."""
    if sigma == 0:
        return x
    down, across = (smoothing_matrix(n, sigma, reach, edge=edge).to(x) for n in x.shape[-2:])
    return down @ x @ across.T


def smoothing_matrix(n: int, sigma: float, reach: float, *, edge: Edge) -> Float[Tensor, "n n"]:
    """Smoothing along an axis of n pixels. As a matrix it allows kernels much longer than the axis.

    (Elastic transforms smooth 224 pixels with a kernel of 1025.)
    """
    radius = int(reach * sigma + 0.5)
    taps = torch.arange(-radius, radius + 1)
    source = INSIDE[edge](torch.arange(n)[:, None] + taps, n)
    return torch.zeros(n, n, dtype=torch.float64).scatter_add_(1, source, gaussian_weights(taps, sigma).expand(n, -1))


def gaussian_weights(taps: Int[Tensor, " t"], sigma: float) -> Float[Tensor, " t"]:
    """Gaussian weights with sum one."""
    return torch.softmax(-(taps.double() ** 2) / (2 * sigma**2), dim=0)


def make_disk(radius: float, alias: float) -> Float[Tensor, "k k"]:
    """A uniform disk, its rim softened by a Gaussian of 3×3 pixels (5×5 from radius 8 on); sum one.

    Departure: the published kernel has no room for the softened rim of disks of 8 and 10 pixels and folds
    it back; this one has.
    """
    size, rim = math.floor(radius), 1 if radius <= 8 else 2
    reach = torch.arange(-size - rim, size + rim + 1).double()
    flat = (reach[:, None] ** 2 + reach**2 <= radius**2).double()
    weights = gaussian_weights(torch.arange(-rim, rim + 1), alias)
    soft = F.conv2d(flat[None, None], torch.outer(weights, weights)[None, None], padding=rim)[0, 0]
    return soft / soft.sum()


def convolve(x: Images, kernel: Float[Tensor, "k k"]) -> Images:
    """Convolution with mirrored edges, by Fourier transform: 8 ms for 25×25 taps on 224 pixels in colour."""
    h, w = x.shape[2:]
    pad = kernel.shape[0] // 2
    rows, columns = (INSIDE["mirror"](torch.arange(-pad, n + pad, device=x.device), n) for n in (h, w))
    wide = x[:, :, rows][:, :, :, columns]
    shape = (h + 2 * pad, w + 2 * pad)
    product = torch.fft.rfft2(wide) * torch.fft.rfft2(kernel, s=shape)
    return torch.fft.irfft2(product, s=shape)[:, :, 2 * pad :, 2 * pad :]


def blur_along(x: Images, radius: float, sigma: float, *, degrees: PerExample) -> Images:
    """The weighted mean of the pixels met on the way from each pixel in one direction (y points down).

    As in ImageMagick, which the published script calls: 2·radius + 1 places one pixel apart, rounded to
    whole pixels, with the weights of half a Gaussian; beyond the edge the edge pixel continues. (Departure:
    no rounding to 16 bits.)
    """
    h, w = x.shape[2:]
    places = torch.arange(2 * math.ceil(radius) + 1, device=x.device)
    angle = torch.deg2rad(degrees)[:, None]
    right, down = (torch.ceil(places * part - 0.5).long() for part in (angle.cos(), angle.sin()))
    pixels, blurred = x.flatten(2), torch.zeros_like(x).flatten(2)
    for i, weight in enumerate(gaussian_weights(places, sigma).tolist()):
        rows = (torch.arange(h, device=x.device) + down[:, i, None]).clamp(0, h - 1)
        columns = (torch.arange(w, device=x.device) + right[:, i, None]).clamp(0, w - 1)
        source = (rows[:, :, None] * w + columns[:, None, :]).flatten(1)
        blurred += weight * pixels.gather(2, source[:, None].expand(-1, x.shape[1], -1))
    return blurred.view_as(x)


def enlarge_centre(x: Images, factor: float) -> Images:
    """The centre enlarged to the size of the image: crop, bilinear zoom as scipy.ndimage.zoom, trim."""
    h, w = x.shape[2:]
    crop = [math.ceil(n / factor) for n in (h, w)]
    top, left = (h - crop[0]) // 2, (w - crop[1]) // 2
    large = [round(n * factor) for n in crop]
    centre = x[:, :, top : top + crop[0], left : left + crop[1]]
    zoomed = F.interpolate(centre, size=large, mode="bilinear", align_corners=True)
    top, left = (large[0] - h) // 2, (large[1] - w) // 2
    return zoomed[:, :, top : top + h, left : left + w]


def scatter_pixels(noise: Noise, h: int, w: int, *, shift: int, rounds: int) -> Int[Tensor, "b p"]:
    """Which pixel (counted along rows) comes to each place.

    As published: from the bottom right to the top left, leaving out a border, each pixel takes the present value
    of the one moved by -shift to shift - 1 rows and columns. The order matters, so this is a plain loop.
    """
    rows, columns = torch.arange(h - shift, shift, -1), torch.arange(w - shift, shift, -1)
    visits = (rows[:, None] * w + columns).flatten()
    down, right = (2 * shift * noise.uniform((2, rounds, len(visits))) - shift).floor().long().cpu().unbind(1)
    partners = visits + down * w + right
    orders = []
    for rounds_of_one in partners.tolist():
        order = list(range(h * w))
        for round_ in rounds_of_one:
            for a, b in zip(visits.tolist(), round_, strict=True):
                order[a] = order[b]
        orders.append(order)
    return torch.tensor(orders, device=noise.ids.device)
