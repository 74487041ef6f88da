"""Noise and blur against closed forms, scipy and slow references."""

import math

import numpy as np
import pytest
import torch
from scipy import ndimage, stats

from leastwise.data.corrupt.blur import (
    blur_along,
    enlarge_centre,
    gaussian_weights,
    make_disk,
    scatter_pixels,
    smooth_image,
    smoothing_matrix,
)
from leastwise.data.corrupt.registry import CORRUPTIONS, Corruption
from tests.data.corrupt.slow_corruptions import (
    EXPECTED,
    ZOOM,
    corrupted,
    noise,
    random_images,
    slow_motion,
    slow_zoom,
)

# noise


@pytest.mark.parametrize("size", ["cifar", "imagenet"])
@pytest.mark.parametrize("severity", range(1, 6))
def test_noise_has_the_tabulated_strength(severity: int, size: str) -> None:
    x = torch.full((6, 3, 64, 64), 0.5)
    n = x.numel()
    tolerance = 4 / math.sqrt(2 * n)  # four standard errors of a standard deviation, relative
    column = 0 if size == "cifar" else 1
    for name, level in (("gaussian_noise", 1.0), ("speckle_noise", 0.5)):
        d = corrupted(name, x, severity, size) - x
        std = level * EXPECTED[name][column][severity - 1]
        assert d.std().item() == pytest.approx(std, rel=tolerance)
        assert abs(d.mean().item()) < 4 * std / math.sqrt(n)
    amount = EXPECTED["impulse_noise"][column][severity - 1]
    y = corrupted("impulse_noise", x, severity, size)
    for value in (0.0, 1.0):
        share = (y == value).double().mean().item()
        assert share == pytest.approx(amount / 2, abs=4 * math.sqrt(amount / 2 / n))
    assert ((y == 0) | (y == 1) | (y == 0.5)).all()
    rate = EXPECTED["shot_noise"][column][severity - 1]
    y = corrupted("shot_noise", x, severity, size)
    assert y.mean().item() == pytest.approx(0.5, abs=4 * math.sqrt(0.5 / rate / n))
    # Var(N) = mean; the sample variance of a Poisson(m) has relative variance (2 + 1/m)/n.
    assert y.var().item() == pytest.approx(0.5 / rate, rel=4 * math.sqrt((2 + 2 / rate) / n))


@pytest.mark.parametrize("rate", [500.0, 3.0])
def test_shot_noise_is_the_poisson_quantile_of_the_uniforms(rate: float) -> None:
    x = random_images(2, 3, 16, 16).double()
    x[0, 0, 0, :2] = torch.tensor([0.0, 1.0])
    severity, size = (1, "cifar") if rate == 500 else (5, "imagenet")
    u = noise(2).fork("shot_noise").uniform((3, 16, 16), torch.float64)
    y = Corruption("shot_noise", severity, size).apply_raw(x, noise(2))
    assert np.array_equal((y * rate).round().numpy(), stats.poisson.ppf(u.numpy(), rate * x.numpy()))
    assert y[0, 0, 0, 0] == 0


# blur


@pytest.mark.parametrize(
    ("size", "sigmas"), [(s, EXPECTED["gaussian_blur"][i]) for i, s in enumerate(("cifar", "imagenet"))]
)
def test_gaussian_blur_is_scipys(size: str, sigmas: list[float]) -> None:
    x = random_images(2, 3, 33, 20).double()
    for severity, sigma in enumerate(sigmas, 1):
        expected = ndimage.gaussian_filter(x.numpy(), (0, 0, sigma, sigma), mode="nearest", truncate=4)
        assert np.allclose(corrupted("gaussian_blur", x, severity, size).numpy(), expected, atol=1e-12)


def test_smoothing_allows_kernels_longer_than_the_image() -> None:
    x = random_images(1, 1, 12, 9).double()
    for edge in ("nearest", "reflect", "mirror"):
        for sigma in (0.5, 3.0, 20.0):
            expected = ndimage.gaussian_filter(x.numpy(), (0, 0, sigma, sigma), mode=edge, truncate=3)
            assert np.allclose(smooth_image(x, sigma, 3.0, edge=edge).numpy(), expected, atol=1e-12)
            assert torch.allclose(smoothing_matrix(9, sigma, 3.0, edge=edge).sum(dim=1), torch.ones(9).double())
    assert smooth_image(x, 0.0) is x


def test_kernels_sum_to_one_and_constant_images_stay() -> None:
    for rows in EXPECTED["defocus_blur"]:
        for radius, alias in rows:
            kernel = make_disk(float(radius), alias)
            assert kernel.sum().item() == pytest.approx(1, abs=1e-12) and kernel.min() >= 0
            assert torch.allclose(kernel, kernel.T) and torch.allclose(kernel, kernel.flip(0))
    assert gaussian_weights(torch.arange(13), 2.0).sum().item() == pytest.approx(1, abs=1e-12)
    x = torch.tensor([0.0, 17 / 255, 1.0]).view(1, 3, 1, 1).expand(2, 3, 24, 17)
    kept = [n for n, k in CORRUPTIONS.items() if k.family == "blur"] + ["contrast", "pixelate", "elastic_transform"]
    for name in kept:
        for severity in range(1, 6):
            for size in ("cifar", "imagenet"):
                assert torch.equal(Corruption(name, severity, size)(x, noise(2)), x), name


