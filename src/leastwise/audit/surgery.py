"""Data sets made from data sets: fewer classes, other backgrounds, and images built with a network.

Everything keeps the ids of the examples. Backgrounds are changed as rows are read, so memory stays flat;
images built with a network are stored as uint8, rounded to the nearest level.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from leastwise.attacks.goals import Match, Targeted
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import L2, Ball, Zero
from leastwise.audit.segmentation import ObjectPrior, segment_objects
from leastwise.core.noise import Noise
from leastwise.core.progress import ProgressCallback, ignore_progress
from leastwise.core.types import Images
from leastwise.data.dataset import Batch, Dataset, ImageRows
from leastwise.models.classifier import Classifier, inference, wrap
from leastwise.models.preflight import check_model

RGB = tuple[float, float, float]
How = Literal["random", "next"]

BATCH_SIZE = 200
PREFLIGHT_IMAGES = 8


def keep_two_classes(data: Dataset, first: int | str, second: int | str) -> Dataset:
    """Two classes as 0 and 1, with their names."""
    a, b = data.index(first), data.index(second)
    if a == b:
        raise ValueError(f"a binary data set needs two different classes, but saw {data.names[a]} twice")
    return data.only([a, b]).relabel({a: 0, b: 1}, (data.names[a], data.names[b]))


def remove_class(data: Dataset, cls: int | str, renumber: bool = True) -> Dataset:
    """Without one class. Renumbered, k - 1 classes remain; otherwise it stays in `names`, empty."""
    gone = data.index(cls)
    return data.keep([c for c in range(data.k) if c != gone]) if renumber else data.without(gone)


def pseudo_label(model: Classifier, data: Dataset, names: Sequence[str], *, device: str = "cpu") -> Dataset:
    """The images with the classes that a network sees in them, for self-training (RST, Carmon et al., NeurIPS 2019).

    `names` are the network's classes; whatever labels the images had are forgotten.
    """
    if len(names) != model.k:
        raise ValueError(f"the network has {model.k} classes, but saw {len(names)} names: give one for each")
    found = []
    with inference(model.to(device)), torch.no_grad():
        for batch in data.batches(BATCH_SIZE):
            found.append(model(batch.x.to(device)).argmax(dim=1).cpu())
    return replace(data, labels=torch.cat(found).numpy(), names=tuple(names), groups=())


# Backgrounds.

RED, BLUE = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Coloured:
    """(1 - grey) · colour + grey · white, row by row."""

    images: ImageRows
    rows: Int[np.ndarray, " n"]
    colours: Float[np.ndarray, "n 3"]

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.rows), 3, *self.images.shape[2:]

    def __getitem__(self, at: Int[np.ndarray, " m"], /) -> UInt8[np.ndarray, "m 3 h w"]:
        grey = self.images[self.rows[at]] / 255
        return to_eight_bits((1 - grey) * self.colours[at][:, :, None, None] + grey)


def colour_backgrounds(
    data: Dataset, groups: Sequence[Sequence[int | str]] = (), colours: tuple[RGB, RGB] = (RED, BLUE)
) -> Dataset:
    """Grey images on two background colours, one for each group of classes (Tian et al., KDD 2021, section 6.2).

    The paper leaves colours and grouping open, apart from 2 and 3 sharing a colour and 2 and 5 not. By
    default the first half of the classes is on red and the rest on blue: two channels are 1 apart, so
    an eps of 0.5 reaches the middle of the two at most.
    """
    if data.shape[0] != 1:
        raise ValueError(f"a background colour needs grey images with 1 channel, but saw {data.shape[0]} channels")
    half = math.ceil(data.k / 2)
    members = [[data.index(c) for c in group] for group in groups or (range(half), range(half, data.k))]
    if len(members) != 2 or sorted(members[0] + members[1]) != list(range(data.k)):
        raise ValueError(f"every class 0 to {data.k - 1} must be in one of two groups, but saw {members}")
    for colour in colours:
        check_colour(colour, 3)
    group_of = np.isin(np.arange(data.k), members[1]).astype(np.int64)
    named = tuple(
        (f"on {hex_colour(colour)}", tuple(sorted(group))) for colour, group in zip(colours, members, strict=True)
    )
    images = Coloured(data.images, data.rows, np.array(colours, dtype=np.float64)[group_of[data.labels]])
    return replace(data, images=images, rows=np.arange(len(data)), groups=named)


@dataclass(frozen=True, eq=False)
class OnColour:
    """mask · image + (1 - mask) · colour, row by row; without masks objects are found as the rows are read."""

    images: ImageRows
    rows: Int[np.ndarray, " n"]
    masks: np.ndarray | None
    colour: tuple[float, ...]
    prior: ObjectPrior

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.rows), *self.images.shape[1:]

    def __getitem__(self, at: Int[np.ndarray, " m"], /) -> UInt8[np.ndarray, "m c h w"]:
        pixels = self.images[self.rows[at]]
        masks = segment_objects(pixels, self.prior) if self.masks is None else self.masks[at]
        front = masks.astype(np.float64)[:, None]
        return to_eight_bits(front * (pixels / 255) + (1 - front) * np.array(self.colour)[:, None, None])


def replace_background(
    data: Dataset,
    masks: np.ndarray | None = None,
    colour: tuple[float, ...] = (1.0, 1.0, 1.0),
    *,
    prior: ObjectPrior = ObjectPrior(),
) -> Dataset:
    """Everything outside the masks in one colour (Tian et al., KDD 2021, figure 6: white).

    `masks` are `[n h w]`, in the order of the examples, 1 on the object and 0 behind it. Tian et al. drew theirs by
    hand and did not release them; without masks `segment_objects` finds the objects (`audit/segmentation.py`), with
    `prior` as what it expects before it looks: report how much results depend on it.
    """
    channels, h, w = data.shape
    check_colour(colour, channels)
    if masks is not None and masks.shape != (len(data), h, w):
        raise ValueError(f"masks need the shape {[len(data), h, w]}, one per example, but saw {list(masks.shape)}")
    if masks is not None and masks.size and not (masks.min() >= 0 and masks.max() <= 1):
        raise ValueError(f"masks lie between 0 and 1, but saw {masks.min()} to {masks.max()}: divide 8-bit ones by 255")
    return replace(data, images=OnColour(data.images, data.rows, masks, colour, prior), rows=np.arange(len(data)))


# Robust and non-robust features (Ilyas et al., NeurIPS 2019).


class Features(nn.Module):
    """A classifier that answers with what its last linear layer receives."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Images) -> Float[Tensor, "b d"]:
        return self.model.features(x)


