"""The table of corruptions and what holds for all of them; the contact sheet."""

import numpy as np
import pytest
import torch

from leastwise.core.noise import Noise
from leastwise.data.augment.registry import AUGMENTATIONS
from leastwise.data.contact_sheet import draw_all_changes, draw_contact_sheet
from leastwise.data.corrupt.registry import CORRUPTIONS, Corruption
from leastwise.data.loading import load
from tests.data.corrupt.slow_corruptions import (
    ELASTIC,
    EXPECTED,
    FROST,
    NAMES,
    ORDERED,
    ZOOM,
    colour_images,
    noise,
    random_images,
)


def test_the_table_has_the_papers_corruptions_in_its_order() -> None:
    assert list(CORRUPTIONS) == NAMES
    families = [kind.family for kind in CORRUPTIONS.values()]
    assert families[:15] == 3 * ["noise"] + 4 * ["blur"] + 4 * ["weather"] + 4 * ["digital"]
    assert all(kind.apply.__name__ == name and kind.about for name, kind in CORRUPTIONS.items())


def test_parameters_are_the_published_ones() -> None:
    def rows(values: list) -> list[tuple[float, ...]]:
        return [v if isinstance(v, tuple) else (v,) for v in values]

    for name, (cifar, imagenet) in EXPECTED.items():
        assert list(CORRUPTIONS[name].cifar) == rows(cifar), name
        assert list(CORRUPTIONS[name].imagenet) == rows(imagenet), name
    for size, shrink, unit in ((0, 5, 1), (1, 1, 244 / 224)):
        assert [CORRUPTIONS["frost"][1 + size][s] for s in range(5)] == [(*row, shrink) for row in FROST[size]]
        assert [CORRUPTIONS["elastic_transform"][1 + size][s] for s in range(5)] == [(*r, unit) for r in ELASTIC[size]]
        for (largest, step), (stop, published) in zip(CORRUPTIONS["zoom_blur"][1 + size], ZOOM[size], strict=True):
            assert step == published
            assert np.array_equal(np.arange(1, largest + step / 2, step), np.arange(1, stop, step))
    assert set(EXPECTED) | {"frost", "elastic_transform", "zoom_blur"} == set(NAMES)


def test_auto_means_cifar_up_to_64_pixels() -> None:
    rows = {"cifar": (0.08,), "imagenet": (0.18,)}
    value = Corruption("gaussian_noise")
    assert value.parameters(64, 64) == value.parameters(32, 40) == rows["cifar"]
    assert value.parameters(64, 65) == value.parameters(224, 224) == rows["imagenet"]
    assert Corruption("gaussian_noise", 3, "imagenet").parameters(32, 32) == rows["imagenet"]
    assert Corruption("gaussian_noise", 3, "cifar").parameters(224, 224) == rows["cifar"]


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match=r"no corruption 'rain': choose gaussian_noise, shot_noise"):
        Corruption("rain")
    for severity in (0, 6):
        with pytest.raises(ValueError, match=f"severity must be 1 to 5, but saw {severity}"):
            Corruption("fog", severity)
    with pytest.raises(ValueError, match="1 or 3 channels and sides of 8 pixels or more, but saw 4 channels of 7×9"):
        Corruption("fog")(torch.zeros(4, 4, 7, 9), noise())


@pytest.mark.parametrize("name", NAMES)
def test_every_corruption_at_every_severity(name: str) -> None:
    """In [0, 1], 8 bits, the same again, and the same alone as in a batch; at odd shapes, in grey and in colour."""
    for c, h, w, size in ((3, 32, 32, "auto"), (1, 40, 24, "auto"), (3, 8, 8, "auto"), (3, 9, 33, "imagenet")):
        x = random_images(4, c, h, w)
        for severity in range(1, 6):
            corrupt = Corruption(name, severity, size)
            y = corrupt(x, noise())
            assert y.shape == x.shape and y.dtype == x.dtype and y.isfinite().all()
            assert y.min() >= 0 and y.max() <= 1
            assert torch.equal((255 * y).round() / 255, y)
            rows = torch.tensor([2, 0])
            assert torch.equal(corrupt(x[rows], noise().pick(rows)), y[rows])
            assert torch.equal(corrupt(x[3:], noise().pick(torch.tensor([3]))), y[3:])


def test_examples_differ_only_by_their_ids() -> None:
    """Random corruptions give equal images different results, others the same."""
    x = random_images(1, 3, 32, 32).expand(4, -1, -1, -1)
    fixed = {n for n in NAMES if torch.equal(y := Corruption(n, 5)(x, noise()), y[:1].expand_as(y))}
    assert fixed == {
        *("defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression"),
        *("gaussian_blur", "saturate"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_corruption_at_224_pixels(name: str) -> None:
    x = colour_images(2, 224)
    for severity in (1, 5):
        y = Corruption(name, severity)(x, noise(2))
        assert y.min() >= 0 and y.max() <= 1 and torch.equal((255 * y).round() / 255, y)
        assert torch.equal(Corruption(name, severity)(x[1:], noise(2).pick(torch.tensor([1]))), y[1:])
        assert 0.001 < (y - x).abs().mean() < 0.4


@pytest.mark.parametrize("side", [32, 96])
@pytest.mark.parametrize("name", ORDERED)
def test_distance_grows_with_severity(name: str, side: int) -> None:
    x = colour_images(8, side)
    size = "cifar" if side == 32 else "imagenet"
    distance = [
        (Corruption(name, severity, size)(x, Noise(0, torch.arange(8))) - x).square().mean().item()
        for severity in range(1, 6)
    ]
    assert distance == sorted(distance) and len(set(distance)) == 5 and distance[0] > 0


# contact sheet


def test_a_contact_sheet_shows_every_image_magnified() -> None:
    x = torch.full((2, 3, 16, 8), 0.2)
    rows = [("half", [lambda x, noise: x / 2]), ("two", [lambda x, noise: 1 - x, lambda x, noise: x])]
    sheet = draw_contact_sheet(x, noise(2), rows, columns=("first", "second", "third", "fourth"), cell=64)
    pixels = np.asarray(sheet)
    counts = {level: int((pixels == level).all(axis=2).sum()) for level in (51, 26, 204)}
    one = (4 * 16) * (4 * 8)  # the largest factor that keeps 16 pixels within 64
    assert counts[51] >= 4 * one and counts[26] >= 2 * one and counts[204] >= 2 * one
    assert counts[51] < 4 * one + 200  # letters may add a few pixels of the same grey
    grey = draw_contact_sheet(torch.rand(1, 1, 200, 200), noise(1), [("same", [lambda x, noise: x])])
    assert grey.size[1] >= 400 and grey.mode == "RGB"


def test_the_sheet_of_everything_has_a_row_for_each() -> None:
    """Images of 28 pixels are magnified four times, with gaps of 4 and a line of headings."""
    x = torch.from_numpy(load("fashion-mini/test").images[:1]).float() / 255
    rows = 1 + len(CORRUPTIONS) + len(AUGMENTATIONS)
    sheet = draw_all_changes(x, noise(1))
    assert sheet.size[1] == 26 + rows * (4 * 28 + 4) and sheet.size[0] > 5 * (4 * 28 + 4)
    left = sheet.size[0] - 5 * 116
    original = np.asarray(sheet.crop((left, 26, left + 112, 26 + 112)))[::4, ::4, 0]
    assert np.array_equal(original, (255 * x[0, 0]).round().numpy())
