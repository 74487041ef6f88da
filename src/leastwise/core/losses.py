"""Losses that return one number per example: `[b k] -> [b]`.

Nothing here averages over the batch: the only `.mean()` of the training loss is in the loop, so
class weights, per-class regularisation and partial batches all mean the same thing everywhere.
"""

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from leastwise.core.types import Labels, Logits, PerExample

DLR_TINY = 1e-12  # the reference's guard against equal logits

SmoothingConvention = Literal["all", "others"]


def ce(z: Logits, y: Labels) -> PerExample:
    """Cross-entropy, -log p_y."""
    return F.cross_entropy(z, y, reduction="none")


def soft_ce(z: Logits, target: Logits) -> PerExample:
    """Cross-entropy against a distribution over classes, -sum_j q_j log p_j."""
    return -(target * z.log_softmax(dim=1)).sum(dim=1)


def smooth_labels(
    y: Labels, k: int, alpha: float, *, convention: SmoothingConvention = "all", dtype: torch.dtype = torch.float32
) -> Tensor:
    """Label-smoothing targets `[b k]`.

    "all" spreads alpha over all k classes (Szegedy et al.; torch): (1 - alpha) + alpha/k on the label.
    "others" spreads it over the k - 1 other classes (Pang et al.): 1 - alpha on the label.
    """
    if convention == "all":
        off, on = alpha / k, 1 - alpha + alpha / k
    else:
        off, on = alpha / (k - 1), 1 - alpha
    target = torch.full((len(y), k), off, dtype=dtype, device=y.device)
    return target.scatter(1, y[:, None], on)


def kl(clean: Logits, adversarial: Logits) -> PerExample:
    """KL(p(x) || p(x')), summed over classes; gradients flow into both arguments."""
    log_p, log_q = clean.log_softmax(dim=1), adversarial.log_softmax(dim=1)
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)


def entropy(z: Logits) -> PerExample:
    """H(p) = -sum_j p_j log p_j in nats, between 0 and ln k."""
    log_p = z.log_softmax(dim=1)
    # 0 · log 0 is 0: logits 1e30 apart give log p = -inf, and exp(-inf) · -inf would be NaN.
    return -(log_p.exp() * log_p.clamp_min(torch.finfo(z.dtype).min)).sum(dim=1)


def margin(z: Logits, y: Labels) -> PerExample:
    """z_y minus the largest other logit: positive exactly when the label is the only argmax."""
    return true_logit(z, y) - other_logits(z, y).amax(dim=1)


def odds(z: Logits, y: Labels) -> PerExample:
    """-logit p_y = logsumexp_{j != y} z_j - z_y, the log-odds against the label.

    Cross-entropy is softplus of this, a monotone function, so every sign or normalised step is the
    same; but its gradient does not underflow in float32 for confident or sharpened logits.
    """
    return other_logits(z, y).logsumexp(dim=1) - true_logit(z, y)


def dlr(z: Logits, y: Labels) -> PerExample:
    """Difference of logits ratio -(z_y - max_{j != y} z_j) / (z_(1) - z_(3)), sorted descending (Croce and Hein 2020).

    It does not change when logits are shifted or scaled. Needs three classes.
    """
    top = z.topk(3, dim=1).values
    return -margin(z, y) / (top[:, 0] - top[:, 2] + DLR_TINY)


def targeted_dlr(z: Logits, y: Labels, target: Labels) -> PerExample:
    """-(z_y - z_t) / (z_(1) - (z_(3) + z_(4)) / 2), sorted descending (Croce and Hein 2020). Needs four classes."""
    top = z.topk(4, dim=1).values
    return -(true_logit(z, y) - true_logit(z, target)) / (top[:, 0] - (top[:, 2] + top[:, 3]) / 2 + DLR_TINY)


def true_logit(z: Logits, y: Labels) -> PerExample:
    """The logit of each example's label."""
    return z.gather(1, y[:, None]).squeeze(1)


def other_logits(z: Logits, y: Labels) -> Logits:
    """The logits with the label's own set to -inf."""
    return z.scatter(1, y[:, None], -math.inf)
