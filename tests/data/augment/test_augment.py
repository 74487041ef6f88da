"""Augmentations: Pillow's own results, slow references, printed probabilities, and no dependence on the batch."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy import stats
from scipy.ndimage import gaussian_filter
from torch import Tensor

from leastwise.core.noise import Noise
from leastwise.core.recipe import canonical_json, recipe_key
from leastwise.data.augment import pillow_ops as colour
from leastwise.data.augment.idbh import POLICIES, ColorShape
from leastwise.data.augment.pillow_ops import (
    autocontrast,
    brightness,
    contrast,
    equalise,
    rotate,
    saturation,
    sharpness,
    shear,
    to_levels,
    to_pixels,
)
from leastwise.data.augment.registry import AUGMENTATIONS, IDBH, find_augmentation
from leastwise.data.augment.transforms import Augment, Chain, CropShift, Cutout, Erase, Flip, PadCrop
from leastwise.jobs.settings import TrainSettings

MANY = 20_000


def noise(ids: int | list[int], seed: int = 0) -> Noise:
    return Noise(seed, torch.arange(ids) if isinstance(ids, int) else torch.tensor(ids), "/test")


def eight_bit(n: int, c: int, h: int, w: int) -> np.ndarray:
    """Noise, smooth pictures and low-contrast pictures in turn, so that histograms have all sorts of shapes."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (n, c, h, w)).astype(float)
    images[::3] = 128 + 4 * (gaussian_filter(images[::3], (0, 0, 2, 2)) - 128)
    images[1::3] = 0.2 * images[1::3] + rng.integers(0, 200, (len(images[1::3]), c, 1, 1))
    return images.clip(0, 255).astype(np.uint8)


def as_pixels(images: np.ndarray) -> Tensor:
    return torch.from_numpy(images).float() / 255


def pictures(n: int, c: int = 3, h: int = 32, w: int = 30) -> Tensor:
    return as_pixels(eight_bit(n, c, h, w))


# Pillow as oracle. Nothing is tolerated: on 8-bit images all operations give Pillow's numbers exactly.

PICTURES = eight_bit(60, 3, 34, 31)
DRAWS = np.random.default_rng(1)
FACTOR = DRAWS.uniform(0.1, 1.9, len(PICTURES))
RADIANS = DRAWS.uniform(0.05, 0.35, len(PICTURES)) * DRAWS.choice([-1, 1], len(PICTURES))
DEGREES = DRAWS.integers(1, 31, len(PICTURES)) * DRAWS.choice([-1, 1], len(PICTURES))
ALONG_X = DRAWS.random(len(PICTURES)) < 0.5


def sheared(image: Image.Image, n: int) -> Image.Image:
    """The matrix by which torchvision asks Pillow for a shear about the centre."""
    t, (w, h) = math.tan(RADIANS[n]), image.size
    matrix = (1, t, -t * h / 2, 0, 1, 0) if ALONG_X[n] else (1, 0, 0, t, 1, -t * w / 2)
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=0)


ORACLES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Image.Image, int], Image.Image]]] = {
    "saturation": (
        lambda v: saturation(v, torch.from_numpy(FACTOR)),
        lambda image, n: ImageEnhance.Color(image).enhance(FACTOR[n]),
    ),
    "brightness": (
        lambda v: brightness(v, torch.from_numpy(FACTOR)),
        lambda image, n: ImageEnhance.Brightness(image).enhance(FACTOR[n]),
    ),
    "contrast": (
        lambda v: contrast(v, torch.from_numpy(FACTOR)),
        lambda image, n: ImageEnhance.Contrast(image).enhance(FACTOR[n]),
    ),
    "sharpness": (
        lambda v: sharpness(v, torch.from_numpy(FACTOR)),
        lambda image, n: ImageEnhance.Sharpness(image).enhance(FACTOR[n]),
    ),
    "autocontrast": (autocontrast, lambda image, n: ImageOps.autocontrast(image)),
    "equalise": (equalise, lambda image, n: ImageOps.equalize(image)),
    "shear": (lambda v: shear(v, torch.from_numpy(RADIANS), torch.from_numpy(ALONG_X)), sheared),
    "rotate": (
        lambda v: rotate(v, torch.from_numpy(DEGREES).double()),
        lambda image, n: image.rotate(int(DEGREES[n]), Image.Resampling.NEAREST, fillcolor=0),
    ),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ORACLES)
