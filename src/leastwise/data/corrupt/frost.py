"""Frost on glass, generated: feathers of ice that grow from a few seeds, bright needles on a dark blue ground.

The published corruption adds crops of photographs, which are not ours to distribute. These textures have
their build-up (stems, side branches and needles, each shorter than the last, on a veil of haze) and the range
of brightness of such pictures, but they are not those pictures: results differ from the published sets.
"""

import math
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from leastwise.core.noise import Noise

SEED = 20190328  # of the textures, which are the same in every run
TEXTURES = 5  # the published script draws from five photographs
SIDE = 640  # pixels; opposite edges meet, so a crop may start anywhere and be of any size
DARK, BRIGHT = (0.10, 0.15, 0.22), (0.93, 0.97, 1.0)

SEEDS, FEATHERS, STEM_LENGTH = 4, 4, 270.0  # seeds along a side, feathers of a seed, pixels
ANGLE = math.radians(58)  # of a branch to its stem; ice crystals branch at 60 degrees
BRANCH_SPACING, NEEDLE_SPACING = 7.0, 5.0


class Lines(NamedTuple):
    """Slightly bent lines of ice: n of them, in pixels and radians."""

    x: Float[Tensor, " n"]
    y: Float[Tensor, " n"]
    heading: Float[Tensor, " n"]
    length: Float[Tensor, " n"]
    bend: Float[Tensor, " n"]  # radians per pixel
    light: Float[Tensor, " n"]


def draw_frost(noise: Noise, h: int, w: int, *, shrink: int) -> Float[Tensor, "b 3 h w"]:
    """A random crop of a random texture for each example, the texture made smaller by a whole factor."""
    veil = make_veils()
    if shrink > 1:
        veil = torch.nn.functional.avg_pool2d(veil[:, None], shrink)[:, 0]
    side = veil.shape[1]
    u = noise.uniform((3,), torch.float64).cpu()
    which = (TEXTURES * u[:, 0]).long()
    rows = ((side * u[:, 1]).long()[:, None] + torch.arange(h)) % side
    columns = ((side * u[:, 2]).long()[:, None] + torch.arange(w)) % side
    crop = veil[which[:, None, None], rows[:, :, None], columns[:, None, :]][:, None]
    dark, bright = (torch.tensor(c, dtype=torch.float64).view(1, 3, 1, 1) for c in (DARK, BRIGHT))
    return dark + (bright - dark) * crop


@cache
def make_veils() -> Float[Tensor, "5 n n"]:
    """How much ice there is, between 0 and 1; made once, in about a second."""
    return torch.stack([make_veil(Noise(SEED, torch.tensor([i]), "/frost")) for i in range(TEXTURES)])


def make_veil(noise: Noise) -> Float[Tensor, "n n"]:
    """One texture: stems that leave seeds, branches on them, and needles on those."""
    stems = seed_stems(noise.fork("stems"))
    branches = grow_branches(stems, noise.fork("branches"), BRANCH_SPACING, share=0.42)
    needles = grow_branches(branches, noise.fork("needles"), NEEDLE_SPACING, share=0.45)
    ice = draw_lines(stems) + draw_lines(branches) + draw_lines(needles)
    sharp, haze, cloud = blur_closed(ice, 0.7), blur_closed(ice, 7.0), blur_closed(ice, 45.0)
    return 1 - torch.exp(-1.4 * sharp - 0.75 * haze - 0.55 * cloud)


def seed_stems(noise: Noise) -> Lines:
    """Feathers leave each seed in all directions; the seeds lie on a loose grid, so that little glass stays clear."""
    n = SEEDS**2 * FEATHERS
    cell = torch.cartesian_prod(*2 * [torch.arange(SEEDS, dtype=torch.float64)]).T
    origin = SIDE / SEEDS * (cell + noise.fork("origin").uniform((2, SEEDS**2), torch.float64)[0])
    u = noise.fork("shape").uniform((4, n), torch.float64)[0]
    sector = torch.arange(FEATHERS, dtype=torch.float64).repeat(SEEDS**2)
    return Lines(
        origin[0].repeat_interleave(FEATHERS),
        origin[1].repeat_interleave(FEATHERS),
        2 * math.pi / FEATHERS * (sector + u[0]),
        STEM_LENGTH * (0.3 + 0.7 * u[1]),
        (u[2] - 0.5) * 0.012,
        0.4 + 0.6 * u[3],
    )


def grow_branches(stems: Lines, noise: Noise, spacing: float, *, share: float) -> Lines:
    """Branches on both sides of each stem, at most `share` of what is left of it, shorter towards its tip."""
    steps = torch.arange(spacing, float(stems.length.max()), spacing, dtype=torch.float64)
    parent, step = torch.nonzero(steps < stems.length[:, None], as_tuple=True)
    u = noise.uniform((4, 2, len(step)), torch.float64)[0]
    at = (steps[step] + spacing * (u[3, 0] - 0.5)).minimum(stems.length[parent])
    x, y, heading = locate(stems, parent, at)
    side = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    length = share * (stems.length[parent] - at) * u[0].sqrt()
    return Lines(
        x.repeat(2),
        y.repeat(2),
        (heading + side * ANGLE + 0.25 * (u[1] - 0.5)).flatten(),
        length.flatten(),
        (-side * 0.01 * u[2]).flatten(),
        (0.8 * stems.light[parent]).repeat(2),
    )


def locate(lines: Lines, which: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x, y and heading at some distance along some of the lines (arcs of circles, nearly straight)."""
    heading, bend = lines.heading[which], lines.bend[which]
    middle = heading + bend * at / 2
    return lines.x[which] + at * middle.cos(), lines.y[which] + at * middle.sin(), heading + bend * at


def draw_lines(lines: Lines) -> Float[Tensor, "n n"]:
    """The lines as light on the square, fading towards their tips."""
    points = lines.length.ceil().long()
    which = torch.arange(len(points)).repeat_interleave(points)
    at = (torch.arange(len(which)) - (points.cumsum(0) - points)[which]).double()
    x, y, _ = locate(lines, which, at)
    light = lines.light[which] * (1 - 0.6 * at / lines.length[which])
    pixels = torch.bincount((y.floor().long() % SIDE) * SIDE + x.floor().long() % SIDE, light, SIDE * SIDE)
    return pixels.view(SIDE, SIDE)


def blur_closed(ice: Float[Tensor, "n n"], sigma: float) -> Float[Tensor, "n n"]:
    """Gaussian smoothing on the closed square, by Fourier transform."""
    f = torch.fft.fftfreq(SIDE, dtype=torch.float64)
    low = torch.exp(-2 * (math.pi * sigma) ** 2 * (f[:, None] ** 2 + f**2))
    return torch.fft.ifft2(torch.fft.fft2(ice) * low).real.clamp_min(0)
