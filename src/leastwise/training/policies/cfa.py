"""Class-wise calibrated fair adversarial training (Wei et al., CVPR 2023): CCM and CCR. FAWA is an averaging."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from leastwise.attacks.pgd import PGD
from leastwise.core.recipe import name_of_type
from leastwise.core.types import Counts, Labels
from leastwise.training.base import (
    Epoch,
    Objective,
    PartWeights,
    Policy,
    PolicyState,
    RadiusFactors,
    Terms,
    per_example,
)
from leastwise.training.entries import NamedPolicy


@dataclass(frozen=True)
class CFA(Policy):
    """eps_c = (lambda1 + t_c) · eps (CCM) and L = (CE + β_y · KL) / (1 + β_y), β_c = (lambda2 + t_c) · beta (CCR).

    t is the robust accuracy of the class on the training images as they were seen in the epoch before. Hard classes
    get smaller radii. The step of the attack stays. Methods without a divergence have CCM alone. The paper calibrates
    from the second epoch (`begin` = 1), its code from the eleventh of 200; before, and without CCR, the loss is divided
    by 1 + beta, as in the code. The paper has lambda1 0.5 for AT, 0.3 for TRADES, 0.7 for FAT; the code 0.5 for all.
    """

    recipe_name: ClassVar[str] = "CFA"

    lambda1: float = 0.5
    lambda2: float = 0.5
    begin: int = 1  # epochs before the first calibration
    margin: bool = True  # CCM
    regularisation: bool = True  # CCR

    def init(self, n: Counts) -> PolicyState:
        ones = torch.ones(len(n), dtype=torch.float64)
        return {"radius": ones, "beta": ones}

    def obstacle(self, objective: Objective) -> str:
        ccm = self.margin and objective.attack is not None
        ccr = self.regularisation and objective.has_divergence()
        if ccm or ccr:
            return ""
        name = name_of_type(type(objective))
        return f"CFA changes radii and the weight of the divergence, and {name} leaves it neither: use pgd-at or trades"

    def radii(self, attack: PGD, y: Labels, s: PolicyState) -> RadiusFactors | None:
        return RadiusFactors(s["radius"].to(y.device)[y]) if self.margin else None

    def part_weights(self, terms: Terms, y: Labels, s: PolicyState) -> PartWeights | None:
        if terms.divergence is None:
            return None
        factor = per_example(s["beta"] if self.regularisation else torch.ones_like(s["beta"]), y, terms.label)
        beta = factor * terms.beta
        return PartWeights(1 / (1 + beta), factor / (1 + beta))

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        if seen.number < self.begin:
            return s
        t = seen.train.attacked.accuracy
        known = ~t.isnan()  # a class without images keeps what it has
        return {
            "radius": torch.where(known, self.lambda1 + t, s["radius"]),
            "beta": torch.where(known, self.lambda2 + t, s["beta"]),
        }


POLICIES = {
    "cfa": NamedPolicy(
        CFA(), "eps_c = (λ1 + t_c)·eps; (CE + β_y·KL)/(1 + β_y), β_c = (λ2 + t_c)·β", "Wei et al. 2023", "nothing"
    ),
}
