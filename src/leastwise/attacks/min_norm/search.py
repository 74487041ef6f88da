"""What searches for the nearest mistake share: what they climb, what they have found, the checks of their settings."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, get_args

import torch
from torch import nn

from leastwise.attacks.base import NEVER, BallAttack, Outcome, make_outcome
from leastwise.attacks.choices import Keep
from leastwise.attacks.goals import Goal, Margin, TargetedMargin
from leastwise.attacks.threats import Ball
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask, PerExample, Rows


class Closest(NamedTuple):
    """The nearest misclassified points found, in the attack's norm, and what they cost in passes of single examples."""

    x_adv: Images  # the image itself where none was found
    distance: PerExample  # infinity where none was found; 0 where the image itself is misclassified
    forwards: int
    backwards: int
    trouble: Labels  # FLAT or BROKEN where finding none may mean little


def outcome_in_ball(found: Closest, ball: Ball, x: Images, *, step: Labels) -> Outcome:
    """The outcome at a radius: fooled where the nearest mistake is inside the ball, the image itself elsewhere."""
    eps = torch.as_tensor(ball.eps, dtype=torch.float64, device=x.device)
    fooled = found.distance.double() <= eps
    x_adv = torch.where(fooled.view(-1, 1, 1, 1), found.x_adv, x)
    return make_outcome(x_adv, fooled, step, forwards=found.forwards, backwards=found.backwards, trouble=found.trouble)


class NearestMistake(BallAttack, contract=True):
    """An attack that looks for the nearest mistake, and counts it if it is in the ball."""

    target: Labels | None  # a class per example to go to, instead of any mistake

    @property
    def any_mistake(self) -> bool:
        return self.target is None

    @abstractmethod
    def search(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> tuple[Closest, Labels]:
        """The nearest mistakes, and after how many gradients each was first inside the ball."""

    def closest(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Closest:
        """The nearest mistakes, whether they are in the ball or not."""
        return self.to_the_end().search(model, x, y, noise)[0]

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        found, step = self.search(model, x, y, noise)
        return outcome_in_ball(found, self.ball, x, step=step)


def margin_goal(target: Labels | None) -> Goal:
    """The margin without a bound: its size says how far the boundary is, on either side."""
    return Margin(kappa=math.inf) if target is None else TargetedMargin(target)


@dataclass(frozen=True, eq=False)
class SearchRecord:
    """The nearest mistakes so far, one row per example of the whole batch, written in place."""

    ball: Ball
    x: Images
    x_adv: Images
    distance: PerExample  # in float64
    eps: PerExample  # the ball's
    step: Labels  # gradients, or queries, taken when first seen misclassified inside the ball
    trouble: Labels

    @classmethod
    def of(cls, ball: Ball, x: Images) -> "SearchRecord":
        eps = torch.as_tensor(ball.eps, dtype=torch.float64, device=x.device).expand(len(x))
        step = torch.full((len(x),), NEVER, device=x.device)
        return cls(ball, x, x.clone(), torch.full_like(eps, math.inf), eps, step, torch.zeros_like(step))

    def note(
        self, rows: Rows, distance: PerExample, at: Images, *, hit: Mask, trouble: Labels, taken: int | Labels
    ) -> None:
        """Look at one point of each of some examples, after `taken` gradients or queries."""
        closer = hit & (distance < self.distance[rows])
        where = rows[closer]
        self.distance[where], self.x_adv[where] = distance[closer].double(), at[closer]
        new = closer & (distance <= self.eps[rows]) & (self.step[rows] == NEVER)
        self.step[rows[new]] = taken if isinstance(taken, int) else taken[new]
        self.trouble[rows] = torch.maximum(self.trouble[rows], trouble)

    def done(self, rows: Rows, keep: Keep) -> Mask:
        """Who needs no more: nothing is nearer than the image itself, or the ball was all that was asked for."""
        clean = self.distance[rows] == 0
        return clean | (self.step[rows] != NEVER) if keep == "fooled" else clean

    def closest(self, forwards: int, backwards: int) -> Closest:
        return Closest(self.x_adv, self.distance, forwards, backwards, self.trouble)


def check_search(
    ball: Ball, kinds: tuple[type, ...], *, keep: str, counts: dict[str, int], positive: dict[str, float]
) -> None:
    """Refuse a ball of another norm and settings that make no sense."""
    if not isinstance(ball, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"this attack measures distance in {names}, but saw {ball}")
    if keep not in get_args(Keep):
        raise ValueError(f"keep must be {' or '.join(get_args(Keep))}, but saw {keep!r}")
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, but saw {count}")
    for name, value in positive.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be a positive number, but saw {value}")


def check_target(target: Rows | None, y: Labels) -> None:
    """Refuse targets that are not one per image."""
    if target is not None and len(target) != len(y):
        raise ValueError(f"there must be one target class per image, but saw {len(target)} for {len(y)} images")


def describe_search(keep: Keep, target: Labels | None) -> str:
    """The end of an attack's description."""
    towards = "the nearest mistake" if target is None else "the nearest point of a target class"
    return f"{towards}, until inside the ball" if keep == "fooled" else f"{towards} of the whole search"
