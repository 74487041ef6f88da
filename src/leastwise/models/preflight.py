"""Refuse silent nonsense before any time is spent: one sentence, with the fix.

Here too: how many images are looked at first, and how many fit into a batch, which is found before any time is spent.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from leastwise.core.text import error_with_type, first_line
from leastwise.core.types import Images, Labels, Logits, Shape
from leastwise.models.classifier import Classifier, NoLogits, inference
from leastwise.models.gradient_check import REACH, doubt_gradient, doubt_steps
from leastwise.models.output_check import Concern, doubt_answers, doubt_logits, doubt_normalisation

PROBE, GRADIENT_PROBE = 32, 40  # images that the repeated passes, and the gradient, are tried on
SINGLES = 4  # images that are also tried alone
# Differences of logits, as a part of their spread, that rounding can explain: TF32 convolutions round to 1e-3.
# Batch statistics and dropout move logits by far more.
ROUNDING = 5e-3
PIXEL_TOLERANCE = 1e-6


@dataclass
class Hearing:
    """What a model answered while it was checked, for whoever has to recognise it later."""

    logits: Logits | None = None  # of all images
    unrest: float = 0.0  # by how much answers to the same image differed, asked twice, alone and in company


def check_model(
    model: nn.Module,
    x: Images,
    k: int,
    *,
    gradients: bool = True,
    y: Labels | None = None,
    force: bool = False,
    reach: float = REACH,
    names: tuple[str, ...] = (),
    heard: Hearing | None = None,
) -> tuple[str, ...]:
    """Run real images, refuse a model or images that cannot be audited, and return what else a reader should know.

    With `gradients`, the input must get a gradient that attacks can follow, for which finite differences are asked up
    to a step of an attack that goes as far as `reach`; with `y`, labels must be possible and at least 100 of them tell
    whether the model is better than guessing, or would be with another normalisation or order of the classes, which
    have `names`. `force` turns the refusals that only make a result doubtful into warnings that begin with
    "overridden". What the model answers is noted in `heard`.
    """
    heard = heard or Hearing()
    check_images(model, x)
    if y is not None:
        check_labels(y, len(x), k)
    if gradients and isinstance(model, Classifier) and not model.gradients:
        raise ValueError("the model is a black box without gradients: use query attacks, gradient attacks cannot run")
    warnings = []
    with inference(model):
        for concern in find_concerns(model, x, k, reach=reach if gradients else 0.0, y=y, names=names, heard=heard):
            if concern.serious and not force:
                raise ValueError(f"{concern.text}, or go on with --force")
            warnings.append(f"overridden: {concern.text}" if concern.serious else concern.text)
    return tuple(warnings)


def find_concerns(
    model: nn.Module, x: Images, k: int, *, reach: float, y: Labels | None, names: tuple[str, ...], heard: Hearing
) -> Iterator[Concern]:
    """Everything doubtful, in the order of cost; what makes an audit impossible is raised. No reach: no gradients."""
    yield from doubt_pixels(x)
    z = heard.logits = compute_logits(model, x, k)
    if isinstance(model, Classifier) and model.labels_only:
        yield Concern(
            "the model names classes and gives no logits: margins, confidences and entropies say no more than that",
            serious=False,
        )
    else:
        yield from doubt_logits(z, names)
    if y is not None:
        order = alternate_classes(y)
        x, y, z = x[order], y[order], z[order.to(z.device)]
        right = int((z.argmax(dim=1) == y.to(z.device)).sum())
        # Another normalisation explains wrong answers whatever they look like, so no order is looked for then.
        explained = list(doubt_normalisation(model, x, y, right=right))
        yield from explained
        yield from doubt_answers(z, y, names, ordered=not explained)
    few = x[:PROBE]
    restless = list(doubt_repetition(model, few, k, heard=heard))
    yield from restless
    if reach:
        yield from doubt_gradient(model, few)
    if reach and not restless:
        yield from doubt_steps(model, x[:GRADIENT_PROBE], reach)
    if not restless:
        yield from doubt_memory(model, few, k, before=z[:PROBE])


def alternate_classes(y: Labels) -> Labels:
    """An order of images in which the first few have as many classes as they can: sets are often sorted by class."""
    by_class = y.argsort(stable=True)
    first = torch.searchsorted(y[by_class].contiguous(), y[by_class].contiguous())
    rank = torch.empty_like(y)
    rank[by_class] = torch.arange(len(y), device=y.device) - first
    return rank.argsort(stable=True)


def check_images(model: nn.Module, x: Images) -> None:
    """Refuse images that the model's normalisation or the attacks cannot work with."""
    if isinstance(model, Classifier) and model.mean and len(model.mean) != x.shape[1]:
        raise ValueError(f"mean and std have {len(model.mean)} channels, but the images have {x.shape[1]}")
    if not bool(x.isfinite().all()):
        raise ValueError("some pixels are not finite numbers: check how the images were read")
    low, high = float(x.min()), float(x.max())
    if low < -PIXEL_TOLERANCE:
        raise ValueError(
            f"pixels must lie in [0, 1], but go from {low:.3g} to {high:.3g}: "
            "do not normalise the images, give the model --mean and --std"
        )
    if high > 1 + PIXEL_TOLERANCE:
        raise ValueError(f"pixels must lie in [0, 1], but go from {low:.3g} to {high:.3g}: divide them by 255")


