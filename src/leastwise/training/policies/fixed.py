"""Weights and radii of the classes as somebody chose them; they stay throughout."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from leastwise.attacks.pgd import PGD
from leastwise.core.recipe import name_of_type
from leastwise.core.types import Counts, Labels, PerClass
from leastwise.training.base import Objective, Policy, PolicyState, RadiusFactors
from leastwise.training.entries import NamedPolicy


@dataclass(frozen=True)
class ClassWeights(Policy):
    """L = w_y · loss, w one number for each class. Nothing is divided by a sum of weights."""

    recipe_name: ClassVar[str] = "ClassWeights"

    weight: tuple[float, ...] = ()

    def init(self, n: Counts) -> PolicyState:
        return {"weight": check_numbers(self.weight, n, "class-weights.weight")}

    def weights(self, s: PolicyState) -> PerClass:
        return s["weight"]


@dataclass(frozen=True)
class ClassRadii(Policy):
    """eps_c = factor_c · eps of the training attack, factor one number for each class; its step is scaled alike."""

    recipe_name: ClassVar[str] = "ClassRadii"

    factor: tuple[float, ...] = ()

    def init(self, n: Counts) -> PolicyState:
        return {"factor": check_numbers(self.factor, n, "class-radii.factor")}

    def obstacle(self, objective: Objective) -> str:
        if objective.attack is not None:
            return ""
        return f"class-radii changes radii, and {name_of_type(type(objective))} does not attack: use pgd-at or trades"

    def radii(self, attack: PGD, y: Labels, s: PolicyState) -> RadiusFactors:
        factor = s["factor"].to(y.device)[y]
        return RadiusFactors(factor, factor)


def check_numbers(given: tuple[float, ...], n: Counts, name: str) -> PerClass:
    """One number for each class, zero or more and not all zero."""
    if len(given) != len(n):
        raise ValueError(
            f"{name} needs one number for each of {len(n)} classes, but has {len(given)}: give {name}=1,2,…"
        )
    if not (min(given) >= 0 and max(given) > 0 and max(given) < float("inf")):
        raise ValueError(
            f"{name} needs numbers of zero or more, and one above it, but saw {', '.join(map(str, given))}"
        )
    return torch.tensor(given, dtype=torch.float64)


POLICIES = {
    "class-weights": NamedPolicy(ClassWeights(), "w_y·loss, w as given: class-weights.weight=1,2,…", "", "nothing"),
    "class-radii": NamedPolicy(ClassRadii(), "eps_c = f_c·eps, f as given: class-radii.factor=1,2,…", "", "nothing"),
}
