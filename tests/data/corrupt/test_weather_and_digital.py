"""Weather and digital corruptions against colorsys, Pillow, scipy and slow references."""

import colorsys
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

from leastwise.data.corrupt.digital import affine_places, sample_bilinear
from leastwise.data.corrupt.frost import BRIGHT, DARK, make_veils
from leastwise.data.corrupt.registry import CORRUPTIONS, Corruption
from leastwise.data.corrupt.weather import MUD, equalise_levels, make_plasma, make_relief
from tests.data.corrupt.slow_corruptions import (
    EXPECTED,
    corrupted,
    noise,
    random_images,
    slow_motion,
    slow_zoom,
)

# weather


def test_brightness_adds_to_the_hsv_value() -> None:
    x = random_images(1, 3, 8, 8).double()
    x[0, :, 0, 0], x[0, :, 0, 1], x[0, :, 0, 2] = 0, 1, 0.4
    for severity, c in enumerate(EXPECTED["brightness"][0], 1):
        y = corrupted("brightness", x, severity)
        for before, after in zip(x[0].flatten(1).T.tolist(), y[0].flatten(1).T.tolist(), strict=True):
            hue, saturation, value = colorsys.rgb_to_hsv(*before)
            assert after == pytest.approx(colorsys.hsv_to_rgb(hue, saturation, min(1, value + c)), abs=1e-12)
    grey = random_images(1, 1, 8, 8).double()
    assert torch.allclose(corrupted("brightness", grey, 2), (grey + 0.1).clamp(max=1), atol=1e-12)


def test_fog_is_a_fractal_whose_detail_falls_with_the_square_of_the_decay() -> None:
    for decay in (1.4, 2.0, 3.0):
        cloud = make_plasma(noise(), 64, decay)
        assert torch.equal(cloud.amin(dim=(1, 2)), torch.zeros(4)) and torch.equal(
            cloud.amax(dim=(1, 2)), torch.ones(4)
        )
        # What is left of a square's centre without the mean of its corners is uniform in ± amplitude.
        left = []
        for step in (4, 2):
            corner, half = cloud[:, ::step, ::step], step // 2
            square = (corner + corner.roll(-1, 1) + corner.roll(-1, 2) + corner.roll((-1, -1), (1, 2))) / 4
            left.append((cloud[:, half::step, half::step] - square).abs().flatten(1).mean(dim=1))
        assert torch.allclose(left[0] / left[1], torch.tensor(decay**2).double(), rtol=0.15)
    assert not torch.equal(cloud[0], cloud[1])


def test_fog_keeps_the_range_of_the_image() -> None:
    """(x + c f) m / (m + c): the fractal comes back, the largest possible value is m, black images stay black."""
    x = 0.6 * random_images(4, 3, 20, 30)
    cloud = make_plasma(noise().fork("fog"), 32, 2.0)[:, None, :20, :30]
    largest = x.amax(dim=(1, 2, 3), keepdim=True).double()
    y = Corruption("fog", 4).apply_raw(x, noise())
    assert torch.allclose(y * (largest + 1) / largest - x, cloud.expand_as(y), atol=1e-12)
    assert (y <= largest + 1e-12).all()
    assert torch.equal(Corruption("fog")(torch.zeros(4, 3, 8, 8), noise()), torch.zeros(4, 3, 8, 8))


def test_frost_adds_a_crop_of_a_texture() -> None:
    veil = make_veils()
    assert veil.shape == (5, 640, 640) and veil.min() >= 0 and veil.max() <= 1
    assert (veil.mean(dim=(1, 2)) - 0.42).abs().max() < 0.1 and veil.std(dim=(1, 2)).min() > 0.2
    x = random_images(4, 3, 80, 70)
    y = Corruption("frost", 2).apply_raw(x, noise())
    texture = (y - 0.8 * x.double()) / 0.6
    dark, bright = (torch.tensor(c).double().view(1, 3, 1, 1) for c in (DARK, BRIGHT))
    ice = (texture - dark) / (bright - dark)
    assert torch.allclose(ice[:, 0], ice[:, 2], atol=1e-9) and ice.min() > -1e-9 and ice.max() < 1 + 1e-9
    u = noise().fork("frost").uniform((3,), torch.float64)
    for i in range(4):
        which, top, left = int(5 * u[i, 0]), int(640 * u[i, 1]), int(640 * u[i, 2])
        expected = np.roll(veil[which].numpy(), (-top, -left), (0, 1))[:80, :70]
        assert np.allclose(ice[i, 0], expected, atol=1e-9)


