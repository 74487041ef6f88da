"""The weather corruptions: snow, frost, fog, brightness, spatter. Results are not clipped here."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from leastwise.core.noise import Noise
from leastwise.core.types import Images
from leastwise.data.corrupt.blur import blur_along, enlarge_centre, smooth_image
from leastwise.data.corrupt.frost import draw_frost

LUMA = (0.299, 0.587, 0.114)  # the grey value of red, green and blue
WATER = (175 / 255, 238 / 255, 238 / 255)
MUD = (63 / 255, 42 / 255, 20 / 255)
FAR = 20.0  # pixels: beyond this distance from the edge of a drop water looks the same


def brightness(x: Images, noise: Noise, c: float) -> Images:  # noqa: ARG001 (every corruption has one form)
    """c is added to the HSV value (the largest channel), within [0, 1]; hue and saturation stay.

    At fixed hue and saturation all channels are proportional to the value. Black becomes grey; in images with
    one channel the value is the pixel.
    """
    value = x.amax(dim=1, keepdim=True)
    brighter = (value + c).clamp(0, 1)
    return torch.where(value > 0, x * (brighter / torch.where(value > 0, value, 1)), brighter)


def fog(x: Images, noise: Noise, strength: float, decay: float) -> Images:
    """(x + strength·plasma)·m / (m + strength) with m the largest pixel of the image."""
    h, w = x.shape[2:]
    cloud = make_plasma(noise, 1 << (max(h, w) - 1).bit_length(), decay).to(x)[:, None, :h, :w]
    largest = x.amax(dim=(1, 2, 3), keepdim=True)
    return (x + strength * cloud) * largest / (largest + strength)


def frost(x: Images, noise: Noise, keep: float, amount: float, shrink: int) -> Images:
    """keep·x + amount·texture. Departure: the textures are generated (see corrupt_frost.py), not photographs."""
    texture = draw_frost(noise, x.shape[2], x.shape[3], shrink=shrink).to(x)
    return keep * x + amount * (texture if x.shape[1] == 3 else to_grey(texture))


def snow(
    x: Images,
    noise: Noise,
    mean: float,
    std: float,
    flake: float,
    cut: float,
    radius: float,
    sigma: float,
    keep: float,
) -> Images:
    """Whitened by 1 - keep, plus flakes and the same flakes turned by 180 degrees.

    Flakes: normal noise, zoomed, set to zero below the cut, blurred by motion along (-135, -45) degrees.
    Departure: flakes are not rounded to 8 bits on the way.
    """
    h, w = x.shape[2:]
    flakes = enlarge_centre(mean + std * noise.fork("flakes").normal((1, h, w), x.dtype), flake)
    flakes = torch.where(flakes < cut, 0, flakes).clamp(0, 1)
    flakes = blur_along(flakes, radius, sigma, degrees=90 * noise.fork("angle").uniform((), x.dtype) - 135)
    whiter = torch.maximum(x, 1.5 * to_grey(x) + 0.5)
    return keep * x + (1 - keep) * whiter + flakes + flakes.flip(2, 3)


def spatter(
    x: Images, noise: Noise, mean: float, std: float, sigma: float, cut: float, strength: float, mud: int
) -> Images:
    """Drops of water that brighten, or spots of mud that cover, where smoothed noise is above the cut.

    Images with one channel receive the grey value of water or mud.
    """
    liquid = smooth_image(mean + std * noise.normal((1, *x.shape[2:]), x.dtype), sigma)
    if mud:
        cover = smooth_image((liquid > cut).to(x.dtype), strength)
        cover = torch.where(cover < 0.8, 0, cover)
        return x * (1 - cover) + cover * as_channels(MUD, x)
    drops = liquid >= cut
    depth = torch.where(drops, liquid, 0) * make_relief(drops[:, 0]).to(x)[:, None]
    return x + strength * depth / depth.amax(dim=(2, 3), keepdim=True).clamp_min(1e-9) * as_channels(WATER, x)


def make_relief(drops: Bool[Tensor, "b h w"]) -> Float[Tensor, "b h w"]:
    """How water shines: an emboss filter on the equalised distance to the edge of the nearest drop.

    Departure: the published script finds the edges with OpenCV's Canny detector and measures distance with
    a 5×5 mask. The cut makes a step of at least 0.68, far above Canny's thresholds (50 and 150 of 255), so the
    edge is taken to be the pixels of a drop that touch its outside, and the distance is Euclidean.
    """
    from scipy import ndimage  # takes a tenth of a second to import

    emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    shine = []
    for drop in drops.cpu().numpy():
        edge = drop & ~ndimage.binary_erosion(drop, border_value=1)
        distance = ndimage.distance_transform_edt(~edge) if edge.any() else np.full(drop.shape, FAR)
        distance = ndimage.uniform_filter(np.minimum(distance, FAR), 3, mode="mirror")
        level = ndimage.correlate(equalise_levels(np.floor(distance).astype(np.int64)), emboss, mode="mirror").clip(
            0, 255
        )
        shine.append(ndimage.uniform_filter(level.astype(np.float64), 3, mode="mirror"))
    return torch.from_numpy(np.stack(shine))


def equalise_levels(levels: np.ndarray) -> np.ndarray:
    """Histogram equalisation to 0…255, the lowest level becoming 0."""
    counts = np.bincount(levels.ravel())
    counts[np.flatnonzero(counts)[0]] = 0
    rank = np.cumsum(counts)
    return np.rint(255 * rank / max(1, rank[-1])).astype(np.int64)[levels]


def make_plasma(noise: Noise, side: int, decay: float) -> Float[Tensor, "b n n"]:
    """A fractal between 0 and 1 on a square whose edges meet (diamond-square; the side is a power of two).

    Each halving of the step divides the random part by decay², because the published script multiplies by
    its amplitude twice.
    """
    field = torch.zeros(len(noise.ids), side, side, dtype=torch.float64, device=noise.ids.device)
    step, amplitude = side, 1.0
    while step >= 2:
        half, n = step // 2, side // step
        u = 2 * noise.fork("step", step).uniform((3, n, n), torch.float64) - 1
        corner = field[:, ::step, ::step]
        below, right = corner.roll(-1, 1), corner.roll(-1, 2)
        centre = (corner + below + right + below.roll(-1, 2)) / 4 + amplitude * u[:, 0]
        field[:, half::step, half::step] = centre
        field[:, ::step, half::step] = (corner + right + centre + centre.roll(1, 1)) / 4 + amplitude * u[:, 1]
        field[:, half::step, ::step] = (corner + below + centre + centre.roll(1, 2)) / 4 + amplitude * u[:, 2]
        step, amplitude = half, amplitude / decay**2
    field -= field.amin(dim=(1, 2), keepdim=True)
    return field / field.amax(dim=(1, 2), keepdim=True)


def to_grey(x: Images) -> Float[Tensor, "b 1 h w"]:
    """The luma of the image as one channel."""
    weights = torch.tensor(LUMA, dtype=x.dtype, device=x.device).view(1, 3, 1, 1)
    return x if x.shape[1] == 1 else (x * weights).sum(dim=1, keepdim=True)


def as_channels(rgb: tuple[float, float, float], x: Images) -> Float[Tensor, "1 c 1 1"]:
    """A colour in the channels of x."""
    c = torch.tensor(rgb, dtype=x.dtype, device=x.device).view(1, 3, 1, 1)
    return c if x.shape[1] == 3 else to_grey(c)
