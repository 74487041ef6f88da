"""MART (Wang et al., ICLR 2020): misclassification-aware adversarial training."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Gaussian
from leastwise.core.losses import ce, kl, other_logits
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Logits, PerExample
from leastwise.training.base import LogitChange, Objective, Terms, unchanged
from leastwise.training.entries import Method, gaussian_ce_attack


@dataclass(frozen=True)
class MART(Objective):
    """L = BCE(p(x'), y) + beta · KL(p(x) || p(x')) · (1 - p_y(x)), BCE = -log p_y - log(1 - max_{j != y} p_j).

    x' is from PGD on the cross-entropy from a Gaussian start. Neither the clean branch nor the weight is detached. The
    released code adds 1.0001 and 1e-12 inside logarithms; here 1 - max p is a sum of the other probabilities, which
    needs no guard. Its scripts use beta = 5 (ResNet-18) and 6 (WRN-34-10).
    """

    recipe_name: ClassVar[str] = "MART"

    attack: PGD = PGD(start=Gaussian(0.001))
    beta: float = 5.0

    def craft(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Images:
        return self.attack.perturb(model, x, y, noise)

    def loss(
        self, model: nn.Module, x: Images, y: Labels, crafted: Images, *, adjust: LogitChange = unchanged
    ) -> Terms:
        clean, adversarial = model(x), model(crafted)
        unsure = 1 - clean.softmax(dim=1).gather(1, y[:, None]).squeeze(1)
        label = boosted_ce(adjust(adversarial), y)
        return Terms(label, clean, adversarial, kl(clean, adversarial) * unsure, self.beta)

    def has_divergence(self) -> bool:
        return True


def boosted_ce(z: Logits, y: Labels) -> PerExample:
    """-log p_y - log(1 - max_{j != y} p_j); the runner-up is the largest other, also where the label is not on top."""
    runner_up = other_logits(z, y).argmax(dim=1, keepdim=True)
    rest = z.scatter(1, runner_up, -torch.inf).logsumexp(dim=1) - z.logsumexp(dim=1)
    return ce(z, y) - rest


METHODS = {
    "mart": Method(
        lambda *a: MART(gaussian_ce_attack(*a)),
        "BCE(p(x'), y) + β·KL(p(x) || p(x'))·(1 - p_y(x))",
        "Wang et al. 2020",
        "n + 2",
    ),
}