def test_operations_give_pillows_numbers(name: str, channels: int) -> None:
    ours, theirs = ORACLES[name]
    images = PICTURES[:, :channels]
    answers = []
    for n, image in enumerate(images):
        picture = Image.fromarray(image[0] if channels == 1 else image.transpose(1, 2, 0))
        answer = np.asarray(theirs(picture, n))
        answers.append(answer[None] if channels == 1 else answer.transpose(2, 0, 1))
    result = ours(to_levels(as_pixels(images)))
    assert np.array_equal(result.numpy(), np.stack(answers))
    if (name, channels) != ("saturation", 1):  # a grey image has no colour to change
        assert not np.array_equal(result.numpy(), images)


@pytest.mark.parametrize("operation", [autocontrast, equalise])
def test_flat_channels_and_small_images_stay(operation: Callable[[Tensor], Tensor]) -> None:
    flat = torch.tensor([0.0, 7.0, 255.0]).view(1, 3, 1, 1).expand(2, 3, 20, 20)
    assert torch.equal(operation(flat), flat)


def test_colour_operations_refuse_other_channels() -> None:
    with pytest.raises(ValueError, match="1 or 3 channels, but saw 2"):
        saturation(torch.zeros(1, 2, 4, 4), torch.ones(1))


def test_levels_and_pixels_are_inverse_on_8_bit_images() -> None:
    x = torch.arange(256).view(1, 1, 16, 16).float() / 255
    assert torch.equal(to_pixels(to_levels(x), torch.float32), x)


# Which operation, how strongly.


@pytest.mark.parametrize("kind", ["colour", "shape"])
def test_operations_are_as_frequent_as_published(kind: str) -> None:
    counts = torch.bincount(ColorShape(kind).draw_operations(noise(MANY)), minlength=8).numpy()
    expected = MANY * np.array([choice.p for choice in POLICIES[kind]])
    assert stats.chisquare(counts, expected).pvalue > 0.001


def test_probabilities_are_the_printed_ones() -> None:
    printed = {
        "colour": [0.125] * 8,
        "shape": [0.08, 0.08, 0.04, 0.08, 0.04, 0.08, 0.30, 0.30],
    }
    for kind, p in printed.items():
        assert [choice.p for choice in POLICIES[kind]] == p and math.isclose(sum(p), 1)


