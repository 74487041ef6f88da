"""Refuse silent nonsense before any time is spent: one sentence, with the fix."""

import torch
from torch import Tensor, nn

from leastwise.losses import odds
from leastwise.models.classifier import Classifier, inference
from leastwise.types import Images


def preflight(model: nn.Module, x: Images, k: int, gradients: bool = True) -> None:
    """Run real images and check that the answer is a row of finite logits over `k` classes.

    With `gradients`, also that the input gets a gradient that attacks can follow.
    """
    if isinstance(model, Classifier) and model.mean and len(model.mean) != x.shape[1]:
        raise ValueError(f"mean and std have {len(model.mean)} channels, but the images have {x.shape[1]}")
    with inference(model), torch.no_grad():
        z = guarded(model, x)
        check_logits(z, len(x), k)
        check_logits(guarded(model, x[:1]), 1, k)  # attacks run on what is left of a batch, down to one image
    if gradients:
        with inference(model):
            check_gradient(model, x)


def guarded(model: nn.Module, x: Images) -> object:
    try:
        return model(x)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        shape = list(x.shape)
        raise ValueError(f"the model cannot take images of shape {shape} ({type(error).__name__}: {reason})") from error


def check_logits(z: object, b: int, k: int) -> None:
    if not isinstance(z, Tensor):
        raise ValueError(f"the model must return a tensor of logits, but returned {type(z).__name__}: wrap it")
    if z.shape != (b, k):
        raise ValueError(
            f"the model must return {k} logits per image for these classes, but a batch of {b} gave the shape "
            f"{list(z.shape)}: use the data set it was trained on, or relabel"
        )
    if not bool(z.isfinite().all()):
        raise ValueError("the model returns logits that are not finite on real images: check its weights and inputs")
    # A softmax row sums to 1 and has no negative entry; logits of a real batch do not, all at once.
    if k > 1 and bool((z >= 0).all() and ((z.sum(1) - 1).abs() < 1e-4).all()):
        raise ValueError("the model returns probabilities: remove its softmax, attacks need the logits before it")


def check_gradient(model: nn.Module, x: Images) -> None:
    at = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        z = model(at)
        if not z.requires_grad:
            raise ValueError("the model gives its input no gradient: remove no_grad, detach or numpy from its forward")
        (gradient,) = torch.autograd.grad(odds(z, z.argmax(dim=1)).sum(), at, allow_unused=True)
    if gradient is None or not bool(gradient.any()):
        raise ValueError(
            "the input gradient is zero on all images, so gradient attacks cannot move and every image would look "
            "robust: remove rounding or saturation from the model"
        )
    if not bool(gradient.isfinite().all()):
        raise ValueError("the input gradient is not finite on real images: check the model for roots or logs of 0")
