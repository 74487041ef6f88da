"""The loop of an ascent that remembers its best point, whatever the pace of its steps: what APGD's variants share."""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from leastwise.attacks.base import BROKEN, FINE, NEVER, Outcome, Slope, ask, make_outcome, pick_rows, rows_of, slope
from leastwise.attacks.goals import Goal
from leastwise.attacks.hopeless import Hopeless
from leastwise.attacks.threats import Ball
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Logits, Mask, PerExample, Rows


@dataclass(frozen=True, eq=False)
class Case:
    """What a run works on: examples, what is climbed for them, where, and from which noise."""

    goal: Goal
    bound: tuple[Tensor, ...]
    x: Images
    y: Labels
    ball: Ball
    noise: Noise
    clean: Logits | None = None  # of the images, where they are known


@dataclass(frozen=True)
class Plan:
    """How long a run is and what becomes of the misclassified."""

    steps: int
    checkpoints: tuple[int, ...]
    eot: int  # passes of the model per look at a point
    leave: bool  # whether examples leave the batch at their first misclassified point
    hopeless: Hopeless | None = None  # when a run is given up; asks for the clean logits
    counts: bool = True  # not where the points are outside the ball: then nobody is fooled and all end at their best


@runtime_checkable
class Pace(Protocol):
    """How a run steps and adapts. Frozen dataclasses whose tensors have one row per example."""

    def move(self, at: Images, gradient: Images) -> tuple["Pace", Images]:
        """The next point."""
        ...

    def hear(self, score: PerExample) -> "Pace":
        """What it remembers of a score that was seen."""
        ...

    def judge(self, window: int, best: Images, best_score: PerExample) -> tuple["Pace", Mask]:
        """At a checkpoint, `window` steps after the last: who goes back to the best point."""
        ...


@dataclass(frozen=True, eq=False)
class AscentState:
    """The examples still in the batch: where each stands, what was seen there, and the best point so far."""

    rows: Rows  # their places in the full batch
    y: Labels
    bound: tuple[Tensor, ...]
    at: Images
    gradient: Images
    best: Images
    best_gradient: Images
    best_score: PerExample
    clean_score: PerExample  # not known, and not needed, without a rule for the hopeless
    trouble: Labels


def climb(model: nn.Module, case: Case, *, start: Images, pace: Pace, plan: Plan) -> Outcome:
    """One run. The misclassified end at their last misclassified point, the others at their best."""
    front = start_state(case, start)
    x_adv, step, trouble = torch.empty_like(start), torch.full_like(case.y, NEVER), torch.zeros_like(case.y)
    forwards, backwards, checked = 0, 0, 0
    for t in range(plan.steps + 1):
        climbing = t < plan.steps  # no step follows the last point, so it needs no gradient
        seen = look(model, case.goal, front.at, bound=front.bound, passes=plan.eot, climbing=climbing)
        forwards += plan.eot * len(front.rows)
        backwards += plan.eot * len(front.rows) * climbing
        score = torch.where(seen.broken, -torch.inf, seen.score)
        front, pace = note_look(front, seen, score), pace.hear(score)

        wrong = ~seen.broken & case.goal.reached(seen.z, front.y, *front.bound)
        if plan.counts and bool(wrong.any()):
            places = front.rows[wrong]
            x_adv[places], step[places] = front.at[wrong], torch.where(step[places] == NEVER, t, step[places])
            if plan.leave:
                stay = rows_of(~wrong)
                front, pace = pick_rows(front, stay), pick_rows(pace, stay)
        if not climbing or len(front.rows) == 0:
            break

        if plan.hopeless is not None and t == plan.hopeless.after:
            goes_on = plan.hopeless.lets_go_on(front.clean_score, front.best_score)
            note_end(pick_rows(front, rows_of(~goes_on)), x_adv, step=step, trouble=trouble)
            front, pace = pick_rows(front, rows_of(goes_on)), pick_rows(pace, rows_of(goes_on))
            if len(front.rows) == 0:
                break
        if t in plan.checkpoints:
            pace, back = pace.judge(t - checked, front.best, front.best_score)
            front, checked = return_to_best(front, back), t
        pace, at = pace.move(front.at, front.gradient)
        front = replace(front, at=at)

    note_end(front, x_adv, step=step, trouble=trouble)
    return make_outcome(x_adv, step != NEVER, step, forwards=forwards, backwards=backwards, trouble=trouble)


def note_end(front: AscentState, x_adv: Images, *, step: Labels, trouble: Labels) -> None:
    """Write down the best points of examples that were never misclassified, and what hindered those in the front."""
    never = step[front.rows] == NEVER
    x_adv[front.rows[never]], trouble[front.rows] = front.best[never], front.trouble


def start_state(case: Case, start: Images) -> AscentState:
    """Everybody at the start of a run."""
    nothing = torch.full((len(start),), -torch.inf, dtype=start.dtype, device=start.device)
    return AscentState(
        rows=torch.arange(len(start), device=start.device),
        y=case.y,
        bound=case.bound,
        at=start,
        gradient=start,  # nothing was seen yet
        best=start.clone(),
        best_gradient=torch.zeros_like(start),
        best_score=nothing,
        clean_score=nothing if case.clean is None else case.goal.score(case.clean, *case.bound),
        trouble=torch.zeros_like(case.y),
    )


def note_look(front: AscentState, seen: Slope, score: PerExample) -> AscentState:
    """With what was seen at the current point. The best points are the front's own and written in place."""
    better = score > front.best_score
    rows = rows_of(better)
    front.best.index_copy_(0, rows, front.at.index_select(0, rows))
    front.best_gradient.index_copy_(0, rows, seen.gradient.index_select(0, rows))
    best_score = torch.where(better, score, front.best_score)
    trouble = torch.maximum(front.trouble, seen.trouble)
    return replace(front, gradient=seen.gradient, best_score=best_score, trouble=trouble)


def return_to_best(front: AscentState, back: Mask) -> AscentState:
    """Some examples are at their best point again, with the gradient that was seen there."""
    rows = back.view(-1, 1, 1, 1)
    at = torch.where(rows, front.best, front.at)
    return replace(front, at=at, gradient=torch.where(rows, front.best_gradient, front.gradient))


def look(model: nn.Module, goal: Goal, at: Images, *, bound: tuple[Tensor, ...], passes: int, climbing: bool) -> Slope:
    """What the model says at a point, on average over its passes. Without a need to climb: no gradient."""
    see = slope if climbing else glance
    seen = see(model, goal, at, bound=bound)
    for _ in range(passes - 1):
        more = see(model, goal, at, bound=bound)
        broken, milder = seen.broken | more.broken, torch.minimum(seen.trouble, more.trouble)
        trouble = torch.where(broken, BROKEN, milder)  # flat only where all passes are
        seen = Slope(seen.z + more.z, seen.score + more.score, seen.gradient + more.gradient, trouble)
    if passes == 1:
        return seen
    return seen._replace(z=seen.z / passes, score=seen.score / passes, gradient=seen.gradient / passes)


def glance(model: nn.Module, goal: Goal, at: Images, *, bound: tuple[Tensor, ...]) -> Slope:
    """One forward pass: a slope without a gradient."""
    z, finite = ask(model, at)
    return Slope(z, goal.score(z, *bound), torch.zeros_like(at), torch.where(finite, FINE, BROKEN))
