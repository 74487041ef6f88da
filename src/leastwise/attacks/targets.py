"""Which classes a targeted attack goes to, and in which order.

logits    the classes other than the label that are likeliest on the clean image (Croce and Hein, ICML 2020)
distance  of the hundred likeliest those whose boundary is nearest once the network is made linear at the clean image,
          by (z_y - z_t) / |grad(z_t - z_y)| in the dual norm of the ball's (MALT: Melamed et al., NeurIPS 2024)

The second takes a gradient for every candidate, so it pays where few classes are gone to, or there are many.
"""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from leastwise.attacks.base import Passes
from leastwise.attacks.choices import TargetOrder
from leastwise.attacks.threats import Ball, dual_norm
from leastwise.core.losses import other_logits, true_logit
from leastwise.core.types import Images, Labels, Logits, Mask

CANDIDATES = 100  # of the paper
FLATTEST = 1e-12  # added to gradients' sizes: among flat classes the one of the largest logit is nearest

RankedClasses = Int[Tensor, "b t"]  # target classes of each example


class TargetRanking(NamedTuple):
    """Target classes of each example, the first to be tried first, and what it took to rank them."""

    ranked: RankedClasses
    forwards: int
    backwards: int


def order_named(malt: str | None) -> TargetOrder:
    """The order that a name of an attack asks for by its ending."""
    return "distance" if malt else "logits"


def cost_of_ranking(order: TargetOrder, k: int) -> Passes:
    """For one image whose clean logits are at hand already."""
    return Passes(1, count_candidates(k)) if order == "distance" else Passes(0)


def count_candidates(k: int) -> int:
    return min(CANDIDATES, k - 1)


def runs_per_pass(waiting: int, left: int, room: int) -> int:
    """How many of the runs that wait are made side by side: a pass of few examples costs nearly as much as one of many.

    A function of counts: `left` examples are still undecided, and a pass may hold `room` rows.
    """
    return max(1, min(waiting, room // left))


def rank_targets(
    order: TargetOrder, targets: int, z: Logits, *, ball: Ball, model: nn.Module, x: Images, y: Labels, wanted: Mask
) -> TargetRanking:
    """The first `targets` classes of each example, fewer if there are fewer; z are the clean logits.

    Only the examples that are `wanted` are ranked by distance: of the others the targets do not matter.
    """
    most = min(targets, z.shape[1] - 1)
    if order == "logits" or not bool(wanted.any()):
        return TargetRanking(rank_by_logits(z, y)[:, :most], 0, 0)
    rows = wanted.nonzero().squeeze(1)
    near = rank_by_distance(model, x[rows], y[rows], ball=ball)[:, :most]
    ranked = rank_by_logits(z, y)[:, :most].index_copy(0, rows, near)
    return TargetRanking(ranked, len(rows), len(rows) * count_candidates(z.shape[1]))


def rank_by_logits(z: Logits, y: Labels) -> RankedClasses:
    """All classes but the label, the likeliest first."""
    return other_logits(z, y).topk(z.shape[1] - 1, dim=1).indices


def rank_by_distance(model: nn.Module, x: Images, y: Labels, *, ball: Ball) -> RankedClasses:
    """The candidates, the one of the nearest linearised boundary first; one forward pass and a gradient for each."""
    at = x.detach().requires_grad_()
    with torch.enable_grad():
        z = model(at)
    likely = rank_by_logits(z.detach(), y)[:, : count_candidates(z.shape[1])]
    distances = []
    for place in range(likely.shape[1]):
        with torch.enable_grad():
            gap = true_logit(z, y) - true_logit(z, likely[:, place])
        (w,) = torch.autograd.grad(gap.sum(), at, retain_graph=place < likely.shape[1] - 1)
        distances.append(gap.detach() / (dual_norm(ball, w.flatten(1)) + FLATTEST))
    found = torch.stack(distances, dim=1).nan_to_num(nan=torch.inf)
    return likely.gather(1, found.argsort(dim=1, stable=True))
