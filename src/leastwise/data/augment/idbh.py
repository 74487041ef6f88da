"""ColorShape: one operation per image, drawn from a published table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import torch

from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, PerExample
from leastwise.data.augment import pillow_ops
from leastwise.data.augment.pillow_ops import Levels
from leastwise.data.augment.sampling import draw_below, draw_mask, draw_sign, interpolate

PolicyKind = Literal["colour", "shape"]


class Choice(NamedTuple):
    """An operation, its probability, and the range of its strength: a factor, radians or whole degrees."""

    name: str
    p: float
    low: float = 0.0
    high: float = 0.0


POLICIES: dict[str, tuple[Choice, ...]] = {
    "colour": (
        Choice("saturation", 0.125, 0.1, 1.9),
        Choice("brightness", 0.125, 0.5, 1.9),
        Choice("contrast", 0.125, 0.5, 1.9),
        Choice("sharpness", 0.125, 0.1, 1.9),
        Choice("autocontrast", 0.125),
        Choice("equalise", 0.125),
        Choice("shear", 0.125, 0.05, 0.15),
        Choice("rotate", 0.125, 1, 10),
    ),
    "shape": (
        Choice("saturation", 0.08, 0.1, 1.9),
        Choice("brightness", 0.08, 0.5, 1.9),
        Choice("contrast", 0.04, 0.5, 1.9),
        Choice("sharpness", 0.08, 0.1, 1.9),
        Choice("autocontrast", 0.04),
        Choice("equalise", 0.08),
        Choice("shear", 0.30, 0.05, 0.35),
        Choice("rotate", 0.30, 1, 30),
    ),
}

FACTORS: dict[str, Callable[[Levels, PerExample], Levels]] = {
    "saturation": pillow_ops.saturation,
    "brightness": pillow_ops.brightness,
    "contrast": pillow_ops.contrast,
    "sharpness": pillow_ops.sharpness,
}


@dataclass(frozen=True)
class ColorShape:
    """Exactly one of eight operations per image, with the probabilities of Li & Spratling (ICLR 2023).

    As in their code it acts on 8-bit images (other pixels are rounded to 8 bits first), rotates by whole
    degrees, and shears and rotates with nearest neighbours and black outside.
    """

    recipe_name: ClassVar[str] = "ColorShape"

    kind: PolicyKind = "colour"

    def __post_init__(self) -> None:
        if self.kind not in POLICIES:
            raise ValueError(f"ColorShape is biased to {' or '.join(get_args(PolicyKind))}, but saw {self.kind!r}")

    def __call__(self, x: Images, noise: Noise) -> Images:
        v = pillow_ops.to_levels(x)
        which = self.draw_operations(noise)
        for number, choice in enumerate(POLICIES[self.kind]):
            rows = (which == number).nonzero().squeeze(1)
            if len(rows):
                v[rows] = apply_operation(choice, v[rows], noise.pick(rows))
        return pillow_ops.to_pixels(v, x.dtype)

    def draw_operations(self, noise: Noise) -> Labels:
        """The number of each example's operation in the policy."""
        ends = torch.tensor([choice.p for choice in POLICIES[self.kind]], dtype=torch.float64).cumsum(dim=0)[:-1]
        return torch.searchsorted(ends.to(noise.ids.device), noise.fork("which").uniform((), torch.float64))


def apply_operation(choice: Choice, v: Levels, noise: Noise) -> Levels:
    """One operation on a batch, its strength drawn for each example."""
    if choice.name == "autocontrast":
        return pillow_ops.autocontrast(v)
    if choice.name == "equalise":
        return pillow_ops.equalise(v)
    if choice.name == "rotate":
        degrees = choice.low + draw_below(int(choice.high - choice.low) + 1, noise.fork("strength"))
        return pillow_ops.rotate(v, draw_sign(degrees.double(), noise))
    strength = interpolate(choice.low, choice.high, noise.fork("strength").uniform((), torch.float64))
    if choice.name == "shear":
        return pillow_ops.shear(v, draw_sign(strength, noise), along_x=draw_mask(0.5, noise.fork("axis")))
    return FACTORS[choice.name](v, strength)
