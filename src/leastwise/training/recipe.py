"""Everything that determines a training run besides the network and the data, as one value."""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import nn

from leastwise.attacks.goals import CE
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Uniform
from leastwise.core.contract import Contract
from leastwise.core.recipe import ADDED_LATER, name_of_type
from leastwise.data.augment.transforms import Augment, Chain
from leastwise.data.dataset import Dataset
from leastwise.models.zoo.layers import gate_parameters
from leastwise.training.attack_steps import AttackSteps, shorten_attack
from leastwise.training.averaging import Averaging
from leastwise.training.awp import AWP
from leastwise.training.base import Epoch, Objective, Policy, Seen
from leastwise.training.choices import CraftMode, Precision, SelectionRule
from leastwise.training.methods.standard import Standard
from leastwise.training.schedules import OneCycle, Schedule
from leastwise.training.timetable import Timetable, apply_timetables

MOST_IMAGES = 100  # of a class, for validation: 2 % of CIFAR-10 (CFA)
GATE_RATE = 10.0  # times the learning rate, for the gates of batch-instance normalisation (Nam and Kim's code)


class Optimiser(Contract):
    """What turns gradients into steps, as a value; torch's own object is made for one network."""

    @abstractmethod
    def make(self, model: nn.Module, rate: float) -> torch.optim.Optimizer:
        """torch's optimiser of the network's parameters, at the rate of the first step."""


@dataclass(frozen=True)
class SGD(Optimiser):
    """Stochastic gradient descent; without momentum there is no Nesterov step."""

    recipe_name: ClassVar[str] = "SGD"

    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4

    def make(self, model: nn.Module, rate: float) -> torch.optim.Optimizer:
        nesterov = self.nesterov and self.momentum > 0
        groups = parameter_groups(model, self.weight_decay)
        return torch.optim.SGD(groups, lr=rate, momentum=self.momentum, nesterov=nesterov)


@dataclass(frozen=True)
class Adam(Optimiser):
    """Adam as it was published: the weight decay is part of the gradient."""

    recipe_name: ClassVar[str] = "L2Adam"

    beta1: float = 0.9
    beta2: float = 0.999
    weight_decay: float = 5e-4

    def make(self, model: nn.Module, rate: float) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameter_groups(model, self.weight_decay), lr=rate, betas=(self.beta1, self.beta2))


@dataclass(frozen=True)
class AdamW(Optimiser):
    """Adam with decoupled weight decay; version 0.1 called it Adam, and recipes still do."""

    recipe_name: ClassVar[str] = "Adam"

    beta1: float = 0.9
    beta2: float = 0.999
    weight_decay: float = 5e-4

    def make(self, model: nn.Module, rate: float) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameter_groups(model, self.weight_decay), lr=rate, betas=(self.beta1, self.beta2))


OPTIMISERS: dict[str, Optimiser] = {"sgd": SGD(nesterov=False), "nesterov": SGD(), "adam": Adam(), "adamw": AdamW()}


def find_optimiser(name: str) -> Optimiser:
    """The optimiser of this name with its default settings."""
    if name not in OPTIMISERS:
        raise ValueError(f"there is no optimiser {name!r}: choose {', '.join(OPTIMISERS)}")
    return OPTIMISERS[name]


def parameter_groups(model: nn.Module, decay: float) -> list[dict[str, object]]:
    """Weights, and the gates of batch-instance normalisation: ten times the rate, no decay."""
    gates = gate_parameters(model)
    special = {id(gate) for gate in gates}
    weights = [p for p in model.parameters() if p.requires_grad and id(p) not in special]
    found: list[dict[str, object]] = [{"params": weights, "weight_decay": decay, "factor": 1.0}]
    return [*found, {"params": gates, "weight_decay": 0.0, "factor": GATE_RATE}] if gates else found


