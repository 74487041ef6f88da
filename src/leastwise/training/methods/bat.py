"""Balance adversarial training (Sun et al., AAAI 2023)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from leastwise.attacks.pgd import PGD, climb, start_state
from leastwise.core.losses import ce, entropy, kl
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Logits, PerExample
from leastwise.training.base import LogitChange, Objective, Terms, unchanged
from leastwise.training.entries import Method, kl_attack
from leastwise.training.methods.trades import KL_PGD


@dataclass(frozen=True)
class BAT(Objective):
    """L = CE(x_lc, y) + beta · KL(p(x) || p(x_fa)) + KL(p(x_lc) || u) + KL(p(x_fa) || u).

    On one run of KL-PGD, x_lc is the last point before the first mistake (the image, if the start is one) and x_fa the
    point `patience` steps after it; both are the last point where there is no mistake. KL(p || u) = ln k - H(p), so the
    last two terms are maximum entropy with weight 1 (`uniform`). The paper was read through its code.
    """

    recipe_name: ClassVar[str] = "BAT"
    can_aim: ClassVar[bool] = False

    attack: PGD = KL_PGD
    beta: float = 6.0
    uniform: float = 1.0
    patience: int = 1

    def craft(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> tuple[Images, Images]:
        front = start_state(self.attack, model, x, y, noise)
        last_right, after, previous = front.at, front.at, x
        since = torch.full_like(y, -1)  # steps since the first mistake
        for step in range(self.attack.steps + 1):
            here = front.at
            if step < self.attack.steps:
                front, seen = climb(self.attack, model, front)
                z = seen.z
            else:
                with torch.no_grad():
                    z = model(here)
            new = (since < 0) & (z.argmax(dim=1) != y)
            right = (since < 0) & ~new
            last_right = torch.where(as_column(right), here, torch.where(as_column(new), previous, last_right))
            since = torch.where(new | (since >= 0), since + 1, since)
            after = torch.where(as_column(right | (since <= self.patience) & (since >= 0)), here, after)
            previous = here
        return last_right, after

    def loss(
        self, model: nn.Module, x: Images, y: Labels, crafted: tuple[Images, Images], *, adjust: LogitChange = unchanged
    ) -> Terms:
        clean, right, wrong = model(x), model(crafted[0]), model(crafted[1])
        label = ce(adjust(right), y) + self.uniform * (above_uniform(right) + above_uniform(wrong))
        return Terms(label, clean, wrong, kl(clean, wrong), self.beta)

    def has_divergence(self) -> bool:
        return True


def above_uniform(z: Logits) -> PerExample:
    """KL(p || u) = ln k - H(p)."""
    return math.log(z.shape[1]) - entropy(z)


def as_column(mask: torch.Tensor) -> torch.Tensor:
    return mask[:, None, None, None]


METHODS = {
    "bat": Method(
        lambda *a: BAT(kl_attack(*a)),
        "CE(x_lc, y) + β·KL(p(x) || p(x_fa)) + KL(p(x_lc) || u) + KL(p(x_fa) || u)",
        "Sun et al. 2023",
        "n + 3, two forwards",
    ),
}
