"""From the logits at the attacked points to the record of a batch: what was re-checked is what is written down."""

import numpy as np
import torch
from torch import Tensor

from leastwise.attacks.base import Outcome
from leastwise.attacks.codes import NEVER, UNCONFIRMED
from leastwise.audit.record import MOST_SUMMED, ClassMatrix, ExampleFloats, ExampleInts, ReachedCounts, Record
from leastwise.core.losses import entropy, margin
from leastwise.core.types import Images, Labels, Logits


def mark_unconfirmed(outcome: Outcome, z: Logits, y: Labels) -> Outcome:
    """Points that fooled the model during the attack and do not when it is asked again count as survivors, marked."""
    lost = outcome.fooled & (z.argmax(dim=1) == y)
    return outcome._replace(trouble=torch.where(lost, UNCONFIRMED, outcome.trouble))


def make_record(z: Logits, y: Labels, x: Images, *, outcome: Outcome, rounded: Logits | None = None) -> Record:
    """The record of a batch from the logits at the attacked points, and at the same points in 8 bits."""
    k = z.shape[1]
    p = z.softmax(dim=1)
    predicted = z.argmax(dim=1)
    runner_up = z.scatter(1, predicted[:, None], -torch.inf).argmax(dim=1)
    moved = (outcome.x_adv - x).flatten(1)

    def probability(classes: Labels) -> ExampleFloats:
        return as_float32(p.gather(1, classes[:, None]).squeeze(1))

    def class_sum(values: Logits) -> ClassMatrix:
        if k > MOST_SUMMED:
            return np.zeros((0, 0))
        sums = torch.zeros(k, k, dtype=torch.float64, device=values.device)
        return sums.index_add_(0, y, values.double()).cpu().numpy()

    return Record(
        predicted=as_int32(predicted),
        runner_up=as_int32(runner_up),
        margin=as_float32(margin(z, y)),
        p_true=probability(y),
        p_predicted=probability(predicted),
        p_runner_up=probability(runner_up),
        p_squared=as_float32(p.square().sum(dim=1)),
        entropy=as_float32(entropy(z)),
        by=as_int32(outcome.by),
        step=as_int32(outcome.step),
        trouble=as_int32(outcome.trouble),
        each=as_int32(outcome.each),
        rounded=as_int32(torch.full_like(y, NEVER) if rounded is None else rounded.argmax(dim=1)),
        linf=as_float32(moved.abs().amax(dim=1)),
        l2=as_float32(torch.linalg.vector_norm(moved, dim=1)),
        logit_sum=class_sum(z),
        probability_sum=class_sum(p),
        reached=sum_reached(outcome, y, k),
        forwards=outcome.forwards,
        backwards=outcome.backwards,
    )


def sum_reached(outcome: Outcome, y: Labels, k: int) -> ReachedCounts:
    """How many images of each class were turned into each other one; empty where the attack did not try."""
    if outcome.reached is None:
        return np.zeros((0, 0), dtype=np.int64)
    sums = torch.zeros(k, k, dtype=torch.int64, device=y.device)
    return sums.index_add_(0, y, outcome.reached.long()).cpu().numpy()


def as_int32(values: Labels) -> ExampleInts:
    """The numbers as evidence stores them."""
    return values.to(torch.int32).cpu().numpy()


def as_float32(values: Tensor) -> ExampleFloats:
    """The numbers as evidence stores them."""
    return values.to(torch.float32).cpu().numpy()
