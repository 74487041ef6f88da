"""The nineteen common corruptions of Hendrycks and Dietterich, at five severities.

The parameters are those of the published CIFAR and ImageNet sets ("Benchmarking neural network robustness to common
corruptions and perturbations", ICLR 2019). Those sets are files; these are functions, so any data set can be
corrupted, at any size from 8×8 on.

What each does differently from the published scripts is said in its docstring. Two differences concern all: results
are rounded to 8 bits, where the scripts cut off (then the last bit of a smoothed constant image would decide its
level), and ImageNet-C's files are compressed as JPEG once more, which is left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from leastwise.core.noise import Noise
from leastwise.core.types import Images
from leastwise.data.corrupt.blur import defocus_blur, gaussian_blur, glass_blur, motion_blur, zoom_blur
from leastwise.data.corrupt.digital import contrast, elastic_transform, jpeg_compression, pixelate, saturate
from leastwise.data.corrupt.noise import gaussian_noise, impulse_noise, shot_noise, speckle_noise
from leastwise.data.corrupt.weather import brightness, fog, frost, snow, spatter

ParameterSet = Literal["auto", "cifar", "imagenet"]
SeverityParameters = tuple[int | float, ...]  # the parameters of one severity
Family = Literal["noise", "blur", "weather", "digital"]

SEVERITIES = 5
LARGEST_CIFAR = 64  # pixels: up to this side "auto" means the CIFAR parameters
SMALLEST = 8
# Added before rounding, in units of 1/255: where the exact result lies halfway between two levels, the last bit of
# a sum, which may depend on the batch size, must not decide.
TIE = 1e-9


class CorruptionKind(NamedTuple):
    """What a corruption is: its function, its parameters at both sizes, and how it is listed."""

    apply: Callable[..., Images]  # pixels in float64, noise, parameters -> pixels, not clipped
    cifar: tuple[SeverityParameters, ...]
    imagenet: tuple[SeverityParameters, ...]
    about: str
    family: Family


@dataclass(frozen=True)
class Corruption:
    """A corruption at a severity. `size` chooses the parameters: "auto" is CIFAR's for sides up to 64 pixels,
    ImageNet's above.

    An image's result depends on the seed and its id only. All severities of a corruption use the same random
    numbers, so that they differ in severity alone (the published sets draw anew).
    """

    recipe_name: ClassVar[str] = "Corruption"

    name: str
    severity: int = 3
    size: ParameterSet = "auto"

    def __post_init__(self) -> None:
        if self.name not in CORRUPTIONS:
            raise ValueError(f"there is no corruption {self.name!r}: choose {', '.join(CORRUPTIONS)}")
        if not 1 <= self.severity <= SEVERITIES:
            raise ValueError(f"severity must be 1 to {SEVERITIES}, but saw {self.severity}")
        if self.size not in get_args(ParameterSet):
            raise ValueError(
                f"there are no parameters for size {self.size!r}: choose {', '.join(get_args(ParameterSet))}"
            )

    def __str__(self) -> str:
        return f"{self.name} {self.severity}"

    def __call__(self, x: Images, noise: Noise) -> Images:
        """The corrupted images, in steps of 1/255 as stored images are."""
        return ((255 * self.apply_unrounded(x, noise) + TIE).round() / 255).to(x.dtype)

    def apply_unrounded(self, x: Images, noise: Noise) -> Float[Tensor, "b c h w"]:
        """The corrupted images before rounding to 8 bits, but clipped to [0, 1]; in float64."""
        return self.apply_raw(x, noise).clamp(0, 1)

    def apply_raw(self, x: Images, noise: Noise) -> Float[Tensor, "b c h w"]:
        """The corrupted images before clipping and rounding, in float64. JPEG and pixelate have 8 bits by nature."""
        b, c, h, w = x.shape
        if c not in (1, 3) or min(h, w) < SMALLEST:
            raise ValueError(
                f"corruptions need images with 1 or 3 channels and sides of {SMALLEST} pixels or more, "
                f"but saw {c} channels of {h}×{w}"
            )
        assert len(noise.ids) == b
        with torch.no_grad():
            return CORRUPTIONS[self.name].apply(x.double(), noise.fork(self.name), *self.parameters(h, w))

    def parameters(self, h: int, w: int) -> SeverityParameters:
        """The row of the table that images of this size get."""
        small = self.size == "cifar" or (self.size == "auto" and max(h, w) <= LARGEST_CIFAR)
        table = CORRUPTIONS[self.name]
        return (table.cifar if small else table.imagenet)[self.severity - 1]


def per_severity(*values: int | float) -> tuple[SeverityParameters, ...]:
    """One parameter per severity."""
    return tuple((v,) for v in values)


# In the paper's order: fifteen main corruptions, then the four extra ones.
CORRUPTIONS: dict[str, CorruptionKind] = {
    "gaussian_noise": CorruptionKind(
        gaussian_noise,
        per_severity(0.04, 0.06, 0.08, 0.09, 0.10),
        per_severity(0.08, 0.12, 0.18, 0.26, 0.38),
        "normal noise of one strength (standard deviation)",
        "noise",
    ),
    "shot_noise": CorruptionKind(
        shot_noise,
        per_severity(500.0, 250.0, 100.0, 75.0, 50.0),
        per_severity(60.0, 25.0, 12.0, 5.0, 3.0),
        "Poisson noise, as of few photons (photons of a white pixel)",
        "noise",
    ),
    "impulse_noise": CorruptionKind(
        impulse_noise,
        per_severity(0.01, 0.02, 0.03, 0.05, 0.07),
        per_severity(0.03, 0.06, 0.09, 0.17, 0.27),
        "salt and pepper (share of values replaced)",
        "noise",
    ),
    "defocus_blur": CorruptionKind(
        defocus_blur,
        ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)),
        ((3.0, 0.1), (4.0, 0.5), (6.0, 0.5), (8.0, 0.5), (10.0, 0.5)),
        "a lens out of focus (radius of the disk, softness of its rim, pixels)",
        "blur",
    ),
    "glass_blur": CorruptionKind(
        glass_blur,
        ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
        ((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
        "frosted glass (smoothing in pixels, largest shift, rounds of exchanges)",
        "blur",
    ),
    "motion_blur": CorruptionKind(
        motion_blur,
        ((6.0, 1.0), (6.0, 1.5), (6.0, 2.0), (8.0, 2.0), (9.0, 2.5)),
        ((10.0, 3.0), (15.0, 5.0), (15.0, 8.0), (15.0, 12.0), (20.0, 15.0)),
        "a moving camera (radius, sigma, pixels)",
        "blur",
    ),
    # The largest factor is what numpy's arange(1, 1.06, 0.01) really ends with in the published scripts: 1.06 and 1.11,
    # not 1.05 and 1.10, but 1.15, 1.20 and so on.
    "zoom_blur": CorruptionKind(
        zoom_blur,
        ((1.06, 0.01), (1.11, 0.01), (1.15, 0.01), (1.20, 0.01), (1.25, 0.01)),
        ((1.11, 0.01), (1.15, 0.01), (1.20, 0.02), (1.24, 0.02), (1.30, 0.03)),
        "a camera moving forward (largest zoom, step)",
        "blur",
    ),
    "snow": CorruptionKind(
        snow,
        (
            (0.1, 0.2, 1.0, 0.6, 8.0, 3.0, 0.95),
            (0.1, 0.2, 1.0, 0.5, 10.0, 4.0, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10.0, 4.0, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12.0, 6.0, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14.0, 12.0, 0.8),
        ),
        (
            (0.1, 0.3, 3.0, 0.5, 10.0, 4.0, 0.8),
            (0.2, 0.3, 2.0, 0.5, 12.0, 4.0, 0.7),
            (0.55, 0.3, 4.0, 0.9, 12.0, 8.0, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12.0, 8.0, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12.0, 12.0, 0.55),
        ),
        "falling snow (mean and deviation of the noise, zoom, cut, radius and sigma of the motion, image weight)",
        "weather",
    ),
    "frost": CorruptionKind(
        frost,
        ((1.0, 0.2, 5), (1.0, 0.3, 5), (0.9, 0.4, 5), (0.85, 0.4, 5), (0.75, 0.45, 5)),
        ((1.0, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
        "ice on glass, with generated textures, not photographs (image weight, frost weight, texture made smaller by)",
        "weather",
    ),
    "fog": CorruptionKind(
        fog,
        ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)),
        ((1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4)),
        "fog from a plasma fractal (strength, decay)",
        "weather",
    ),
    "brightness": CorruptionKind(
        brightness,
        per_severity(0.05, 0.1, 0.15, 0.2, 0.3),
        per_severity(0.1, 0.2, 0.3, 0.4, 0.5),
        "more light (added to the HSV value)",
        "weather",
    ),
    "contrast": CorruptionKind(
        contrast,
        per_severity(0.75, 0.5, 0.4, 0.3, 0.15),
        per_severity(0.4, 0.3, 0.2, 0.1, 0.05),
        "less contrast (factor around the mean of each channel)",
        "digital",
    ),
    # The published lengths are in units of 32 pixels for 32-pixel images, but of 244 for 224-pixel ones.
    "elastic_transform": CorruptionKind(
        elastic_transform,
        (
            (0.0, 0.0, 0.08, 1.0),
            (0.05, 0.2, 0.07, 1.0),
            (0.08, 0.06, 0.06, 1.0),
            (0.1, 0.04, 0.05, 1.0),
            (0.1, 0.03, 0.03, 1.0),
        ),
        (
            (2.0, 0.7, 0.1, 244 / 224),
            (2.0, 0.08, 0.2, 244 / 224),
            (0.05, 0.01, 0.02, 244 / 224),
            (0.07, 0.01, 0.02, 244 / 224),
            (0.12, 0.01, 0.02, 244 / 224),
        ),
        "stretched and contorted (amplitude, smoothness, affine jitter, unit: all times the shorter side)",
        "digital",
    ),
    "pixelate": CorruptionKind(
        pixelate,
        per_severity(0.95, 0.9, 0.85, 0.75, 0.65),
        per_severity(0.6, 0.5, 0.4, 0.3, 0.25),
        "fewer pixels (factor)",
        "digital",
    ),
    "jpeg_compression": CorruptionKind(
        jpeg_compression,
        per_severity(80, 65, 58, 50, 40),
        per_severity(25, 18, 15, 10, 7),
        "lossy compression (quality)",
        "digital",
    ),
    "speckle_noise": CorruptionKind(
        speckle_noise,
        per_severity(0.06, 0.1, 0.12, 0.16, 0.2),
        per_severity(0.15, 0.2, 0.35, 0.45, 0.6),
        "normal noise in proportion to the pixel (standard deviation)",
        "noise",
    ),
    "gaussian_blur": CorruptionKind(
        gaussian_blur,
        per_severity(0.4, 0.6, 0.7, 0.8, 1.0),
        per_severity(1.0, 2.0, 3.0, 4.0, 6.0),
        "Gaussian smoothing (sigma, pixels)",
        "blur",
    ),
    "spatter": CorruptionKind(
        spatter,
        (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1.0, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
        (
            (0.65, 0.3, 4.0, 0.69, 0.6, 0),
            (0.65, 0.3, 3.0, 0.68, 0.6, 0),
            (0.65, 0.3, 2.0, 0.68, 0.5, 0),
            (0.65, 0.3, 1.0, 0.65, 1.5, 1),
            (0.67, 0.4, 1.0, 0.65, 1.5, 1),
        ),
        "drops of water, or mud (mean and deviation of the noise, smoothing, cut, strength, 0 for water and 1 for mud)",
        "weather",
    ),
    "saturate": CorruptionKind(
        saturate,
        ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2)),
        ((0.3, 0.0), (0.1, 0.0), (2.0, 0.0), (5.0, 0.1), (20.0, 0.2)),
        "paler, then more colourful (factor and offset of the HSV saturation)",
        "digital",
    ),
}
