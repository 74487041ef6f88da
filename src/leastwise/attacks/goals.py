"""What an attacker climbs. A goal remembers each clean example once and scores logits against it.

`bind` returns tensors with one row per example, so that when examples leave the batch their rows
leave with them; `score` gives one number per example, higher meaning closer to a mistake; `reached`
says who is there, which for a goal with a target means the target and for the others any mistake.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from leastwise.core.losses import dlr, kl, margin, odds, targeted_dlr, true_logit
from leastwise.core.types import Images, Labels, Logits, Mask, PerExample


@runtime_checkable
class Goal(Protocol):
    @property
    def clean_forwards(self) -> int:
        """Forward passes of the clean batch that `bind` needs."""
        ...

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]: ...
    def score(self, z: Logits, *bound: Tensor) -> PerExample: ...
    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask: ...


def mistaken(z: Logits, y: Labels) -> Mask:
    return z.argmax(dim=1) != y


@dataclass(frozen=True)
class CE:
    """Cross-entropy of softmax(k·z), climbed through its log-odds logsumexp_{j != y} k·z_j - k·z_y.

    Cross-entropy is a monotone function of the log-odds, so the direction is the same, without
    underflow. `inverse_temperature` k = 1/T is Tian's Temperature-PGD: larger is steeper.
    """

    recipe_name: ClassVar[str] = "CE"

    inverse_temperature: float = 1.0

    def __post_init__(self) -> None:
        if not self.inverse_temperature > 0:
            raise ValueError(f"the inverse temperature 1/T must be positive, but saw {self.inverse_temperature}")

    def __str__(self) -> str:
        return "CE" if self.inverse_temperature == 1 else f"CE at 1/T = {self.inverse_temperature:g}"

    @property
    def clean_forwards(self) -> int:
        return 0

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (y,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (y,) = bound
        return odds(self.inverse_temperature * z, y)

    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask:
        return mistaken(z, y)


@dataclass(frozen=True)
class KL:
    """KL(p(x) || p(x')), the inner problem of TRADES. Its gradient is zero at x' = x: start elsewhere."""

    recipe_name: ClassVar[str] = "KL"

    def __str__(self) -> str:
        return "KL"

    @property
    def clean_forwards(self) -> int:
        return 1

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return (model(x),)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (clean,) = bound
        return kl(clean, z)

    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask:
        return mistaken(z, y)


@dataclass(frozen=True)
class Margin:
    """-max(z_y - max_{j != y} z_j, -kappa): Carlini and Wagner's loss inside PGD.

    kappa is how far past the boundary it keeps pushing; 50 is the community's C&W-20.
    """

    recipe_name: ClassVar[str] = "Margin"

    kappa: float = 50.0

    def __str__(self) -> str:
        return f"the margin with kappa = {self.kappa:g}"

    @property
    def clean_forwards(self) -> int:
        return 0

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (y,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (y,) = bound
        return -margin(z, y).clamp_min(-self.kappa)

    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask:
        return mistaken(z, y)


@dataclass(frozen=True, eq=False)
class Targeted:
    """Toward one class per example: climb its log-odds z_t - logsumexp_{j != t} z_j, so cross-entropy to t falls."""

    target: Labels

    def __str__(self) -> str:
        return "the log-odds of a target class"

    @property
    def clean_forwards(self) -> int:
        return 0

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (self.target,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (target,) = bound
        return -odds(z, target)

    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask:
        (target,) = bound
        return z.argmax(dim=1) == target


@dataclass(frozen=True)
class Toward:
    """Toward the same class for everyone. Examples that belong there have nowhere to go."""

    recipe_name: ClassVar[str] = "Toward"

    target: int

    def __str__(self) -> str:
        return f"the log-odds of class {self.target}"

    @property
    def clean_forwards(self) -> int:
        return 0

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
class DLR:
    """The difference of logits ratio, which no scaling of the logits changes; with two classes, the margin."""

    recipe_name: ClassVar[str] = "DLR"

    def __str__(self) -> str:
        return "DLR"

    @property
    def clean_forwards(self) -> int:
        return 0

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (y,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (y,) = bound
        return dlr(z, y) if z.shape[1] >= 3 else -margin(z, y)

    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask:
        return mistaken(z, y)

    def notes(self, k: int) -> tuple[str, ...]:
        return () if k >= 3 else (f"DLR needs 3 classes and there are {k}: the margin is climbed instead",)


@dataclass(frozen=True, eq=False)
class TargetedDLR:
    """The difference of logits ratio toward one class per example. Any mistake counts: targets are only a way there.

    With fewer than four classes it is z_t - z_y.
    """

    target: Labels

    def __str__(self) -> str:
        return "targeted DLR"

    @property
    def clean_forwards(self) -> int:
        return 0

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (y, self.target)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        y, target = bound
        return targeted_dlr(z, y, target) if z.shape[1] >= 4 else true_logit(z, target) - true_logit(z, y)

    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask:
        return mistaken(z, y)


@dataclass(frozen=True, eq=False)
class TargetedMargin:
    """The margin of one class per example, z_t - max_{j != t} z_j; reached when it is the prediction."""

    target: Labels

    def __str__(self) -> str:
        return "the margin of a target class"

    @property
    def clean_forwards(self) -> int:
        return 0

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (self.target,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (target,) = bound
        return margin(z, target)

    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask:
        (target,) = bound
        return z.argmax(dim=1) == target


@dataclass(frozen=True, eq=False)
class Match:
    """Toward one vector per example: climb -|f(x') - target|². The model's output is f, such as its features."""

    target: Float[Tensor, "b d"]

    def __str__(self) -> str:
        return "the distance to a target vector"

    @property
    def clean_forwards(self) -> int:
        return 0

    def bind(self, model: nn.Module, x: Images, y: Labels) -> tuple[Tensor, ...]:
        return (self.target,)

    def score(self, z: Logits, *bound: Tensor) -> PerExample:
        (target,) = bound
        return -(z - target).square().sum(dim=1)

    def reached(self, z: Logits, y: Labels, *bound: Tensor) -> Mask:
        return mistaken(z, y)
