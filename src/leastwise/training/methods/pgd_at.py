"""PGD adversarial training (Madry et al., ICLR 2018), and what differs only in its attack or by an entropy bonus."""

from dataclasses import dataclass, field
from typing import ClassVar

from torch import nn

from leastwise.attacks.goals import CE
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Ball, Radius, Uniform
from leastwise.core.losses import SmoothingConvention
from leastwise.core.noise import Noise
from leastwise.core.recipe import idle_without
from leastwise.core.types import Images, Labels
from leastwise.training.base import LogitChange, Objective, Terms, unchanged
from leastwise.training.entries import Method, ce_attack
from leastwise.training.methods.standard import check_smoothing, entropy_bonus, label_loss


@dataclass(frozen=True)
class PGDAT(Objective):
    """L = CE(f(x'), y) - entropy · H(p(x')) with x' from PGD on the cross-entropy.

    FGSM-RS is one step of 1.25 eps from a uniform start (Wong et al., ICLR 2020); friendly AT an attack that stops
    `patience` steps after the first mistake (Zhang et al., ICML 2020); ME-AT a positive `entropy`. The adversary always
    sees hard labels: the papers that smooth leave it open, and the Bag-of-Tricks code does so.
    """

    recipe_name: ClassVar[str] = "PGDAT"

    attack: PGD = PGD()
    smoothing: float = 0.0
    convention: SmoothingConvention = field(default="all", metadata=idle_without("smoothing", "others"))
    entropy: float = 0.0

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)

    def craft(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Images:
        return self.attack.perturb(model, x, y, noise)

    def loss(
        self, model: nn.Module, x: Images, y: Labels, crafted: Images, *, adjust: LogitChange = unchanged
    ) -> Terms:
        z = model(crafted)
        label = label_loss(adjust(z), y, smoothing=self.smoothing, convention=self.convention)
        return Terms(label - entropy_bonus(self.entropy, z), adversarial=z)


def fast_attack(ball: Ball) -> PGD:
    """One step of 1.25 eps from a uniform start (FGSM-RS)."""
    return PGD(ball, CE(), 1.25 * ball.eps, 1, Uniform())


def friendly_attack(ball: Ball, step: Radius, steps: int) -> PGD:
    """PGD that stops three steps after the first mistake (friendly AT)."""
    return PGD(ball, CE(), step, steps, Uniform(), keep="fooled", patience=min(3, steps))


METHODS = {
    "fgsm-rs": Method(
        lambda ball, *_: PGDAT(fast_attack(ball)), "CE(f(x'), y), x' one step of 1.25 eps", "Wong et al. 2020", "2"
    ),
    "pgd-at": Method(lambda *a: PGDAT(ce_attack(*a)), "CE(f(x'), y), x' by PGD on CE", "Madry et al. 2018", "n + 1"),
    "fat": Method(
        lambda *a: PGDAT(friendly_attack(*a)),
        "CE(f(x'), y), x' by PGD that stops 3 steps after the first mistake",
        "Zhang et al. 2020",
        "at most n + 2",
    ),
}