@pytest.mark.parametrize("kind", ["colour", "shape"])
def test_colorshape_does_the_drawn_operation_within_its_range(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every image goes through exactly one operation, with strengths that fill the published range."""
    seen: dict[str, list[float]] = {}

    def spy(name: str, operation: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def spied(v: Tensor, strength: Tensor | None = None, **rest: Tensor) -> Tensor:
            seen.setdefault(name, []).extend([0.0] * len(v) if strength is None else strength.tolist())
            if "along_x" in rest:
                seen.setdefault("along_x", []).extend(rest["along_x"].double().tolist())
            return operation(v) if strength is None else operation(v, strength, **rest)

        return spied

    for choice in POLICIES[kind]:
        monkeypatch.setattr(colour, choice.name, spy(choice.name, getattr(colour, choice.name)))
    monkeypatch.setattr(
        "leastwise.data.augment.idbh.FACTORS", {c.name: getattr(colour, c.name) for c in POLICIES[kind][:4]}
    )
    n = 6000
    ColorShape(kind)(torch.rand(n, 3, 4, 4, generator=torch.Generator().manual_seed(0)), noise(n))
    along_x = np.array(seen.pop("along_x"))
    assert abs(along_x.mean() - 0.5) < 4 * 0.5 / math.sqrt(len(along_x))
    assert sum(map(len, seen.values())) == n
    for choice in POLICIES[kind]:
        size = np.abs(seen[choice.name])
        if choice.high == 0:
            continue
        if choice.name == "rotate":
            degrees = np.arange(choice.low, choice.high + 1)
            assert stats.chisquare([(size == d).sum() for d in degrees]).pvalue > 0.001
            assert np.isin(size, degrees).all()
        else:
            assert stats.kstest(size, "uniform", (choice.low, choice.high - choice.low)).pvalue > 0.001
        positive = (np.array(seen[choice.name]) > 0).mean()
        assert abs(positive - 0.5) < 4 * 0.5 / math.sqrt(len(size)) if choice.name in ("shear", "rotate") else positive


def test_colorshape_changes_each_image_by_the_operation_drawn_for_it() -> None:
    x, n = pictures(200), noise(200)
    which, changed = ColorShape("shape").draw_operations(n), ColorShape("shape")(x, n)
    names = [choice.name for choice in POLICIES["shape"]]
    for name, operation in (("autocontrast", autocontrast), ("equalise", equalise)):
        rows = which == names.index(name)
        assert bool(rows.any())
        assert torch.equal(changed[rows], operation(to_levels(x[rows])) / 255)


# CropShift.


def test_p11_cropshift_zero_is_the_identity() -> None:
    x = pictures(12)
    assert torch.equal(CropShift(0, 0)(x, noise(12)), x)


def test_p11_cropshift_keeps_a_window_of_the_stated_size() -> None:
    """On white images the window is visible; strengths are uniform in 0 … 10 and so is their split."""
    h, w, n = 13, 17, 5500
    shifted = CropShift(0, 10)(torch.ones(n, 2, h, w), noise(n))
    assert shifted.shape == (n, 2, h, w) and set(shifted.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(shifted[:, 0], shifted[:, 1])
    width, height = shifted[:, 0].amax(dim=1).sum(dim=1), shifted[:, 0].amax(dim=2).sum(dim=1)
    c_x, c_y = (w - width).long(), (h - height).long()
    assert torch.equal(shifted[:, 0].sum(dim=(1, 2)), width * height)
    strength = (c_x + c_y).numpy()
    assert stats.chisquare(np.bincount(strength, minlength=11)).pvalue > 0.001 and strength.max() == 10
    for s in (1, 4, 10):
        assert stats.chisquare(np.bincount(c_x[strength == s], minlength=s + 1)).pvalue > 0.001
    # Where the window stands on the canvas is uniform, too.
    left = shifted[:, 0].amax(dim=1).argmax(dim=1)
    assert stats.chisquare(np.bincount(left[c_x == 3], minlength=4)).pvalue > 0.001


def test_cropshift_is_a_shifted_part_of_the_image() -> None:
    """Every non-zero pixel comes from the image by one shift, and sources begin at a uniform place."""
    h, w, n = 9, 8, 3000
    x = torch.arange(1, h * w + 1).float().view(1, 1, h, w).expand(n, 1, h, w) / (h * w)
    shifted = (CropShift(3, 3)(x, noise(n)) * h * w).round().long()[:, 0]
    source_column: list[int] = []
    for image in shifted:
        i, j = image.nonzero(as_tuple=True)
        at = image[i, j] - 1
        assert len((at // w - i).unique()) == 1 and len((at % w - j).unique()) == 1
        if int((image.amax(dim=0) > 0).sum()) == w - 2:
            source_column.append(int((at % w).min()))
    assert stats.chisquare(np.bincount(source_column, minlength=3)).pvalue > 0.001


def test_cropshift_refuses_images_it_would_swallow() -> None:
    with pytest.raises(ValueError, match="up to 10 pixels needs larger images, but saw 8×20"):
        CropShift()(torch.zeros(1, 1, 8, 20), noise(1))


# The classical ones.


def test_padcrop_may_mirror_the_image_outwards() -> None:
    """Against numpy's reflection: every window is one of the padded image, and all of them come."""
    pad, n = 3, 2000
    x = pictures(n, c=2, h=4, w=7)
    cropped = PadCrop(pad, reflect=True)(x, noise(n))
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (pad, pad), (pad, pad)), mode="reflect")
    windows = np.stack([padded[:, :, i : i + 4, j : j + 7] for i in range(2 * pad + 1) for j in range(2 * pad + 1)])
    same = (windows == cropped.numpy()).all(axis=(2, 3, 4))
    assert same.any(axis=0).all() and same.any(axis=1).all()
    black = PadCrop(pad)(x, noise(n))
    middle = (black == cropped).flatten(1).all(dim=1)
    assert 0 < int(middle.sum()) < n  # windows inside the image are the same in both


def test_padcrop_refuses_to_mirror_farther_than_the_image() -> None:
    with pytest.raises(ValueError, match="images of 4x7 pixels cannot be mirrored 4 pixels outwards"):
        PadCrop(4, reflect=True)(pictures(1, c=2, h=4, w=7), noise(1))


def test_padcrop_is_a_window_of_the_padded_image() -> None:
    pad, n = 2, 2000
    x = pictures(n, c=2, h=5, w=7)
    cropped = PadCrop(pad)(x, noise(n))
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.stack([padded[:, :, i : i + 5, j : j + 7] for i in range(2 * pad + 1) for j in range(2 * pad + 1)])
    same = (windows == cropped.numpy()).all(axis=(2, 3, 4))
    assert same.any(axis=0).all()
    unique = same.sum(axis=0) == 1  # flat corners can make two windows alike
    assert stats.chisquare(np.bincount(same[:, unique].argmax(axis=0), minlength=len(windows))).pvalue > 0.001
    assert torch.equal(PadCrop(0)(x, noise(n)), x)


