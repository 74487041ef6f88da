"""The only training loop, fit(): it yields a snapshot after every epoch, and the caller decides what to keep."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from leastwise.core.noise import Noise
from leastwise.data.dataset import Batch, Dataset
from leastwise.models.fast.prepare import Form, Prepared
from leastwise.models.zoo.layers import clip_gates
from leastwise.training.averaging import worst_tenth
from leastwise.training.base import Epoch, PolicyState, PolicyStates, Seen
from leastwise.training.batches import BatchPlan, plan_batches
from leastwise.training.compose import check_policies, class_shares
from leastwise.training.distributed import ALONE, Ranks
from leastwise.training.recipe import Training
from leastwise.training.step import FOLDED, LOOKED_AT, MethodLoss, check_loss, first_rows, mean_loss, prepare_copy
from leastwise.training.validate import measure_classes, observe_network
from leastwise.training.weights import clone_weights, measure_statistics, move_average, temporary_weights

# Training images whose robustness is recorded after every epoch: so many, or a twentieth of fewer; one of each class.
RECORDED, RECORDED_SHARE = 500, 20


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Where a training stands, and what it needs to go on besides the network's weights."""

    seen: Epoch | None  # the last finished epoch
    finished: int  # epochs
    batch: int  # batches done in the epoch that follows
    partial: Seen  # what they saw
    states: tuple[PolicyState, ...]  # of the policies
    optimiser: dict[str, Any]
    average: Mapping[str, Tensor] | None  # averaged weights and statistics, once there are any
    averaged: int  # how often the average moved
    tails: tuple[float, ...]  # the worst tenth of the classes after each validated epoch

    @property
    def whole(self) -> bool:
        """Whether an epoch was just finished."""
        return self.batch == 0


class StepProgress(NamedTuple):
    """Progress within an epoch."""

    epoch: int
    fraction: float  # of the whole training
    loss: float  # mean over the batch


StepCallback = Callable[[StepProgress], None]


def fit(
    model: nn.Module,
    data: Dataset,
    training: Training,
    *,
    after: Snapshot | None = None,
    device: str = "cpu",
    watch: StepCallback = lambda step: None,
    valid: Dataset | None = None,
    test: Dataset | None = None,
    extra: Dataset | None = None,
    form: Form = FOLDED,
    ranks: Ranks = ALONE,
    pause: Callable[[], bool] = lambda: False,
) -> Iterator[Snapshot]:
    """Train `model` in place; `after` continues behind an earlier snapshot, whose weights the model must have.

    Validation images are split off `data` unless `valid` is given. All randomness is addressed by (seed, epoch,
    example id), so a continued run draws what an uninterrupted one would have drawn. `form` is how attacks compute the
    network. When `pause()` says so, a snapshot is yielded in the middle of an epoch too.
    """
    if len(data) == 0:
        raise ValueError("there is nothing to train on: the data set has no examples")
    if valid is None and (held := training.validation.images(data)):
        data, valid = data.split(held, training.seed)
    if training.needs_validation and valid is None:
        raise ValueError("this recipe follows the validation accuracy: give validation images per class, 1 or more")
    check_policies(training.objective, training.policies)
    training.objective.check_network(model)
    loop = Loop(
        model=model.to(device), data=data, training=training, device=device, watch=watch, valid=valid, test=test,
        extra=extra, form=form, ranks=ranks, pause=pause,
    )  # fmt: skip
    yield from loop.run(after)