def test_defocus_is_convolution_with_the_disk() -> None:
    """The kernels of radius 0.5, 1 and 1.5 by hand; images against scipy, also smaller than the kernel."""
    edge = math.exp(-1 / (2 * 0.6**2))
    line = np.array([edge, 1, edge]) / (1 + 2 * edge)
    assert np.allclose(make_disk(0.5, 0.6), np.outer(line, line))
    assert np.allclose(make_disk(1.0, 0.01)[1:-1, 1:-1], np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]]) / 5)
    assert np.allclose(make_disk(1.5, 0.01)[1:-1, 1:-1], np.full((3, 3), 1 / 9))
    assert int((make_disk(10.0, 0.01) > 1e-9).sum()) == 317  # lattice points in a circle of radius 10
    for h, w, size in ((32, 20, "cifar"), (40, 33, "imagenet"), (8, 9, "imagenet")):
        x = random_images(2, 3, h, w).double()
        for severity, (radius, alias) in enumerate(EXPECTED["defocus_blur"][size == "imagenet"], 1):
            kernel = make_disk(float(radius), alias).numpy()[None, None]
            expected = ndimage.convolve(x.numpy(), kernel, mode="mirror")
            assert np.allclose(corrupted("defocus_blur", x, severity, size).numpy(), expected, atol=1e-12)


def test_glass_moves_pixels_as_the_published_assignment_does() -> None:
    """Equal to a plain loop with the published statement, which copies because it goes through views."""
    h, w, shift, rounds = 14, 11, 2, 3
    order = scatter_pixels(noise(), h, w, shift=shift, rounds=rounds)
    visited = [(i, j) for i in range(h - shift, shift, -1) for j in range(w - shift, shift, -1)]
    u = noise().uniform((2, rounds, len(visited)))[1].numpy()
    colour = np.arange(h * w).reshape(h, w, 1)  # pixels are arrays, as in an image with channels
    for r in range(rounds):
        for n, (i, j) in enumerate(visited):
            a, b = i + math.floor(4 * u[0, r, n]) - 2, j + math.floor(4 * u[1, r, n]) - 2
            colour[i, j], colour[a, b] = colour[a, b], colour[i, j]
    image = colour[:, :, 0]
    assert np.array_equal(order[1].view(h, w).numpy(), image)
    assert np.array_equal(image[0], np.arange(w)) and np.array_equal(image[:, 0], w * np.arange(h))
    x = random_images(2, 3, 32, 32)
    y = Corruption("glass_blur", 1)(x, noise(2))  # smoothing of sigma 0.05 has a kernel of one pixel
    before, after = (set(map(tuple, image.flatten(1).T.tolist())) for image in (x[0], y[0]))
    assert after < before  # every pixel was somewhere in the image


def test_motion_blur_is_the_slow_reference() -> None:
    x = random_images(4, 1, 10, 13).double()
    degrees = torch.tensor([0.0, 37.0, -45.0, -112.0]).double()
    y = blur_along(x, 5.0, 2.0, degrees=degrees)
    for i in range(4):
        assert np.allclose(y[i, 0], slow_motion(x[i, 0].numpy(), 5.0, 2.0, float(degrees[i])), atol=1e-12)
    angle = 90 * noise().fork("motion_blur").uniform((), torch.float64) - 45
    assert torch.equal(Corruption("motion_blur", 4).apply_raw(x, noise()), blur_along(x, 8.0, 2.0, degrees=angle))


def test_zoom_is_scipys() -> None:
    x = random_images(1, 1, 32, 21).double()
    for factor in (1.0, 1.01, 1.06, 1.24, 1.75, 2.25, 4.5):
        assert np.allclose(enlarge_centre(x, factor)[0, 0], slow_zoom(x[0, 0].numpy(), factor), atol=1e-9)


def test_zoom_blur_is_the_mean_of_the_image_and_its_zooms() -> None:
    x = random_images(1, 1, 32, 32).double()
    for size, rows in zip(("cifar", "imagenet"), ZOOM, strict=True):
        for severity, (stop, step) in enumerate(rows, 1):
            zooms = [slow_zoom(x[0, 0].numpy(), f) for f in np.arange(1, stop, step)]
            expected = (x[0, 0].numpy() + sum(zooms)) / (len(zooms) + 1)
            assert np.allclose(corrupted("zoom_blur", x, severity, size)[0, 0], expected, atol=1e-9)