def test_flip_mirrors_about_half() -> None:
    x = pictures(12)
    assert torch.equal(Flip(1.0)(x, noise(12)), x.flip(3)) and torch.equal(Flip(0.0)(x, noise(12)), x)
    y = torch.tensor([0.0, 1.0]).view(1, 1, 1, 2).expand(MANY, 1, 1, 2)
    flipped = int(Flip()(y, noise(MANY))[:, 0, 0, 0].sum())
    assert stats.binomtest(flipped, MANY, 0.5).pvalue > 0.001


@pytest.mark.parametrize("side", [1, 4, 5])
def test_cutout_is_a_clipped_square_around_any_pixel(side: int) -> None:
    h, w, n = 6, 7, 4000
    holes = 1 - Cutout(side)(torch.ones(n, 2, h, w), noise(n))
    answers = np.zeros((h * w, h, w))
    for centre in range(h * w):
        top, left = centre // w - side // 2, centre % w - side // 2
        answers[centre, max(top, 0) : top + side, max(left, 0) : left + side] = 1
    assert torch.equal(holes[:, 0], holes[:, 1])
    same = (answers[None] == holes[:, :1].numpy()).all(axis=(2, 3))
    assert (same.sum(axis=1) == 1).all()
    assert stats.chisquare(np.bincount(same.argmax(axis=1), minlength=h * w)).pvalue > 0.001


