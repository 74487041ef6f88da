"""A training method in two halves: what each example's loss is, and how classes differ in it.

An `Objective` (TRADES, MART, …) has no memory: it crafts from a batch and says what the loss of every example is, in
two parts. A `Policy` (CFA, DAFA, …) remembers something about each class and changes radii, weights or sampling. They
compose: a training has one objective and any number of policies, in any order (docs/decisions/0020):

- what a policy does to the logits enters the objective's own label loss, and at most one policy may do that;
- weights multiply, those of the whole loss and those of its parts, and all are computed from the objective's own terms;
- penalties add, and nobody weighs them but who brings them;
- factors of radii and of steps, and temperatures of a teacher, multiply; shares of sampling multiply;
- at most one policy aims attacks at classes.

How they are put together for a batch is in `training/compose.py`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from leastwise.attacks.pgd import PGD
from leastwise.core.contract import Contract
from leastwise.core.counts import Tally
from leastwise.core.losses import entropy
from leastwise.core.noise import Noise
from leastwise.core.recipe import name_of_type
from leastwise.core.types import Counts, Images, Labels, Logits, PerClass, PerExample
from leastwise.data.dataset import Dataset

LOOK_BATCH = 250  # images of a look that are asked for at a time

PolicyState = Mapping[str, Tensor]  # what a policy remembers, by name
LogitChange = Callable[[Logits], Logits]  # between the network and the label's loss


def unchanged(z: Logits) -> Logits:
    """The logits as they are."""
    return z


class Terms(NamedTuple):
    """The loss of each example, label + beta · divergence + penalty, and the logits it was computed from."""

    label: PerExample  # what pulls towards the label
    clean: Logits | None = None
    adversarial: Logits | None = None
    divergence: PerExample | None = None  # what keeps p(x') near p(x)
    beta: float | PerExample = 1.0
    penalty: PerExample | None = None  # what policies add

    @property
    def per_example(self) -> PerExample:
        loss = self.label if self.divergence is None else self.label + self.beta * self.divergence
        return loss if self.penalty is None else loss + self.penalty

    @property
    def attacked(self) -> Logits:
        """The logits under attack, or the clean ones of a method that does not attack."""
        z = self.clean if self.adversarial is None else self.adversarial
        assert z is not None, "a loss comes from some logits"
        return z

    def weigh(self, label: PerExample, divergence: PerExample) -> "Terms":
        """The same loss with the label's part and the divergence times a weight per example."""
        other = None if self.divergence is None else divergence * self.divergence
        return self._replace(label=label * self.label, divergence=other)

    def add(self, penalty: PerExample) -> "Terms":
        """The same loss with a penalty on top."""
        return self._replace(penalty=penalty if self.penalty is None else self.penalty + penalty)


class PartWeights(NamedTuple):
    """What the two parts of a loss are multiplied by, example by example."""

    label: PerExample
    divergence: PerExample


class RadiusFactors(NamedTuple):
    """What the radius of an attack, and its step, are multiplied by, example by example."""

    radius: PerExample
    step: PerExample | None = None  # None: the step stays


class TeacherTemperatures(NamedTuple):
    """What the logits of a teacher are divided by, example by example, for each of the student's two lessons."""

    adversarial: PerExample
    clean: PerExample