def check_labels(y: Labels, b: int, k: int) -> None:
    """Refuse labels that are too few or that are not the number of a class."""
    if len(y) != b:
        raise ValueError(f"there must be one label per image, but saw {len(y)} for {b} images")
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= k:
        raise ValueError(f"labels of {k} classes must lie in 0 to {k - 1}, but go from {low} to {high}: relabel them")


def compute_logits(model: nn.Module, x: Images, k: int) -> Logits:
    """One forward pass, checked for everything that attacks rely on."""
    before = x.clone()
    with torch.no_grad():
        z = run_model(model, x)
    if not torch.equal(x, before):
        x.copy_(before)
        raise ValueError("the model changes its input in place: let its first operation make a new tensor (x = x * 2)")
    if not isinstance(z, Tensor):
        raise ValueError(f"the model must return a tensor of logits, but returned {type(z).__name__}: wrap it")
    if z.shape == (len(x), k + 1):
        raise ValueError(
            f"the model has one output more than the {k} classes of the data, such as a class for rejected images or "
            "for the background: return the logits of the classes alone, or use data with that class"
        )
    if z.shape != (len(x), k):
        raise ValueError(
            f"the model must return {k} logits per image for these classes, but a batch of {len(x)} gave the shape "
            f"{list(z.shape)}: use the data set it was trained on, or relabel"
        )
    if not z.is_floating_point():
        raise ValueError(
            f"the model must return logits as floating-point numbers, but returned {z.dtype}: drop the rounding"
        )
    if not bool(z.isfinite().all()):
        raise ValueError("the model returns logits that are not finite on real images: check its weights and inputs")
    return z


def run_model(model: nn.Module, x: Images) -> object:
    """What the model answers; if it fails, a sentence with its own words."""
    try:
        return model(x)
    except NoLogits:
        raise
    except Exception as error:
        raise ValueError(f"the model cannot take images of shape {list(x.shape)} ({error_with_type(error)})") from error


def doubt_pixels(x: Images) -> Iterator[Concern]:
    """Concerns about images that seem to be scaled wrongly."""
    brightest = float(x.max())
    if brightest <= 1 / 255 + PIXEL_TOLERANCE:
        yield Concern(
            f"the brightest pixel is {brightest:.2g}: the images seem to be divided by 255 twice, multiply them by 255",
            serious=True,
        )


def doubt_repetition(model: nn.Module, x: Images, k: int, *, heard: Hearing) -> Iterator[Concern]:
    """The answer for an image must depend on that image alone, not on chance, company or who asks."""
    first, again = compute_logits(model, x, k), compute_logits(model, x, k)
    alone = torch.cat([logits_one_by_one(model, x[i : i + 1], k) for i in range(min(SINGLES, len(x)))])
    allowed = allowed_difference(first)
    by_chance = float((first - again).abs().max())
    by_company = float((first[: len(alone)] - alone).abs().max())
    heard.unrest = max(by_chance, by_company)
    if by_chance > allowed:
        yield Concern(
            f"the model is randomised (two passes over the same images differ by up to {by_chance:.2g}), so results "
            "are for one draw: switch off dropout and noise in evaluation",
            serious=True,
        )
        return
    if by_company > allowed:
        yield Concern(
            f"the logits of an image depend on the others in its batch (by up to {by_company:.2g}): "
            "give BatchNorm running statistics, or normalise each image by itself",
            serious=True,
        )
    with torch.enable_grad():
        asked = run_model(model, x.detach().clone().requires_grad_())
    if isinstance(asked, Tensor) and asked.shape == first.shape:
        by_path = float((first - asked.detach()).abs().max())
        if not by_path <= allowed:
            yield Concern(
                f"the model answers otherwise when gradients are computed (by up to {by_path:.2g}), so attacks see "
                "another model than the one that is judged: remove what depends on grad mode or on requires_grad",
                serious=True,
            )


def allowed_difference(z: Logits) -> float:
    """How far logits may differ by rounding; of half precision, by a few of its steps."""
    spread = float((z.amax(1) - z.amin(1)).max())
    coarse = 8 * torch.finfo(z.dtype).eps * float(z.abs().max()) if z.element_size() < 4 else 0.0
    return max(ROUNDING * spread, coarse)


