"""What a model answers on some images, kept so that it can be recognised later: a model is what it answers.

A digest of weights and code cannot see a helper in another file, a variable of the environment or a setting in an
object of the user's own. Logits can. They are asked for on images of the data and, where images are attacked, on a few
of these moved off the grid of 8 bits, there with the slope of the logits: rounding of the input and another backward
pass do not show on the images themselves.

Answers of one model differ in rounding: with the processor, the number of threads, the size of the batch. What counts
as the same is a part of the spread of the logits (`SAME`), a few last bits of them, and three times what answers to one
image differed by when it was asked several times, alone and in company. A random model is so compared up to its own
noise.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Logits
from leastwise.data.dataset import Dataset
from leastwise.models.classifier import Classifier, inference
from leastwise.models.preflight import PREFLIGHT_IMAGES, ROUNDING, Hearing, check_model, count_preflight, run_model

MOST_NUMBERS, MOST_IMAGES, FEWEST_IMAGES = 1 << 15, 100, 8  # logits that are kept: 100 images of up to 300 classes
MOVED = 16  # images that are moved
AGAIN = 4  # images that are asked for twice where nobody has looked how steady the model is
FAR = 8 / 255  # how far each of their pixels goes at most
DIRECTIONS = 8  # along which their slopes are kept
# Logits of a ResNet-20 with other threads, batches or memory formats differ by 2e-7 of their spread in float32; deeper
# networks and other processors are given a few hundred times that. A change of 1e-4 turns one image in thousands.
SAME = 1e-4
LAST_BITS = 4  # units in the last place of the largest logit
UNREST = 3  # times what answers to the same image differed by
# Slopes may jump where a ReLU or a maximum turns by rounding, so half of the images must differ, and by a hundredth.
SLOPE = 1e-2
CPU = "cpu"


class Likeness(NamedTuple):
    """Whether two models answer alike, and what that was seen from, in words."""

    same: bool
    words: str
    usual: bool = True  # whether they were compared as closely as rounding allows


@dataclass(frozen=True, eq=False)
class Answers:
    """The logits of a model on some images, and how closely another asking can be expected to repeat them."""

    ids: Int[np.ndarray, " n"]
    logits: Float[np.ndarray, "n k"]
    moved: Float[np.ndarray, "m k"]  # of the images that were moved; none where nothing is attacked
    slopes: Float[np.ndarray, "m d"]  # of a mixture of their logits, along fixed directions; d = 0 without gradients
    unrest: float  # by how much answers to the same image differed
    bits: float  # the relative size of a last bit
    device: str

    @property
    def moved_ids(self) -> Int[np.ndarray, " m"]:
        """The images that were moved."""
        return self.ids[spread_rows(len(self.ids), MOVED)]

    def to_json(self) -> dict[str, Any]:
        """As a claim has it."""
        arrays = {"ids": self.ids.astype("<i8")}
        arrays |= {name: getattr(self, name).astype("<f4") for name in ("logits", "moved", "slopes")}
        packed = {name: pack_array(array) for name, array in arrays.items()}
        return packed | {"unrest": float(f"{self.unrest:.3g}"), "bits": self.bits, "device": self.device}


def pack_array(array: np.ndarray) -> dict[str, Any]:
    """Numbers as text: short, and exact in every bit."""
    return {"shape": list(array.shape), array.dtype.str[1:]: base64.b64encode(array.tobytes()).decode()}


def unpack_array(held: Mapping[str, Any], kind: str) -> np.ndarray:
    array = np.frombuffer(base64.b64decode(held[kind], validate=True), f"<{kind}")
    return array.reshape([int(length) for length in held["shape"]])


def read_answers(held: object) -> Answers | None:
    """Answers from a claim; None if there are none, or none that can be read."""
    try:
        assert isinstance(held, dict)
        ids = unpack_array(held["ids"], "i8")
        logits, moved, slopes = (unpack_array(held[name], "f4") for name in ("logits", "moved", "slopes"))
        whole = ids.ndim == 1 and all(array.ndim == 2 for array in (logits, moved, slopes)) and len(ids) == len(logits)
        numbers = float(held["unrest"]), float(held["bits"])
    except (AssertionError, KeyError, TypeError, ValueError):
        return None
    if not whole or not np.isfinite(numbers).all() or not len(moved) == len(slopes) <= len(ids):
        return None
    return Answers(ids, logits, moved, slopes, *numbers, str(held["device"]))


def spread_rows(n: int, most: int) -> Int[np.ndarray, " m"]:
    """At most so many of n rows, spread over all of them: a set sorted by class shows more than its first class."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def choose_rows(n: int, k: int) -> Int[np.ndarray, " m"]:
    """The rows, of n, whose answers are kept: fewer where classes are many. They depend on nothing else."""
    rows = spread_rows(n, MOST_IMAGES)
    return rows[spread_rows(len(rows), max(FEWEST_IMAGES, MOST_NUMBERS // k))]


def ask_model(
    model: nn.Module,
    x: Images,
    ids: Labels,
    *,
    batch: int,
    attacked: bool,
    gradients: bool,
    known: Mapping[int, Float[Tensor, " k"]] | None = None,
    unrest: float | None = None,
) -> Answers:
    """What a model answers in evaluation mode.

    `known` has the logits of images, by id, that it was asked for before, and `unrest` is how far it was then from
    repeating itself.
    """
    asked = dict(known or {})
    wanted = [place for place, one in enumerate(ids.tolist()) if one not in asked]
    with inference(model):
        for part in batches_of(wanted, batch):
            asked |= zip(ids[part].tolist(), ask_once(model, x[part]), strict=True)
        logits = torch.stack([asked[one] for one in ids.tolist()])
        if unrest is None:
            unrest = max(float((ask_once(model, x[i : i + 1]) - logits[i]).abs().max()) for i in range(len(x))[:AGAIN])
        few = spread_rows(len(x), MOVED).tolist() if attacked else []
        parts = [move_and_ask(model, x[part], ids[part], gradients=gradients) for part in batches_of(few, batch)]
    moved = torch.cat([z for z, _ in parts]) if parts else logits[:0]
    slopes = torch.cat([slope for _, slope in parts]) if parts else logits[:0, :0]
    bits = max(torch.finfo(logits.dtype).eps, torch.finfo(torch.float32).eps)
    numbers = ids.cpu().numpy()
    return Answers(numbers, as_array(logits), as_array(moved), as_array(slopes), unrest, bits, x.device.type)


def batches_of(rows: list[int], size: int) -> list[list[int]]:
    """The rows, so many at a time."""
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def ask_once(model: nn.Module, x: Images) -> Logits:
    """The logits of a batch."""
    with torch.no_grad():
        z = run_model(model, x)
    assert isinstance(z, Tensor), "the model was checked before it was asked"
    return z


def move_and_ask(model: nn.Module, x: Images, ids: Labels, *, gradients: bool) -> tuple[Logits, Float[Tensor, "m d"]]:
    """The logits of images a little off their place, and how a mixture of them changes along some directions."""
    noise = Noise(0, ids, "/answers")
    at = (x + FAR * (2 * noise.uniform(tuple(x.shape[1:]), x.dtype) - 1)).clamp(0, 1)
    with torch.set_grad_enabled(gradients):
        z = run_model(model, at.requires_grad_(gradients))
        assert isinstance(z, Tensor)
        if not z.requires_grad:
            return z.detach(), z.new_zeros(len(z), 0)
        mixture = (z * noise.fork("mixture").normal((z.shape[1],), z.dtype)).sum()
        (slope,) = torch.autograd.grad(mixture, at, allow_unused=True)
    slope = torch.zeros_like(at) if slope is None else slope
    length = slope[0].numel()
    along = Noise(0, torch.arange(DIRECTIONS, device=x.device), "/directions").normal((length,), slope.dtype)
    return z.detach(), slope.flatten(1) @ along.T / length**0.5


def as_array(values: Tensor) -> np.ndarray:
    return values.detach().to("cpu", torch.float32).numpy()


def compare_answers(old: Answers, new: Answers) -> Likeness:
    """Whether two models are one as far as their answers tell."""
    _, one, other = np.intersect1d(old.ids, new.ids, return_indices=True)
    if len(one) == 0:
        return Likeness(True, "no image was shown to both, so answers were not compared", usual=False)
    if old.logits.shape[1] != new.logits.shape[1]:
        return Likeness(False, f"{old.logits.shape[1]} logits instead of {new.logits.shape[1]}")
    allowed = find_tolerance(old, new)
    shown = f"images and {allowed:.2g} would be rounding"
    apart = farthest(old.logits[one], new.logits[other])
    if apart > allowed:
        return Likeness(False, f"logits differ by up to {apart:.3g}, where {len(one)} {shown}")
    if old.moved.shape == new.moved.shape and np.array_equal(old.moved_ids, new.moved_ids):
        apart = farthest(old.moved, new.moved)
        if apart > allowed:
            seen = f"logits differ by up to {apart:.3g} on images that were moved by {FAR:.2g}"
            return Likeness(False, f"{seen}, where {len(old.moved)} {shown}")
        turned = compare_slopes(old, new)
        if is_steady(old, new) and turned > (SLOPE if old.device == new.device == CPU else 10 * SLOPE):
            return Likeness(False, f"logits are the same, but input gradients differ by {100 * turned:.0f} %")
    if not is_steady(old, new):
        noise = f"the model is random or depends on its batch (by up to {max(old.unrest, new.unrest):.2g})"
        return Likeness(
            True, f"{noise}, so its answers on {len(one)} images were compared no closer than that", usual=False
        )
    return Likeness(True, f"its answers on {len(one)} images are the same")


def compare_margins(
    asked: Answers, places: Int[np.ndarray, " m"], *, labels: Int[np.ndarray, " m"], margins: Float[np.ndarray, " m"]
) -> Likeness:
    """The same where only margins of some images were kept: of the true logit over the largest other one."""
    if len(places) == 0:
        return Likeness(True, "no image was shown to both, so answers were not compared", usual=False)
    z = asked.logits[places].astype(np.float64)
    rows = np.arange(len(z))
    true = z[rows, labels]
    z[rows, labels] = -np.inf
    apart = farthest(margins[:, None], (true - z.max(axis=1))[:, None])
    allowed = 2 * find_tolerance(asked, asked)  # two logits each
    differ = f"margins differ by up to {apart:.3g}, where {len(z)} images and {allowed:.2g} would be rounding"
    same = apart <= allowed
    return Likeness(same, f"its margins on {len(z)} images are the same" if same else differ, usual=False)


def find_tolerance(old: Answers, new: Answers) -> float:
    """The most by which logits of one model may differ between two askings."""
    share = SAME if old.device == new.device == CPU else ROUNDING  # other devices may compute in TF32
    size = max(float(np.abs(z).max(initial=0.0, where=np.isfinite(z))) for z in (old.logits, new.logits))
    last = LAST_BITS * max(old.bits, new.bits) * size
    return max(share * find_spread(old, new), last, UNREST * max(old.unrest, new.unrest))


def find_spread(old: Answers, new: Answers) -> float:
    """The widest range of the logits of one image."""
    return max(float(np.ptp(z, axis=1).max(initial=0.0)) for z in (old.logits, new.logits))


def is_steady(old: Answers, new: Answers) -> bool:
    """Whether both models gave the same image the same answer every time, but for rounding."""
    return max(old.unrest, new.unrest) <= ROUNDING * find_spread(old, new)


def farthest(a: Float[np.ndarray, "n k"], b: Float[np.ndarray, "n k"]) -> float:
    """The largest difference; endless where one is a number and the other is not."""
    known = np.isfinite(a)
    if not np.array_equal(known, np.isfinite(b)):
        return float("inf")
    return float(np.abs(a.astype(np.float64) - b, where=known, out=np.zeros(a.shape)).max(initial=0.0))


def compare_slopes(old: Answers, new: Answers) -> float:
    """By how much of their length slopes differ, for the middle one of the images."""
    if old.slopes.shape != new.slopes.shape or old.slopes.size == 0:
        return 0.0 if old.slopes.shape == new.slopes.shape else 1.0
    a, b = (np.nan_to_num(one.slopes.astype(np.float64)) for one in (old, new))
    apart = np.linalg.norm(a - b, axis=1)
    length = np.maximum(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
    return float(np.median(np.divide(apart, length, out=np.zeros(len(a)), where=length > 0)))


# What is asked before an audit or a training.


NamedAnswers = Mapping[str, Answers]  # by whose they are: the model, and networks that attacks are crafted on


class Asked(NamedTuple):
    """What the preflight found doubtful, and what was answered."""

    warnings: tuple[str, ...]
    answers: NamedAnswers


def ask_first(
    model: Classifier,
    data: Dataset,
    *,
    gradients: bool,
    attacked: bool,
    reach: float,
    others: Mapping[str, nn.Module],
    batch: int,
    device: str,
    force: bool,
) -> Asked:
    """The preflight, and what the model, and each of the other networks, answers on the same images.

    Which answers are kept depends on the data alone; the preflight takes no more images than a batch.
    """
    kept, heard = choose_kept(data), Hearing()
    checked = spread_rows(len(data), min(count_preflight(data.shape), batch))
    positions = np.union1d(kept, checked)
    x, y, ids = (part.to(device) for part in data.batch(positions))
    now, later = (torch.from_numpy(np.searchsorted(positions, some)) for some in (checked, kept))
    warnings = check_model(
        model, x[now], data.k, gradients=gradients, y=y[now], force=force, reach=reach, names=data.names, heard=heard
    )
    assert heard.logits is not None, "the preflight asks for logits"
    known = dict(zip(ids[now].tolist(), heard.logits, strict=True))
    ask = partial(ask_model, x=x[later], ids=ids[later], batch=batch, attacked=attacked)
    answers = {"model": ask(model, gradients=gradients, known=known, unrest=heard.unrest)}
    return Asked(warnings, answers | {name: ask(other, gradients=True) for name, other in others.items()})


def ask_again(model: nn.Module, data: Dataset, kept: Answers, *, batch: int, device: str) -> Answers:
    """What a model answers on the images that were moved when it was asked before, perhaps elsewhere."""
    x, _, ids = (part.to(device) for part in data.batch(choose_moved(data)))
    gradients = kept.slopes.shape[1] > 0
    return ask_model(model, x, ids, batch=batch, attacked=len(kept.moved) > 0, gradients=gradients, unrest=kept.unrest)


def describe_change(model: nn.Module, data: Dataset, kept: Answers, *, batch: int, device: str) -> str:
    """How a model answers otherwise at the end of some work than before it; empty if it does not."""
    try:
        found = compare_answers(kept, ask_again(model, data, kept, batch=batch, device=device))
    except ValueError as error:
        return str(error)
    return "" if found.same else found.words


def choose_kept(data: Dataset) -> Int[np.ndarray, " m"]:
    """The positions of the images whose answers are kept: fewer where images are large."""
    rows = choose_rows(len(data), data.k)
    return rows[spread_rows(len(rows), count_preflight(data.shape))]


def choose_moved(data: Dataset) -> Int[np.ndarray, " m"]:
    """The positions of the images that are moved."""
    rows = choose_kept(data)
    return rows[spread_rows(len(rows), MOVED)]


def ask_network(model: Classifier, data: Dataset) -> Answers:
    """What a network answers that a training begins with."""
    x, _, ids = data.batch(choose_kept(data))
    return ask_model(model, x, ids, batch=PREFLIGHT_IMAGES, attacked=True, gradients=model.gradients)
