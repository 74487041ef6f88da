"""The published parameters of the corruptions, written out again; images; slow references."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from scipy import ndimage
from torch import Tensor

from leastwise.core.noise import Noise
from leastwise.data.corrupt.registry import Corruption
from leastwise.data.loading import load

IDS = torch.tensor([11, 5, 2**40, 0])
NAMES = [
    *("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    *("speckle_noise", "gaussian_blur", "spatter", "saturate"),
]

# name: CIFAR, ImageNet; as printed in the published scripts.
EXPECTED: dict[str, tuple[list, list]] = {
    "gaussian_noise": ([0.04, 0.06, 0.08, 0.09, 0.1], [0.08, 0.12, 0.18, 0.26, 0.38]),
    "shot_noise": ([500, 250, 100, 75, 50], [60, 25, 12, 5, 3]),
    "impulse_noise": ([0.01, 0.02, 0.03, 0.05, 0.07], [0.03, 0.06, 0.09, 0.17, 0.27]),
    "speckle_noise": ([0.06, 0.1, 0.12, 0.16, 0.2], [0.15, 0.2, 0.35, 0.45, 0.6]),
    "gaussian_blur": ([0.4, 0.6, 0.7, 0.8, 1], [1, 2, 3, 4, 6]),
    "glass_blur": (
        [(0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)],
        [(0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)],
    ),
    "defocus_blur": (
        [(0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)],
        [(3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)],
    ),
    "motion_blur": (
        [(6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)],
        [(10, 3), (15, 5), (15, 8), (15, 12), (20, 15)],
    ),
    "brightness": ([0.05, 0.1, 0.15, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4, 0.5]),
    "contrast": ([0.75, 0.5, 0.4, 0.3, 0.15], [0.4, 0.3, 0.2, 0.1, 0.05]),
    "saturate": (
        [(0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)],
        [(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)],
    ),
    "fog": (
        [(0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)],
        [(1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)],
    ),
    "pixelate": ([0.95, 0.9, 0.85, 0.75, 0.65], [0.6, 0.5, 0.4, 0.3, 0.25]),
    "jpeg_compression": ([80, 65, 58, 50, 40], [25, 18, 15, 10, 7]),
    "snow": (
        [
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ],
        [
            (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
            (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
            (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
        ],
    ),
    "spatter": (
        [
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ],
        [
            (0.65, 0.3, 4, 0.69, 0.6, 0),
            (0.65, 0.3, 3, 0.68, 0.6, 0),
            (0.65, 0.3, 2, 0.68, 0.5, 0),
            (0.65, 0.3, 1, 0.65, 1.5, 1),
            (0.67, 0.4, 1, 0.65, 1.5, 1),
        ],
    ),
}
# With one more column than published: how much smaller the texture is, the unit of the lengths.
FROST = (
    [(1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)],
    [(1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)],
)
ELASTIC = (
    [(0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)],
    [(2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02)],
)
# numpy.arange(1, stop, step) of the published scripts
ZOOM = (
    [(1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)],
    [(1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)],
)
ORDERED = [
    *("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "gaussian_blur", "defocus_blur"),
    *("zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression"),
]


def noise(n: int = 4) -> Noise:
    return Noise(3, IDS[:n])


def corrupted(name: str, x: Tensor, severity: int = 3, size: str = "auto") -> Tensor:
    """Before clipping."""
    return Corruption(name, severity, size).apply_raw(x, Noise(3, torch.arange(len(x))))


def random_images(n: int, c: int, h: int, w: int) -> Tensor:
    g = torch.Generator().manual_seed(5)
    return torch.randint(0, 256, (n, c, h, w), generator=g) / 255


def colour_images(n: int, side: int) -> Tensor:
    """Real shapes in colour: three garments as the channels of one image, on a grey ground."""
    pixels = torch.from_numpy(load("fashion-mini/test").images[np.arange(3 * n) * 7]).float() / 255
    large = F.interpolate(F.pad(pixels, (2, 2, 2, 2)), size=(side, side), mode="bilinear").view(n, 3, side, side)
    return ((0.15 + 0.7 * large) * 255).round() / 255


def slow_motion(image: np.ndarray, radius: float, sigma: float, degrees: float) -> np.ndarray:
    h, w = image.shape
    weights = [math.exp(-(i**2) / (2 * sigma**2)) for i in range(2 * int(radius) + 1)]
    blurred = np.zeros((h, w))
    for y in range(h):
        for x in range(w):
            for i, weight in enumerate(weights):
                dx = math.ceil(i * math.cos(math.radians(degrees)) - 0.5)
                dy = math.ceil(i * math.sin(math.radians(degrees)) - 0.5)
                blurred[y, x] += weight * image[min(max(y + dy, 0), h - 1), min(max(x + dx, 0), w - 1)]
    return blurred / sum(weights)


def slow_zoom(image: np.ndarray, factor: float) -> np.ndarray:
    h, w = image.shape
    crop_h, crop_w = math.ceil(h / factor), math.ceil(w / factor)
    top, left = (h - crop_h) // 2, (w - crop_w) // 2
    large = ndimage.zoom(image[top : top + crop_h, left : left + crop_w], factor, order=1)
    top, left = (large.shape[0] - h) // 2, (large.shape[1] - w) // 2
    return large[top : top + h, left : left + w]