def match_features(
    data: Dataset,
    model: nn.Module,
    seed: int = 0,
    *,
    steps: int = 1000,
    step: float = 0.1,
    start: Dataset | None = None,
    batch_size: int = BATCH_SIZE,
    device: str = "cpu",
    watch: ProgressCallback = ignore_progress,
) -> Dataset:
    """Unrelated images moved until the network's features are those of x, with the label of x.

    With a standard network this is the non-robust set of Ilyas et al., with an adversarially trained one
    the robust set. Gradient steps have the L2 length `step` and the only limit is the pixel range. Start
    images are drawn uniformly from `start`, by default from the other images of `data`, whatever
    their class: a start that knew y would carry its robust features into the set.
    """
    if start is not None and (len(start) == 0 or start.shape != data.shape):
        raise ValueError(
            f"start images must have the shape {data.shape} of the data, but saw {len(start)} of shape {start.shape}"
        )
    features = Features(wrap(model, data.k)).to(device)
    source, partner = (
        (data, draw_partners(data.ids, seed)) if start is None else (start, draw_starts(data.ids, start, seed))
    )
    far = math.sqrt(math.prod(data.shape))  # no two images are further apart

    def craft(batch: Batch, positions: Int[np.ndarray, " m"], noise: Noise) -> Images:
        with torch.no_grad():
            goal = Match(features(batch.x))
        attack = PGD(L2(far), goal, step, steps, start=Zero(), keep="last")
        return attack.perturb(features, source.batch(partner[positions]).x.to(device), batch.y, noise)

    return replace(
        data,
        images=rebuild_images(data, features, craft, seed=seed, batch_size=batch_size, device=device, watch=watch),
        rows=np.arange(len(data)),
    )