class Objective(Contract):
    """What is crafted from a batch, and what each example's loss is. An objective has no memory."""

    attack: PGD | None = None  # whose radius policies may change class by class; None for a method without one
    can_aim: ClassVar[bool] = True  # whether its attack may as well go toward a class that a policy chooses
    needs_teacher: ClassVar[bool] = False  # whether it learns from another network

    @abstractmethod
    def craft(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Any:
        """What the loss needs besides the batch, such as x'. The model is in the mode that attacks use."""

    @abstractmethod
    def loss(self, model: nn.Module, x: Images, y: Labels, crafted: Any, *, adjust: LogitChange = unchanged) -> Terms:
        """The loss of one training batch. The model is in train mode, and every forward pass is written out.

        The label's loss sees `adjust` of the logits, so that a policy can put margins there; nothing else does.
        """

    def attack_on(self, x: Images) -> PGD:
        """What attacks a batch in training, in the form that can be run on it."""
        assert self.attack is not None, "whoever asks has looked whether there is an attack"
        return self.attack

    def taught_by(self, teacher: nn.Module) -> "Objective":
        """The same, learning from this network."""
        raise ValueError(f"{name_of_type(type(self))} has no use for a teacher: leave it out, or train rslad or ard")

    def at_temperatures(self, temperatures: TeacherTemperatures) -> "Objective":
        """The same, with the teacher's answers to the present batch at these temperatures."""
        raise AssertionError("only policies for methods with a teacher ask for this")

    def has_divergence(self) -> bool:
        """Whether its loss has a second part, which keeps p(x') near p(x)."""
        return False

    def check_network(self, model: nn.Module) -> None:
        """Refuse a network that it cannot train, before the first step."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Counts and sums by class over some examples; they add. What is "attacked" is clean for methods without attack."""

    clean: Tally  # empty if clean images are never looked at
    robust: Tally
    confusion: Int[Tensor, "k k"]  # label, prediction: attacked
    probability: Float[Tensor, "k k"]  # sums of the probabilities of each class, by label: attacked
    entropy: PerClass  # sums: attacked
    loss: PerClass  # sums, as weighted by the policies

    @classmethod
    def empty(cls, k: int) -> "Seen":
        """Nothing seen yet of k classes."""
        none, square, row = Tally.empty(k), (k, k), torch.zeros(k, dtype=torch.float64)
        return cls(
            none, none, torch.zeros(square, dtype=torch.int64), torch.zeros(square, dtype=torch.float64), row, row
        )

    @classmethod
    @torch.no_grad()
    def of(cls, terms: Terms, y: Labels, k: int) -> "Seen":
        """The counts and sums of one batch."""
        z, y, per_example = (part.detach().cpu() for part in (terms.attacked, y, terms.per_example))
        p = z.double().softmax(dim=1)
        row = torch.zeros(k, dtype=torch.float64)
        return cls(
            count_hits(terms.clean, y, k),
            count_hits(terms.adversarial, y, k),
            torch.bincount(y * k + z.argmax(dim=1), minlength=k * k).view(k, k),
            torch.zeros(k, k, dtype=torch.float64).index_add_(0, y, p),
            row.index_add(0, y, entropy(z).double()),
            row.index_add(0, y, per_example.double()),
        )

    def __add__(self, other: "Seen") -> "Seen":
        return Seen(
            self.clean + other.clean,
            self.robust + other.robust,
            self.confusion + other.confusion,
            self.probability + other.probability,
            self.entropy + other.entropy,
            self.loss + other.loss,
        )

    @property
    def n(self) -> Counts:
        return self.confusion.sum(dim=1)

    @property
    def attacked(self) -> Tally:
        """Counts under attack, or on clean images for a method that does not attack."""
        return Tally(self.n, self.confusion.diagonal())

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, to be written down or added up over processes."""
        held = {"clean": self.clean, "robust": self.robust}
        counts = {f"{name}.{part}": getattr(tally, part) for name, tally in held.items() for part in ("n", "correct")}
        return counts | {name: getattr(self, name) for name in ("confusion", "probability", "entropy", "loss")}

    @classmethod
    def from_tensors(cls, held: Mapping[str, Tensor]) -> "Seen":
        """What `tensors` was made from."""
        clean, robust = (Tally(held[f"{name}.n"], held[f"{name}.correct"]) for name in ("clean", "robust"))
        return cls(clean, robust, held["confusion"], held["probability"], held["entropy"], held["loss"])


def count_hits(z: Logits | None, y: Labels, k: int) -> Tally:
    """How many of each class are right; nothing is counted without logits."""
    return Tally.empty(k) if z is None else Tally.count(y, z.detach().cpu().argmax(dim=1) == y, k)


@dataclass(frozen=True, eq=False)
class Epoch:
    """What an epoch saw. Number 0 is a look at the validation images before the first step."""

    number: int  # from 1
    of: int  # epochs in all
    rate: float  # learning rate at its end
    train: Seen  # the training images as they were trained on: the method's own attack, at the policies' radii
    valid: Seen | None = None  # the validation images after it
    averaged: Seen | None = None  # the same, with averaged weights
    test: Seen | None = None  # where the recipe asks for it; nothing is ever chosen by it
    record: Seen | None = None  # some training images after it, at the recipe's radius: the same for every method
    states: tuple[PolicyState, ...] = field(default=())  # of the policies, during the epoch
    observed: Mapping[str, Tensor] = field(default_factory=dict)  # what policies wanted to know of the network after it

    @property
    def loss(self) -> float:
        """The mean over examples."""
        return float(self.train.loss.sum() / max(1, int(self.train.n.sum())))

    @property
    def clean(self) -> Tally:
        return self.train.clean

    @property
    def attacked(self) -> Tally:
        """Of the training images as they were trained on, which need not be at the recipe's radius."""
        return self.train.robust

    @property
    def chosen_by(self) -> Seen | None:
        """Validation of the weights that would be kept: the averaged ones where there are any."""
        return self.valid if self.averaged is None else self.averaged


class NetworkLook(NamedTuple):
    """A network after an epoch, in the mode that attacks use, and some training images: the same after every epoch."""

    model: nn.Module
    objective: Objective
    data: Dataset
    seed: int
    device: str

    def batches(self) -> Iterator[tuple[Images, Labels, Noise]]:
        """The images, in the network's number format, with their noise."""
        dtype = next(self.model.parameters()).dtype
        for places in np.array_split(np.arange(len(self.data)), -(-len(self.data) // LOOK_BATCH)):
            x, y, ids = (part.to(self.device) for part in self.data.batch(places))
            yield x.to(dtype), y, Noise(self.seed, ids, "/look")


class Policy(Contract):
    """How classes are treated differently: what is remembered of each class, and what follows from it.

    A policy overrides the hooks it needs and leaves the others, which change nothing. State goes in and comes out; the
    policy itself is a frozen value.
    """

    needs_first_look: ClassVar[bool] = False  # an update from the validation images before the first epoch
    needs_validation_loss: ClassVar[bool] = False  # the method's own losses on them, not cross-entropies
    needs_counts: ClassVar[bool] = False  # how many training images each class has, not only how many classes
    needs_length: ClassVar[bool] = False  # how many epochs there will be
    weighs_perturbation: ClassVar[bool] = True  # whether AWP's look at the gradient is weighted, too
    observes: ClassVar[bool] = False  # whether it looks at the network itself after each epoch

    @property
    def needs_validation(self) -> bool:
        """Whether it learns from validation images; without any a training is refused."""
        return False

    def init(self, n: Counts) -> PolicyState:
        """The state before the first epoch, from the number of training images of each class."""
        return {}

    def observe(self, look: NetworkLook, s: PolicyState) -> Mapping[str, Tensor]:
        """What it wants to know of the network after an epoch, by name; `update` finds it in `seen.observed`."""
        return {}

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        """The state for the next epoch."""
        return s

    def obstacle(self, objective: Objective) -> str:
        """Why it would change nothing, or not what it is for, in a training with this objective; empty if it acts."""
        return ""

    def radii(self, attack: PGD, y: Labels, s: PolicyState) -> RadiusFactors | None:
        """What the radius, and the step, of each image of a batch is multiplied by; None for nothing."""
        return None

    def targets(self, y: Labels, s: PolicyState, noise: Noise) -> Labels | None:
        """The class that the attack on each image of a batch aims at, -1 for none; None if it aims nobody's attack."""
        return None

    def teacher_temperatures(self, y: Labels, s: PolicyState) -> TeacherTemperatures | None:
        """What the logits of the teacher are divided by for a batch; None for nothing."""
        return None

    def label_logits(self, z: Logits, y: Labels, s: PolicyState) -> Logits:
        """The logits that the label's loss sees in the place of the network's own."""
        return z

    def weights(self, s: PolicyState) -> PerClass | None:
        """What the whole loss of an example is multiplied by, class by class; None for nothing."""
        return None

    def part_weights(self, terms: Terms, y: Labels, s: PolicyState) -> PartWeights | None:
        """What the label's part and the divergence are multiplied by, given the objective's own terms."""
        return None

    def penalty(self, terms: Terms, y: Labels, s: PolicyState) -> PerExample | None:
        """What is added to the loss of each example, given the objective's own terms."""
        return None

    def sampling(self, s: PolicyState) -> PerClass | None:
        """How often each class is drawn, in proportion; None for every image once."""
        return None


PolicyStates = Sequence[tuple[Policy, PolicyState]]


def per_example(value: PerClass, y: Labels, like: Tensor) -> PerExample:
    """value[y], in the type and on the device of the losses. Nothing is divided by a sum of weights."""
    return value.to(like.device, like.dtype)[y]
