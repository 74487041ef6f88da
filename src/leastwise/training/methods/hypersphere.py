"""Hypersphere embedding in adversarial training (Pang et al., NeurIPS 2020): PGD-HE and TRADES-HE."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from leastwise.attacks.goals import KL
from leastwise.attacks.pgd import PGD
from leastwise.core.losses import ce, kl
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Logits, PerExample
from leastwise.models.zoo.layers import CosineHead, last_layer
from leastwise.training.base import LogitChange, Objective, Terms, unchanged
from leastwise.training.entries import Method, gaussian_ce_attack, kl_attack


class ScaledModel(nn.Module):
    """s · f(x), for attacks on what the loss sees."""

    def __init__(self, model: nn.Module, scale: float) -> None:
        super().__init__()
        self.model, self.scale = model, scale

    def forward(self, x: Images) -> Logits:
        return self.scale * self.model(x)


@dataclass(frozen=True)
class HE(Objective):
    """L = margin CE(x') (PGD-HE), or margin CE(x) + beta · KL(s·cos θ(x) || s·cos θ(x')) (TRADES-HE, beta > 0).

    margin CE = -log e^{s(cos θ_y - m)} / (e^{s(cos θ_y - m)} + sum_{j != y} e^{s cos θ_j}). It needs a network with a
    cosine head (`resnet18+cosine`), whose logits are the cosines. Attacks see s · cos θ without the margin, and start
    from Gaussian noise, as in the code.
    """

    recipe_name: ClassVar[str] = "HE"
    can_aim: ClassVar[bool] = False

    attack: PGD = PGD()
    scale: float = 10.0
    margin: float = 0.2
    beta: float = 0.0

    def __post_init__(self) -> None:
        if self.beta and not isinstance(self.attack.goal, KL):
            raise ValueError("TRADES-HE climbs the KL divergence: give its attack goal=KL()")

    def craft(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Images:
        return self.attack.perturb(ScaledModel(model, self.scale), x, y, noise)

    def loss(
        self, model: nn.Module, x: Images, y: Labels, crafted: Images, *, adjust: LogitChange = unchanged
    ) -> Terms:
        if not self.beta:
            z = model(crafted)
            return Terms(margin_ce(adjust(z), y, scale=self.scale, margin=self.margin), adversarial=self.scale * z)
        clean, adversarial = model(x), model(crafted)
        label = margin_ce(adjust(clean), y, scale=self.scale, margin=self.margin)
        clean, adversarial = self.scale * clean, self.scale * adversarial
        return Terms(label, clean, adversarial, kl(clean, adversarial), self.beta)

    def has_divergence(self) -> bool:
        return self.beta > 0

    def check_network(self, model: nn.Module) -> None:
        """The head has to be a cosine head, whatever the logits of an untrained network look like."""
        _, head = last_layer(model)
        if not isinstance(head, CosineHead):
            raise ValueError(
                f"hypersphere embedding needs a network whose logits are cosines, but its last layer is a "
                f"{type(head).__name__}: use a cosine head, such as --model small+cosine"
            )
        if head.scaled:
            raise ValueError("hypersphere embedding scales the cosines itself: give a cosine head without a scale")


def margin_ce(cosine: Logits, y: Labels, *, scale: float, margin: float) -> PerExample:
    """Cross-entropy of s · cos θ with m taken off the label's cosine (CosFace), not off its angle."""
    off = torch.zeros_like(cosine).scatter(1, y[:, None], margin)
    return ce(scale * (cosine - off), y)


METHODS = {
    "pgd-he": Method(
        lambda *a: HE(gaussian_ce_attack(*a)),
        "CE(s·(cos θ(x') - m·e_y), y); needs a cosine head",
        "Pang et al. 2020",
        "n + 1",
    ),
    "trades-he": Method(
        lambda *a: HE(kl_attack(*a), scale=15.0, beta=6.0),
        "CE(s·(cos θ(x) - m·e_y), y) + β·KL; needs a cosine head",
        "Pang et al. 2020",
        "n + 2, a clean forward",
    ),
}
