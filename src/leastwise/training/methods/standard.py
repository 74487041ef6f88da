"""Training on clean images: cross-entropy, with smoothed labels, or with an entropy bonus."""

from dataclasses import dataclass, field
from typing import ClassVar

from torch import nn

from leastwise.core.losses import SmoothingConvention, ce, entropy, smooth_labels, soft_ce
from leastwise.core.noise import Noise
from leastwise.core.recipe import idle_without
from leastwise.core.types import Images, Labels, Logits, PerExample
from leastwise.training.base import LogitChange, Objective, Terms, unchanged
from leastwise.training.entries import Method


@dataclass(frozen=True)
class Standard(Objective):
    """L = CE(f(x), y) - entropy · H(p(x)), the label smoothed by `smoothing`.

    Maximum entropy (Pereyra et al. 2017) has a positive `entropy`. Smoothing has two conventions: "all"
    puts (1 - a) + a/k on the label (Szegedy et al., torch), "others" 1 - a (Pang et al.).
    """

    recipe_name: ClassVar[str] = "Standard"

    smoothing: float = 0.0
    convention: SmoothingConvention = field(default="all", metadata=idle_without("smoothing", "all"))
    entropy: float = 0.0

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)

    def craft(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> None:
        return None

    def loss(self, model: nn.Module, x: Images, y: Labels, crafted: None, *, adjust: LogitChange = unchanged) -> Terms:
        z = model(x)
        label = label_loss(adjust(z), y, smoothing=self.smoothing, convention=self.convention)
        return Terms(label - entropy_bonus(self.entropy, z), clean=z)


def label_loss(z: Logits, y: Labels, *, smoothing: float, convention: SmoothingConvention) -> PerExample:
    """Cross-entropy against the label, smoothed or not."""
    return (
        soft_ce(z, smooth_labels(y, z.shape[1], smoothing, convention=convention, dtype=z.dtype))
        if smoothing
        else ce(z, y)
    )


def entropy_bonus(weight: float, z: Logits) -> PerExample | float:
    """weight · H(p)."""
    return weight * entropy(z) if weight else 0.0


def check_smoothing(alpha: float) -> None:
    """Refuse a share of smoothing that is none."""
    if not 0 <= alpha < 1:
        raise ValueError(f"label smoothing takes a share between 0 and 1, but saw {alpha}")


METHODS = {
    "standard": Method(lambda *_: Standard(), "CE(f(x), y)", "", "1"),
    "label-smoothing": Method(
        lambda *_: Standard(smoothing=0.1), "CE(f(x), (1-a)·y + a/k), a = 0.1", "Szegedy et al. 2016", "1"
    ),
    "max-entropy": Method(lambda *_: Standard(entropy=1.0), "CE(f(x), y) - β·H(p(x))", "Pereyra et al. 2017", "1"),
}
