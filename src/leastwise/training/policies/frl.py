"""Fair robust learning (Xu et al., ICML 2021), as in its released code; it fine-tunes a robust network."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from leastwise.attacks.pgd import PGD
from leastwise.core.recipe import name_of_type
from leastwise.core.types import Counts, Labels, PerClass
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
from leastwise.training.entries import NamedPolicy, PublishedSetting

FRLNormaliser = Literal["each", "both"]


@dataclass(frozen=True)
class FRL(Policy):
    """L = Σ w0_y · CE / Σ w0_y + beta · Σ w1_y · KL / Σ w1_y, and eps_c = eps · clip(exp(2 λ_c), 0.98, cap).

    After each look at the validation images, with g0 = R_nat(c) - R_nat - tau and g1 = R_bndy(c) - R_bndy - tau:
    φ0 = P(φ0 + rate · g0), φ1 = P(φ1 + 2 rate · g1), λ += margin_rate · g1; w = 1/k + φ - mean φ. P clamps at 0 and
    scales down to the sum `limit`. Gaps are signed: a class that satisfies its bound loses weight again. The rate is
    halved for the look before epoch 40, and again every 40 epochs. `normaliser="both"` is the code of 2021, which
    divides by Σ (w0 + w1). Published: TRADES with beta 1.5 (remargin: 1), at the rate 0.001, from a robust network,
    validated by 20 steps of PGD.
    """

    recipe_name: ClassVar[str] = "FRL"

    tau: float = 0.1
    rate: float = 0.05
    limit: float = 0.5
    boundary: bool = True  # whether φ1 moves
    margin_rate: float = 0.0  # 0: radii stay
    cap: float = 3.0
    step_of_largest: bool = False  # one step for all, a quarter of the batch's largest radius
    normaliser: FRLNormaliser = "each"
    halve_every: int = 40  # epochs, the rate of the multipliers
    needs_first_look: ClassVar[bool] = True

    @property
    def needs_validation(self) -> bool:
        return True

    def init(self, n: Counts) -> PolicyState:
        zero = torch.zeros(len(n), dtype=torch.float64)
        return {"natural": zero, "boundary": zero, "margin": zero}

    def obstacle(self, objective: Objective) -> str:
        if objective.has_divergence():
            return ""
        name = name_of_type(type(objective))
        return f"FRL weighs cross-entropy and divergence apart, and {name} has no divergence: use trades"

    def radii(self, attack: PGD, y: Labels, s: PolicyState) -> RadiusFactors | None:
        if not self.margin_rate:
            return None
        radius = margin_radii(s["margin"], self.cap).to(y.device)[y]
        if not self.step_of_largest:
            return RadiusFactors(radius)
        largest = (radius * attack.ball.eps).max()
        return RadiusFactors(radius, (largest / 4 / attack.step).expand(len(y)))

    def part_weights(self, terms: Terms, y: Labels, s: PolicyState) -> PartWeights:
        w0, w1 = (per_example(multiplier_weights(s[name]), y, terms.label) for name in ("natural", "boundary"))
        if self.normaliser == "both":
            return PartWeights(w0 / (w0 + w1).mean(), w1 / (w0 + w1).mean())
        return PartWeights(w0 / w0.mean(), w1 / w1.mean())

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        assert seen.valid is not None, "the loop validates for a policy that says so"
        clean, robust = seen.valid.clean, seen.valid.robust
        rate = self.rate / 2 ** ((seen.number + 1) // self.halve_every)  # this look is the next epoch's
        natural = (1 - clean.accuracy) - (1 - clean.overall) - self.tau
        boundary = (clean.accuracy - robust.accuracy) - (clean.overall - robust.overall) - self.tau
        natural, boundary = natural.nan_to_num(nan=0.0), boundary.nan_to_num(nan=0.0)  # classes without images
        moved = project_multipliers(s["boundary"] + 2 * rate * boundary, self.limit)
        return {
            "natural": project_multipliers(s["natural"] + rate * natural, self.limit),
            "boundary": moved if self.boundary else s["boundary"],
            "margin": s["margin"] + self.margin_rate * boundary,
        }


def multiplier_weights(phi: PerClass) -> PerClass:
    """1/k + φ_c - (Σ φ)/k: they add up to 1 for any φ."""
    return 1 / len(phi) + phi - phi.mean()


def margin_radii(margin: PerClass, cap: float) -> PerClass:
    return (2 * margin).exp().clamp(0.98, cap)


def project_multipliers(phi: PerClass, limit: float) -> PerClass:
    """No multiplier below 0, and their sum at most the limit."""
    phi = phi.clamp_min(0)
    return phi * (limit / phi.sum()).clamp(max=1) if bool(phi.sum() > 0) else phi


WITH_TRADES = PublishedSetting(("beta=1.5",), "frl", validation_steps=20, fine_tunes=True)

POLICIES = {
    "frl": NamedPolicy(
        FRL(),
        "w0_y·CE + β·w1_y·KL, weights follow validation errors above their bound",
        "Xu et al. 2021 (reweight)",
        "validation per epoch",
        WITH_TRADES,
    ),
    "frl-remargin": NamedPolicy(
        FRL(boundary=False, margin_rate=0.1, limit=0.3, cap=2.5, normaliser="both"),
        "w0_y·CE + β·KL, eps_c grows with the boundary error above its bound",
        "Xu et al. 2021 (remargin, code of 2021)",
        "validation per epoch",
        WITH_TRADES._replace(settings=("beta=1",)),
    ),
    "frl-both": NamedPolicy(
        FRL(tau=0.07, margin_rate=0.2, step_of_largest=True),
        "both",
        "Xu et al. 2021 (reweight + remargin)",
        "validation per epoch",
        WITH_TRADES,
    ),
}
