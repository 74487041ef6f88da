"""Adversarial vertex mixup (Lee et al., CVPR 2020)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from leastwise.attacks.pgd import PGD
from leastwise.core.losses import soft_ce
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, PerExample
from leastwise.data.augment.avmixup import mix_at
from leastwise.training.base import LogitChange, Objective, Terms, unchanged
from leastwise.training.entries import Method, ce_attack


@dataclass(frozen=True)
class AVmixup(Objective):
    """L = soft CE(f(x̂), ŷ) on the line from x to a vertex gamma times as far as x' (`leastwise.data.augment.avmixup`).

    `clean` and `vertex` are the paper's lambda_1 and lambda_2: how much of the soft label is on the class at either
    end. 0.1 is uniform for ten classes and not for a hundred.
    """

    recipe_name: ClassVar[str] = "AVmixup"

    attack: PGD = PGD()
    gamma: float = 2.0
    clean: float = 1.0
    vertex: float = 0.1

    def craft(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> tuple[Images, PerExample]:
        """x' and where on the line each example lies."""
        return self.attack.perturb(model, x, y, noise), noise.fork("mix").fork("alpha").uniform((), x.dtype)

    def loss(
        self,
        model: nn.Module,
        x: Images,
        y: Labels,
        crafted: tuple[Images, PerExample],
        *,
        adjust: LogitChange = unchanged,
    ) -> Terms:
        x_adv, alpha = crafted
        k = int(model.k)  # type: ignore[arg-type]
        mixed, target = mix_at(alpha, x, x_adv, y=y, k=k, gamma=self.gamma, clean=self.clean, vertex=self.vertex)
        z = model(mixed)
        return Terms(soft_ce(adjust(z), target), adversarial=z)


METHODS = {
    "avmixup": Method(
        lambda *a: AVmixup(ce_attack(*a)), "soft CE on the line from x to x + γ(x' - x)", "Lee et al. 2020", "n + 1"
    ),
}
