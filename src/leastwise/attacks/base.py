"""The contract every attack keeps.

An attack is a frozen dataclass that inherits `Attack`, or `BallAttack` for a search in one ball, or `CombinedAttack`
(in `combine`) for one made of others. It writes `run` and whichever hooks differ from their defaults; calling it,
changing its radius and checking its points are written here once.

So is what `run` of every search does: a look at the model (`ask`, `slope`), and letting examples leave the batch. The
state of a search is a frozen dataclass whose tensors have one row per example, so that when examples leave all their
rows leave with them: `pick_rows(state, rows)`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, final

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from leastwise.attacks.choices import Keep
from leastwise.attacks.codes import BROKEN as BROKEN
from leastwise.attacks.codes import FINE as FINE
from leastwise.attacks.codes import FLAT as FLAT
from leastwise.attacks.codes import NEVER as NEVER
from leastwise.attacks.goals import Goal, Targeted, is_mistaken
from leastwise.attacks.hooks import check_hooks
from leastwise.attacks.surrogate import Surrogate
from leastwise.attacks.threats import Ball, Radius, check_pixels, is_in_ball, is_in_pixel_range, known_ball
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Logits, Mask, PerExample, Rows
from leastwise.models.classifier import inference

# What an attack asks of the attacked model, beside a verdict: gradients, logits (queries), predicted classes, nothing.
ModelAccess = Literal["gradients", "queries", "labels", "nothing"]


# The attack that a method is called on. Not `Self`: beartype, which checks types in tests, takes that on classes only.
AnyAttack = TypeVar("AnyAttack", bound="Attack")
AnyBallAttack = TypeVar("AnyBallAttack", bound="BallAttack")
RowState = TypeVar("RowState")


class Outcome(NamedTuple):
    """What an attack found, and what it cost in passes of single examples."""

    x_adv: Images
    fooled: Mask
    step: Labels  # steps (gradients, or queries) taken when first seen misclassified; 0 before any, NEVER for survivors
    by: Labels  # which member of a combined attack ended with this point; 0 for a single attack
    forwards: int
    backwards: int
    trouble: Labels  # of survivors: why surviving may mean little (FLAT, BROKEN); FINE for the others
    each: Labels  # bit m is set if member m of a combined attack fooled it; bit 0 for a single attack
    reached: Bool[Tensor, "b k"] | None = None  # classes it was turned into, of an attack that tries all of them


def make_outcome(
    x_adv: Images, fooled: Mask, step: Labels, *, forwards: int, backwards: int, trouble: Labels | None = None
) -> Outcome:
    """The outcome of a single attack. `step` and `trouble` need not know who was fooled."""
    step = torch.where(fooled, step, NEVER)
    trouble = torch.zeros_like(step) if trouble is None else torch.where(fooled, FINE, trouble)
    return Outcome(x_adv, fooled, step, torch.zeros_like(step), forwards, backwards, trouble, fooled.to(step.dtype))


@dataclass(frozen=True)
class Passes:
    """Passes of one image through a network."""

    forwards: int
    backwards: int = 0

    def __add__(self, other: "Passes") -> "Passes":
        return Passes(self.forwards + other.forwards, self.backwards + other.backwards)

    def __mul__(self, count: int) -> "Passes":
        return Passes(count * self.forwards, count * self.backwards)


class Attack(ABC):
    """What can be done to a batch of images: the contract of every condition of an audit.

    Hooks are the methods and class attributes below that are not final. A class that defines any other public name is
    refused when it is made, since that would be a misspelt hook which nobody calls; helpers start with an underscore or
    are functions beside the class. A class made with `contract=True` adds hooks of its own for those below it.
    """

    recipe_name: ClassVar[str]
    needs: ClassVar[ModelAccess | None] = "gradients"  # None: what its members, or the function that it calls, need

    def __init_subclass__(cls, contract: bool = False) -> None:
        super().__init_subclass__()
        check_hooks(cls, contract)

    @final
    def __call__(self, model: nn.Module, x: Images, y: Labels, seed: int = 0) -> Images:
        """The attacked images, in evaluation mode, with the noise of ids 0, 1, …; pixels must lie in [0, 1]."""
        check_pixels(x)
        ids = torch.arange(len(x), device=x.device)
        with inference(model):
            return self.run(model, x, y, Noise(seed, ids, "/attack")).x_adv

    @final
    def at(self: AnyAttack, eps: Radius, step: Radius | None = None) -> AnyAttack:
        """The same attack with another radius, possibly one per example; the step stays unless given."""
        return self.with_radius(eps, step)

    @final
    def allows(self, x: Images, x_adv: Images) -> Mask:
        """Which points the threat model permits; none outside [0, 1]."""
        return is_in_pixel_range(x_adv) & self.is_within_threat(x, x_adv)

    @abstractmethod
    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        """Attack a batch. The model's mode is the caller's business; its parameters get no `.grad`."""

    @abstractmethod
    def cost(self, k: int) -> Passes | None:
        """The most passes for one image of k classes; None where nobody knows. Images that fall early cost less."""

    @abstractmethod
    def with_radius(self: AnyAttack, eps: Radius, step: Radius | None) -> AnyAttack:
        """The attack that `at` answers with."""

    @abstractmethod
    def is_within_threat(self, x: Images, x_adv: Images) -> Mask:
        """Which points are as near to their images as the attack may go."""

    def perturb(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Images:
        """Only the points: what training needs."""
        return self.run(model, x, y, noise).x_adv

    @property
    def gradients(self) -> bool:
        """Whether the attack needs the model's input gradient."""
        return self.needs == "gradients"

    @property
    def logits(self) -> bool:
        """Whether the attack needs more of the model's answer than the class that it names."""
        return self.needs in ("gradients", "queries")

    @property
    def common_ball(self) -> Ball | None:
        """The ball that the attack, or everything that it is made of, stays in; None if there is no such ball."""
        return None

    @property
    def any_mistake(self) -> bool:
        """Whether any wrong answer counts; survivors of an attack toward one class prove nothing."""
        return True

    @property
    def other_networks(self) -> tuple[Surrogate, ...]:
        """The networks besides the attacked one that points are crafted on."""
        return ()

    @property
    def last_step(self) -> int:
        """The step of a point at the end of the search; 1 for an attack that does not count steps."""
        return 1

    @property
    def gives_up(self) -> bool:
        """Whether hopeless runs are ended early: survivors cost less than `cost` then, and nobody knows how much."""
        return False

    def notes(self, k: int) -> tuple[str, ...]:
        """What a user with k classes should know about the attack."""
        return ()

    def with_room(self: AnyAttack, room: int) -> AnyAttack:
        """The attack that may fill its passes up to so many rows, where its batch is what survived of a larger one."""
        return self

    def to_the_end(self: AnyAttack) -> AnyAttack:
        """The attack without leaving at the first point that fools."""
        return self

    def toward(self: AnyAttack, target: Labels) -> AnyAttack:
        """The attack toward one class per example, done when there."""
        raise ValueError(f"reaching classes needs an attack with a goal, such as PGD, but saw {type(self).__name__}")

    def has_reached(self, model: nn.Module, x: Images, z: Logits, y: Labels) -> Mask:
        """Where the logits z, seen at some points near x, are what the attack wants."""
        return is_mistaken(z, y)


