"""Adversarial weight perturbation (Wu et al., NeurIPS 2020), around any method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from leastwise.core.types import Images, Logits

SumOverProcesses = Callable[[list[Tensor]], None]  # adds each tensor up over processes, in place


@dataclass(frozen=True)
class AWP:
    """min_w loss(w + v), v = gamma · |w| · g / |g| per tensor of two or more dimensions, g the loss's gradient at w.

    The same adversarial images are used at w and at w + v. The gradient at w + v falls on w, so nothing has to be put
    back. The paper has gamma 0.01 for AT and 0.005 for TRADES, and warms up for 10 of 200 epochs.
    """

    recipe_name: ClassVar[str] = "AWP"

    gamma: float = 0.005
    warmup: float = 0.05  # share of the training

    def __post_init__(self) -> None:
        if not self.gamma >= 0:
            raise ValueError(f"the size of a weight perturbation must be zero or more, but saw {self.gamma}")

    def perturb(
        self, model: nn.Module, loss: Callable[[nn.Module], Tensor], sum_: SumOverProcesses
    ) -> "ModelElsewhere":
        """The model at w + v. BatchNorm's statistics do not move on the way."""
        moving = {name: w for name, w in model.named_parameters() if w.requires_grad and w.dim() >= 2}
        aside = {name: buffer.clone() for name, buffer in model.named_buffers()}
        g = list(torch.autograd.grad(loss(ModelElsewhere(model, aside)), list(moving.values())))
        sum_(g)
        return ModelElsewhere(model, dict(zip(moving, map(self._perturb_tensor, moving.values(), g), strict=True)))

    def _perturb_tensor(self, w: Tensor, g: Tensor) -> Tensor:
        return w + (self.gamma * w.detach().norm() / g.norm().clamp_min(1e-20)) * g


class ModelElsewhere(nn.Module):
    """A model with some of its tensors replaced; whatever is computed in place of a weight passes its gradient on."""

    def __init__(self, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.model, self.tensors = model, dict(tensors)

    @property
    def k(self) -> int:
        return int(self.model.k)  # type: ignore[arg-type]

    def forward(self, x: Images) -> Logits:
        return functional_call(self.model, self.tensors, (x,))
