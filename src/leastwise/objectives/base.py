"""A training method is three functions: what it remembers, what it minimises, what it learns from an epoch."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from torch import nn

from leastwise.frame import Tally
from leastwise.models import inference
from leastwise.noise import Noise
from leastwise.types import Images, Labels, Logits, PerExample

Craft = Literal["eval", "train"]


class Loss(NamedTuple):
    """One loss per example, and the logits it was computed from, for the class-wise record."""

    per_example: PerExample
    clean: Logits | None
    adversarial: Logits | None


@dataclass(frozen=True, eq=False)
class Epoch:
    """What an epoch saw: class-wise counts on the training images, as they were trained on."""

    number: int  # from 1
    loss: float  # mean over examples
    rate: float  # learning rate at its end
    clean: Tally  # empty if the method never looks at clean images
    robust: Tally


S = TypeVar("S")


@runtime_checkable
class Objective(Protocol[S]):
    def init(self, k: int) -> S:
        """The state before the first epoch."""
        ...

    def loss(self, model: nn.Module, x: Images, y: Labels, s: S, noise: Noise) -> Loss:
        """One training batch. The model is in train mode; crafting modes are written out."""
        ...

    def update(self, s: S, seen: Epoch) -> S:
        """The state for the next epoch."""
        ...


@contextmanager
def crafting(model: nn.Module, mode: Craft) -> Iterator[nn.Module]:
    """The model as an attack sees it during training.

    In "eval" BatchNorm uses its running statistics and the attack leaves them alone (the TRADES line
    of code); in "train" every attack iterate also moves them (CFA, Rice et al.).
    """
    if mode == "eval":
        with inference(model):
            yield model
    else:
        yield model
