"""audit(model, data, conditions) -> Evidence: run every condition on every example and write down what happened."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from leastwise.attacks import Attack
from leastwise.data import Batch, Dataset
from leastwise.evidence import Evidence, Record, join, record
from leastwise.frame import Tally
from leastwise.models import Classifier, inference, preflight, wrap
from leastwise.noise import Noise
from leastwise.recipe import canonical
from leastwise.types import Images

BATCH_SIZE = 200
PREFLIGHT_IMAGES = 8

Conditions = tuple[tuple[str, Attack], ...]


@dataclass(frozen=True)
class AuditRecipe:
    """What determines the evidence: hashes of model and data, the conditions and the seed."""

    model: str
    data: str
    conditions: Conditions
    seed: int


class Step(NamedTuple):
    """Progress: one batch under one condition is done."""

    condition: str
    fraction: float  # of the whole audit
    so_far: Tally  # all batches of this condition


def audit(
    model: nn.Module,
    data: Dataset,
    conditions: Conditions,
    seed: int = 0,
    batch_size: int = BATCH_SIZE,
    device: str = "cpu",
    watch: Callable[[Step], None] = lambda step: None,
) -> Evidence:
    """The evidence of all conditions on all examples. The model is moved to `device` and not changed otherwise."""
    if len(data) == 0:
        raise ValueError("there is nothing to audit: the data set has no examples")
    if batch_size < 1:
        raise ValueError(f"the batch size must be 1 or more, but saw {batch_size}")
    classifier = wrap(model, data.k).to(device)
    preflight(classifier, data.batch(np.arange(min(len(data), PREFLIGHT_IMAGES))).x.to(device), data.k)
    recipe = AuditRecipe(classifier.digest(), data.digest(), conditions, seed)
    order = np.argsort(data.ids)
    with inference(classifier):
        records = {}
        for number, (name, attack) in enumerate(conditions):

            def share(done: int, so_far: Tally, name: str = name, number: int = number) -> None:
                watch(Step(name, (number + done / len(data)) / len(conditions), so_far))

            records[name] = join(list(under(classifier, data, order, name, attack, seed, batch_size, device, share)))
    return Evidence(
        data.ids[order].astype(np.int64), data.labels[order].astype(np.int32), data.names, records, canonical(recipe)
    )


def under(
    model: Classifier,
    data: Dataset,
    order: "np.ndarray",
    name: str,
    attack: Attack,
    seed: int,
    batch_size: int,
    device: str,
    watch: Callable[[int, Tally], None],
) -> Iterator[Record]:
    """The records of one condition, batch by batch; `watch` hears how many examples are done."""
    so_far = Tally.empty(data.k)
    for batch in data.batches(batch_size, order):
        x, y, ids = Batch(*(part.to(device) for part in batch))
        # One purpose for all conditions: common random numbers make their differences less noisy.
        outcome = attack.run(model, x, y, Noise(seed, ids, "/audit"))
        assert bool(attack.allows(x, outcome.x_adv).all()), f"{name} left its threat model"
        z = look_again(model, outcome.x_adv)
        if not bool(z.isfinite().all()):
            bad = ids[~z.isfinite().all(dim=1)].tolist()
            raise ValueError(
                f"under {name} the model gives logits that are not finite on {len(bad)} images (ids {bad[:3]} …): "
                "its robustness there is unknown, so nothing is reported; check the model for overflow"
            )
        so_far = so_far + Tally.count(y, z.argmax(dim=1) == y, data.k)
        yield record(z, y, x, outcome)
        watch(int(so_far.n.sum()), so_far)


def look_again(model: Classifier, x: Images) -> torch.Tensor:
    """Predict afresh at the points an attack returned: what is reported is what was re-checked."""
    with torch.no_grad():
        return model(x)
