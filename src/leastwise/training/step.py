"""One step of a training: what is crafted from a batch, and what its loss is under the policies. The only mean is here.

The loop of this package takes these steps, and so do loops that others write.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels
from leastwise.models.classifier import Classifier, inference
from leastwise.models.fast.prepare import ORIGINAL, Form, Prepared, prepare
from leastwise.training.awp import AWP, SumOverProcesses
from leastwise.training.base import Objective, PolicyStates, Terms
from leastwise.training.choices import CraftMode
from leastwise.training.compose import adjust_logits, apply_terms, apply_to_attack
from leastwise.training.distributed import ALONE

# The fastest for attacks on all networks with BatchNorm that were tried (`make bench-prepare`). No trial by the clock
# decides here: one recipe gives the same bits every time.
FOLDED = Form(folded=True, channels_last=True)
LOOKED_AT = 32  # images that a copy of the network is checked on


@dataclass(frozen=True, eq=False, kw_only=True)
class MethodLoss:
    """The loss of a batch by one method on one network."""

    model: nn.Module
    objective: Objective
    inner: nn.Module | None = None  # what attacks look at, where the network is wrapped for several processes
    prepared: Prepared | None = None  # a copy of the network for attacks, which follows its weights
    mode: CraftMode = "eval"  # of the network while attacks look at it
    awp: AWP | None = None
    sum_: SumOverProcesses = ALONE.sum_

    def terms(
        self, x: Images, y: Labels, noise: Noise, *, policies: PolicyStates, size: int, progress: float = 0.0
    ) -> Terms:
        """The loss of each example. `size` is that of the whole batch, of which this process may have a part."""
        objective = apply_to_attack(self.objective, policies, y, noise=noise)
        crafted = self.craft(objective, x, y, noise)

        def loss(model: nn.Module, policies: PolicyStates = policies) -> Terms:
            terms = objective.loss(model, x, y, crafted, adjust=adjust_logits(policies, y))
            return apply_terms(terms, policies, y)

        if self.awp is None or progress < self.awp.warmup:
            return loss(self.model)
        weighing = tuple((policy, s) for policy, s in policies if policy.weighs_perturbation)
        elsewhere = self.awp.perturb(self.model, lambda at: mean_loss(loss(at, weighing), size), self.sum_)
        return loss(elsewhere)

    def craft(self, objective: Objective, x: Images, y: Labels, noise: Noise) -> Any:
        """What the objective needs besides the batch, with the network in the mode that attacks want."""
        model = self.model if self.inner is None else self.inner
        if objective.attack is None or self.mode == "train":
            return objective.craft(model, x, y, noise)
        if self.prepared is not None:
            self.prepared.refresh()
            return objective.craft(self.prepared.model, x, y, noise)
        with inference(model):
            return objective.craft(model, x, y, noise)


def prepare_copy(model: nn.Module, x: Images, form: Form = FOLDED) -> Prepared | None:
    """A copy of the network for attacks, in a faster form, which follows the weights; None to use it itself."""
    if form == ORIGINAL or not isinstance(model, Classifier):
        return None
    made = prepare(model, x[:LOOKED_AT], form)
    return None if made.form == ORIGINAL else made


def mean_loss(terms: Terms, size: int) -> Tensor:
    """The part of this process in the mean over a batch of so many images."""
    return terms.per_example.sum() / size


def check_loss(value: float, ids: Tensor, *, step: int) -> None:
    """Refuse to go on with a loss that is not finite."""
    if not math.isfinite(value):
        raise ValueError(
            f"the loss is {value} at step {step} (ids {', '.join(map(str, ids[:8].tolist()))}"
            f"{' …' if len(ids) > 8 else ''}): try a lower learning rate"
        )


def first_rows(terms: Terms, n: int) -> Terms:
    """The labelled images of a batch: pseudo-labels are not counted."""
    if n == len(terms.label):
        return terms
    cut = {name: part[:n] for name, part in terms._asdict().items() if isinstance(part, torch.Tensor)}
    return terms._replace(**cut)
