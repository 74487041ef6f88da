"""The goals of APGD for one example, written the plain way."""

import torch
from torch import nn


def value_and_gradient(model: nn.Module, goal: str, x: torch.Tensor, y: int, target: int) -> tuple[float, torch.Tensor]:
    x = x.detach().requires_grad_()
    z = model(x[None])[0]
    top = z.sort(descending=True).values
    others = torch.cat([z[:y], z[y + 1 :]])
    loss = {
        "ce": lambda: nn.functional.cross_entropy(z[None], torch.tensor([y])),
        "dlr": lambda: -(z[y] - others.max()) / (top[0] - top[2] + 1e-12),
        "targeted": lambda: -(z[y] - z[target]) / (top[0] - (top[2] + top[3]) / 2 + 1e-12),
    }[goal]()
    (gradient,) = torch.autograd.grad(loss, x)
    return float(loss.detach()), gradient
