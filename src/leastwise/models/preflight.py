"""Refuse silent nonsense before any time is spent: one sentence, with the fix."""

import torch
from torch import Tensor, nn

from leastwise.models.classifier import inference
from leastwise.types import Images


def preflight(model: nn.Module, x: Images, k: int) -> None:
    """Run one real batch and check that the answer is a row of finite logits over `k` classes."""
    with inference(model), torch.no_grad():
        try:
            z = model(x)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(f"the model cannot take images of shape {list(x.shape[1:])} ({reason})") from None
    if not isinstance(z, Tensor):
        raise ValueError(f"the model must return a tensor of logits, but returned {type(z).__name__}: wrap it")
    if z.shape != (len(x), k):
        raise ValueError(
            f"the model must return {k} logits per image for these classes, but {len(x)} images gave the shape "
            f"{list(z.shape)}: use the data set it was trained on, or relabel"
        )
    if not z.isfinite().all():
        raise ValueError("the model returns logits that are not finite on real images: check its weights and inputs")
    # A softmax row sums to 1 and has no negative entry; logits of a real batch do not, all at once.
    if k > 1 and (z >= 0).all() and ((z.sum(1) - 1).abs() < 1e-4).all():
        raise ValueError("the model returns probabilities: remove its softmax, attacks need the logits before it")
