"""Square Attack: random search with squares, from the logits alone (Andriushchenko et al., ECCV 2020).

A query changes one s×s square of the best point so far and keeps the change if the goal's score rises or the goal is
reached; s = round(sqrt(p·h·w)), and the share p of the image halves as the queries go on (`HALVINGS`).

Linf: start at vertical stripes x ± eps, a sign per channel and column. A query sets the square to x ± eps, a sign per
channel: the paper adds ±2·eps and projects, which ends at the same pixels because every pixel is within eps already.

L2: start at a tiling of bumps (see `bump`). A query clears two squares, and spends their length and whatever is left
of eps on the first: the direction it had plus a new bump, a sign per channel; then all is scaled to length eps.

Departures from the reference port (AutoAttack): each example draws its own squares, signs and orientations, where the
port draws one for the batch; the last admissible offset of a square is admitted too; the L2 tiling is centred in
images of any size, where the port needs square images of at least five pixels.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from leastwise.attacks.base import (
    BROKEN,
    FINE,
    NEVER,
    GoalAttack,
    ModelAccess,
    Outcome,
    Passes,
    ask,
    make_outcome,
    pick_rows,
    rows_of,
)
from leastwise.attacks.choices import Keep
from leastwise.attacks.goals import Goal, Margin
from leastwise.attacks.hopeless import Hopeless
from leastwise.attacks.naming import NUMBER, AttackName
from leastwise.attacks.threats import L2, Ball, Linf, column
from leastwise.core.noise import Noise
from leastwise.core.recipe import ADDED_LATER
from leastwise.core.types import Images, Labels, Mask, PerExample, Rows

HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # p halves after these, counting squares from 0
SCHEDULED = 10_000  # the number of squares that this schedule was made for
BLOCK = 100  # squares drawn at once: a draw costs about 100 small operations however many numbers it gives
TINY = 1e-12  # the reference's guard against a window of length zero

Windows = Float[Tensor, "b c n"]  # the pixels of one square per example
Draws = Float[Tensor, "b d"]  # uniform numbers in (0, 1)


@dataclass(frozen=True)
class Square(GoalAttack):
    """`queries` squares are tried after the start, until an example is fooled.

    Examples leave the batch once fooled whatever `keep` says, as in the reference: past that point there is no score
    to improve. Of several `restarts`, each attacks what survived. `hopeless` counts the squares of one restart.
    """

    recipe_name: ClassVar[str] = "Square"
    needs: ClassVar[ModelAccess | None] = "queries"

    ball: Ball = Linf(8 / 255)
    goal: Goal = Margin(kappa=1e9)
    queries: int = 5000
    p_init: float = 0.8
    rescale: bool = False  # stretch the schedule of 10,000 squares to `queries`; AutoAttack does not
    restarts: int = 1
    keep: Keep = "last"
    hopeless: Hopeless | None = field(default=None, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        if not isinstance(self.ball, Linf | L2):
            raise ValueError(f"Square knows Linf and L2 balls, but saw {self.ball}: choose one of these")
        if self.queries < 0:
            raise ValueError(f"Square needs a number of queries, zero or more, but saw {self.queries}")
        if not 0 < self.p_init <= 1:
            raise ValueError(f"p_init is the share of the image that the first squares cover, but saw {self.p_init}")
        if self.restarts < 1:
            raise ValueError(f"an attack is run at least once, but saw {self.restarts} restarts")
        if self.hopeless is not None and not isinstance(self.goal, Margin):
            raise ValueError(f"what is left to win is known of the margin, but the goal is {self.goal}")
        if self.keep not in get_args(Keep):
            raise ValueError(f"keep must be {' or '.join(get_args(Keep))}, but saw {self.keep!r}")

    def __str__(self) -> str:
        often = "" if self.restarts == 1 else f", {self.restarts} times"
        short = "" if self.hopeless is None else f", {self.hopeless}"
        return f"Square with {self.queries} queries{often} on {self.goal}, {self.ball}, any query counts{short}"

    @property
    def gives_up(self) -> bool:
        return self.hopeless is not None

    def cost(self, k: int) -> Passes:
        return Passes(1 + self.goal.clean_forwards + self.restarts * (self.queries + 1))

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        bound = self.goal.bind(model, x, y)
        z, finite = ask(model, x)
        forwards = len(x) * (1 + self.goal.clean_forwards)
        wrong = finite & self.goal.reached(z, y, *bound)
        x_adv, step = x.clone(), torch.where(wrong, 0, NEVER)
        trouble = torch.where(finite, FINE, BROKEN)
        everyone = SquareState(
            rows=torch.arange(len(x), device=x.device),
            x=x,
            y=y,
            at=x,
            score=torch.full_like(z[:, 0], -math.inf),
            clean=self.goal.score(z, *bound),
            bound=bound,
            ball=self.ball,
            noise=noise,
            draws=x.new_empty((len(x), 0)),
            trouble=trouble,
        )

        for restart in range(self.restarts):
            front = pick_rows(everyone, rows_of(step == NEVER))
            front = replace(front, noise=front.noise.fork("restart", restart))
            for i in range(-1, self.queries):  # -1 is the start
                if len(front.rows) == 0:
                    break
                forwards += len(front.rows)
                front, wrong = query_start(self, model, front) if i < 0 else query_square(self, model, front, i=i)
                if bool(wrong.any()):
                    fallen = front.rows[wrong]
                    x_adv[fallen], step[fallen] = front.at[wrong], i + 2
                    front = pick_rows(front, rows_of(~wrong))
                if self.hopeless is not None and i + 1 == self.hopeless.after:
                    goes_on = self.hopeless.lets_go_on(front.clean, front.score)
                    note_end(pick_rows(front, rows_of(~goes_on)), x_adv, trouble)
                    front = pick_rows(front, rows_of(goes_on))
            note_end(front, x_adv, trouble)
        return make_outcome(x_adv, step != NEVER, step, forwards=forwards, backwards=0, trouble=trouble)


@dataclass(frozen=True, eq=False)
class SquareState:
    """The examples still in the batch, each at its best point so far."""

    rows: Rows  # their places in the full batch
    x: Images
    y: Labels
    at: Images  # changed in place: a query that is refused, as most are, costs no copy
    score: PerExample
    clean: PerExample  # the score of the image
    bound: tuple[Tensor, ...]
    ball: Ball
    noise: Noise
    draws: Tensor  # what the squares of this block are made from
    trouble: Labels


def note_end(front: SquareState, x_adv: Images, trouble: Labels) -> None:
    """Write down where examples end that were not fooled."""
    x_adv[front.rows] = front.at
    trouble[front.rows] = torch.maximum(trouble[front.rows], front.trouble)


def query_start(attack: Square, model: nn.Module, front: SquareState) -> tuple[SquareState, Mask]:
    """The first query: stripes or a tiling."""
    point = stripes(front) if isinstance(attack.ball, Linf) else tiling(front)
    return query(attack.goal, model, front, point=point)


def query_square(attack: Square, model: nn.Module, front: SquareState, *, i: int) -> tuple[SquareState, Mask]:
    """Square number i."""
    c, h, w = front.x.shape[1:]
    block, place = divmod(i, BLOCK)
    if place == 0:
        numbers = 2 + c if isinstance(attack.ball, Linf) else 5 + c
        drawn = front.noise.fork("squares", block).uniform((min(BLOCK, attack.queries - i), numbers))
        front = replace(front, draws=drawn)
    propose = repaint if isinstance(attack.ball, Linf) else rearrange
    return query(
        attack.goal, model, front, point=propose(front, front.draws[:, place], side_of_square(attack, i, h=h, w=w))
    )


def query(goal: Goal, model: nn.Module, front: SquareState, *, point: Images) -> tuple[SquareState, Mask]:
    """Look at a point, go there if it is better, and see who is fooled there."""
    z, finite = ask(model, point)
    score = goal.score(z, *front.bound)
    wrong = finite & goal.reached(z, front.y, *front.bound)
    better = rows_of(wrong | (finite & (score > front.score)))
    front.at.index_copy_(0, better, point[better])
    front.score.index_copy_(0, better, score[better])
    trouble = front.trouble.masked_fill(~finite, BROKEN)
    return replace(front, trouble=trouble), wrong


def share_of_image(attack: Square, i: int) -> float:
    """The share p of the image that square number i (from 0) covers."""
    if attack.rescale:
        i = int(i / attack.queries * SCHEDULED)
    return attack.p_init / 2 ** bisect_left(HALVINGS, i)


def side_of_square(attack: Square, i: int, *, h: int, w: int) -> int:
    """The side of square number i: at least 1, or for L2 odd and at least 3, but never more than the image's."""
    s = round(math.sqrt(share_of_image(attack, i) * h * w))
    s = max(s, 1) if isinstance(attack.ball, Linf) else max(s, 3) | 1
    return min(s, h, w)


