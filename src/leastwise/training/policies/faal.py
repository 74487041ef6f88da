"""Fairness-aware adversarial learning (Zhang et al., CVPR 2024), with its weights in closed form."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from leastwise.core.losses import other_logits
from leastwise.core.types import Labels, PerClass
from leastwise.training.base import PartWeights, Policy, PolicyState, Terms, per_example
from leastwise.training.entries import NamedPolicy

BISECTIONS = 60  # of a logarithm that spans 80: to 1e-16


@dataclass(frozen=True)
class FAAL(Policy):
    """L = k · w_y · loss with w = argmax Σ_i w_{y_i} m_{y_i} over distributions with KL(u || w) <= radius, per batch.

    m_c is the mean over the batch's images of class c of max_{j != y} p_j - p_y under attack. The sum runs over images,
    so a class also counts by how many the batch has, and absent classes drop out of it. The released code calls a
    convex solver; the dual has one variable. It fine-tunes a robust network for two epochs, at rates 0.01 and 0.001.
    With AWP, the weights are perturbed by the loss without w, as there.
    """

    recipe_name: ClassVar[str] = "FAAL"

    radius: float = 0.5
    weighs_perturbation: ClassVar[bool] = False

    def part_weights(self, terms: Terms, y: Labels, s: PolicyState) -> PartWeights:
        p = terms.attacked.detach().double().softmax(dim=1)
        k = p.shape[1]
        margin = other_logits(p, y).amax(dim=1) - p.gather(1, y[:, None]).squeeze(1)
        sums = torch.zeros(k, dtype=p.dtype, device=p.device).index_add_(0, y, margin)
        w = per_example(k * worst_weights(sums * k / len(y), self.radius), y, terms.label)
        return PartWeights(w, w)


def worst_weights(gain: PerClass, radius: float) -> PerClass:
    """argmax w · gain over distributions w with KL(u || w) <= radius, u uniform.

    Stationarity gives w_c in proportion to 1 / (μ - gain_c) with μ above all gains, and the constraint is
    mean log(μ - gain) + log mean 1 / (μ - gain) = radius, which falls in μ: bisect log(μ - max gain).
    """
    k, below_top = len(gain), gain.max() - gain
    spread = float(below_top.max())
    if radius <= 0 or spread <= 0:
        return torch.full_like(gain, 1 / k)
    unit = below_top / spread
    low, high = torch.full_like(unit[0], -40.0), torch.full_like(unit[0], 40.0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        distance = middle.exp() + unit
        divergence = distance.log().mean() + distance.reciprocal().mean().log()
        low, high = torch.where(divergence > radius, middle, low), torch.where(divergence > radius, high, middle)
    return (1 / (high.exp() + unit)) / (1 / (high.exp() + unit)).sum()


POLICIES = {
    "faal": NamedPolicy(
        FAAL(), "k·w_y·loss, w worst within KL(u || w) <= r, per batch", "Zhang et al. 2024", "a bisection"
    ),
}