class BallAttack(Attack, contract=True):
    """An attack whose points stay in one ball: its fields `ball`, and `keep` for which of its points counts."""

    ball: Ball
    keep: Keep

    @property
    def common_ball(self) -> Ball | None:
        return known_ball(self.ball)

    def with_radius(self: AnyBallAttack, eps: Radius, step: Radius | None) -> AnyBallAttack:
        return replace(self, ball=self.ball.at(eps))  # type: ignore[type-var]

    def is_within_threat(self, x: Images, x_adv: Images) -> Mask:
        return is_in_ball(self.ball, x, x_adv)

    def to_the_end(self: AnyBallAttack) -> AnyBallAttack:
        return replace(self, keep="last")  # type: ignore[type-var]


class GoalAttack(BallAttack, contract=True):
    """An attack in a ball that climbs the score of its field `goal`."""

    goal: Goal

    @property
    def any_mistake(self) -> bool:
        return self.goal.any_mistake

    def notes(self, k: int) -> tuple[str, ...]:
        return self.goal.notes(k)

    def toward(self: AnyBallAttack, target: Labels) -> AnyBallAttack:
        return replace(self, goal=Targeted(target), keep="fooled")  # type: ignore[type-var]

    def has_reached(self, model: nn.Module, x: Images, z: Logits, y: Labels) -> Mask:
        # Goals that remember the clean logits (KL) have no target class: any mistake counts.
        if self.goal.clean_forwards:
            return is_mistaken(z, y)
        return self.goal.reached(z, y, *self.goal.bind(model, x, y))


