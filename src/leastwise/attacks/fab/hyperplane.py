"""The smallest step from a point onto a hyperplane that stays within the pixel range.

For a point p in [0, 1]^d, a normal w and the gap g = w·p - b it is

    min |d|  such that  w·d = -g  and  p + d in [0, 1]^d.

Every pixel moves against its weight and has a certain room before it meets 0 or 1. For Linf and L2 pixel i moves by
min(level · rate_i, room_i) with rate 1 for Linf and |w_i| for L2, which closes a part of the gap that is a concave,
piecewise linear function of the level: Newton's method from zero rises to the level without passing it, and is there
after finitely many steps, on images about three. Nothing is sorted, where the reference implementation of FAB sorts all
pixels for every step. For L1 the pixels of largest weight move all the way, in that order, and are sorted.

Where the hyperplane does not meet the box, the step goes to the corner of the box that is nearest to it.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from leastwise.attacks.threats import L1, L2, Ball, Linf

MOST_PASSES = 100  # of Newton's method: a bound that rounding cannot break

Points = Float[Tensor, "m n d"]  # several points for each of n hyperplanes, flattened
Normals = Float[Tensor, "n d"]
Gaps = Float[Tensor, "m n"]


def step_onto(ball: Ball, points: Points, w: Normals, *, gap: Gaps) -> Points:
    """The smallest step, in the ball's norm, that closes the gap w·p - b; no step where w is zero."""
    weight, tiny = w.abs(), torch.finfo(w.dtype).tiny
    scale = weight.amax(dim=1, keepdim=True).clamp_min_(tiny)
    weight, need = weight.div_(scale), gap.abs() / scale.squeeze(1)  # so that squares do not underflow
    direction = w.sign() * -gap.sign().unsqueeze(2)
    room = direction.relu().sub_(points).abs_()  # 1 - p upward, p downward
    work = weight * room
    feasible = need <= work.sum(dim=2)
    match ball:
        case Linf():
            moved = raise_level(room, weight, torch.ones_like(scale), need=torch.where(feasible, need, 0), work=work)
        case L2():
            moved = raise_level(room, weight, weight, need=torch.where(feasible, need, 0), work=work)
        case L1():
            moved = fill_largest_first(room, weight, need)
        case _:
            raise ValueError(f"a step onto a hyperplane is known for Linf, L2 and L1, but saw {ball}")
    if not bool(feasible.all()):
        moved = torch.where(feasible.unsqueeze(2), moved, room)
    return moved.mul_(direction)


def raise_level(room: Points, weight: Normals, rate: Float[Tensor, "n _"], *, need: Gaps, work: Points) -> Points:
    """min(level · rate, room) at the level where its product with the weights is what is needed.

    `work` is memory to write to: allocating so much would take longer than the arithmetic.
    """
    finfo = torch.finfo(need.dtype)
    enough = need * (1 - 32 * finfo.eps)
    pull, moved = weight * rate, torch.zeros_like(room)
    level, closed = torch.zeros_like(need), torch.zeros_like(need)
    for _ in range(MOST_PASSES):
        slope = torch.sub(room, moved, out=work).sign_().mul_(pull).sum(dim=2)
        rise = torch.where(closed < enough, need - closed, 0)  # rows that are there stay, whoever else goes on
        level = (level + rise / slope.clamp_min(finfo.tiny)).clamp_max(finfo.max)
        torch.minimum(rate * level.unsqueeze(2), room, out=moved)
        closed = torch.mul(weight, moved, out=work).sum(dim=2)
        if bool((closed >= enough).all()):
            break
    return moved


def fill_largest_first(room: Points, weight: Normals, need: Gaps) -> Points:
    """The pixels of largest weight use all their room, one a part of it, the others none."""
    order = weight.argsort(dim=1, descending=True).expand_as(room)
    gain = (weight * room).gather(2, order)
    before = gain.cumsum(dim=2) - gain
    part = ((need.unsqueeze(2) - before) / gain.clamp_min(torch.finfo(gain.dtype).tiny)).clamp_(0, 1)
    return torch.zeros_like(room).scatter_(2, order, part).mul_(room)
