"""Adversarial training of some classes (the maximum-entropy paper, §2.1), or towards one (proposed by Benz et al.)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import nn

from leastwise.attacks.base import pick_rows
from leastwise.attacks.goals import Toward
from leastwise.attacks.pgd import PGD
from leastwise.core.losses import ce
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask
from leastwise.training.base import LogitChange, Objective, Terms, unchanged
from leastwise.training.entries import MAXIMUM_ENTROPY_PAPER, Method, ce_attack


@dataclass(frozen=True)
class SingleClassAT(Objective):
    """L = CE(f(x'), y) where x' is attacked for examples of `classes` and clean for the others.

    No class: standard training; all of them: PGD-AT.
    """

    recipe_name: ClassVar[str] = "SingleClassAT"
    can_aim: ClassVar[bool] = False

    attack: PGD = PGD()
    classes: tuple[int, ...] = (0,)

    def craft(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Images:
        chosen = torch.isin(y, torch.tensor(self.classes, dtype=y.dtype, device=y.device))
        return attack_some(chosen, self.attack, model, x=x, y=y, noise=noise)

    def loss(
        self, model: nn.Module, x: Images, y: Labels, crafted: Images, *, adjust: LogitChange = unchanged
    ) -> Terms:
        z = model(crafted)
        return Terms(ce(adjust(z), y), adversarial=z)


@dataclass(frozen=True)
class TargetedAT(Objective):
    """L = CE(f(x'), y) where x' goes towards class `target` for every example that is not of it.

    Benz et al. propose it without a formula; this one is ours.
    """

    recipe_name: ClassVar[str] = "TargetedAT"
    can_aim: ClassVar[bool] = False

    attack: PGD = PGD()
    target: int = 0

    def craft(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Images:
        attack = replace(self.attack, goal=Toward(self.target))
        return attack_some(y != self.target, attack, model, x=x, y=y, noise=noise)

    def loss(
        self, model: nn.Module, x: Images, y: Labels, crafted: Images, *, adjust: LogitChange = unchanged
    ) -> Terms:
        z = model(crafted)
        return Terms(ce(adjust(z), y), adversarial=z)


def attack_some(chosen: Mask, attack: PGD, model: nn.Module, *, x: Images, y: Labels, noise: Noise) -> Images:
    """The batch with the chosen examples attacked; the others cost nothing."""
    rows = chosen.nonzero().squeeze(1)
    if len(rows) == 0:
        return x
    moved = pick_rows(attack, rows).perturb(model, x[rows], y[rows], noise.pick(rows))
    return x.index_copy(0, rows, moved)


METHODS = {
    "single-class-at": Method(
        lambda *a: SingleClassAT(ce_attack(*a)),
        "CE(f(x'), y), x' attacked for some classes only",
        MAXIMUM_ENTROPY_PAPER,
        "1, and n for those classes",
    ),
    "targeted-at": Method(
        lambda *a: TargetedAT(ce_attack(*a)),
        "CE(f(x'), y), x' towards one class",
        "proposed by Benz et al. 2021; formula ours",
        "n + 1",
    ),
}
