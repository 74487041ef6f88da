"""audit(model, data, conditions) -> Evidence: run every condition on every example and write down what happened."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from leastwise.attacks.access import refuse_without_logits
from leastwise.attacks.base import Attack, Clean, Outcome, Passes, clean_outcome
from leastwise.attacks.codes import BROKEN, NEVER, UNCONFIRMED
from leastwise.attacks.threats import Ball, Linf, doubt_radius
from leastwise.audit.evidence import Evidence
from leastwise.audit.record import (
    MOST_SUMMED,
    ClassMatrix,
    ExampleFloats,
    ExampleInts,
    ReachedCounts,
    Record,
    RecordColumns,
)
from leastwise.core.counts import Tally
from leastwise.core.losses import entropy, margin
from leastwise.core.noise import Noise, random_order
from leastwise.core.recipe import canonical_json, recipe_key
from leastwise.core.text import escape_unprintable
from leastwise.core.types import Images, Labels, Logits
from leastwise.data.dataset import Batch, Dataset
from leastwise.models.answers import NamedAnswers, ask_first, spread_rows
from leastwise.models.classifier import Classifier, inference, wrap
from leastwise.models.fast.prepare import ORIGINAL, Form, Prepared, prepare, put_in_form
from leastwise.models.gradient_check import REACH
from leastwise.models.preflight import MOST_IMAGES, PREFLIGHT_IMAGES, find_batch_sizes

TELL_EVERY = 1.0  # seconds of a batch between two words on it
TRIAL_FROM = 2000  # attacked images (summed over conditions) from which timing the forms of a model is worth it

Conditions = tuple[tuple[str, Attack], ...]


@dataclass(frozen=True)
class AuditRecipe:
    """What determines the evidence: hashes of model and data, the conditions, the seed and the size of the shards."""

    recipe_name: ClassVar[str] = "AuditRecipe"

    model: str
    data: str
    conditions: Conditions
    seed: int
    shard: int  # images; all conditions of a shard are attacked before the next, in an order drawn from the seed
    images: bool = False  # whether the attacked images are kept, and looked at again in 8 bits


ImageKeeper = Callable[[int, Labels, Images], None]  # number of the batch in its piece, ids, attacked images
BatchListener = Callable[[float, Tally | None], None]  # images done, and what they gave; nothing yet inside a batch


@dataclass(frozen=True, eq=False)
class Auditor:
    """A checked model, data set and recipe, and the manifest choices that are not part of the recipe."""

    model: Classifier
    recipe: AuditRecipe
    batch_size: int
    device: str
    warnings: tuple[str, ...] = ()  # of the preflight; they go into the evidence
    answers: NamedAnswers = field(default_factory=dict)  # by which the model is recognised later

    @property
    def key(self) -> str:
        return recipe_key(self.recipe)

    def prepare_model(self, data: Dataset, form: Form | None = None) -> Prepared:
        """The model as attacks will use it: in the given form, or in the fastest one if there is enough to do.

        Whether a trial is worth its seconds is decided by counts, never by the clock.
        """
        first = data.batch(np.arange(min(len(data), self.batch_size))).x.to(self.device)
        attacks = sum(attack.gradients for _, attack in self.recipe.conditions)
        if not self.model.gradients or not attacks or (form is None and len(data) * attacks < TRIAL_FROM):
            form = ORIGINAL
        return put_in_form(self.model, ORIGINAL, first) if form == ORIGINAL else prepare(self.model, first, form)

    def shards(self, data: Dataset) -> list["np.ndarray"]:
        """Positions of the examples, shard by shard. The order is random, so that every shard is like the whole."""
        order = random_order(torch.from_numpy(data.ids), self.recipe.seed, "shards").numpy()
        size = self.recipe.shard
        shards = [order[i : i + size] for i in range(0, len(order), size)]
        return [positions[np.argsort(data.ids[positions])] for positions in shards]

    def audit_in_one_piece(self, data: Dataset, form: Form) -> Evidence:
        """The evidence of few examples, at once and in memory; long audits are jobs (`leastwise.jobs`)."""
        with inference(self.model):
            prepared = self.prepare_model(data, form)
            everything = np.argsort(data.ids)
            records = {
                name: self.attack_piece(name, data, everything, crafted_on=prepared.model)
                for name, _ in self.recipe.conditions
            }
        return self.make_evidence(data, records)

    def make_evidence(self, data: Dataset, records: Mapping[str, Record]) -> Evidence:
        order = np.argsort(data.ids)
        labels = data.labels[order].astype(np.int32)
        recipe = canonical_json(self.recipe)
        return Evidence(data.ids[order], labels, data.names, records, recipe, data.groups, self.warnings)

    def attack_piece(
        self,
        name: str,
        data: Dataset,
        positions: "np.ndarray",
        *,
        crafted_on: Classifier,
        listen: BatchListener = lambda done, so_far: None,
        keep: ImageKeeper = lambda number, ids, x_adv: None,
    ) -> Record:
        """One condition on some examples. `listen` hears of every batch, and `keep` gets its images."""
        attack = dict(self.recipe.conditions)[name]
        most = attack.cost(data.k)
        columns, so_far = RecordColumns(len(positions)), Tally.empty(data.k)
        for number, batch in enumerate(data.batches(self.batch_size, positions)):
            x, y, ids = Batch(*(part.to(self.device) for part in batch))
            done = int(so_far.n.sum())
            with report_meanwhile(crafted_on, most, len(y), heard=listen, done=done):
                z, outcome = self.attack_batch(name, attack, x, y=y, ids=ids, crafted_on=crafted_on)
            check_finite(z, outcome, y, name=name, classes=data.names)
            outcome = mark_unconfirmed(outcome, z, y)
            so_far = so_far + Tally.count(y, z.argmax(dim=1) == y, data.k)
            if self.recipe.images:
                keep(number, ids, outcome.x_adv)
            rounded = self.in_8_bits(outcome.x_adv) if self.recipe.images else None
            columns.add(make_record(z, y, x, outcome=outcome, rounded=rounded))
            listen(float(so_far.n.sum()), so_far)
        return columns.whole()

    def in_8_bits(self, x_adv: Images) -> Logits:
        with torch.no_grad():
            return self.model((255 * x_adv).round() / 255)

    def attack_batch(
        self, name: str, attack: Attack, x: Images, *, y: Labels, ids: Labels, crafted_on: Classifier
    ) -> tuple[Logits, Outcome]:
        """The outcome, and the logits of the model as given at the points the attack returned.

        It predicts there afresh: what is reported was re-checked.
        """
        if isinstance(attack, Clean):  # the check is the whole condition: one pass is enough
            with torch.no_grad():
                z = self.model(x)
            return z, clean_outcome(z, x, y)
        # One purpose for all conditions: common random numbers make their differences less noisy.
        outcome = attack.run(crafted_on, x, y, Noise(self.recipe.seed, ids, "/audit"))
        if not bool(attack.allows(x, outcome.x_adv).all()):
            raise RuntimeError(f"{name} left its threat model: this is a fault of the attack, not of your model")
        with torch.no_grad():
            return self.model(outcome.x_adv), outcome


def make_auditor(
    model: nn.Module,
    data: Dataset,
    conditions: Conditions,
    *,
    seed: int = 0,
    batch_size: int = 0,
    device: str = "cpu",
    force: bool = False,
    shard: int = 0,
    images: bool = False,
) -> Auditor:
    """Check everything that can be checked before time is spent. The model is moved to `device`.

    `force` turns refusals that a user may know better about into warnings, which stay with the evidence. A batch size
    of 0 is the usual one.
    """
    if len(data) == 0:
        raise ValueError("there is nothing to audit: the data set has no examples")
    if data.k < 2:
        raise ValueError("an audit needs at least two classes, but the data set has one: there is nothing to confuse")
    if batch_size < 0:
        raise ValueError(f"the batch size must be 1 or more, or 0 for the usual one, but saw {batch_size}")
    if shard < 0:
        raise ValueError(f"a shard needs 1 image or more, or 0 for the usual number, but saw {shard}")
    names = [name for name, _ in conditions]
    if not names or len(set(names)) != len(names) or any(escape_unprintable(name) != name for name in names):
        raise ValueError(f"an audit needs conditions with different names, but saw {', '.join(names) or 'none'}")
    classifier = wrap(model, data.k).to(device)
    attacks = tuple(attack for _, attack in conditions)
    asked = ask_first(
        classifier,
        data,
        gradients=any(attack.gradients for attack in attacks),
        attacked=not all(isinstance(attack, Clean) for attack in attacks),
        reach=find_reach(attacks, math.prod(data.shape)) or REACH,
        others=list_surrogates(conditions),
        batch=batch_size or PREFLIGHT_IMAGES,
        device=device,
        force=force,
    )
    if classifier.labels_only:
        refuse_without_logits(conditions)
    doubts = ((name, (*attack.notes(data.k), *doubt_radius(attack.common_ball))) for name, attack in conditions)
    told = (f"{name}: {note}" for name, notes in doubts for note in notes)
    warnings = (*data.part_notes, *filter(None, [data.describe_copies()]), *asked.warnings, *told)
    sizes = find_batch_sizes(classifier, data.batch(spread_rows(len(data), 2)).x.to(device))
    recipe = AuditRecipe(
        classifier.digest(), data.digest(), conditions, seed, shard or usual_shard(data.k, sizes.fitting), images
    )
    return Auditor(classifier, recipe, batch_size or sizes.usual, device, warnings, asked.answers)


def usual_shard(k: int, fitting: int) -> int:
    """Images of a shard: ten times what fits into memory, a thousand at most; but twice the classes where sums are kept
    by class. It is part of the key, so it follows nothing that is chosen for speed."""
    return max(min(MOST_IMAGES, 10 * fitting), 2 * min(k, MOST_SUMMED))


def list_surrogates(conditions: Conditions) -> dict[str, nn.Module]:
    """The networks that some attacks are crafted on besides the model, by what their answers are called."""
    return {f"surrogate {one.name}": one.model for _, attack in conditions for one in attack.other_networks}


def find_reach(attacks: Sequence[Attack], pixels: int) -> float:
    """How far, per pixel, the attacks of an audit that use gradients go at most; 0 if none says."""
    found = [0.0]
    for attack in attacks:
        ball = attack.common_ball if attack.gradients else None
        if ball is not None and isinstance(ball.eps, float):
            found.append(ball.eps if isinstance(ball, Linf) else ball.eps / math.sqrt(pixels))
    return max(found)


def group_by_ball(conditions: Conditions) -> list[tuple[Ball, tuple[str, ...]]]:
    """The conditions to be checked: those that use gradients to find any mistake, by their ball."""
    found: dict[str, tuple[Ball, tuple[str, ...]]] = {}
    for name, attack in conditions:
        ball = attack.common_ball
        if attack.gradients and ball is not None and isinstance(ball.eps, float) and attack.any_mistake:
            _, names = found.get(str(ball), (ball, ()))
            found[str(ball)] = ball, (*names, name)
    return list(found.values())


@contextmanager
def report_meanwhile(
    model: Classifier, most: Passes | None, images: int, *, heard: BatchListener, done: int
) -> Iterator[None]:
    """While a batch is attacked, now and then: `done` images, and as many of its own as the passes are enough for."""
    seen, said = 0, time.monotonic()

    def count(_: nn.Module, given: tuple[Images, ...]) -> None:
        nonlocal seen, said
        seen, now = seen + len(given[0]), time.monotonic()
        if most is not None and now - said >= TELL_EVERY:
            heard(done + min(seen / most.forwards, float(images)), None)
            said = now

    hook = model.register_forward_pre_hook(count)
    try:
        yield
    finally:
        hook.remove()


def check_finite(z: Logits, outcome: Outcome, y: Labels, *, name: str, classes: tuple[str, ...]) -> None:
    """Numbers that are not finite say nothing about robustness, neither in the logits nor in what an attack saw."""
    bad = ~z.isfinite().all(dim=1) | (outcome.trouble == BROKEN)
    if not bool(bad.any()):
        return
    counts = torch.bincount(y[bad], minlength=len(classes)).tolist()
    shown = ", ".join(f"{classes[c]} {n}" for c, n in enumerate(counts) if n)
    raise ValueError(
        f"under {name} the model gives logits or gradients that are not finite on {int(bad.sum())} of {len(y)} images "
        f"({shown}): its robustness there is unknown, so nothing is reported; check the model for overflow"
    )


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
