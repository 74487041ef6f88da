"""Where an attack takes its first step: at the image, or somewhere around it."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch

from leastwise.attacks.threats import Ball
from leastwise.core.noise import Noise
from leastwise.core.types import Images


@runtime_checkable
class Start(Protocol):
    """Where the first step is taken from."""

    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images:
        """The perturbation to begin with, which the attack projects into its ball."""
        ...


@dataclass(frozen=True)
class Zero:
    """Start at the image itself."""

    recipe_name: ClassVar[str] = "Zero"

    def __str__(self) -> str:
        return "from the image"

    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images:
        return torch.zeros_like(x)


@dataclass(frozen=True)
class Uniform:
    """Start anywhere in the ball."""

    recipe_name: ClassVar[str] = "Uniform"

    def __str__(self) -> str:
        return "from a uniform start"

    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images:
        return ball.sample(x, noise)


@dataclass(frozen=True)
class Gaussian:
    """Start a little beside the image."""

    recipe_name: ClassVar[str] = "Gaussian"

    std: float = 0.001

    def __str__(self) -> str:
        return f"from a Gaussian start of {self.std:g}"

    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images:
        return self.std * noise.normal(tuple(x.shape[1:]), x.dtype)


@dataclass(frozen=True)
class Signs:
    """Start at a random corner: `size` times the sign of a Gaussian (the random half of R-FGSM)."""

    recipe_name: ClassVar[str] = "Signs"

    size: float

    def __str__(self) -> str:
        return f"from a random corner at {self.size:g}"

    def perturb(self, x: Images, ball: Ball, noise: Noise) -> Images:
        return self.size * noise.normal(tuple(x.shape[1:]), x.dtype).sign()
