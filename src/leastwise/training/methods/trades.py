"""TRADES (Zhang et al., ICML 2019), with beta a number or one per class (Tian et al., KDD 2021, eq. 5)."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import nn

from leastwise.attacks.goals import KL
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Gaussian
from leastwise.core.losses import SmoothingConvention, kl
from leastwise.core.noise import Noise
from leastwise.core.recipe import idle_without
from leastwise.core.types import Images, Labels, Logits, PerExample
from leastwise.training.base import LogitChange, Objective, Terms, unchanged
from leastwise.training.entries import Method, kl_attack
from leastwise.training.methods.standard import check_smoothing, entropy_bonus, label_loss

KL_PGD = PGD(goal=KL(), start=Gaussian(0.001))


@dataclass(frozen=True)
class TRADES(Objective):
    """L = CE(f(x), y) + beta_y · KL(p(x) || p(x')) - entropy · H(p(x)), x' climbing that KL from a Gaussian start.

    The clean branch is not detached, and beta is not in the crafting loss. ME-TRADES has a positive `entropy`. The
    clean batch passes once in train mode; the first released code passes it twice (`clean_passes`), which moves
    BatchNorm's running statistics more but leaves the loss and its gradient as they are. `smoothing` is of the label in
    the cross-entropy; the adversary climbs the KL and sees no label.
    """

    recipe_name: ClassVar[str] = "TRADES"

    attack: PGD = KL_PGD
    beta: float | tuple[float, ...] = 6.0
    entropy: float = 0.0
    clean_passes: int = 1
    smoothing: float = 0.0
    convention: SmoothingConvention = field(default="all", metadata=idle_without("smoothing", "others"))

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)
        if self.clean_passes < 1:
            raise ValueError(f"the clean batch has to pass at least once, but saw {self.clean_passes}")

    def craft(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Images:
        return self.attack.perturb(model, x, y, noise)

    def loss(
        self, model: nn.Module, x: Images, y: Labels, crafted: Images, *, adjust: LogitChange = unchanged
    ) -> Terms:
        for _ in range(self.clean_passes - 1):
            with torch.no_grad():
                model(x)
        clean, adversarial = model(x), model(crafted)
        label = label_loss(adjust(clean), y, smoothing=self.smoothing, convention=self.convention)
        label = label - entropy_bonus(self.entropy, clean)
        beta = beta_of_class(self.beta, y, clean)
        return Terms(label, clean, adversarial, kl(clean, adversarial), beta)

    def has_divergence(self) -> bool:
        return True


def beta_of_class(value: float | tuple[float, ...], y: Labels, z: Logits) -> float | PerExample:
    """The number itself, or the one of each example's class."""
    if not isinstance(value, tuple):
        return value
    if len(value) != z.shape[1]:
        raise ValueError(f"beta needs one number per class ({z.shape[1]}), but has {len(value)}")
    return torch.tensor(value, dtype=z.dtype, device=y.device)[y]


METHODS = {
    "trades": Method(
        lambda *a: TRADES(kl_attack(*a)),
        "CE(f(x), y) + β_y·KL(p(x) || p(x')), x' by PGD on KL",
        "Zhang et al. 2019; β per class: Tian et al. 2021",
        "n + 2, a clean forward",
    ),
}