def boxes(erase: Erase, n: int, h: int, w: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Height and width of the erased rectangle of each image (0 where there is none)."""
    holes = (erase(torch.full((n, 2, h, w), 0.5), noise(n, seed)) == erase.fill).float()
    height, width = holes[:, 0].amax(dim=2).sum(dim=1), holes[:, 0].amax(dim=1).sum(dim=1)
    assert torch.equal(holes[:, 0], holes[:, 1]) and torch.equal(holes[:, 0].sum(dim=(1, 2)), height * width)
    return height.numpy(), width.numpy()


def test_erase_draws_area_and_aspect_as_stated() -> None:
    """With small boxes on a large canvas nothing is drawn again, so both marginals are known."""
    h, w, n = 150, 100, 1500
    height, width = boxes(Erase(p=1.0, scale=(0.05, 0.2), fill=0.25), n, h, w)
    assert stats.kstest(height * width / (h * w), "uniform", (0.05, 0.15)).pvalue > 0.001
    low, high = math.log(0.3), math.log(3.3)
    assert stats.kstest(np.log(height / width), "uniform", (low, high - low)).pvalue > 0.001


def test_erase_agrees_with_a_slow_reference_where_boxes_do_not_fit() -> None:
    """Ten tries with rejection, one image at a time, as torchvision does it; the same distribution of sizes."""
    h, w, n, erase = 8, 12, 6000, Erase(p=0.7, scale=(0.1, 1.0), ratio=(0.2, 4.0))
    rng = np.random.default_rng(2)
    slow: dict[tuple[int, int], int] = {}
    for _ in range(n):
        box = (0, 0)
        if rng.random() < erase.p:
            for _ in range(10):
                area, ratio = h * w * rng.uniform(*erase.scale), math.exp(rng.uniform(*np.log(erase.ratio)))
                a, b = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
                if a < h and b < w:
                    box = (a, b)
                    break
        slow[box] = slow.get(box, 0) + 1
    ours: dict[tuple[int, int], int] = {}
    for a, b in zip(*boxes(erase, n, h, w), strict=True):
        ours[int(a), int(b)] = ours.get((int(a), int(b)), 0) + 1
    assert set(ours) - {(0, 0)} and max(a for a, _ in ours) < h and max(b for _, b in ours) < w
    common = [box for box in slow if slow[box] + ours.get(box, 0) >= 20]
    pairs = np.array([[slow[box], ours.get(box, 0)] for box in common])
    rest = np.array([[n, n]]) - pairs.sum(axis=0, keepdims=True)
    assert stats.chi2_contingency(np.concatenate([pairs, rest]).T).pvalue > 0.001


def test_erase_gives_up_when_nothing_fits_and_never_with_p_zero() -> None:
    x = pictures(50)
    assert torch.equal(Erase(p=1.0, scale=(1.0, 1.0))(x, noise(50)), x)
    assert torch.equal(Erase(p=0.0)(x, noise(50)), x)


def test_erase_places_the_box_anywhere() -> None:
    h, w, n = 8, 6, 6000
    holes = 1 - Erase(p=1.0, scale=(4 / 48, 4 / 48), ratio=(1.0, 1.0))(torch.ones(n, 1, h, w), noise(n))[:, 0]
    top, left = holes.amax(dim=2).argmax(dim=1), holes.amax(dim=1).argmax(dim=1)
    assert stats.chisquare(np.bincount(top * (w - 1) + left, minlength=(h - 1) * (w - 1))).pvalue > 0.001


# The contract of all of them.

EVERY: dict[str, Augment] = {
    "padcrop": PadCrop(),
    "flip": Flip(),
    "cutout": Cutout(8),
    "erase": Erase(),
    "cropshift": CropShift(),
    "colour": ColorShape("colour"),
    "shape": ColorShape("shape"),
    **{name: row.augment for name, row in AUGMENTATIONS.items()},
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("channels", [1, 3])
def test_an_example_does_not_depend_on_its_batch(name: str, channels: int) -> None:
    augment, ids = EVERY[name], [5, 2**40 + 1, 17, 0, 99, 3, 8, 1000, 12, 77]
    x = pictures(len(ids), channels)
    before = x.clone()
    together = augment(x, noise(ids))
    assert isinstance(augment, Augment) and together.shape == x.shape and together.dtype == x.dtype
    assert together.min() >= 0 and together.max() <= 1
    assert torch.equal(x, before), "the input is left as it was"
    for place, example in enumerate(ids):
        assert torch.equal(augment(x[[place]], noise([example]))[0], together[place])
    assert torch.equal(augment(x.flip(0), noise(ids[::-1])), together.flip(0))
    assert torch.equal(augment(x.double(), noise(ids)).float(), together)
    if name != "none":
        many = pictures(30, channels)
        assert not torch.equal(augment(many, noise(30)), augment(many, noise(30, seed=1)))


def test_parts_of_a_chain_draw_independently() -> None:
    """Two flips in a chain agree half the time, not always."""
    y = torch.tensor([0.0, 1.0]).view(1, 1, 1, 2).expand(MANY, 1, 1, 2)
    restored = int(Chain((Flip(), Flip()))(y, noise(MANY))[:, 0, 0, 1].sum())
    assert stats.binomtest(restored, MANY, 0.5).pvalue > 0.001


def test_idbh_policies_are_the_published_ones() -> None:
    weak, strong, svhn = (IDBH[name].parts for name in ("cifar10-weak", "cifar10-strong", "svhn"))
    assert weak == (Flip(0.5), CropShift(0, 10), ColorShape("colour"), Erase(0.5, (0.02, 0.33), (0.3, 3.3), 0.0))
    assert strong == (*weak[:3], Erase(1.0, (0.02, 0.33), (0.3, 3.3), 0.0))
    assert svhn == (Flip(0.5), CropShift(0, 8), ColorShape("shape"), Erase(1.0, (0.02, 0.5), (0.3, 3.3), 0.0))


def test_augmentations_are_recipes() -> None:
    text = canonical_json(IDBH["cifar10-weak"])
    assert '"type":"CropShift"' in text and '"high":10' in text
    keys = {name: recipe_key(row.augment) for name, row in AUGMENTATIONS.items()}
    assert len(set(keys.values())) == len(keys)
    assert repr(IDBH["cifar10-weak"]).startswith("Chain(parts=(Flip(p=0.5), CropShift(low=0, high=10)")
    assert all(row.about for row in AUGMENTATIONS.values())


def test_unknown_names_and_settings_are_refused() -> None:
    assert find_augmentation("idbh-weak") == IDBH["cifar10-weak"] and find_augmentation("none").parts == ()
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: find_augmentation("idbh"), "no augmentation 'idbh': choose none or flip or crop-flip"),
        (lambda: Flip(1.5), "between 0 and 1, but saw 1.5"),
        (lambda: Erase(scale=(0.4, 0.3)), "low <= high"),
        (lambda: Erase(ratio=(0.0, 1.0)), "0 < low"),
        (lambda: CropShift(3, 2), "0 <= low <= high, but saw 3 and 2"),
        (lambda: PadCrop(-1), "0 or more, but saw -1"),
        (lambda: Cutout(0), "1 or more, but saw 0"),
    ]
    for make, message in wrong:
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.parametrize(
    ("data", "epochs", "name"),
    [
        ("cifar10", 12, "flip"),
        ("cifar10/train", 30, "crop-flip"),
        ("imagenet@64", 90, "crop-flip"),
        ("svhn", 90, "none"),
    ],
)
def test_what_a_training_gets_unless_it_asks(data: str, epochs: int, name: str) -> None:
    assert TrainSettings("pgd-at", data=data, epochs=epochs).augmentation() == find_augmentation(name)
    assert TrainSettings("pgd-at", data=data, epochs=epochs, augment="cutout").augmentation() == find_augmentation(
        "cutout"
    )
