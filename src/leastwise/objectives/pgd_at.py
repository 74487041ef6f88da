"""PGD adversarial training (Madry et al., ICLR 2018)."""

from dataclasses import dataclass

from torch import nn

from leastwise.attacks import PGD
from leastwise.losses import ce
from leastwise.noise import Noise
from leastwise.objectives.base import Craft, Epoch, Loss, crafting
from leastwise.types import Images, Labels


@dataclass(frozen=True)
class PGDAT:
    """L = CE(f(x'), y) with x' from PGD on the cross-entropy.

    The papers leave the mode while crafting open; "eval" is the default because it keeps attack
    iterates out of the BatchNorm statistics.
    """

    attack: PGD = PGD()
    craft: Craft = "eval"

    def init(self, k: int) -> None:
        return None

    def loss(self, model: nn.Module, x: Images, y: Labels, s: None, noise: Noise) -> Loss:
        with crafting(model, self.craft):
            x_adv = self.attack.perturb(model, x, y, noise)
        z = model(x_adv)
        return Loss(ce(z, y), clean=None, adversarial=z)

    def update(self, s: None, seen: Epoch) -> None:
        return None
