"""TRADES (Zhang et al., ICML 2019), with beta a number or one per class (Tian et al., KDD 2021, eq. 5)."""

from dataclasses import dataclass

import torch
from torch import nn

from leastwise.attacks import KL, PGD, Gaussian
from leastwise.losses import ce, kl
from leastwise.noise import Noise
from leastwise.objectives.base import Craft, Epoch, Loss, crafting
from leastwise.types import Images, Labels, PerExample


@dataclass(frozen=True)
class TRADES:
    """L = CE(f(x), y) + beta_y · KL(p(x) || p(x')) with x' climbing that KL from a Gaussian start.

    The clean branch is not detached, and beta is not in the crafting loss. The clean batch passes
    once in train mode; the first released code passes it twice, which moves BatchNorm's running
    statistics more but leaves the loss and its gradient as they are.
    """

    attack: PGD = PGD(goal=KL(), start=Gaussian(0.001))
    beta: float | tuple[float, ...] = 6.0
    craft: Craft = "eval"

    def init(self, k: int) -> None:
        if isinstance(self.beta, tuple) and len(self.beta) != k:
            raise ValueError(f"beta needs one number per class ({k}), but has {len(self.beta)}")

    def loss(self, model: nn.Module, x: Images, y: Labels, s: None, noise: Noise) -> Loss:
        with crafting(model, self.craft):
            x_adv = self.attack.perturb(model, x, y, noise)
        clean, adversarial = model(x), model(x_adv)
        per_example = ce(clean, y) + self.weight(y, clean.dtype) * kl(clean, adversarial)
        return Loss(per_example, clean, adversarial)

    def update(self, s: None, seen: Epoch) -> None:
        return None

    def weight(self, y: Labels, dtype: torch.dtype) -> PerExample:
        """beta_y."""
        beta = torch.tensor(self.beta, dtype=dtype, device=y.device)
        return beta[y] if beta.ndim else beta.expand(len(y))
