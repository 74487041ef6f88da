"""Refuse silent nonsense before any time is spent: one sentence, with the fix."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from leastwise.core.losses import odds
from leastwise.core.text import error_with_type
from leastwise.core.types import Images, Labels, Logits
from leastwise.models.classifier import Classifier, NoLogits, inference

PROBE = 32  # images that the repeated passes and the gradient are tried on
SINGLES = 4  # images that are also tried alone
# Differences of logits, as a part of their spread, that rounding can explain: TF32 convolutions round to 1e-3.
# Batch statistics and dropout move logits by far more.
ROUNDING = 5e-3
ENOUGH = 100  # images that can tell a model from guessing
PIXEL_TOLERANCE = 1e-6


class Concern(NamedTuple):
    """Something doubtful, and whether the user may go on all the same."""

    text: str
    serious: bool  # refused unless forced


def check_model(
    model: nn.Module, x: Images, k: int, *, gradients: bool = True, y: Labels | None = None, force: bool = False
) -> tuple[str, ...]:
    """Run real images, refuse a model or images that cannot be audited, and return what else a reader should know.

    With `gradients`, the input must get a gradient that attacks can follow; with `y`, labels must be possible and at
    least 100 of them tell whether the model is better than guessing. `force` turns the refusals that only make a
    result doubtful into warnings that begin with "overridden".
    """
    check_images(model, x)
    if y is not None:
        check_labels(y, len(x), k)
    if gradients and isinstance(model, Classifier) and not model.gradients:
        raise ValueError("the model is a black box without gradients: use query attacks, gradient attacks cannot run")
    warnings = []
    with inference(model):
        for concern in find_concerns(model, x, k, gradients=gradients, y=y):
            if concern.serious and not force:
                raise ValueError(f"{concern.text}, or go on with --force")
            warnings.append(f"overridden: {concern.text}" if concern.serious else concern.text)
    return tuple(warnings)


def find_concerns(model: nn.Module, x: Images, k: int, *, gradients: bool, y: Labels | None) -> Iterator[Concern]:
    """Everything doubtful, in the order of cost; what makes an audit impossible is raised."""
    yield from doubt_pixels(x)
    z = compute_logits(model, x, k)
    yield from doubt_logits(z)
    if y is not None:
        yield from doubt_accuracy(z, y)
    few = x[:PROBE]
    yield from doubt_repetition(model, few, k)
    if gradients:
        yield from doubt_gradient(model, few)


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


def doubt_logits(z: Logits) -> Iterator[Concern]:
    """A softmax row sums to 1 without negative entries; logits of a real batch do not, all at once."""
    if z.shape[1] < 2:
        return
    if bool((z >= 0).all() and ((z.sum(1) - 1).abs() < 1e-4).all()):
        yield Concern(
            "the model returns probabilities: remove its softmax (or take the logarithm), attacks need logits",
            serious=True,
        )
    elif bool(((z >= 0) & (z <= 1)).all()):
        yield Concern("all outputs lie in [0, 1]: if the model ends in a sigmoid, remove it", serious=False)
    elif bool((z.logsumexp(1).abs() < 1e-4).all()):
        yield Concern(
            "the model returns log-probabilities: attacks and verdicts are the same as with logits, sums of logits not",
            serious=False,
        )


def doubt_accuracy(z: Logits, y: Labels) -> Iterator[Concern]:
    """A concern if the model is right no more often than a guess."""
    n, k = z.shape
    right = int((z.argmax(dim=1) == y.to(z.device)).sum())
    # 2.33 standard deviations: a guesser exceeds this once in a hundred times.
    limit = n / k + 2.33 * math.sqrt(n / k * (1 - 1 / k))
    if n >= ENOUGH and k > 1 and right <= limit:
        yield Concern(
            f"the model is right on {right} of {n} images, no better than guessing: "
            "check --mean and --std, the order of the classes and of the channels",
            serious=False,
        )


def doubt_repetition(model: nn.Module, x: Images, k: int) -> Iterator[Concern]:
    """The answer for an image must depend on that image alone."""
    first, again = compute_logits(model, x, k), compute_logits(model, x, k)
    alone = torch.cat([logits_one_by_one(model, x[i : i + 1], k) for i in range(min(SINGLES, len(x)))])
    allowed = ROUNDING * float((first.amax(1) - first.amin(1)).max())
    by_chance = float((first - again).abs().max())
    by_company = float((first[: len(alone)] - alone).abs().max())
    if by_chance > allowed:
        yield Concern(
            f"the model is randomised (two passes over the same images differ by up to {by_chance:.2g}), so results "
            "are for one draw: switch off dropout and noise in evaluation",
            serious=True,
        )
    elif by_company > allowed:
        yield Concern(
            f"the logits of an image depend on the others in its batch (by up to {by_company:.2g}): "
            "give BatchNorm running statistics, or normalise each image by itself",
            serious=True,
        )


def logits_one_by_one(model: nn.Module, x: Images, k: int) -> Logits:
    """Attacks run on what is left of a batch, down to one image."""
    try:
        return compute_logits(model, x, k)
    except ValueError as error:
        raise ValueError(f"{error}; larger batches work, but attacks need any number of images") from error


def doubt_gradient(model: nn.Module, x: Images) -> Iterator[Concern]:
    """Concerns about input gradients that are zero or not finite."""
    at = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        z = run_model(model, at)
        assert isinstance(z, Tensor), "the same images gave logits before"
        if z.requires_grad:
            (gradient,) = torch.autograd.grad(odds(z, z.argmax(dim=1)).sum(), at, allow_unused=True)
        else:
            gradient = None
    if gradient is None:
        raise ValueError("the model gives its input no gradient: remove no_grad, detach or numpy from its forward")
    if not bool(gradient.isfinite().all()):
        raise ValueError("the input gradient is not finite on real images: check the model for roots or logs of 0")
    still = int((gradient.flatten(1) == 0).all(dim=1).sum())
    if still == len(x):
        yield Concern(
            "the input gradient is zero on all images, so gradient attacks cannot move and every image would look "
            "robust: remove rounding or saturation from the model",
            serious=True,
        )
    elif still:
        yield Concern(
            f"the input gradient is zero on {still} of {len(x)} images, where gradient attacks cannot move and "
            "robustness may be overstated: add a query attack",
            serious=False,
        )
