"""Policies that choose the class which the attack on an image goes to: TRIX and FAIR-TAT."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from leastwise.attacks.pgd import PGD
from leastwise.core.noise import Noise
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
from leastwise.training.policies.dafa import class_weights


@dataclass(frozen=True)
class TRIX(Policy):
    """DAFA's weights W (radius, step and label term times W_y), and strong classes are attacked toward another class.

    Strong are the images whose weight is below the mean of their batch. Their attack goes toward a class drawn anew for
    each image and epoch, all other classes alike, which is weaker; the others climb what the method climbs. The
    divergence is not weighted. The published variant for PGD-AT takes a second step that cancels the class radii; this
    one does not.
    """

    recipe_name: ClassVar[str] = "TRIX"

    scale: float = 1.0
    warmup: float = 70 / 110  # share of the epochs

    def init(self, n: Counts) -> PolicyState:
        return {"weight": torch.ones(len(n), dtype=torch.float64), "present": n > 0}

    def obstacle(self, objective: Objective) -> str:
        return why_not_aimed("TRIX", objective)

    def radii(self, attack: PGD, y: Labels, s: PolicyState) -> RadiusFactors:
        w = s["weight"].to(y.device)[y]
        return RadiusFactors(w, w)

    def targets(self, y: Labels, s: PolicyState, noise: Noise) -> Labels:
        w = s["weight"].to(y.device)[y]
        drawn = draw_targets(s["present"].double().expand(len(s["present"]), -1), y, noise)
        return torch.where(w < w.mean(), drawn, -1)

    def part_weights(self, terms: Terms, y: Labels, s: PolicyState) -> PartWeights:
        w = per_example(s["weight"], y, terms.label)
        return PartWeights(w, torch.ones_like(w))

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        if seen.number != max(1, round(self.warmup * seen.of)):
            return s
        n = seen.train.n[:, None]
        return {
            **s,
            "weight": class_weights(torch.where(n > 0, seen.train.probability / n.clamp_min(1), 0), self.scale),
        }


@dataclass(frozen=True)
class FairTAT(Policy):
    """All attacks are targeted, toward class t with a probability in proportion to how often others were taken for t.

    The score of a class is the share of the other classes' training images that the network took for it in the epoch
    before, as they were trained on; in the first epoch all classes are alike. The formula is as others report it.
    """

    recipe_name: ClassVar[str] = "FAIR-TAT"

    def init(self, n: Counts) -> PolicyState:
        return {"score": (n > 0).double()}

    def obstacle(self, objective: Objective) -> str:
        return why_not_aimed("FAIR-TAT", objective)

    def targets(self, y: Labels, s: PolicyState, noise: Noise) -> Labels:
        return draw_targets(s["score"].expand(len(s["score"]), -1), y, noise)

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        others = (seen.train.n.sum() - seen.train.n).clamp_min(1)
        score = seen.train.confusion.double().fill_diagonal_(0).sum(dim=0) / others
        return {"score": score if bool((score > 0).sum() > 1) else s["score"]}


def why_not_aimed(name: str, objective: Objective) -> str:
    """Why an objective's attack cannot be sent toward a class; empty if it can."""
    if objective.attack is not None and objective.can_aim:
        return ""
    what = "does not attack" if objective.attack is None else "has an attack with a way of its own"
    return f"{name} chooses where attacks go, and {name_of_type(type(objective))} {what}: use pgd-at or trades"


def draw_targets(shares: Float[Tensor, "k k"], y: Labels, noise: Noise) -> Labels:
    """A class for each image, by the shares in its label's row, never the label; -1 where there is no other."""
    rows = shares.to(y.device)[y].scatter(1, y[:, None], 0.0)
    edges = rows.cumsum(dim=1)
    at = noise.uniform((), torch.float64).to(y.device)[:, None] * edges[:, -1:]
    return torch.where(edges[:, -1] > 0, (at >= edges).sum(dim=1), -1)


POLICIES = {
    "trix": NamedPolicy(
        TRIX(),
        "W_y·CE + β·KL, eps_c = W_c·eps; strong classes attacked toward a random class",
        "Medi et al. 2025 (TRIX)",
        "nothing",
    ),
    "fair-tat": NamedPolicy(
        FairTAT(), "the method's loss, x' toward t ~ how often others are taken for t", "Medi et al. 2024", "nothing"
    ),
}
