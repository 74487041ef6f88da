"""APGD: projected gradient ascent that chooses its own step (Croce and Hein, ICML 2020; L1: "Mind the box", ICML 2021).

z = project(x_t + step · steepest(grad score))
x_{t+1} = project(x_t + a (z - x_t) + (1 - a) (x_t - x_{t-1})),  a = 3/4, and 1 in the first step

The step begins at 2 eps. At each of a few checkpoints, closer and closer to each other, it is halved and the example
goes back to its best point and the gradient there if (1) the score rose in no more than rho of the steps since the last
checkpoint, or (2) the step was not halved then and the best score has not grown since. APGD-T is one run toward each of
the classes that rank highest after the label, on the targeted DLR. MM3 (Gao et al., ICML 2022) is 20 steps on z_t - z_y
toward each of three classes.

As in the reference, and not the paper, "no more than" in (1) includes equality. Departures from the reference:
- In the first window its code compares the first score with an unwritten zero; here, as in the paper, with the start's.
- The goal CE climbs the log-odds, of which cross-entropy is a monotone function: per example the direction of every
  step and the order of any two scores are the same, but nothing underflows.
- Targets are ranked among the classes other than the label: the 2nd and on, wherever the clean image is right.
- With `eot` > 1 scores and logits are the mean over the passes, where the reference takes those of the last pass, so a
  mistake in one lucky pass is none.
- The last point is only passed forward: no step follows it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar, get_args

import torch
from torch import nn

from leastwise.attacks.apgd.ascent import Case, Plan, climb, look
from leastwise.attacks.apgd.halving import checkpoints, make_halving
from leastwise.attacks.apgd.l1 import check_steps, make_sparse, phases, project_onto_ball_and_box
from leastwise.attacks.base import GoalAttack, Outcome, Passes, make_outcome, pick_rows, rows_of
from leastwise.attacks.choices import Aim, Keep, TargetOrder
from leastwise.attacks.combine import merge_run, nothing_found, pick_outcome
from leastwise.attacks.goals import (
    AUTOATTACK_TARGETS,
    CE,
    DLR,
    Goal,
    Targeted,
    TargetedDifference,
    TargetedDLR,
    is_mistaken,
)
from leastwise.attacks.hopeless import Hopeless
from leastwise.attacks.naming import NUMBER, AttackName
from leastwise.attacks.targets import RankedClasses, cost_of_ranking, order_named, rank_targets, runs_per_pass
from leastwise.attacks.threats import L1, L2, Ball, Linf, column, unit
from leastwise.core.noise import Noise
from leastwise.core.recipe import ADDED_LATER
from leastwise.core.types import Images, Labels, Rows

AIMS: dict[Aim, type[TargetedDLR] | type[TargetedDifference]] = {"dlr": TargetedDLR, "difference": TargetedDifference}


@dataclass(frozen=True)
class APGD(GoalAttack):
    """`keep="last"` returns the last misclassified iterate, `keep="fooled"` the first (the clean image counts too).

    Survivors get the point of the highest score in their last run. With `targets` the goal is `aim`, toward at most so
    many classes in an `order` of `attacks.targets`, and `goal` is not used. Every target and restart is a run of its
    own on what still stands; `step` of the outcome counts through them. `eot` is the number of passes over which the
    gradient of a model with randomness of its own is averaged; that randomness is seeded from the noise and leaves
    torch's generator as it was, but, unlike ours, depends on who else is in the batch. `share` of an L1 ball is not
    used: sparsity adapts. The step follows from the radius: `at` uses none that is given.
    """

    recipe_name: ClassVar[str] = "APGD"

    ball: Ball = Linf(8 / 255)
    goal: Goal = CE()
    steps: int = 100
    targets: int = 0
    restarts: int = 1
    eot: int = 1
    rho: float = 0.75
    keep: Keep = "last"
    aim: Aim = field(default="dlr", metadata=ADDED_LATER)
    order: TargetOrder = field(default="logits", metadata=ADDED_LATER)
    hopeless: Hopeless | None = field(default=None, metadata=ADDED_LATER)  # of every run toward a target
    room: int = field(default=0, compare=False, metadata={"recipe": False})  # rows of a pass, if more than the images

    def __post_init__(self) -> None:
        if not isinstance(self.ball, Linf | L2 | L1):
            raise ValueError(f"APGD knows the balls Linf, L2 and L1, but saw {self.ball}")
        fewest = 3 if isinstance(self.ball, L1) else 1
        if self.steps < fewest:
            raise ValueError(f"APGD needs at least {fewest} steps in {self.ball}, but saw {self.steps}")
        if self.targets < 0:
            raise ValueError(f"the number of target classes must be zero (no targets) or more, but saw {self.targets}")
        if self.restarts < 1 or self.eot < 1:
            raise ValueError(f"restarts and eot must be 1 or more, but saw {self.restarts} and {self.eot}")
        if not 0 <= self.rho <= 1:
            raise ValueError(f"rho is a share of steps between 0 and 1, but saw {self.rho}")
        for name, kind in (("keep", Keep), ("aim", Aim), ("order", TargetOrder)):
            if (given := getattr(self, name)) not in get_args(kind):
                raise ValueError(f"{name} must be {' or '.join(get_args(kind))}, but saw {given!r}")
        if self.order == "distance" and self.eot > 1:
            raise ValueError(f"targets are ordered by distance with one pass per gradient, but saw eot = {self.eot}")
        if self.hopeless is not None and (self.targets == 0 or isinstance(self.ball, L1)):
            raise ValueError(
                f"runs toward targets in Linf and L2 can be hopeless, but saw {self.targets} in {self.ball}"
            )

    def __str__(self) -> str:
        near, climbed = "the nearest " * (self.order == "distance"), AIMS[self.aim](torch.zeros(0, dtype=torch.int64))
        aim = f"{climbed} toward {near}{self.targets} classes" if self.targets else str(self.goal)
        parts = [f"APGD: {self.steps} steps on {aim}", str(self.ball)]
        if self.restarts > 1:
            parts.append(f"{self.restarts} restarts")
        if self.eot > 1:
            parts.append(f"{self.eot} passes per gradient")
        if self.hopeless is not None:
            parts.append(str(self.hopeless))
        parts.append(f"the {'first' if self.keep == 'fooled' else 'last'} misclassified iterate counts")
        return ", ".join(parts)

    def cost(self, k: int) -> Passes:
        runs = self.restarts * (max(1, min(self.targets, k - 1)) if self.targets else 1)
        ends = 3 if isinstance(self.ball, L1) else 1  # L1 begins anew at three radii; the end of each is only asked
        asked = self.eot * (1 + runs * (self.steps + ends))
        ranking = cost_of_ranking(self.order, k) if self.targets else Passes(0)
        return Passes(self.goal.clean_forwards + asked, self.eot * runs * self.steps) + ranking

    @property
    def last_step(self) -> int:
        return self.steps

    @property
    def gives_up(self) -> bool:
        return self.hopeless is not None

    def with_room(self, room: int) -> "APGD":
        return replace(self, room=room)

    def toward(self, target: Labels) -> "APGD":
        return replace(self, goal=Targeted(target), targets=0, keep="fooled")

    def notes(self, k: int) -> tuple[str, ...]:
        if not self.targets:
            return super().notes(k)
        few = f"the targeted DLR of APGD-T needs 4 classes and there are {k}: z_target - z_label is climbed instead"
        return (few,) if k < 4 and self.aim == "dlr" else ()

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        with seed_model_randomness(noise):
            return run_targeted(self, model, x, y, noise) if self.targets else run_untargeted(self, model, x, y, noise)


@contextmanager
def seed_model_randomness(noise: Noise) -> Iterator[None]:
    """A model that draws from torch's generators draws the same again, and leaves them as they were."""
    device = noise.ids.device
    seed = int(noise.fork("passes").words((1,)).sum())
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":  # not checked: no such device was at hand
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def run_untargeted(attack: APGD, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
    """From the label to anything else, or wherever the goal leads."""
    case = Case(attack.goal, attack.goal.bind(model, x, y), x, y, attack.ball, noise)
    found = nothing_found(x, y)._replace(forwards=len(x) * attack.goal.clean_forwards)
    if attack.keep == "fooled":
        seen = look(model, case.goal, x, bound=case.bound, passes=attack.eot, climbing=False)
        wrong = ~seen.broken & case.goal.reached(seen.z, y, *case.bound)
        forwards = found.forwards + len(x) * attack.eot
        found = make_outcome(
            x.clone(), wrong, torch.zeros_like(y), forwards=forwards, backwards=0, trouble=seen.trouble
        )
    return run_all(attack, model, case, ranked=None, found=found)


def run_targeted(attack: APGD, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
    """Toward the classes that the clean image ranks highest."""
    seen = look(model, CE(), x, bound=(y,), passes=attack.eot, climbing=False)
    wrong = ~seen.broken & is_mistaken(seen.z, y) if attack.keep == "fooled" else torch.zeros_like(seen.broken)
    ranked, forwards, backwards = rank_targets(
        attack.order, attack.targets, seen.z, ball=attack.ball, model=model, x=x, y=y, wanted=~wrong
    )
    forwards += len(x) * attack.eot
    found = make_outcome(
        x.clone(), wrong, torch.zeros_like(y), forwards=forwards, backwards=backwards, trouble=seen.trouble
    )
    case = Case(attack.goal, (y,), x, y, attack.ball, noise, seen.z)
    return run_all(attack, model, case, ranked=ranked, found=found)


def run_all(attack: APGD, model: nn.Module, case: Case, *, ranked: RankedClasses | None, found: Outcome) -> Outcome:
    """Every target and restart on what is not fooled. When few are left, several runs share their passes."""
    total = attack.restarts * (1 if ranked is None else ranked.shape[1])
    number, run = 0, run_l1 if isinstance(attack.ball, L1) else run_momentum
    while number < total:
        rows = rows_of(~found.fooled)
        if len(rows) == 0:
            break
        count = runs_per_pass(total - number, len(rows), max(attack.room, len(case.x)))
        more = run(
            attack, model, place_side_by_side(attack, case, ranked=ranked, rows=rows, number=number, count=count)
        )
        found = merge_runs(found, rows, more, number=number, steps=attack.steps)
        number += count
    return found


def place_side_by_side(
    attack: APGD, case: Case, *, ranked: RankedClasses | None, rows: Rows, number: int, count: int
) -> Case:
    """The case of `rows` in the runs from `number` on, one run behind the other."""
    runs = torch.arange(number, number + count, device=rows.device).repeat_interleave(len(rows))
    here = pick_rows(case, rows.repeat(count))
    if ranked is not None:
        target = ranked[rows.repeat(count), runs // attack.restarts]
        here = replace(here, goal=AIMS[attack.aim](target), bound=(here.y, target))
    return replace(here, noise=here.noise.fork("start", runs))


def merge_runs(found: Outcome, rows: Rows, more: Outcome, *, number: int, steps: int) -> Outcome:
    """What is known after runs that were made side by side, as if they had been made one after the other."""
    found = found._replace(forwards=found.forwards + more.forwards, backwards=found.backwards + more.backwards)
    for place, first in enumerate(range(0, len(more.fooled), len(rows))):
        still = rows_of(~found.fooled[rows])
        part = pick_outcome(more, first + still)._replace(forwards=0, backwards=0)
        found = merge_run(found, rows[still], part, begun=(number + place) * steps)
    return found


def run_momentum(attack: APGD, model: nn.Module, case: Case) -> Outcome:
    """One run in Linf or L2, from a random point of the ball's edge."""
    x, draw = case.x, case.noise
    if isinstance(case.ball, Linf):
        u = 2 * draw.uniform(tuple(x.shape[1:]), x.dtype) - 1
        u /= column(u.flatten(1).abs().amax(dim=1), u)
    else:
        u = unit(draw.normal(tuple(x.shape[1:]), x.dtype))
    start = (x + column(case.ball.eps, x) * u).clamp(0, 1)
    leave = attack.keep == "fooled"
    plan = Plan(attack.steps, checkpoints(attack.steps), attack.eot, leave, attack.hopeless)
    return climb(model, case, start=start, pace=make_halving(case, attack.rho), plan=plan)


def run_l1(attack: APGD, model: nn.Module, case: Case) -> Outcome:
    """One run in L1: in a ball three times as large, then twice, then the ball, each from the projected best before."""
    x, everyone = case.x, torch.arange(len(case.x), device=case.x.device)
    eps = column(case.ball.eps, x).view(-1).expand(len(x))
    found, begun = nothing_found(x + case.noise.normal(tuple(x.shape[1:]), x.dtype), case.y), 0
    for times, steps in phases(attack.steps):
        start = project_onto_ball_and_box(x, found.x_adv - x, times * eps)
        plan = Plan(steps, check_steps(steps), attack.eot, leave=attack.keep == "fooled", counts=times == 1)
        more = climb(model, case, start=start, pace=make_sparse(x, start, times * eps), plan=plan)
        found, begun = merge_run(found, everyone, more, begun=begun), begun + steps
    return found


APGD_CE = AttackName(
    APGD,
    "apgd-ce",
    "apgd-ce",
    r"apgd-ce",
    lambda threat: APGD(threat.ball, CE(), keep=threat.keep),
    "auto-PGD on cross-entropy: 100 steps of adaptive size",
    "Croce & Hein 2020",
    "at most 102 forwards, 101 backwards",
)
APGD_DLR = AttackName(
    APGD,
    "apgd-dlr",
    "apgd-dlr",
    r"apgd-dlr",
    lambda threat: APGD(threat.ball, DLR(), keep=threat.keep),
    "auto-PGD on the difference of logits ratio",
    "Croce & Hein 2020",
    "as apgd-ce",
)
APGD_T = AttackName(
    APGD,
    "apgd-t[:N][@malt]",
    "apgd-t:2@malt",
    rf"apgd-t(?::{NUMBER})?(@malt)?",
    lambda threat, targets, near: APGD(
        threat.ball, targets=int(targets or AUTOATTACK_TARGETS), keep=threat.keep, order=order_named(near)
    ),
    "auto-PGD toward N classes, nine unless given: the likeliest, or those of the nearest linearised boundary (malt)",
    "Croce & Hein 2020; malt: Melamed et al. 2024",
    "at most N × apgd-ce; malt: 1 more forward, min(K - 1, 100) backwards",
)


def make_mm3(ball: Ball, keep: Keep) -> APGD:
    """20 steps on z_t - z_y toward each of the three likeliest classes (Gao et al., ICML 2022)."""
    return APGD(ball, steps=20, targets=3, keep=keep, aim="difference")


MINIMUM_MARGIN = AttackName(
    APGD,
    "mm3",
    "mm3",
    r"mm3",
    lambda threat: make_mm3(threat.ball, threat.keep),
    "auto-PGD on z_target - z_label, 20 steps toward each of the three likeliest classes",
    "Gao et al. 2022",
    "at most 64 forwards, 60 backwards",
)