def doubt_memory(model: nn.Module, x: Images, k: int, *, before: Logits) -> Iterator[Concern]:
    """A concern if what was asked since then changed the answers."""
    after = compute_logits(model, x, k)
    moved = float((after - before).abs().max())
    if moved > allowed_difference(before):
        yield Concern(
            f"the model remembers what it was asked (its answers to the same images moved by {moved:.2g} within these "
            "checks), so results depend on the order: remove counters, caches and statistics that move in evaluation",
            serious=True,
        )


def logits_one_by_one(model: nn.Module, x: Images, k: int) -> Logits:
    """Attacks run on what is left of a batch, down to one image."""
    try:
        return compute_logits(model, x, k)
    except ValueError as error:
        raise ValueError(f"{error}; larger batches work, but attacks need any number of images") from error


# How many images are asked for at once.

MOST_IMAGES, MOST_BYTES = 1000, 1 << 30  # that are held at once: images, and memory for their gradients
PIXEL_BYTES = 64 << 20  # of the pixels of such a batch: attacks hold them about ten times over
PREFLIGHT_IMAGES, PREFLIGHT_BYTES = 100, 64 << 20  # of the images that are looked at first, and of their pixels
# On processors, of a batch whose size nobody chose: its largest tensor, which is about what a cache holds and half of
# what the allocator keeps for the next operation (`leastwise.jobs.folder.steady_memory`), and how many images are
# enough or too few whatever tensors are like. Measured on three networks: benchmarks/batch.py.
TENSOR_BYTES, ENOUGH_IMAGES, FEW_IMAGES = 16 << 20, 500, 16


def count_preflight(shape: Shape) -> int:
    """How many images are looked at before an audit or a training: fewer where they are large."""
    return max(1, min(PREFLIGHT_IMAGES, PREFLIGHT_BYTES // (4 * math.prod(shape))))


class BatchSizes(NamedTuple):
    """How many images fit into the memory that they may take, and how many are attacked at a time."""

    fitting: int
    usual: int


def find_batch_sizes(model: Classifier, some: Images) -> BatchSizes:
    """What a network and images like these ask for, by counting bytes and never by the clock.

    On a processor, tensors beyond what the allocator keeps are given back to the system after every operation and
    cleared when they are asked for again, which took up to a half of the time of small networks; much smaller ones
    leave operations with little to do.
    """
    with inference(model):
        kept, largest = measure_tensors(model, some)
    each, largest = max(1, kept // len(some)), max(1, largest // len(some))
    fitting = max(1, min(MOST_IMAGES, MOST_BYTES // each, PIXEL_BYTES // some[0].nbytes))
    if some.device.type != "cpu":
        return BatchSizes(fitting, fitting)
    return BatchSizes(fitting, min(fitting, ENOUGH_IMAGES, max(FEW_IMAGES, TENSOR_BYTES // largest)))


def measure_tensors(model: Classifier, x: Images) -> tuple[int, int]:
    """What a forward pass keeps for its backward pass, and the largest tensor of that, in bytes.

    Of a black box these are the images.
    """
    kept: dict[int, int] = {x.data_ptr(): x.nbytes}

    def note(saved: Tensor) -> Tensor:
        kept[saved.data_ptr()] = saved.nbytes
        return saved

    weights = {part.data_ptr() for part in (*model.parameters(), *model.buffers())}
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
        model(x.detach().requires_grad_() if model.gradients else x)
    sizes = [size for place, size in kept.items() if place not in weights]
    return sum(sizes), max(sizes)


def choose_device(device: str = "auto", threads: int = 0) -> str:
    """Set the threads and name the device: an accelerator if there is one and nothing else was asked for."""
    if threads < 0:
        raise ValueError(f"threads must be 1 or more, but saw {threads}")
    most = 4 * (os.cpu_count() or 1)  # beyond, threads only wait; with very many, the process dies
    if threads > most:
        raise ValueError(f"threads may be {most} at most on this machine, but saw {threads}")
    if threads:
        torch.set_num_threads(threads)
    if device == "auto":
        return find_accelerator() or "cpu"
    if reason := why_unusable(device):
        others = " or ".join(one for one in (find_accelerator(), "cpu") if one)
        raise ValueError(f"the device {device!r} cannot be used ({reason}): choose {others}")
    return device


def find_accelerator() -> str:
    """The accelerator that torch finds here, if it can do what is asked of it; else nothing."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return "" if found is None or why_unusable(str(found)) else str(found)


def why_unusable(device: str) -> str:
    """Why nothing can be computed on a device; empty if it can."""
    try:
        torch.zeros(1, device=device).item()
    except (AssertionError, NotImplementedError, ModuleNotFoundError):
        return "this torch was built without it, or this machine has none"
    except RuntimeError as error:
        return first_line(error)
    try:
        torch.zeros(1, device=device, dtype=torch.float64).item()
    except (RuntimeError, TypeError):
        return "it has no double precision, in which distances are checked"
    return ""