def test_snow_is_the_slow_reference() -> None:
    x = random_images(2, 3, 32, 32).double()
    mean, std, flake, cut, radius, sigma, keep = EXPECTED["snow"][0][3]
    own = noise(2).fork("snow")
    layer = mean + std * own.fork("flakes").normal((1, 32, 32), torch.float64)[:, 0].numpy()
    degrees = 90 * own.fork("angle").uniform((), torch.float64) - 135
    y = Corruption("snow", 4).apply_raw(x, noise(2))
    for i in range(2):
        flakes = slow_zoom(layer[i], flake)
        flakes = slow_motion(np.where(flakes < cut, 0, flakes).clip(0, 1), radius, sigma, float(degrees[i]))
        image = x[i].numpy()
        white = np.maximum(image, 1.5 * np.tensordot((0.299, 0.587, 0.114), image, 1) + 0.5)
        expected = keep * image + (1 - keep) * white + flakes + np.rot90(flakes, 2)
        assert np.allclose(y[i], expected, atol=1e-12)


def test_mud_covers_and_water_brightens() -> None:
    x = random_images(4, 3, 96, 96).double()
    white = torch.ones_like(x)
    cover = (1 - Corruption("spatter", 5).apply_raw(white, noise())) / (1 - torch.tensor(MUD).double().view(1, 3, 1, 1))
    assert ((cover.abs() < 1e-6) | (cover > 0.8 - 1e-6)).all() and 0.01 < (cover > 0.5).double().mean() < 0.3
    for severity in (1, 2, 3):
        strength = EXPECTED["spatter"][1][severity - 1][4]
        added = Corruption("spatter", severity).apply_raw(x, noise()) - x
        shine = added / torch.tensor([175.0, 238.0, 238.0]).view(1, 3, 1, 1) * 255
        assert torch.allclose(shine[:, 0], shine[:, 1], atol=1e-6) and shine.min() > -1e-9
        assert torch.allclose(shine.amax(dim=(1, 2, 3)), torch.tensor(strength).double(), atol=1e-6)
        assert (shine[:, 0] < 1e-9).double().mean() > 0.5
    # Noise without a single drop leaves the image as it is (the published script divides zero by zero).
    dry = make_relief(torch.zeros(1, 9, 9, dtype=torch.bool))
    assert dry.isfinite().all()


def test_equalisation_by_hand() -> None:
    """Counts 2, 1, 3, 2 of levels 1, 2, 4, 7: the lowest becomes 0, the others 255 times their rank among six."""
    levels = np.array([[1, 2, 4, 4], [7, 1, 4, 7]])
    assert equalise_levels(levels).tolist() == [[0, 42, 170, 170], [255, 0, 170, 255]]
    assert equalise_levels(np.full((2, 2), 9)).tolist() == [[0, 0], [0, 0]]


# digital


def test_contrast_keeps_the_mean_of_each_channel() -> None:
    x = random_images(3, 3, 32, 20).double()
    for severity, c in enumerate(EXPECTED["contrast"][0], 1):
        y = corrupted("contrast", x, severity)
        assert torch.allclose(y.mean(dim=(2, 3)), x.mean(dim=(2, 3)), atol=1e-12)
        assert torch.allclose(y.std(dim=(2, 3)), c * x.std(dim=(2, 3)), atol=1e-12)


