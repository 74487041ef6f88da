"""How many steps the training attack takes in each epoch: fewer while the network learns what a larger attack adds
little to, all of them at the end.

The attack's own number of steps is the largest. With `stretch` shorter attacks take longer steps, so that all go as far
as the whole attack: n of S steps are S/n times as long. One long step may teach a network to be fooled by every other
attack (catastrophic overfitting: Wong et al., ICLR 2020), so it is not the default.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

from leastwise.attacks.pgd import PGD
from leastwise.core.contract import Contract
from leastwise.training.base import Objective


class AttackSteps(Contract):
    """A rule for the number of attack steps of every epoch."""

    stretch: bool

    @abstractmethod
    def count(self, most: int, epoch: int, epochs: int) -> int:
        """The steps in epoch number `epoch`, from 0, of a training whose attack has at most so many."""


@dataclass(frozen=True)
class Rising(AttackSteps):
    """From `first` in the first epoch evenly up to all steps, reached after a share `until` of the epochs."""

    recipe_name: ClassVar[str] = "RisingSteps"

    first: int = 1
    until: float = 1.0
    stretch: bool = False

    def __post_init__(self) -> None:
        check_steps(self.first)
        if not 0 < self.until <= 1:
            raise ValueError(f"steps rise until a share of the epochs, above 0 and at most 1, but saw {self.until}")

    def count(self, most: int, epoch: int, epochs: int) -> int:
        last = math.ceil(self.until * epochs) - 1  # the first epoch with all steps
        risen = epoch / last if epoch < last else 1.0
        return most if self.first >= most else math.floor(self.first + (most - self.first) * risen + 0.5)


@dataclass(frozen=True)
class FewFirst(AttackSteps):
    """`steps` in the first `share` of the epochs, then all."""

    recipe_name: ClassVar[str] = "FewStepsFirst"

    steps: int = 2
    share: float = 0.5
    stretch: bool = False

    def __post_init__(self) -> None:
        check_steps(self.steps)
        if not 0 < self.share < 1:
            raise ValueError(f"few steps are taken for a share of the epochs, between 0 and 1, but saw {self.share}")

    def count(self, most: int, epoch: int, epochs: int) -> int:
        return min(self.steps, most) if epoch < math.floor(self.share * epochs) else most


def check_steps(steps: int) -> None:
    """Refuse an attack without steps: it would train on random points."""
    if steps < 1:
        raise ValueError(f"an attack that trains takes at least one step, but saw {steps}")


ATTACK_STEPS: dict[str, AttackSteps] = {"rising": Rising(), "few-first": FewFirst()}


def find_attack_steps(name: str) -> AttackSteps:
    """The rule of this name with its default settings."""
    if name not in ATTACK_STEPS:
        raise ValueError(f"there is no rule {name!r} for attack steps: choose {', '.join(ATTACK_STEPS)}")
    return ATTACK_STEPS[name]


def shorten_attack(objective: Objective, rule: AttackSteps | None, epoch: int, *, epochs: int) -> Objective:
    """The objective with the attack of one epoch; the objective itself without a rule or without an attack."""
    if rule is None or objective.attack is None:
        return objective
    attack: PGD = objective.attack
    steps = rule.count(attack.steps, epoch, epochs)
    if steps >= attack.steps:
        return objective
    step = attack.steps / steps * attack.step if rule.stretch else attack.step
    patience = min(attack.patience, steps)
    return replace(objective, attack=replace(attack, steps=steps, step=step, patience=patience))  # type: ignore[type-var]
