"""Projected gradient ascent: the one attack loop.

x_{t+1} = clip_[0,1](x + project(x_t + step · steepest(grad score) - x))

FGSM is one step of size eps; Temperature-PGD (Tian et al., KDD 2021) is `goal=CE(inverse_temperature=5)`;
C&W-20 is `goal=Margin(kappa=50)`; the inner problem of TRADES is `goal=KL(), start=Gaussian(0.001)`. Momentum PGD
(Dong et al., CVPR 2018) steps along m_t = momentum · m_{t-1} + grad / |grad|_1; friendly PGD (Zhang et al., ICML 2020)
lets an example go `patience` steps past its first mistake.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, get_args

import torch
from torch import Tensor, nn

from leastwise.attacks.base import (
    BROKEN,
    NEVER,
    GoalAttack,
    Outcome,
    Passes,
    Slope,
    ask,
    make_outcome,
    pick_rows,
    rows_of,
    slope,
)
from leastwise.attacks.choices import Keep
from leastwise.attacks.combine import Grid, Restarts
from leastwise.attacks.goals import CE, KL, Goal, Margin, Toward
from leastwise.attacks.naming import NUMBER, AttackName, Threat
from leastwise.attacks.threats import (
    Ball,
    Gaussian,
    Linf,
    Radius,
    Start,
    Uniform,
    Zero,
    column,
    format_radius,
    step_along_,
)
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask

NEAR = 0.1  # of the radius: steps that go no farther from their start leave the rest of the ball unseen


@dataclass(frozen=True)
class PGD(GoalAttack):
    """`keep="last"` returns the last iterate; `keep="fooled"` the first misclassified point.

    With "fooled" the clean image and the start count as points too, and an example leaves the batch as soon as it is
    misclassified: only the undecided cost anything. The clean image is asked last, as few are wrong only there.
    """

    recipe_name: ClassVar[str] = "PGD"

    ball: Ball = Linf(8 / 255)
    goal: Goal = CE()
    step: Radius = 2 / 255
    steps: int = 10
    start: Start = Uniform()
    keep: Keep = "last"
    momentum: float = 0.0
    patience: int = 0  # with "fooled": further steps after the first mistake, as friendly training takes them

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"an attack needs a number of steps, zero or more, but saw {self.steps}")
        if not bool(torch.as_tensor(self.step >= 0).all()):
            raise ValueError(f"the step must be zero or more, but saw {format_radius(self.step)}")
        if self.keep not in get_args(Keep):
            raise ValueError(f"keep must be {' or '.join(get_args(Keep))}, but saw {self.keep!r}")
        if not self.momentum >= 0:
            raise ValueError(f"the momentum must be zero or more, but saw {self.momentum}")
        if self.patience < 0 or (self.patience and self.keep != "fooled"):
            raise ValueError(
                f'patience is a number of steps after the first mistake, with keep="fooled", but saw {self.patience} '
                f"with keep={self.keep!r}"
            )

    def __str__(self) -> str:
        counted = "any iterate counts" if self.keep == "fooled" else "the last iterate counts"
        steps = f"{self.steps} step{'' if self.steps == 1 else 's'} of {format_radius(self.step)}"
        parts = [f"{steps} on {self.goal}", str(self.ball), str(self.start), counted]
        if self.momentum:
            parts.insert(1, f"momentum {self.momentum:g}")
        if self.patience:
            parts.append(f"{self.patience} more after the first mistake")
        return ", ".join(parts)

    def notes(self, k: int) -> tuple[str, ...]:
        way = self.steps * self.step
        if isinstance(way, Tensor) or isinstance(self.ball.eps, Tensor) or way >= NEAR * self.ball.eps:
            return super().notes(k)
        gone = f"{self.steps} steps of {format_radius(self.step)} go {way:.2g} of a radius of"
        return *super().notes(k), f"{gone} {self.ball.eps:.3g}, so next to nothing is attacked: check --step"

    def with_radius(self, eps: Radius, step: Radius | None) -> "PGD":
        return replace(self, ball=self.ball.at(eps), step=self.step if step is None else step)

    def to_the_end(self) -> "PGD":
        return replace(self, keep="last", patience=0)

    @property
    def last_step(self) -> int:
        return self.steps

    def cost(self, k: int) -> Passes:
        at_the_image = self.keep == "fooled" and not isinstance(self.start, Zero)
        return Passes(self.steps + 1 + at_the_image + self.goal.clean_forwards, self.steps)

    def perturb(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Images:
        """Only the points, without the forward pass that says who is fooled."""
        return ascend(self, model, x, y, noise).at if self.keep == "last" else self.run(model, x, y, noise).x_adv

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        run = run_last if self.keep == "last" else run_fooled
        return run(self, model, x, y, noise)


class ClimbStep(NamedTuple):
    """What one step climbs in the place of the attack's goal, bound as that is, and its share of the attack's step."""

    goal: Goal | None = None
    share: float = 1.0


AS_IT_IS = ClimbStep()
ClimbSteps = tuple[ClimbStep, ...]  # of every step; none where all are as the attack says


@dataclass(frozen=True, eq=False)
class PGDState:
    """The examples still in the batch: what each climbs with, and where it stands."""

    rows: Tensor  # their places in the full batch
    x: Images
    y: Labels
    at: Images  # the current point
    bound: tuple[Tensor, ...]
    ball: Ball
    step: Radius
    pull: Images | None  # the accumulated direction, with momentum
    trouble: Labels
    patience: Labels  # steps left after the first mistake


def start_state(attack: PGD, model: nn.Module, x: Images, y: Labels, noise: Noise) -> PGDState:
    """Everybody at the start of the attack."""
    start = attack.ball.project(attack.start.perturb(x, attack.ball, noise.fork("start")))
    return PGDState(
        rows=torch.arange(len(x), device=x.device),
        x=x,
        y=y,
        at=(x + start).clamp(0, 1),
        bound=attack.goal.bind(model, x, y),
        ball=attack.ball,
        step=attack.step,
        pull=torch.zeros_like(x) if attack.momentum else None,
        trouble=torch.zeros_like(y),
        patience=torch.full_like(y, attack.patience),
    )


def climb(attack: PGD, model: nn.Module, front: PGDState, *, one: ClimbStep = AS_IT_IS) -> tuple[PGDState, Slope]:
    """One step for everyone in the front, and what was seen at the point they left."""
    seen = slope(model, one.goal or attack.goal, front.at, bound=front.bound)
    direction, pull = seen.gradient, None
    if front.pull is not None:
        size = direction.flatten(1).abs().sum(dim=1).clamp_min(torch.finfo(direction.dtype).tiny)
        direction = pull = attack.momentum * front.pull + direction / column(size, direction)
    moved = step_along_(front.at - front.x, one.share * front.step, front.ball.steepest(direction))
    at = front.ball.project(moved).add_(front.x).clamp_(0, 1)
    return replace(front, at=at, pull=pull, trouble=torch.maximum(front.trouble, seen.trouble)), seen


def ascend(attack: PGD, model: nn.Module, x: Images, y: Labels, noise: Noise, *, plan: ClimbSteps = ()) -> PGDState:
    """All steps for everyone: where they end."""
    front = start_state(attack, model, x, y, noise)
    for one in plan or (AS_IT_IS,) * attack.steps:
        front, _ = climb(attack, model, front, one=one)
    return front


def run_last(attack: PGD, model: nn.Module, x: Images, y: Labels, noise: Noise, *, plan: ClimbSteps = ()) -> Outcome:
    """All steps for everybody; the last iterate counts."""
    front = ascend(attack, model, x, y, noise, plan=plan)
    z, finite = ask(model, front.at)
    fooled = finite & attack.goal.reached(z, y, *front.bound)
    trouble = torch.where(finite, front.trouble, BROKEN)
    passes = len(x) * attack.steps
    forwards = passes + len(x) * (1 + attack.goal.clean_forwards)
    return make_outcome(
        front.at, fooled, torch.full_like(y, attack.steps), forwards=forwards, backwards=passes, trouble=trouble
    )


def run_fooled(attack: PGD, model: nn.Module, x: Images, y: Labels, noise: Noise, *, plan: ClimbSteps = ()) -> Outcome:
    """Every iterate counts, and an example leaves at its first mistake."""
    front = start_state(attack, model, x, y, noise)
    x_adv, step, trouble = x.clone(), torch.full_like(y, NEVER), torch.zeros_like(y)
    forwards, backwards = len(x) * attack.goal.clean_forwards, 0

    for t, one in enumerate(plan or (AS_IT_IS,) * attack.steps):
        if len(front.rows) == 0:
            break
        here = front
        front, seen = climb(attack, model, here, one=one)
        forwards, backwards = forwards + len(here.rows), backwards + len(here.rows)
        wrong = ~seen.broken & attack.goal.reached(seen.z, here.y, *here.bound)
        new = wrong & (step[here.rows] == NEVER)
        x_adv.index_copy_(0, here.rows[wrong], here.at.index_select(0, rows_of(wrong)))
        step[here.rows[new]] = t
        front = replace(front, patience=here.patience - wrong.to(here.patience.dtype))
        front = without(front, wrong & (here.patience == 0))

    if len(front.rows) > 0:
        z, finite = ask(model, front.at)
        forwards += len(front.rows)
        wrong = finite & attack.goal.reached(z, front.y, *front.bound)
        trouble[front.rows] = torch.where(finite, front.trouble, BROKEN)
        never = step[front.rows] == NEVER
        ends = wrong | never  # one that was misclassified earlier and is not here keeps the earlier point
        x_adv[front.rows[ends]], step[front.rows[wrong & never]] = front.at[ends], attack.steps
        front = without(front, ~never | wrong)

    if len(front.rows) > 0 and not isinstance(attack.start, Zero):
        z, finite = ask(model, front.x)  # the image itself counts; most that are wrong there are wrong at the start too
        forwards += len(front.rows)
        wrong = finite & attack.goal.reached(z, front.y, *front.bound)
        x_adv[front.rows[wrong]], step[front.rows[wrong]] = front.x[wrong], 0
    return make_outcome(x_adv, step != NEVER, step, forwards=forwards, backwards=backwards, trouble=trouble)


def without(front: PGDState, wrong: Mask) -> PGDState:
    """Let the misclassified go."""
    return pick_rows(front, rows_of(~wrong)) if bool(wrong.any()) else front


# Names.

TEMPERATURE = 5.0  # 1/T of a plain `tpgd`: the value Tian et al. report for MART and HE
TEMPERATURE_GRID = (2.0, 5.0, 10.0, 50.0)  # Tian et al., section 5


def make_pgd(threat: Threat, steps: str, goal: Goal | None = None, **settings: Any) -> PGD:
    """PGD with the settings of a threat, on cross-entropy unless a goal is given."""
    return PGD(threat.ball, goal or CE(), threat.step, int(steps), **{"keep": threat.keep, **settings})


def make_restarted(threat: Threat, steps: str, *further: str | None) -> PGD | Restarts:
    """PGD, several times if a number of times is given; on cross-entropy itself if that is asked for."""
    times, literal = further
    attack = make_pgd(threat, steps, CE(literal=bool(literal)))
    return Restarts(attack, int(times)) if times else attack


def make_temperature_pgd(threat: Threat, steps: str, inverse_temperature: str | None) -> PGD:
    """PGD on the cross-entropy of scaled logits."""
    return make_pgd(threat, steps, CE(float(inverse_temperature or TEMPERATURE)))


PGD_STEPS = AttackName(
    PGD,
    "pgdN[xR][-ce]",
    "pgd3x2",
    rf"pgd{NUMBER}(?:x{NUMBER})?(-ce)?",
    make_restarted,
    "N steps on cross-entropy (by its log-odds; -ce: literally) from a uniform start; R times",
    "Madry et al. 2018",
    "at most N + 2 forwards, N backwards, R times",
)
MOMENTUM_PGD = AttackName(
    PGD,
    "mpgdN",
    "mpgd3",
    rf"mpgd{NUMBER}",
    lambda threat, steps: make_pgd(threat, steps, momentum=1.0),
    "pgdN with momentum 1",
    "Dong et al. 2018",
    "as pgdN",
)
TEMPERATURE_PGD = AttackName(
    PGD,
    "tpgdN[@K]",
    "tpgd3@10",
    rf"tpgd{NUMBER}(?:@(\d+(?:\.\d+)?))?",
    make_temperature_pgd,
    f"Temperature-PGD: cross-entropy of K·logits, K = 1/T = {TEMPERATURE:g} unless given",
    "Tian et al. 2021",
    "as pgdN",
)
TEMPERATURE_PGD_GRID = AttackName(
    Grid,
    "tpgdN-grid",
    "tpgd2-grid",
    rf"tpgd{NUMBER}-grid",
    lambda threat, steps: Grid(tuple(make_temperature_pgd(threat, steps, str(t)) for t in TEMPERATURE_GRID)),
    f"Temperature-PGD, each and the worst of 1/T = {', '.join(f'{t:g}' for t in TEMPERATURE_GRID)}",
    "Tian et al. 2021",
    f"{len(TEMPERATURE_GRID)} × pgdN",
)
CW_LOSS_PGD = AttackName(
    PGD,
    "cwN",
    "cw3",
    rf"cw{NUMBER}",
    lambda threat, steps: make_pgd(threat, steps, Margin(kappa=50.0)),
    "N steps on the margin with kappa = 50 from a uniform start",
    "Carlini & Wagner 2017, as used by Madry et al. 2018",
    "as pgdN",
)
KL_PGD = AttackName(
    PGD,
    "klpgdN",
    "klpgd3",
    rf"klpgd{NUMBER}",
    lambda threat, steps: make_pgd(threat, steps, KL(), start=Gaussian(0.001)),
    "N steps on KL(p(x) || p(x')) from a Gaussian start of 0.001: what TRADES trains against",
    "Zhang et al. 2019",
    "at most N + 3 forwards, N backwards",
)
TARGETED_PGD = AttackName(
    PGD,
    "pgdN-to-C",
    "pgd3-to-1",
    rf"pgd{NUMBER}-to-(\d+)",
    lambda threat, steps, target: make_pgd(threat, steps, Toward(int(target))),
    "N steps toward class number C (from 0); only arriving there counts as success",
    "Madry et al. 2018",
    "as pgdN",
)
FRIENDLY_PGD = AttackName(
    PGD,
    "fatN[@M]",
    "fat3@1",
    rf"fat{NUMBER}(?:@(\d+))?",
    lambda threat, steps, patience: make_pgd(threat, steps, keep="fooled", patience=int(patience or 0)),
    "friendly PGD: stops M steps (0 unless given) after the first mistake",
    "Zhang et al. 2020",
    "as pgdN",
)