@dataclass(eq=False, kw_only=True)
class Loop:
    """One training as it runs."""

    model: nn.Module
    data: Dataset
    training: Training
    device: str = "cpu"
    watch: StepCallback = lambda step: None
    valid: Dataset | None = None
    test: Dataset | None = None
    extra: Dataset | None = None
    form: Form = FOLDED
    ranks: Ranks = ALONE
    pause: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self.dtype = next(self.model.parameters()).dtype
        self.optimiser = self.training.optimiser.make(self.model, self.training.schedule.rate(0.0))
        self.prepared = self.prepare_copy()
        self.loss = MethodLoss(
            model=self.model, objective=self.training.objective, prepared=self.prepared, mode=self.training.craft,
            awp=self.training.awp, sum_=self.ranks.sum_,
        )  # fmt: skip
        images = min(RECORDED, len(self.data) // RECORDED_SHARE)
        self.recorded = self.data.take(max(1, images // self.data.k))
        self.average: dict[str, Tensor] | None = None
        self.averaged = 0

    def run(self, after: Snapshot | None) -> Iterator[Snapshot]:
        """A snapshot after every epoch that is left, and wherever a pause was asked for."""
        now = self.start() if after is None else after
        if after is not None:
            self.optimiser.load_state_dict(copy.deepcopy(after.optimiser))
        self.average, self.averaged = clone_weights(now.average), now.averaged
        while now.finished < self.training.epochs:
            for reached in self.epoch(now):
                yield reached
            now = reached

    def start(self) -> Snapshot:
        """Where a training stands before the first step; policies that fine-tune a network look at it first."""
        n = torch.from_numpy(self.data.counts)
        states = tuple(policy.init(n) for policy in self.training.policies)
        if any(policy.needs_first_look for policy in self.training.policies):
            look = Epoch(0, self.training.epochs, 0.0, Seen.empty(self.data.k), self.validate())
            states = tuple(
                policy.update(s, look) if policy.needs_first_look else s
                for policy, s in zip(self.training.policies, states, strict=True)
            )
        return Snapshot(None, 0, 0, Seen.empty(self.data.k), states, self.optimiser_state(), None, 0, ())

    def epoch(self, begin: Snapshot) -> Iterator[Snapshot]:
        """The rest of an epoch; a snapshot at its end, and wherever a pause was asked for."""
        training, number = self.training, begin.finished
        policies = tuple(zip(training.policies, begin.states, strict=True))
        batches = plan_batches(
            self.data, training.batch_size, extra=self.extra, extra_share=training.extra_share,
            shares=class_shares(policies), seed=training.seed, epoch=number,
        )  # fmt: skip
        if min(plan.size for plan in batches) < self.ranks.size:
            raise ValueError(f"batches need at least one image for each of {self.ranks.size} processes: enlarge them")
        self.loss = replace(self.loss, objective=training.objective_in(number))
        seen, rate, total = begin.partial, 0.0, training.epochs * len(batches)
        self.model.train()
        for place in range(begin.batch, len(batches)):
            done = number * len(batches) + place
            rate = training.schedule.rate((done + 1) / (total + 1))
            new, loss = self.step(batches[place], policies, rate=rate, epoch=number, number=done, progress=done / total)
            seen = seen + new
            if training.averaging is not None and training.averaging.every == "step":
                self.follow_average((done + 1) / total, begin.tails)
            self.watch(StepProgress(number + 1, (done + 1) / total, loss))
            if self.ranks.size == 1 and place + 1 < len(batches) and self.pause():
                yield replace(
                    begin, batch=place + 1, partial=seen, optimiser=self.optimiser_state(),
                    average=clone_weights(self.average), averaged=self.averaged,
                )  # fmt: skip
        yield self.finish_epoch(begin, self.ranks.total(seen), rate)

    def finish_epoch(self, begin: Snapshot, train: Seen, rate: float) -> Snapshot:
        """Validate, average, and let the policies learn from the epoch."""
        training, number = self.training, begin.finished + 1
        seen = Epoch(number, training.epochs, rate, train, states=begin.states)
        looks = number % training.validation.every == 0 or number == training.epochs or training.needs_validation
        if self.valid is not None and looks:
            seen = replace(seen, valid=self.validate())
        tails = begin.tails if seen.valid is None else (*begin.tails, self.tail(seen))
        if training.averaging is not None:
            if training.averaging.every == "epoch":
                self.follow_average(number / training.epochs, tails)
            if self.average is not None:
                with temporary_weights(self.model, self.average):
                    if training.averaging.fresh_statistics:
                        measure_statistics(self.model, self.data, self.device)
                        self.average = clone_weights(self.model.state_dict())
                    if seen.valid is not None:
                        seen = replace(seen, averaged=self.validate())
        if training.objective.attack is not None:
            seen = replace(seen, record=self.measure(self.recorded, losses=False))
        if any(policy.observes for policy in training.policies):
            policies = tuple(zip(training.policies, begin.states, strict=True))
            observed = observe_network(
                self.model, training.objective, policies, data=self.data, seed=training.seed, device=self.device
            )
            seen = replace(seen, observed=observed)
        if self.test is not None and number in training.test_at:
            with temporary_weights(self.model, self.average):
                seen = replace(seen, test=self.measure(self.test))
        states = tuple(p.update(s, seen) for p, s in zip(training.policies, begin.states, strict=True))
        return Snapshot(
            seen, number, 0, Seen.empty(self.data.k), states, self.optimiser_state(), clone_weights(self.average),
            self.averaged, tails,
        )  # fmt: skip

    def step(
        self, whole: BatchPlan, policies: PolicyStates, *, rate: float, epoch: int, number: int, progress: float
    ) -> tuple[Seen, float]:
        """One update of the weights: what it saw of the labelled images, and the mean loss of this process."""
        plan = whole.part(self.ranks)
        x, y, ids = Batch(*(part.to(self.device) for part in plan.images(self.data, self.extra)))
        noise = Noise(self.training.seed, torch.from_numpy(plan.noise_ids).to(self.device), "/train", epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        x = self.training.augment(x, noise.fork("augment")).to(self.dtype)
        with self.autocast():
            terms = self.loss.terms(x, y, noise, policies=policies, size=whole.size, progress=progress)
        mean = mean_loss(terms, whole.size)
        check_loss(mean.item(), ids, step=number)
        self.descend(mean)
        return Seen.of(first_rows(terms, len(plan.rows)), y[: len(plan.rows)], self.data.k), mean.item()

    def descend(self, loss: Tensor) -> None:
        """Move the weights against the gradient of the loss, added up over all processes."""
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.ranks.sum_([p.grad for p in self.model.parameters() if p.grad is not None])
        self.optimiser.step()
        clip_gates(self.model)
        self.ranks.average_statistics(self.model)

    def prepare_copy(self) -> Prepared | None:
        """A copy of the network for attacks, in a faster form; None where nothing attacks, or to use it itself."""
        if self.training.objective.attack is None and self.valid is None:
            return None
        some = self.data.batch(np.arange(min(len(self.data), LOOKED_AT))).x.to(self.device, self.dtype)
        return prepare_copy(self.model, some, self.form)

    def tail(self, seen: Epoch) -> float:
        """How the weakest classes do after an epoch, as the averaging sees it."""
        averaging = self.training.averaging
        return worst_tenth(seen) if averaging is None else averaging.tail(seen)

    def validate(self) -> Seen | None:
        """What the present weights do on the validation images; None without any."""
        return None if self.valid is None else self.measure(self.valid)

    def measure(self, data: Dataset, *, losses: bool = True) -> Seen:
        """What the present weights do on some images, under the validation's attack; with losses if policies ask."""
        training = self.training
        if self.prepared is not None:
            self.prepared.refresh()
        losses = losses and any(policy.needs_validation_loss for policy in training.policies)
        return measure_classes(
            self.model,
            data,
            training.validation.attack_for(training.objective),
            seed=training.seed,
            device=self.device,
            crafted_on=None if self.prepared is None else self.prepared.model,
            losses_of=training.objective if losses else None,
            ranks=self.ranks,
        )

    def follow_average(self, progress: float, tails: tuple[float, ...]) -> None:
        """Let the average of the weights follow them, as far as the averaging says."""
        assert self.training.averaging is not None
        share = self.training.averaging.share(self.averaged, progress, tails)
        if share is not None:
            self.average = move_average(self.average, self.model.state_dict(), share)
            self.averaged += 1

    def autocast(self) -> AbstractContextManager[None]:
        """Computation in the recipe's precision."""
        half = self.training.precision == "bfloat16"
        return torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16, enabled=half)

    def optimiser_state(self) -> dict[str, Any]:
        """A copy that later steps do not change."""
        return copy.deepcopy(self.optimiser.state_dict())
