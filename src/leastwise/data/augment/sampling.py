"""Small draws that several augmentations share, one per example."""

import torch
from jaxtyping import Float
from torch import Tensor

from leastwise.core.noise import Noise
from leastwise.core.types import Labels, Mask, PerExample


def draw_below(n: int | Labels, noise: Noise) -> Labels:
    """A whole number from 0 to n - 1 for each example."""
    return (noise.uniform((), torch.float64) * n).long()


def draw_mask(p: float, noise: Noise) -> Mask:
    """Which examples something happens to, each with probability p."""
    return noise.uniform((), torch.float64) < p


def draw_sign(value: PerExample, noise: Noise) -> PerExample:
    """The value of each example or its negative, with equal chances."""
    return torch.where(draw_mask(0.5, noise.fork("sign")), -value, value)


def interpolate(low: float, high: float, u: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The place between `low` (u = 0) and `high` (u = 1)."""
    return low + (high - low) * u
