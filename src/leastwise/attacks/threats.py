"""Threat models: the set of perturbations an attacker may use, as three small operations.

`eps` is one number, or one per example (what class-wise radii need: `attack.at(eps[y])`).
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from leastwise.core.noise import Noise
from leastwise.core.types import Images, Mask, PerExample, Rows

Radius = float | PerExample

TOLERANCE = 1e-6  # rounding that a point may be outside its ball (relative to eps above 1) or the pixel range by


@runtime_checkable
class Ball(Protocol):
    """The perturbations that an attacker may use."""

    @property
    def eps(self) -> Radius: ...
    def sample(self, x: Images, noise: Noise) -> Images:
        """A uniformly drawn perturbation."""
        ...

    def project(self, d: Images) -> Images:
        """The nearest perturbation inside the ball."""
        ...

    def steepest(self, g: Images) -> Images:
        """The direction of unit size along which a linear function with gradient g grows fastest."""
        ...

    def norm(self, d: Images) -> PerExample: ...
    def at(self, eps: Radius) -> "Ball":
        """The same shape with another radius."""
        ...


@dataclass(frozen=True)
class Linf:
    """Every pixel may move by eps."""

    recipe_name: ClassVar[str] = "Linf"

    eps: Radius

    def __str__(self) -> str:
        return f"Linf eps {format_radius(self.eps)}"

    def __post_init__(self) -> None:
        check_radius(self.eps)

    def sample(self, x: Images, noise: Noise) -> Images:
        return column(self.eps, x) * (2 * noise.uniform(tuple(x.shape[1:]), x.dtype) - 1)

    def project(self, d: Images) -> Images:
        if isinstance(self.eps, Tensor):
            limit = column(self.eps, d)
            return d.clamp(-limit, limit)
        return d.clamp(-self.eps, self.eps)  # numbers are faster than tensors

    def steepest(self, g: Images) -> Images:
        return g.sign()

    def norm(self, d: Images) -> PerExample:
        return d.flatten(1).abs().amax(dim=1)

    def at(self, eps: Radius) -> "Linf":
        return replace(self, eps=eps)


@dataclass(frozen=True)
class L2:
    """The Euclidean length of the perturbation is at most eps."""

    recipe_name: ClassVar[str] = "L2"

    eps: Radius

    def __str__(self) -> str:
        return f"L2 eps {format_radius(self.eps)}"

    def __post_init__(self) -> None:
        check_radius(self.eps)

    def sample(self, x: Images, noise: Noise) -> Images:
        direction = unit(noise.fork("direction").normal(tuple(x.shape[1:]), x.dtype))
        # The volume within radius r grows as r^d, so a uniform draw has radius u^(1/d).
        radius = noise.fork("radius").uniform((1, 1, 1), x.dtype) ** (1 / math.prod(x.shape[1:]))
        return column(self.eps, x) * radius * direction

    def project(self, d: Images) -> Images:
        length = self.norm(d).clamp_min(torch.finfo(d.dtype).tiny)
        return d * column((self.eps / length).clamp(max=1), d)

    def steepest(self, g: Images) -> Images:
        return unit(g)

    def norm(self, d: Images) -> PerExample:
        # In float64: over the 150,528 pixels of an ImageNet picture float32 rounding would exceed the tolerance.
        return torch.linalg.vector_norm(d.flatten(1), dim=1, dtype=torch.float64)

    def at(self, eps: Radius) -> "L2":
        return replace(self, eps=eps)


@dataclass(frozen=True)
class L1:
    """The absolute values of the perturbation add up to at most eps.

    The steepest direction moves one pixel alone, which takes as many steps as there are pixels to move. As in the
    sparse descent of Tramèr and Boneh (NeurIPS 2019), a step is shared by the largest entries of the gradient, a
    `share` of them; the smallest share is the one pixel.
    """

    recipe_name: ClassVar[str] = "L1"

    eps: Radius
    share: float = 0.01

    def __str__(self) -> str:
        return f"L1 eps {format_radius(self.eps)}"

    def __post_init__(self) -> None:
        check_radius(self.eps)
        if not 0 <= self.share <= 1:
            raise ValueError(f"the share of pixels that a step moves must be between 0 and 1, but saw {self.share}")

    def sample(self, x: Images, noise: Noise) -> Images:
        # Exponential variables over their sum and one more are uniform in the simplex; signs spread them to the ball.
        size = math.prod(x.shape[1:])
        weight = -noise.fork("simplex").uniform((size + 1,), x.dtype).log()
        sign = noise.fork("sign").uniform((size,), x.dtype).sub(0.5).sign()
        return column(self.eps, x) * (sign * weight[:, 1:] / weight.sum(dim=1, keepdim=True)).view(x.shape)

    def project(self, d: Images) -> Images:
        """Shrink all entries by the same amount, down to zero, until the sum fits (Duchi et al., ICML 2008).

        Adding d to an image rounds every pixel, and these errors add up: the target is smaller by as much.
        """
        size = d.flatten(1).abs().double()
        pixels = size.shape[1]
        eps = torch.as_tensor(self.eps, dtype=torch.float64, device=d.device).view(-1, 1)
        target = torch.maximum(eps - pixels * torch.finfo(d.dtype).eps / 4, eps / 2)
        ordered = size.sort(dim=1, descending=True).values
        counts = torch.arange(1, pixels + 1, dtype=torch.float64, device=d.device)
        excess = (ordered.cumsum(dim=1) - target) / counts
        kept = (ordered > excess).sum(dim=1, keepdim=True).clamp_min(1)
        shrink = torch.where(size.sum(dim=1, keepdim=True) > eps, excess.gather(1, kept - 1).clamp_min(0), 0)
        return (d.flatten(1).sign() * (size - shrink).clamp_min(0).to(d.dtype)).view(d.shape)

    def steepest(self, g: Images) -> Images:
        size = g.flatten(1).abs()
        moved = max(1, round(self.share * size.shape[1]))
        where = size.topk(moved, dim=1).indices
        step = torch.zeros_like(size).scatter(1, where, 1 / moved)
        return (step * g.flatten(1).sign()).view(g.shape)

    def norm(self, d: Images) -> PerExample:
        return d.flatten(1).abs().sum(dim=1, dtype=torch.float64)

    def at(self, eps: Radius) -> "L1":
        return replace(self, eps=eps)


def unit(g: Images) -> Images:
    """Scaled to length one; a zero gradient stays zero.

    Dividing by the largest entry first keeps tiny gradients from vanishing when they are squared.
    """
    tiny = torch.finfo(g.dtype).tiny
    g = g / column(g.flatten(1).abs().amax(dim=1).clamp_min(tiny), g)
    return g / column(torch.linalg.vector_norm(g.flatten(1), dim=1).clamp_min(tiny), g)


def column(value: Radius, x: Images) -> Tensor:
    """A number, or one per example, in a form that multiplies a batch of images."""
    if isinstance(value, Tensor):
        return value.to(x.dtype).view(-1, 1, 1, 1)
    return torch.tensor(value, dtype=x.dtype, device=x.device)


def step_along_(d: Images, step: Radius, direction: Images) -> Images:
    """d + step · direction, in place and in one pass."""
    return d.addcmul_(column(step, d), direction) if isinstance(step, Tensor) else d.add_(direction, alpha=step)


def format_radius(value: Radius) -> str:
    """A radius or a step for people: one number, or the smallest and the largest of many."""
    return f"{value:.4g}" if not isinstance(value, Tensor) else f"{value.min():.4g} to {value.max():.4g}"


def pick(value: Radius, rows: Rows) -> float | Float[Tensor, " n"]:
    """The radius (or step) of some of the examples."""
    return value[rows] if isinstance(value, Tensor) else value


def dual_norm(ball: Ball, w: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """The largest w·d of a step d of size one: |gap| over it is the distance to a hyperplane, without the box."""
    match ball:
        case Linf():
            return w.abs().sum(dim=1)
        case L2():
            return torch.linalg.vector_norm(w, dim=1)
        case L1():
            return w.abs().amax(dim=1)
    raise ValueError(f"a step onto a hyperplane is known for Linf, L2 and L1, but saw {ball}")


def check_radius(eps: Radius) -> None:
    """Refuse a radius that is negative or not finite."""
    ok = bool((eps >= 0).all() and eps.isfinite().all()) if isinstance(eps, Tensor) else eps >= 0 and math.isfinite(eps)
    if not ok:
        raise ValueError(f"eps must be a finite number, zero or more, in pixel units such as 8/255, but saw {eps}")


def known_ball(ball: Ball) -> Ball | None:
    """A ball if it is one of ours: of others nobody knows how far an attack in them goes."""
    return ball if isinstance(ball, Linf | L2 | L1) else None


def is_in_ball(ball: Ball, x: Images, x_adv: Images) -> Mask:
    """Which points are within eps of their image, up to rounding."""
    eps = torch.as_tensor(ball.eps, dtype=torch.float64, device=x.device)
    return ball.norm(x_adv - x) <= eps + TOLERANCE * eps.clamp_min(1)


def check_pixels(x: Images) -> None:
    """Refuse images that an attack would clip to something else."""
    if not bool(x.isfinite().all()):
        raise ValueError("some pixels are not finite numbers: check how the images were read")
    if bool(is_in_pixel_range(x).all()):
        return
    low, high = float(x.min()), float(x.max())
    seen = f"an attack needs pixels in [0, 1], but they go from {low:.3g} to {high:.3g}"
    if low < -TOLERANCE:
        raise ValueError(
            f"{seen}: leave the images as they are and put the normalisation into the model, "
            "leastwise.models.wrap(net, k, mean=..., std=...)"
        )
    raise ValueError(f"{seen}: divide them by 255")


def is_in_pixel_range(x_adv: Images) -> Mask:
    """Which points have all their pixels in [0, 1], up to rounding."""
    pixels = x_adv.flatten(1)
    return (pixels.amin(dim=1) >= -TOLERANCE) & (pixels.amax(dim=1) <= 1 + TOLERANCE)


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


# Radii below which nothing can be found that is worth the name: a tenth of a step of 8-bit pixels each, or one pixel by
# 13 of 255.
LEAST_EACH, LEAST_IN_ALL = 0.1 / 255, 0.05


def doubt_radius(ball: Ball | None) -> tuple[str, ...]:
    """What to say of a radius so small that robust accuracy is clean accuracy."""
    if ball is None or not isinstance(ball.eps, float | int):
        return ()
    if isinstance(ball, Linf):
        if ball.eps >= LEAST_EACH:
            return ()
        return (f"{ball} is less than a tenth of a step of 8-bit pixels, so next to nothing is attacked; check --eps",)
    if ball.eps >= LEAST_IN_ALL:
        return ()
    return (
        f"{ball} is less than a change of one pixel by 13 of 255, so next to nothing is attacked: radii of Linf, as "
        "8/255 are far too small for this norm; check --eps",
    )
