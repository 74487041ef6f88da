"""HopSkipJump: the nearest mistake from the predicted class alone (Chen, Jordan and Wainwright, IEEE S&P 2020).

From some image that is misclassified, again and again:

1. search the boundary between it and the image, by halving: along the line (L2), or along ever smaller boxes (Linf);
2. probe the boundary point b in B random unit directions u at distance delta: phi = 1 where b + delta·u is
   misclassified, -1 elsewhere; the direction is v = Σ (phi - mean phi) u, of length one in L2, its sign in Linf;
3. step away from the boundary along v by distance / sqrt(t), halved until the point there is misclassified.

B = 100 sqrt(t); delta is a tenth of the pixel range at first, then sqrt(d)·theta·distance (L2) or d·theta·distance
(Linf), where the distance is that of the point of step 3 and theta = d^(-3/2) (L2) or d^(-2) (Linf).

Departures from the authors' code: starts are coarse colours and random black and white beside uniform noise, since a
network may call all uniform noise by one name; the directions of a step are the same for all examples, each
with its own random sign per direction (as in `nattack`: drawing them costs as much for a batch as for one image); an
example stops when a further round would exceed its queries; the boundary is found to 2⁻²⁴ of the way at most.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from leastwise.attacks.base import BROKEN, FINE, ModelAccess, Passes, ask, pick_rows, rows_of
from leastwise.attacks.choices import Keep
from leastwise.attacks.goals import is_mistaken
from leastwise.attacks.min_norm.search import Closest, NearestMistake, SearchRecord, check_search, describe_search
from leastwise.attacks.naming import NUMBER, AttackName
from leastwise.attacks.threats import L2, Ball, Linf, column
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask, PerExample, Rows

FINEST = 24  # halvings at most: beyond, float32 pixels do not move
HALVINGS = 40  # of a step, after which the point is the boundary point itself
COARSE = 4  # cells on a side of a coarse pattern
FEWEST = 8  # directions from which an estimate is worth its queries
# Images per forward pass: no more than 256, and no more values than 256 images of 3×32×32 have (3 MB in float32).
IMAGES, VALUES = 256, 256 * 3 * 32 * 32

Unit = Float[Tensor, "n c h w"]  # directions of length one


@dataclass(frozen=True)
class HopSkipJump(NearestMistake):
    """At most `queries` predictions of each image; `probes` directions in the first estimate, more in later ones.

    Any wrong answer is a mistake: a target would need an image of its class to start from.
    """

    recipe_name: ClassVar[str] = "HopSkipJump"
    needs: ClassVar[ModelAccess | None] = "labels"

    ball: Ball = L2(0.5)
    queries: int = 2500
    probes: int = 100
    starts: int = 60  # images that are tried to start from
    keep: Keep = "last"
    target: Labels | None = None

    def __post_init__(self) -> None:
        counts = {"the number of queries": self.queries, "probes": self.probes, "starts": self.starts}
        check_search(self.ball, (L2, Linf), keep=self.keep, counts=counts, positive={})
        if self.target is not None:
            raise ValueError("HopSkipJump goes to any wrong class: for a target use an attack with a goal, such as PGD")

    def __str__(self) -> str:
        return f"HopSkipJump, {self.queries} queries, {self.ball}, {describe_search(self.keep, None)}"

    def cost(self, k: int) -> Passes:
        return Passes(self.queries)

    @property
    def last_step(self) -> int:
        return self.queries

    def search(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> tuple[Closest, Labels]:
        record = SearchRecord.of(self.ball, x)
        asked = Asking(self, model)
        front = begin(asked, record, x, y, noise)
        halvings = count_halvings(self.ball, x[0].numel())
        t = 0
        while len(front.rows) > 0:
            front = to_boundary(asked, record, front, halvings=halvings)
            t += 1
            front = hop(asked, front, t=t, reserve=halvings)
        return record.closest(asked.forwards, 0), record.step


@dataclass
class Asking:
    """The attack, the model that it asks, and how often it did."""

    attack: HopSkipJump
    model: nn.Module
    forwards: int = 0

    def wrong(self, at: Images, y: Labels) -> tuple[Mask, Mask]:
        """Which points are misclassified, and which got an answer that is finite."""
        self.forwards += len(at)
        z, finite = ask(self.model, at)
        return finite & is_mistaken(z, y), finite


@dataclass(frozen=True, eq=False)
class Front:
    """The examples still searching, each with a misclassified point."""

    rows: Rows
    x: Images
    y: Labels
    at: Images
    far: PerExample  # the distance of the point before its last search of the boundary
    used: Labels  # queries
    noise: Noise


def begin(asked: Asking, record: SearchRecord, x: Images, y: Labels, noise: Noise) -> Front:
    """Ask at the images themselves, and look for a misclassified image to start from for the others."""
    wrong, finite = asked.wrong(x, y)
    everyone = torch.arange(len(x), device=x.device)
    trouble = torch.where(finite, FINE, BROKEN)
    far = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    record.note(everyone, far, x, hit=wrong, trouble=trouble, taken=0)
    front = Front(everyone, x, y, x.clone(), far, torch.ones_like(y), noise)
    front = pick_rows(front, rows_of(finite & ~wrong))
    started = torch.zeros_like(front.y, dtype=torch.bool)
    for trial in range(min(asked.attack.starts, asked.attack.queries - 1)):
        rows = rows_of(~started)
        if len(rows) == 0:
            break
        point = draw_start(pick_rows(front, rows), trial)
        wrong, _ = asked.wrong(point, front.y[rows])
        front.used[rows] += 1
        front.at[rows[wrong]], started[rows[wrong]] = point[wrong], True
    front = pick_rows(front, rows_of(started))
    return replace(front, far=record.ball.norm(front.at - front.x).double())


def draw_start(front: Front, trial: int) -> Images:
    """An image that has nothing to do with the example: uniform noise, coarse colours, or black and white, in turns."""
    noise, shape = front.noise.fork("start", trial), tuple(front.x.shape[1:])
    kind = trial % 3
    if kind == 1:
        cells = noise.uniform((shape[0], COARSE, COARSE), front.x.dtype)
        return F.interpolate(cells, shape[1:], mode="nearest")
    drawn = noise.uniform(shape, front.x.dtype)
    return drawn if kind == 0 else (drawn < 0.5).to(front.x.dtype)


def precision(ball: Ball, d: int) -> float:
    """theta: how exactly the boundary is found, as a part of the distance."""
    return float(d) ** (-1.5 if isinstance(ball, L2) else -2.0)


def count_halvings(ball: Ball, d: int) -> int:
    """How often the way to the boundary is halved."""
    return min(FINEST, math.ceil(-math.log2(precision(ball, d))))


def to_boundary(asked: Asking, record: SearchRecord, front: Front, *, halvings: int) -> Front:
    """Move everyone along the way to the image as near as the boundary lets them; who cannot afford it leaves."""
    keep, ball = asked.attack.keep, record.ball
    front = pick_rows(front, rows_of(front.used + halvings <= asked.attack.queries))
    if len(front.rows) == 0:
        return front
    far = ball.norm(front.at - front.x).double()
    low, high, end = torch.zeros_like(far), torch.ones_like(far), front.at
    for _ in range(halvings):
        middle = (low + high) / 2
        point = between(ball, front, end, share=middle, far=far)
        wrong, _ = asked.wrong(point, front.y)
        low, high = torch.where(wrong, low, middle), torch.where(wrong, middle, high)
        front = replace(front, at=torch.where(wrong.view(-1, 1, 1, 1), point, front.at))
    front = replace(front, far=far, used=front.used + halvings)
    distance = ball.norm(front.at - front.x).double()
    hit, fine = torch.ones_like(far, dtype=torch.bool), torch.zeros_like(front.y)
    record.note(front.rows, distance, front.at, hit=hit, trouble=fine, taken=front.used)
    return pick_rows(front, rows_of(~record.done(front.rows, keep)))


def between(ball: Ball, front: Front, end: Images, *, share: PerExample, far: PerExample) -> Images:
    """The point at a share of the way from the image to `end`: on the line, or in the box of that size."""
    if isinstance(ball, L2):
        return front.x + column(share, end) * (end - front.x)
    size = column(share * far, end)
    return front.x + (end - front.x).clamp(-size, size)


def hop(asked: Asking, front: Front, *, t: int, reserve: int) -> Front:
    """Step away from the boundary at a right angle to it, as far as the point stays misclassified.

    `reserve` queries are left for the way back; whoever cannot afford an estimate and a step leaves.
    """
    attack = asked.attack
    left = attack.queries - front.used - reserve - 1
    front, left = pick_rows(front, rows_of(left >= FEWEST)), left[left >= FEWEST]
    if len(front.rows) == 0:
        return front
    counts = left.clamp(max=int(attack.probes * math.sqrt(t)))
    direction = estimate_direction(asked, front, t=t, counts=counts)
    front = replace(front, used=front.used + counts)
    step = attack.ball.norm(front.at - front.x).double() / math.sqrt(t)
    waiting, at = torch.arange(len(front.rows), device=step.device), front.at.clone()
    for _ in range(HALVINGS):
        waiting = waiting[front.used[waiting] + reserve < attack.queries]
        if len(waiting) == 0:
            break
        here, way = front.at[waiting], direction[waiting]
        point = (here + column(step[waiting], here) * way).clamp(0, 1)
        wrong, _ = asked.wrong(point, front.y[waiting])
        front.used[waiting] += 1
        at[waiting[wrong]] = point[wrong]
        step, waiting = step / 2, waiting[~wrong]
    return replace(front, at=at)


def estimate_direction(asked: Asking, front: Front, *, t: int, counts: Labels) -> Images:
    """Which way is further into the mistake, from the answers at so many points around each example's own."""
    ball, d = asked.attack.ball, front.x[0].numel()
    scale = math.sqrt(d) if isinstance(ball, L2) else d
    delta = torch.full_like(front.far, 0.1) if t == 1 else scale * precision(ball, d) * front.far
    most = int(asked.attack.probes * math.sqrt(t))  # and not what is needed here: that depends on who else is here
    units = draw_units(front, most, t=t, linf=isinstance(ball, Linf))
    sign = (front.noise.fork("signs", t).uniform((most,), front.x.dtype) < 0.5).to(front.x.dtype).mul_(2).sub_(1)
    weighted, plain, balance = torch.zeros_like(front.x), torch.zeros_like(front.x), torch.zeros_like(front.far)
    pairs = (torch.arange(most, device=counts.device) < counts[:, None]).nonzero()
    for part in torch.split(pairs, max(1, min(IMAGES, VALUES // d))):
        rows, which = part.unbind(dim=1)
        base = front.at[rows]
        size = column(delta[rows], base)
        moved = (base + size * sign[rows, which].view(-1, 1, 1, 1) * units[which]).clamp(0, 1)
        wrong, _ = asked.wrong(moved, front.y[rows])
        phi, u = wrong.to(base.dtype) * 2 - 1, (moved - base) / size
        weighted.index_add_(0, rows, phi.view(-1, 1, 1, 1) * u)
        plain.index_add_(0, rows, u)
        balance.index_add_(0, rows, phi.double())
    mean = balance / counts
    mean = torch.where(mean.abs() == 1, 0, mean)  # answers that are all alike say which way by themselves
    return ball.steepest(weighted - column(mean, front.x) * plain)


def draw_units(front: Front, count: int, *, t: int, linf: bool) -> Unit:
    """Directions of length one, the same for every example of every batch."""
    everyone = replace(front.noise, ids=front.noise.ids.new_zeros(1)).fork("directions", t)
    shape = (count, *front.x.shape[1:])
    drawn = everyone.uniform(shape, front.x.dtype).mul_(2).sub_(1) if linf else everyone.normal(shape, front.x.dtype)
    drawn = drawn.squeeze(0)
    return drawn / torch.linalg.vector_norm(drawn.flatten(1), dim=1).view(-1, 1, 1, 1)


HOP_SKIP_JUMP = AttackName(
    HopSkipJump,
    "hsj[:N]",
    "hsj:200",
    rf"hsj(?::{NUMBER})?",
    lambda threat, n: HopSkipJump(threat.ball, queries=int(n or 2500), keep=threat.keep),
    "HopSkipJump: the smallest distance from predicted classes alone; N queries, 2500 unless given",
    "Chen et al. 2020",
    "at most N forwards",
)