@pytest.mark.parametrize("size", ["cifar", "imagenet"])
def test_saturate_is_colorsys(size: str) -> None:
    x = random_images(1, 3, 8, 8).double()
    x[0, :, 0, 0], x[0, :, 0, 1], x[0, :, 0, 2] = 0, 1, 0.4
    for severity, (a, b) in enumerate(EXPECTED["saturate"][size == "imagenet"], 1):
        y = corrupted("saturate", x, severity, size)
        for before, after in zip(x[0].flatten(1).T.tolist(), y[0].flatten(1).T.tolist(), strict=True):
            hue, saturation, value = colorsys.rgb_to_hsv(*before)
            assert after == pytest.approx(colorsys.hsv_to_rgb(hue, min(1, saturation * a + b), value), abs=1e-9)
    grey = random_images(2, 1, 8, 8)
    assert torch.equal(Corruption("saturate", 5)(grey, noise(2)), grey)


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_and_pixelate_are_pillows(channels: int) -> None:
    x = random_images(2, channels, 40, 24)
    pixels = (255 * x[1]).round().byte().permute(1, 2, 0).numpy()
    image = Image.fromarray(pixels if channels == 3 else pixels[:, :, 0])
    for severity in range(1, 6):
        file = BytesIO()
        image.save(file, "JPEG", quality=EXPECTED["jpeg_compression"][0][severity - 1])
        expected = np.asarray(Image.open(file)).reshape(40, 24, channels)
        y = Corruption("jpeg_compression", severity)(x, noise(2))[1]
        assert np.array_equal((255 * y).round().permute(1, 2, 0).numpy(), expected)
        c = EXPECTED["pixelate"][0][severity - 1]
        small = image.resize((int(24 * c), int(40 * c)), Image.Resampling.BOX)
        expected = np.asarray(small.resize((24, 40), Image.Resampling.BOX)).reshape(40, 24, channels)
        y = Corruption("pixelate", severity)(x, noise(2))[1]
        assert np.array_equal((255 * y).round().permute(1, 2, 0).numpy(), expected)


def test_sampling_is_scipys() -> None:
    """Inside and beyond the edges, for both kinds of edge."""
    x = random_images(2, 3, 9, 12).double()
    u = noise(2).uniform((2, 9, 12), torch.float64)
    rows, columns = 24 * u[:, 0] - 8, 30 * u[:, 1] - 9
    for mirror in (True, False):
        y = sample_bilinear(x, rows, columns, mirror=mirror)
        for i in range(2):
            places = [rows[i].numpy(), columns[i].numpy()]
            for c in range(3):
                mode = "mirror" if mirror else "reflect"
                expected = ndimage.map_coordinates(x[i, c].numpy(), places, order=1, mode=mode)
                assert np.allclose(y[i, c], expected, atol=1e-9), mode


def test_the_affine_map_carries_the_moved_corners_back() -> None:
    """Bilinear interpolation of an affine map is exact, so it can be read off between pixels."""
    x = torch.zeros(4, 1, 30, 24, dtype=torch.float64)
    rows, columns = affine_places(x, noise(), 2.0)
    u = noise().uniform((3, 2), torch.float64)
    for i in range(4):
        for n, corner in enumerate([(12 + 8, 15 + 8), (12 + 8, 15 - 8), (12 - 8, 15 - 8)]):
            moved = np.array(corner) + 2 * (2 * u[i, n].numpy() - 1)
            at = [[moved[1]], [moved[0]]]
            assert ndimage.map_coordinates(columns[i].numpy(), at, order=1)[0] == pytest.approx(corner[0], abs=1e-9)
            assert ndimage.map_coordinates(rows[i].numpy(), at, order=1)[0] == pytest.approx(corner[1], abs=1e-9)
    rows, columns = affine_places(x, noise(), 0.0)
    assert torch.allclose(rows, torch.arange(30.0).double()[None, :, None].expand_as(rows), atol=1e-9)


def test_elastic_displacements_are_smoothed_uniforms() -> None:
    """On a ramp without jitter the result minus the ramp is the displacement, away from the edges."""
    ramp = torch.arange(64.0).double().expand(2, 1, 64, 64) / 64
    own = noise(2).fork("elastic_transform").fork("displacement")
    y = CORRUPTIONS["elastic_transform"].apply(ramp, noise(2).fork("elastic_transform"), 0.08, 0.06, 0.0, 1.0)
    u = 2 * own.uniform((2, 64, 64), torch.float64)[:, 0].numpy() - 1
    sigma = 0.06 * 64
    expected = 0.08 * 64 * ndimage.gaussian_filter(u, (0, sigma, sigma), mode="reflect", truncate=3)
    assert np.allclose(64 * (y - ramp)[:, 0, :, 4:-4], expected[:, :, 4:-4], atol=1e-9)