@dataclass(frozen=True)
class Clean(Attack):
    """No perturbation: the images as they are."""

    recipe_name: ClassVar[str] = "Clean"
    needs: ClassVar[ModelAccess | None] = "nothing"

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        with torch.no_grad():
            return clean_outcome(model(x), x, y)

    def __str__(self) -> str:
        return "no perturbation"

    def cost(self, k: int) -> Passes:
        return Passes(1)

    def with_radius(self, eps: Radius, step: Radius | None) -> "Clean":
        return self

    def is_within_threat(self, x: Images, x_adv: Images) -> Mask:
        return (x == x_adv).flatten(1).all(dim=1)


def clean_outcome(z: Logits, x: Images, y: Labels) -> Outcome:
    """The outcome of the images as they are, where the logits there are known already."""
    finite = z.isfinite().all(dim=1)
    trouble = torch.where(finite, FINE, BROKEN)
    return make_outcome(
        x, finite & (z.argmax(dim=1) != y), torch.zeros_like(y), forwards=len(x), backwards=0, trouble=trouble
    )


def pick_rows(state: RowState, rows: Rows) -> RowState:
    """The state, or the attack, of some of the examples: every tensor in it has one row per example."""
    return pick_tensors(state, rows)


def pick_tensors(value: Any, rows: Rows) -> Any:
    """Any value with the rows of some examples in every tensor that it holds."""
    match value:
        case Tensor():
            return value.index_select(0, rows)  # several times as fast as value[rows]
        case tuple():
            return keep_or_replace(value, tuple(pick_tensors(part, rows) for part in value))
    if is_dataclass(value) and not isinstance(value, type):
        held = {f.name: getattr(value, f.name) for f in fields(value)}
        changed = {name: pick_tensors(part, rows) for name, part in held.items()}
        return value if all(changed[name] is held[name] for name in held) else replace(value, **changed)
    return value


def keep_or_replace(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
    """The old tuple if nothing in it changed, so that frozen values are not made anew."""
    return old if all(a is b for a, b in zip(old, new, strict=True)) else new


def rows_of(mask: Mask) -> Rows:
    """The places at which a mask is true."""
    return mask.nonzero().squeeze(1)


class Slope(NamedTuple):
    """What the model says at a point: logits, the goal's score and its gradient there."""

    z: Logits
    score: PerExample
    gradient: Images  # zero where it is not finite: the sign of NaN would move nothing either
    trouble: Labels  # FLAT or BROKEN where there is nothing to follow

    @property
    def broken(self) -> Mask:
        return self.trouble == BROKEN


def slope(model: nn.Module, goal: Goal, at: Images, *, bound: tuple[Tensor, ...]) -> Slope:
    """One forward and one backward pass."""
    at = at.detach().requires_grad_()
    with torch.enable_grad():
        z = model(at)
        score = goal.score(z, *bound)
        (gradient,) = torch.autograd.grad(score.sum(), at)
    size = gradient.abs().amax(dim=(1, 2, 3))  # NaN if any entry is
    finite = size.isfinite() & z.detach().isfinite().all(dim=1)
    if not bool(finite.all()):
        gradient = torch.where(finite.view(-1, 1, 1, 1), gradient, 0)
    trouble = torch.where(finite, torch.where(size == 0, FLAT, FINE), BROKEN)
    return Slope(z.detach(), score.detach(), gradient, trouble)


def ask(model: nn.Module, x: Images) -> tuple[Logits, Mask]:
    """One forward pass: the logits, and for which examples they are finite."""
    with torch.no_grad():
        z = model(x)
    return z, z.isfinite().all(dim=1)