def make_targeted_set(
    data: Dataset,
    model: nn.Module,
    seed: int = 0,
    *,
    how: How = "random",
    ball: Ball = L2(0.5),
    step: float = 0.1,
    steps: int = 100,
    batch_size: int = BATCH_SIZE,
    device: str = "cpu",
    watch: ProgressCallback = ignore_progress,
) -> Dataset:
    """Adversarial examples toward a class t, labelled t.

    "random" draws t uniformly from all classes, y among them (D_rand of Ilyas et al.); "next" is y + 1 modulo k
    (D_det), where class-wise results mix the difficulty of y and t. The examples end within `ball`, give
    or take half an 8-bit level per pixel.
    """
    if len(data) == 0:
        raise ValueError("there is nothing to build from: the data set has no examples")
    target = choose_targets(data, how, seed)
    classifier = wrap(model, data.k).to(device)
    check_model(classifier, data.batch(np.arange(min(len(data), PREFLIGHT_IMAGES))).x.to(device), data.k)

    def craft(batch: Batch, positions: Int[np.ndarray, " m"], noise: Noise) -> Images:
        goal = Targeted(torch.from_numpy(target[positions]).to(device))
        return PGD(ball, goal, step, steps, start=Zero(), keep="last").perturb(classifier, batch.x, batch.y, noise)

    images = rebuild_images(data, classifier, craft, seed=seed, batch_size=batch_size, device=device, watch=watch)
    return replace(data, images=images, labels=target, rows=np.arange(len(data)))


def rebuild_images(
    data: Dataset,
    model: nn.Module,
    craft: Callable[[Batch, np.ndarray, Noise], Images],
    *,
    seed: int,
    batch_size: int,
    device: str,
    watch: ProgressCallback,
) -> UInt8[np.ndarray, "n c h w"]:
    """What `craft` makes of every image, with the model in evaluation mode."""
    if batch_size < 1:
        raise ValueError(f"a batch needs 1 image or more, but saw {batch_size}")
    images = np.empty((len(data), *data.shape), dtype=np.uint8)
    with inference(model):
        for done in range(0, len(data), batch_size):
            positions = np.arange(done, min(done + batch_size, len(data)))
            batch = Batch(*(part.to(device) for part in data.batch(positions)))
            made = craft(batch, positions, Noise(seed, batch.ids, "/surgery"))
            images[positions] = to_eight_bits(made.detach().cpu().numpy())
            watch(int(positions[-1]) + 1, len(data))
    return images


def choose_targets(data: Dataset, how: str, seed: int) -> Int[np.ndarray, " n"]:
    """The class that each image is moved to."""
    if how not in get_args(How):
        raise ValueError(f"targets are chosen as {' or '.join(get_args(How))}, but saw {how!r}")
    return (data.labels + 1) % data.k if how == "next" else draw_below(data.k, data.ids, seed, purpose="target")


def draw_partners(ids: Int[np.ndarray, " n"], seed: int) -> Int[np.ndarray, " n"]:
    """For each example the position of another, uniformly; it depends on the set of ids, not on their order."""
    if len(ids) < 2:
        raise ValueError(f"an unrelated start image needs at least two examples, but saw {len(ids)}")
    order = np.argsort(ids)
    other = draw_below(len(ids) - 1, ids, seed, purpose="start")
    return order[other + (other >= np.argsort(order))]  # skip the example itself


def draw_starts(ids: Int[np.ndarray, " n"], source: Dataset, seed: int) -> Int[np.ndarray, " n"]:
    """For each example the position of a start image in another data set, uniformly."""
    return np.argsort(source.ids)[draw_below(len(source), ids, seed, purpose="start")]


def draw_below(n: int, ids: Int[np.ndarray, " m"], seed: int, *, purpose: str) -> Int[np.ndarray, " m"]:
    """A whole number from 0 to n - 1 for each id, by the high bits of word · n."""
    return (Noise(seed, torch.from_numpy(ids), f"/surgery/{purpose}").words(()).numpy() * n) >> 32


def to_eight_bits(pixels: Float[np.ndarray, "n c h w"]) -> UInt8[np.ndarray, "n c h w"]:
    """Pixels in [0, 1] as the nearest of 256 levels."""
    return np.rint(255 * pixels).astype(np.uint8)


def check_colour(colour: Sequence[float], channels: int) -> None:
    """Refuse a colour with another number of channels or values outside [0, 1]."""
    if len(colour) != channels or not all(0 <= value <= 1 for value in colour):
        raise ValueError(f"a colour needs {channels} numbers in 0 … 1, one per channel, but saw {tuple(colour)}")


def hex_colour(colour: Sequence[float]) -> str:
    """A colour as web pages write it."""
    return "#" + "".join(f"{round(255 * value):02x}" for value in colour)
