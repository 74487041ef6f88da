"""Standard training: mean CE(f(x), y)."""

from dataclasses import dataclass

from torch import nn

from leastwise.losses import ce
from leastwise.noise import Noise
from leastwise.objectives.base import Epoch, Loss
from leastwise.types import Images, Labels


@dataclass(frozen=True)
class Standard:
    """L = CE(f(x), y)."""

    def init(self, k: int) -> None:
        return None

    def loss(self, model: nn.Module, x: Images, y: Labels, s: None, noise: Noise) -> Loss:
        z = model(x)
        return Loss(ce(z, y), clean=z, adversarial=None)

    def update(self, s: None, seen: Epoch) -> None:
        return None
