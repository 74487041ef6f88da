"""fit(): the only training loop. It yields after every epoch; the caller decides what to keep."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from leastwise.data import Batch, Dataset
from leastwise.frame import Tally
from leastwise.noise import Noise, shuffled
from leastwise.objectives import Epoch, Objective, OneCycle, Schedule, Standard
from leastwise.types import Labels, Logits


@dataclass(frozen=True)
class SGD:
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4


@dataclass(frozen=True)
class Training:
    """Everything that determines a training run besides the network and the data."""

    objective: Objective = Standard()
    epochs: int = 10
    batch_size: int = 128
    schedule: Schedule = OneCycle()
    optimiser: SGD = SGD()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise ValueError(f"epochs and batch size must be 1 or more, but saw {self.epochs} and {self.batch_size}")


class Snapshot(NamedTuple):
    """After an epoch: what it saw, and what the next one needs besides the network's weights."""

    seen: Epoch
    state: Any  # the objective's, for the next epoch
    optimiser: dict[str, Any]


class Step(NamedTuple):
    """Progress within an epoch."""

    epoch: int
    fraction: float  # of the whole training


def fit(
    model: nn.Module,
    data: Dataset,
    training: Training,
    after: Snapshot | None = None,
    device: str = "cpu",
    watch: Callable[[Step], None] = lambda step: None,
) -> Iterator[Snapshot]:
    """Train `model` in place, one epoch per item; `after` continues behind an earlier snapshot.

    All randomness is addressed by (seed, epoch, example id), so a continued run draws what an
    uninterrupted one would have drawn.
    """
    if len(data) == 0:
        raise ValueError("there is nothing to train on: the data set has no examples")
    model.to(device)
    settings = training.optimiser
    optimiser = torch.optim.SGD(
        model.parameters(),
        lr=training.schedule.rate(0.0),
        momentum=settings.momentum,
        nesterov=settings.nesterov,
        weight_decay=settings.weight_decay,
    )
    state, finished = training.objective.init(data.k), 0
    if after is not None:
        optimiser.load_state_dict(after.optimiser)
        state, finished = after.state, after.seen.number
    for epoch in range(finished, training.epochs):
        seen = run_epoch(model, data, training, optimiser, state, epoch, device, watch)
        state = training.objective.update(state, seen)
        yield Snapshot(seen, state, copy.deepcopy(optimiser.state_dict()))


def run_epoch(
    model: nn.Module,
    data: Dataset,
    training: Training,
    optimiser: torch.optim.Optimizer,
    state: Any,
    epoch: int,
    device: str,
    watch: Callable[[Step], None],
) -> Epoch:
    order = shuffled(torch.from_numpy(data.ids), training.seed, "shuffle", epoch).numpy()
    # Even batches: a short last one would weigh its examples more, and BatchNorm cannot see just one.
    batches = np.array_split(order, math.ceil(len(order) / training.batch_size))
    clean = robust = Tally.empty(data.k)
    total, rate = 0.0, 0.0
    model.train()
    for number, positions in enumerate(batches):
        x, y, ids = Batch(*(part.to(device) for part in data.batch(positions)))
        step = epoch * len(batches) + number
        rate = training.schedule.rate((step + 1) / (training.epochs * len(batches) + 1))
        for group in optimiser.param_groups:
            group["lr"] = rate
        loss = training.objective.loss(model, x, y, state, Noise(training.seed, ids, "/train", epoch))
        mean = loss.per_example.mean()
        if not math.isfinite(mean.item()):
            raise ValueError(
                f"the loss is {mean.item()} at step {step} (ids {ids[:3].tolist()} …): try a lower learning rate"
            )
        optimiser.zero_grad()
        mean.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        total += mean.item() * len(y)
        clean, robust = clean + hits(loss.clean, y, data.k), robust + hits(loss.adversarial, y, data.k)
        watch(Step(epoch + 1, (step + 1) / (training.epochs * len(batches))))
    return Epoch(epoch + 1, total / len(data), rate, clean, robust)


def hits(z: Logits | None, y: Labels, k: int) -> Tally:
    return Tally.empty(k) if z is None else Tally.count(y, z.detach().argmax(dim=1) == y, k)
