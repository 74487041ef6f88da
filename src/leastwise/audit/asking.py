"""The first questions to a model: whether it can be audited, and what it answers, so that it is recognised later."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import nn

from leastwise.attacks.base import Attack, Clean, CombinedAttack
from leastwise.attacks.goals import Goal
from leastwise.attacks.surrogate import Surrogate
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.attacks.transfer import Transfer
from leastwise.audit.record import MOST_SUMMED
from leastwise.core.types import Images, Shape
from leastwise.data.dataset import Dataset
from leastwise.models.answers import MOVED, Answers, ask_model, choose_rows, spread_rows
from leastwise.models.classifier import Classifier, backward_bytes, inference
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


MOST_IMAGES, MOST_BYTES = 1000, 1 << 30  # of a batch whose size nobody chose: images, and memory for their gradients
PIXEL_BYTES = 64 << 20  # of the pixels of such a batch: attacks hold them about ten times over
PREFLIGHT_IMAGES, PREFLIGHT_BYTES = 100, 64 << 20  # of the images that are looked at first, and of their pixels


def count_preflight(shape: Shape) -> int:
    """How many images are looked at before an audit or a training: fewer where they are large."""
    return max(1, min(PREFLIGHT_IMAGES, PREFLIGHT_BYTES // (4 * math.prod(shape))))


def usual_shard(k: int, batch: int) -> int:
    """Images of a shard: ten batches, a thousand images at most; but twice the classes where sums are kept by class."""
    return max(min(MOST_IMAGES, 10 * batch), 2 * min(k, MOST_SUMMED))


def usual_batch(model: Classifier, some: Images) -> int:
    """As many images as fit into the memory that a batch may take, at most a thousand.

    Large batches suit small networks, and more so when most examples have left them.
    """
    with inference(model):
        each = backward_bytes(model, some) // len(some)
    return max(1, min(MOST_IMAGES, MOST_BYTES // max(1, each), PIXEL_BYTES // some[0].nbytes))


def group_by_ball(conditions: Sequence[tuple[str, Attack]]) -> list[tuple[Ball, tuple[str, ...]]]:
    """The conditions to be checked: those that use gradients to find any mistake, by their ball."""
    found: dict[str, tuple[Ball, tuple[str, ...]]] = {}
    for name, attack in conditions:
        ball = find_ball(attack)
        if attack.gradients and ball is not None and isinstance(ball.eps, float) and seeks_any_mistake(attack):
            _, names = found.get(str(ball), (ball, ()))
            found[str(ball)] = ball, (*names, name)
    return list(found.values())


def find_ball(attack: Attack) -> Ball | None:
    """The ball that an attack and all its members share, if it has one."""
    if isinstance(attack, CombinedAttack):
        balls = {str(ball): ball for ball in map(find_ball, attack.inner)}
        return next(iter(balls.values())) if len(balls) == 1 else None
    ball = getattr(attack, "ball", None)
    return ball if isinstance(ball, Linf | L2 | L1) else None


def seeks_any_mistake(attack: Attack) -> bool:
    """Whether any wrong answer counts; survivors of an attack toward one class prove nothing."""
    if isinstance(attack, CombinedAttack):
        return all(map(seeks_any_mistake, attack.inner))
    goal = getattr(attack, "goal", None)
    return (goal is None or type(goal).reached is Goal.reached) and getattr(attack, "target", None) is None


def find_reach(attacks: Sequence[Attack], pixels: int) -> float:
    """How far, per pixel, the attacks of an audit that use gradients go at most; 0 if none says."""
    found = [0.0]
    for attack in attacks:
        ball = find_ball(attack) if attack.gradients else None
        if ball is not None and isinstance(ball.eps, float):
            found.append(ball.eps if isinstance(ball, Linf) else ball.eps / math.sqrt(pixels))
    return max(found)
