"""What an attacker climbs. A goal remembers each clean example once and scores logits against it.

`bind` returns tensors with one row per example, so that when examples leave the batch their rows
leave with them; `score` gives one number per example, higher meaning closer to a mistake; `reached`
says who is there, which for a goal with a target means the target and for the others any mistake.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from leastwise.core.losses import ce, dlr, kl, margin, odds, other_logits, targeted_dlr, true_logit
from leastwise.core.recipe import ADDED_LATER
from leastwise.core.types import Images, Labels, Logits, Mask, PerExample

AUTOATTACK_TARGETS = 9  # the classes that the targeted attacks of AutoAttack go to


def is_mistaken(z: Logits, y: Labels) -> Mask:
    """Which predictions are not the label."""
    return z.argmax(dim=1) != y


class Goal(ABC):
    """What an attack climbs. A goal is a frozen dataclass that writes `bind` and `score`."""

    clean_forwards: ClassVar[int] = 0  # forward passes of the clean batch that `bind` needs

    @abstractmethod
    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        """What `score` and `reached` need to know of the clean examples, one row for each."""

    @abstractmethod
    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        """How near the logits are to what is wanted: higher is nearer."""

    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask:
        """Where the logits are what is wanted: any mistake, unless the goal has a target."""
        return is_mistaken(z, y)

    @property
    def any_mistake(self) -> bool:
        """Whether any mistake is what is wanted."""
        return type(self).reached is Goal.reached

    def notes(self, k: int) -> tuple[str, ...]:
        """What a user with k classes should know about the goal."""
        return ()


@dataclass(frozen=True)
class CE(Goal):
    """Cross-entropy of softmax(k·z), climbed through its log-odds logsumexp_{j != y} k·z_j - k·z_y.

    Cross-entropy is a monotone function of the log-odds, so the direction is the same, without
    underflow. `inverse_temperature` k = 1/T is Tian's Temperature-PGD: larger is steeper. `literal` climbs
    cross-entropy itself, as published PGD does: where p_y rounds to 1 its gradient is zero, and attacks stand still.
    """

    recipe_name: ClassVar[str] = "CE"

    inverse_temperature: float = 1.0
    literal: bool = field(default=False, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        if not self.inverse_temperature > 0:
            raise ValueError(f"the inverse temperature 1/T must be positive, but saw {self.inverse_temperature}")

    def __str__(self) -> str:
        name = "CE itself" if self.literal else "CE"
        return name if self.inverse_temperature == 1 else f"{name} at 1/T = {self.inverse_temperature:g}"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (y,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (y,) = bound
        return (ce if self.literal else odds)(self.inverse_temperature * z, y)


@dataclass(frozen=True)
class ProbabilityMargin(Goal):
    """max_{j != y} p_j - p_y of the probabilities (PMA: Xie et al., CVPR 2025).

    Its gradient is that of the margin over 1 - p_y, a positive number of each example: the direction is the same, but
    it does not underflow where the network is sure. With q the probabilities among the others, p_j = (1 - p_y) q_j.
    """

    recipe_name: ClassVar[str] = "ProbabilityMargin"

    def __str__(self) -> str:
        return "the margin of probabilities"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (y,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (y,) = bound
        against = odds(z, y)
        p = torch.sigmoid(-against.detach())
        q = other_logits(z, y).softmax(dim=1).amax(dim=1)
        climbed = (1 + q.detach()) * p * against + q
        return (1 - p) * q.detach() - p + (climbed - climbed.detach())


@dataclass(frozen=True)
class Probability(Goal):
    """That of the label, or of the likeliest other class, by its log-odds or its logarithm: its direction is theirs."""

    recipe_name: ClassVar[str] = "Probability"

    of: Literal["label", "rival"]

    def __str__(self) -> str:
        return f"the probability of the {self.of}"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (y,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (y,) = bound
        return -odds(z, y) if self.of == "label" else other_logits(z, y).amax(dim=1) - z.logsumexp(dim=1)


@dataclass(frozen=True)
class KL(Goal):
    """KL(p(x) || p(x')), the inner problem of TRADES. Its gradient is zero at x' = x: start elsewhere."""

    recipe_name: ClassVar[str] = "KL"
    clean_forwards: ClassVar[int] = 1

    def __str__(self) -> str:
        return "KL"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return (model(x),)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (clean,) = bound
        return kl(clean, z)


@dataclass(frozen=True, eq=False)
class AwayFrom(Goal):
    """KL(q || p(x')), q the softmax of one vector of logits per example, such as what a teacher says to it."""

    said: Logits

    def __str__(self) -> str:
        return "the divergence from given answers"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (self.said,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (said,) = bound
        return kl(said, z)


@dataclass(frozen=True)
class Margin(Goal):
    """-max(z_y - max_{j != y} z_j, -kappa): Carlini and Wagner's loss inside PGD.

    kappa is how far past the boundary it keeps pushing; 50 is the community's C&W-20.
    """

    recipe_name: ClassVar[str] = "Margin"

    kappa: float = 50.0

    def __str__(self) -> str:
        return f"the margin with kappa = {self.kappa:g}"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (y,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (y,) = bound
        return -margin(z, y).clamp_min(-self.kappa)


@dataclass(frozen=True, eq=False)
class Targeted(Goal):
    """Toward one class per example: climb its log-odds z_t - logsumexp_{j != t} z_j, so cross-entropy to t falls."""

    target: Labels

    def __str__(self) -> str:
        return "the log-odds of a target class"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (self.target,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (target,) = bound
        return -odds(z, target)

    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask:
        (target,) = bound
        return z.argmax(dim=1) == target


@dataclass(frozen=True, eq=False)
class SomeTargeted(Goal):
    """Toward the target class of each example that has one; the others, whose target is -1, climb another goal."""

    clean_forwards: ClassVar[int] = 1  # at most: those of the other goal

    other: Goal
    target: Labels

    def __str__(self) -> str:
        return f"the log-odds of a target class, or {self.other}"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (self.target, *self.other.bind(model, x, y))

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        target, *others = bound
        return torch.where(target < 0, self.other.score(z, *others), -odds(z, target.clamp_min(0)))


@dataclass(frozen=True)
class Toward(Goal):
    """Toward the same class for everyone. Examples that belong there have nowhere to go."""

    recipe_name: ClassVar[str] = "Toward"

    target: int

    def __str__(self) -> str:
        return f"the log-odds of class {self.target}"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (torch.full_like(y, self.target),)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (target,) = bound
        self.notes(z.shape[1])
        return -odds(z, target)

    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask:
        return (z.argmax(dim=1) == self.target) & (y != self.target)

    def notes(self, k: int) -> tuple[str, ...]:
        if not 0 <= self.target < k:
            raise ValueError(f"there is no class {self.target} to go to: choose 0 to {k - 1}")
        return ()


@dataclass(frozen=True)
class DLR(Goal):
    """The difference of logits ratio, which no scaling of the logits changes; with two classes, the margin."""

    recipe_name: ClassVar[str] = "DLR"

    def __str__(self) -> str:
        return "DLR"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (y,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (y,) = bound
        return dlr(z, y) if z.shape[1] >= 3 else -margin(z, y)

    def notes(self, k: int) -> tuple[str, ...]:
        return () if k >= 3 else (f"DLR needs 3 classes and there are {k}: the margin is climbed instead",)


@dataclass(frozen=True, eq=False)
class TargetedDLR(Goal):
    """The difference of logits ratio toward one class per example. Any mistake counts: targets are only a way there.

    With fewer than four classes it is z_t - z_y.
    """

    target: Labels

    def __str__(self) -> str:
        return "targeted DLR"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (y, self.target)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        y, target = bound
        return targeted_dlr(z, y, target) if z.shape[1] >= 4 else true_logit(z, target) - true_logit(z, y)


@dataclass(frozen=True, eq=False)
class TargetedDifference(Goal):
    """From the label toward one class per example: z_t - z_y. Any mistake counts: the class is only a way there."""

    target: Labels

    def __str__(self) -> str:
        return "z_target - z_label"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (y, self.target)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        y, target = bound
        return true_logit(z, target) - true_logit(z, y)


@dataclass(frozen=True, eq=False)
class TargetedMargin(Goal):
    """The margin of one class per example, z_t - max_{j != t} z_j; reached when it is the prediction."""

    target: Labels

    def __str__(self) -> str:
        return "the margin of a target class"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (self.target,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (target,) = bound
        return margin(z, target)

    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask:
        (target,) = bound
        return z.argmax(dim=1) == target


@dataclass(frozen=True, eq=False)
class Match(Goal):
    """Toward one vector per example: climb -|f(x') - target|². The model's output is f, such as its features."""

    target: Float[Tensor, "b d"]

    def __str__(self) -> str:
        return "the distance to a target vector"

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (self.target,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (target,) = bound
        return -(z - target).square().sum(dim=1)