def stripes(front: SquareState) -> Images:
    """x ± eps, a sign per channel and column."""
    _, c, _, w = front.x.shape
    drawn = front.noise.fork("stripes").uniform((c, 1, w))
    return (front.x + column(front.ball.eps, front.x) * signs(drawn, front.x)).clamp_(0, 1)


def repaint(front: SquareState, draw: Draws, s: int) -> Images:
    """Linf: the square at x ± eps."""
    _, c, h, w = front.x.shape
    where = square_places(draw[:, :2], s, h=h, w=w).unsqueeze(1).expand(-1, c, -1)
    shift = column(front.ball.eps, front.x) * signs(draw[:, 2:, None, None], front.x)
    pixels = front.x.flatten(2).gather(2, where).add_(shift.flatten(2)).clamp_(0, 1)
    return front.at.flatten(2).scatter(2, where, pixels).reshape(front.x.shape)


def tiling(front: SquareState) -> Images:
    """L2: bumps side by side, five across the shorter side, together of length eps."""
    b, c, h, w = front.x.shape
    s = max(1, min(h, w) // 5)
    down, across = h // s, w // s
    turned = front.noise.fork("orientations").uniform((1, down, across, 1, 1)) < 0.5
    signed = signs(front.noise.fork("tiles").uniform((c, down, across, 1, 1)), front.x)
    tile = bump(s, front.x.dtype, front.x.device)
    tiles = signed * torch.where(turned, tile.T, tile)
    filled = tiles.transpose(3, 4).reshape(b, c, down * s, across * s)
    top, left = (h - down * s) // 2, (w - across * s) // 2
    return place_at_eps(front, F.pad(filled, (left, w - across * s - left, top, h - down * s - top)))


def rearrange(front: SquareState, draw: Draws, s: int) -> Images:
    """L2: the length of two squares moves into the first, with a new bump."""
    _, c, h, w = front.x.shape
    first, second = (
        square_places(corner, s, h=h, w=w).unsqueeze(1).expand(-1, c, -1) for corner in (draw[:, :2], draw[:, 2:4])
    )
    delta = (front.at - front.x).flatten(2)
    unspent = (torch.as_tensor(front.ball.eps) ** 2 - delta.square().sum(dim=(1, 2))).clamp_min(0).to(delta.dtype) / c
    here = delta.gather(2, first)
    delta.scatter_(2, first, 0.0)
    there = delta.gather(2, second)  # without the overlap with the first, which would count twice
    delta.scatter_(2, second, 0.0)
    length = (unspent.view(-1, 1, 1) + here.square().sum(2, keepdim=True) + there.square().sum(2, keepdim=True)).sqrt()
    fresh = bump(s, front.x.dtype, front.x.device)
    turned = torch.where(draw[:, 4, None] < 0.5, fresh.T.flatten(), fresh.flatten()).unsqueeze(1)
    shape = signs(draw[:, 5:, None], front.x) * turned + normalise(here)
    delta.scatter_(2, first, length * normalise(shape))
    return place_at_eps(front, delta.reshape(front.x.shape))


def place_at_eps(front: SquareState, delta: Images) -> Images:
    """The point at distance eps along delta, within the pixel range."""
    scale = torch.as_tensor(front.ball.eps) / front.ball.norm(delta).clamp_min(TINY)
    return delta.mul_(column(scale, delta)).add_(front.x).clamp_(0, 1)


def normalise(pixels: Windows) -> Windows:
    """Each channel of a window scaled to length one."""
    return pixels / (TINY + torch.linalg.vector_norm(pixels, dim=2, keepdim=True))


def signs(drawn: Float[Tensor, "..."], x: Images) -> Float[Tensor, "..."]:
    """Uniform draws as -1 and 1."""
    return (drawn < 0.5).to(x.dtype).mul_(2).sub_(1)


def square_places(corner: Float[Tensor, "b 2"], s: int, *, h: int, w: int) -> Int[Tensor, "b n"]:
    """The places, in the flattened image, of one square of side s per example: every offset is equally likely."""
    top = (corner[:, 0] * (h - s + 1)).long()
    left = (corner[:, 1] * (w - s + 1)).long()
    pixel = torch.arange(s, device=corner.device)
    return (top * w + left).unsqueeze(1) + (pixel.unsqueeze(1) * w + pixel).flatten()


@lru_cache(maxsize=64)
def bump(s: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "s s"]:
    """Two peaks of opposite sign, one in each half of a square, of length one together (equation 2 of the paper).

    A peak falls off with the distance m to its centre, counted along the longer axis, as sum_{j >= m} 1/(j + 1)².
    """
    upper, lower = peak(s // 2, s), peak(s - s // 2, s)
    both = torch.cat((upper, -lower))
    return (both / torch.linalg.vector_norm(both)).to(device, dtype)


def peak(h: int, w: int) -> Float[Tensor, "h w"]:
    """One peak of a bump, of length one."""
    down, across = (torch.arange(h) - h // 2).abs(), (torch.arange(w) - w // 2).abs()
    distance = torch.maximum(down.unsqueeze(1), across)
    rings = 1 / torch.arange(1, max(h // 2, w // 2) + 2, dtype=torch.float64).square()
    height = rings.flip(0).cumsum(0).flip(0)[distance]
    return height / torch.linalg.vector_norm(height).clamp_min(TINY)


SQUARE = AttackName(
    Square,
    "square[:N]",
    "square:20",
    rf"square(?::{NUMBER})?",
    lambda threat, queries: Square(threat.ball, queries=int(queries or 5000), keep=threat.keep),
    "random squares, no gradients; N queries, 5000 unless given",
    "Andriushchenko et al. 2020",
    "at most N + 1 forwards",
)