@dataclass(frozen=True)
class Validation:
    """Images split off the training set, class by class, and what they are asked.

    Without an attack of its own, the method's ball with ten steps of eps/4 on the cross-entropy, from a uniform start.
    `rule` is how the best epoch is chosen: average robust accuracy, that of the worst class, their sum, or the last
    epoch. `on_test` puts the test set in the place of the split, as some papers do; every output then says so.
    """

    recipe_name: ClassVar[str] = "Validation"

    per_class: int | None = 0  # None: a tenth of the smallest class, at most 100
    rule: SelectionRule = "sum"
    every: int = 1  # epochs
    attack: PGD | None = None
    on_test: bool = False

    def __post_init__(self) -> None:
        if (self.per_class or 0) < 0 or self.every < 1:
            raise ValueError(f"validation needs 0 images per class or more, every 1 epoch or more, but saw {self}")

    def images(self, data: Dataset) -> int:
        """How many images of each class are split off."""
        if self.per_class is not None:
            return self.per_class
        smallest = min(int(n) for n in data.counts if n)
        return min(MOST_IMAGES, smallest // 10)

    def attack_for(self, objective: Objective) -> PGD | None:
        """The attack on the validation images of a training with this objective; None if it has none."""
        if self.attack is not None or objective.attack is None:
            return self.attack
        ball = objective.attack.ball
        return PGD(ball, CE(), ball.eps / 4, 10, Uniform())


def with_own_attack(validation: Validation, objective: Objective, steps: int | None = None) -> Validation:
    """The validation with its attack written out, so that it can be set; with another number of steps if given."""
    attack = validation.attack_for(objective)
    if attack is not None and steps is not None:
        attack = replace(attack, steps=steps)
    return replace(validation, attack=attack)


def score_epoch(rule: SelectionRule, seen: Epoch) -> float | None:
    """How good the weights after an epoch are by a rule; higher is better. None if it was not validated."""
    if rule == "last":
        return float(seen.number)
    return None if seen.chosen_by is None else score_counts(rule, seen.chosen_by)


def score_counts(rule: SelectionRule, seen: Seen) -> float:
    """Accuracy under attack by a rule: of all images, of the worst class, or their sum."""
    tally = seen.attacked
    worst = min(a for a in tally.accuracy.tolist() if a == a)
    return {"average": tally.overall, "worst": worst, "sum": tally.overall + worst}[rule]


@dataclass(frozen=True)
class Training:
    """A recipe: objective × policies × augmentation × averaging × schedule × optimiser."""

    recipe_name: ClassVar[str] = "Training"

    objective: Objective = Standard()
    epochs: int = 10
    batch_size: int = 128
    schedule: Schedule = OneCycle()
    optimiser: Optimiser = SGD()
    seed: int = 0
    policies: tuple[Policy, ...] = ()
    augment: Augment = Chain()
    averaging: Averaging | None = None
    awp: AWP | None = None
    validation: Validation = Validation()
    craft: CraftMode = "eval"  # "train": attack iterates move BatchNorm's statistics, as in CFA's AT and Rice et al.
    precision: Precision = "full"
    extra_share: float = 0.5  # of each batch, from pseudo-labelled data where there is some
    test_at: tuple[int, ...] = ()  # epochs after which the test set is looked at too, for the record only
    attack_steps: AttackSteps | None = field(default=None, metadata=ADDED_LATER)  # of every epoch; None: always all
    timetables: tuple[Timetable, ...] = field(default=(), metadata=ADDED_LATER)  # settings that change by epochs

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise ValueError(f"epochs and batch size must be 1 or more, but saw {self.epochs} and {self.batch_size}")
        if not 0 <= self.extra_share < 1:
            raise ValueError(f"the share of pseudo-labelled images must be 0 or more and below 1: {self.extra_share}")
        if self.attack_steps is not None and self.objective.attack is None:
            raise ValueError(f"{name_of_type(type(self.objective))} has no attack whose steps could change by epoch")
        changing = [table.setting for table in self.timetables] + ["attack.steps"] * (self.attack_steps is not None)
        if len(set(changing)) < len(changing):
            raise ValueError(f"a setting would change by two rules: {', '.join(changing)}; choose one for each")
        apply_timetables(self.objective, self.timetables, 0, epochs=self.epochs)  # refuses what is not there

    def objective_in(self, epoch: int) -> Objective:
        """The objective with the attack and the settings that an epoch, from 0, is trained with."""
        objective = apply_timetables(self.objective, self.timetables, epoch, epochs=self.epochs)
        return shorten_attack(objective, self.attack_steps, epoch, epochs=self.epochs)

    @property
    def needs_validation(self) -> bool:
        """Whether something in it cannot do without validation images."""
        averaging = self.averaging is not None and self.averaging.needs_validation
        return averaging or any(policy.needs_validation for policy in self.policies)
