"""The first questions to a model: whether it can be audited, and what it answers, so that it is recognised later."""

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import nn

from leastwise.attacks.base import Attack, Clean, CombinedAttack
from leastwise.attacks.surrogate import Surrogate
from leastwise.attacks.transfer import Transfer
from leastwise.audit.balls import find_reach
from leastwise.audit.sizes import PREFLIGHT_IMAGES, count_preflight
from leastwise.data.dataset import Dataset
from leastwise.models.answers import MOVED, Answers, ask_model, choose_rows, spread_rows
from leastwise.models.classifier import Classifier
from leastwise.models.gradient_check import REACH
from leastwise.models.preflight import Hearing, check_model

NamedAnswers = Mapping[str, Answers]  # by whose they are: the model, and networks that attacks are crafted on


class Asked(NamedTuple):
    """What the preflight found doubtful, and what was answered."""

    warnings: tuple[str, ...]
    answers: NamedAnswers


def ask_first(
    model: Classifier, data: Dataset, attacks: tuple[Attack, ...], *, batch: int, device: str, force: bool
) -> Asked:
    """The preflight, and what the model, and each network that attacks are crafted on, answers on the same images.

    Which answers are kept depends on the data alone; the preflight takes no more images than a batch.
    """
    kept, heard = choose_kept(data), Hearing()
    checked = spread_rows(len(data), min(count_preflight(data.shape), batch))
    positions = np.union1d(kept, checked)
    x, y, ids = (part.to(device) for part in data.batch(positions))
    now, later = (torch.from_numpy(np.searchsorted(positions, some)) for some in (checked, kept))
    needs_gradients = any(attack.gradients for attack in attacks)
    warnings = check_model(
        model,
        x[now],
        data.k,
        gradients=needs_gradients,
        y=y[now],
        force=force,
        reach=find_reach(attacks, math.prod(data.shape)) or REACH,
        names=data.names,
        heard=heard,
    )
    assert heard.logits is not None, "the preflight asks for logits"
    known = dict(zip(ids[now].tolist(), heard.logits, strict=True))
    attacked = not all(isinstance(attack, Clean) for attack in attacks)
    ask = partial(ask_model, x=x[later], ids=ids[later], batch=batch, attacked=attacked)
    answers = {"model": ask(model, gradients=needs_gradients, known=known, unrest=heard.unrest)}
    for one in list_surrogates(attacks):
        answers[f"surrogate {one.name}"] = ask(one.model, gradients=True)
    return Asked(warnings, answers)


def ask_again(model: nn.Module, data: Dataset, kept: Answers, *, batch: int, device: str) -> Answers:
    """What a model answers on the images that were moved when it was asked before, perhaps elsewhere."""
    x, _, ids = (part.to(device) for part in data.batch(choose_moved(data)))
    gradients = kept.slopes.shape[1] > 0
    return ask_model(model, x, ids, batch=batch, attacked=len(kept.moved) > 0, gradients=gradients, unrest=kept.unrest)


def choose_kept(data: Dataset) -> Int[np.ndarray, " m"]:
    """The positions of the images whose answers are kept: fewer where images are large."""
    rows = choose_rows(len(data), data.k)
    return rows[spread_rows(len(rows), count_preflight(data.shape))]


def choose_moved(data: Dataset) -> Int[np.ndarray, " m"]:
    """The positions of the images that are moved."""
    rows = choose_kept(data)
    return rows[spread_rows(len(rows), MOVED)]


def ask_network(model: Classifier, data: Dataset) -> Answers:
    """What a network answers that a training begins with."""
    x, _, ids = data.batch(choose_kept(data))
    return ask_model(model, x, ids, batch=PREFLIGHT_IMAGES, attacked=True, gradients=model.gradients)


def list_surrogates(attacks: Iterable[Attack]) -> list[Surrogate]:
    """The networks that some attacks are crafted on."""
    found: list[Surrogate] = []
    for attack in attacks:
        found += attack.surrogates if isinstance(attack, Transfer) else ()
        found += list_surrogates(attack.inner) if isinstance(attack, CombinedAttack) else ()
    return found
