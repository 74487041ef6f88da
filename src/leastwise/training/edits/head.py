"""Edits of the last layer: rows of equal length, offsets, and one epoch of sharpness-aware training of it alone."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from leastwise.core.types import PerClass
from leastwise.models.classifier import Classifier, inference
from leastwise.training.calibrate import choose_offsets, with_offsets
from leastwise.training.choices import CalibrationRule
from leastwise.training.edits.base import EditImages, NamedEdit, NetworkEdit, copy_with_head, row_norms


@dataclass(frozen=True)
class EqualNorms(NetworkEdit):
    """W_k ← W_k · (mean |W| / |W_k|)^power; the bias stays. Power 1 makes all rows equally long, 0.5 goes half way.

    Classes that fall under attack tend to have short rows. A submission to ICLR 2026 divides each row by its length;
    the mean keeps the scale against the bias.
    """

    recipe_name: ClassVar[str] = "EqualNorms"

    power: float = 1.0

    def edit(self, model: Classifier, images: EditImages) -> Classifier:
        changed, head = copy_with_head(model, "equal norms")
        norms = row_norms(head)
        if not bool((norms > 0).all()):
            raise ValueError("a class's row of weights is zero, so it cannot be made longer: choose another way")
        with torch.no_grad():
            head.weight.mul_(((norms.mean() / norms) ** self.power)[:, None])
        return changed


@dataclass(frozen=True)
class Offsets(NetworkEdit):
    """b_k ← b_k + o_k, offsets chosen on attacked validation images and attacked again (`training/calibrate.py`)."""

    recipe_name: ClassVar[str] = "Offsets"
    looks_at = "valid"

    rule: CalibrationRule = "sum"
    rounds: int = 3

    def edit(self, model: Classifier, images: EditImages) -> Classifier:
        found = choose_offsets(
            model, images.valid, images.attack, rule=self.rule, rounds=self.rounds, seed=images.seed,
            device=images.device,
        )  # fmt: skip
        return with_offsets(model, found.offsets)


@dataclass(frozen=True)
class DecoSAM(NetworkEdit):
    """An epoch of the last layer alone on features of attacked images: W ← W - rate · ∇CE(W + v), b likewise.

    v_k = radius · k · s_k · g_k / |g_k|, g the gradient at W and s = softmax(-tau · |W_k|), so short rows are looked at
    farther away. The body is frozen, and the attack sees the network as it becomes. After a description of DecoSAM by
    others; radius, tau and rate are ours.
    """

    recipe_name: ClassVar[str] = "DecoSAM"
    looks_at = "train"

    radius: float = 0.05
    tau: float = 1.0
    rate: float = 0.01
    momentum: float = 0.9
    epochs: int = 1

    def edit(self, model: Classifier, images: EditImages) -> Classifier:
        changed, head = copy_with_head(model, "DecoSAM")
        changed.to(images.device)
        parts = [p for p in (head.weight, head.bias) if p is not None]
        optimiser = torch.optim.SGD(parts, lr=self.rate, momentum=self.momentum)
        for epoch in range(self.epochs):
            for x, y, noise in images.train_batches(changed, images.seed + epoch):
                with inference(changed):
                    x_adv = images.attack.perturb(changed, x, y, noise)
                    with torch.no_grad():
                        features = changed.features(x_adv).flatten(1)
                weights, bias = head.weight.detach().requires_grad_(), self._bias(head)
                (g,) = torch.autograd.grad(F.cross_entropy(F.linear(features, weights, bias), y), weights)
                shift = shifted_rows(weights.detach(), g, self.radius, tau=self.tau)
                away = (weights.detach() + shift).requires_grad_()
                loss = F.cross_entropy(F.linear(features, away, bias), y)
                grads = torch.autograd.grad(loss, [p for p in (away, bias) if p is not None])
                for part, grad in zip(parts, grads, strict=True):
                    part.grad = grad
                optimiser.step()
        return changed

    def _bias(self, head: nn.Linear) -> torch.Tensor | None:
        return None if head.bias is None else head.bias.detach().requires_grad_()


def shifted_rows(weights: torch.Tensor, g: torch.Tensor, radius: float, *, tau: float) -> torch.Tensor:
    """How far each row of weights is moved up its gradient: farther where the row is short."""
    share: PerClass = len(weights) * (-tau * weights.norm(dim=1)).softmax(dim=0)
    return radius * share[:, None] * g / g.norm(dim=1, keepdim=True).clamp_min(1e-20)


EDITS = {
    "equal-norms": NamedEdit(
        EqualNorms, "W_k·mean|W|/|W_k|, bias kept", "ICLR 2026 submission on head norms", "none"
    ),
    "half-norms": NamedEdit(
        lambda: EqualNorms(0.5), "W_k·(mean|W|/|W_k|)^½, bias kept", "ours, between that and nothing", "none"
    ),
    "offsets": NamedEdit(Offsets, "b_k + o_k, o chosen under attack", "ours", "4 attacks on validation images"),
    "decosam": NamedEdit(
        DecoSAM, "head only: CE at W_k + ρ·K·softmax(-τ|W|)_k·g_k/|g_k|", "DecoSAM, as others report it",
        "an attack on training images",
    ),
}  # fmt: skip
