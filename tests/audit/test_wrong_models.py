"""Each of these models is refused, warned of by name, or audited rightly; sound models in odd clothes raise no alarm.

A number is right if it is at most five points above the best that is known: the model's own audit, and points that were
crafted on the plain network inside it; and so is that of every class, but for two of its ten images. A check that says
by how many points the number is too high has said it.
"""

import copy
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from leastwise.attacks.base import Clean
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.audit.auditor import make_auditor
from leastwise.audit.masking import cautions, cost_of_one, limit_sample
from leastwise.jobs.audit_task import audit
from leastwise.models.classifier import inference, wrap
from tests.audit.sound_models import SoundModel, sound_models
from tests.audit.tiny_networks import K, audited_images, plain
from tests.audit.wrong_models import WrongModel, wrong_models
from tests.oracles.networks import CIFAR, public_network

EPS = 0.05
ATTACK = PGD(Linf(EPS), step=EPS / 4, steps=10, keep="fooled")
CONDITIONS = (("clean", Clean()), ("pgd10", ATTACK))
ALLOWED, ALLOWED_OF_A_CLASS = 0.05, 2  # of all images, and images of a class
WRONG, SOUND = list(wrong_models()), list(sound_models())
HARMLESS = "the model returns log-probabilities"


@cache
def crafted() -> tuple[Tensor, Tensor]:
    """Points that fool the plain network, and the labels."""
    x, y, _ = audited_images().batch(np.arange(len(audited_images())))
    return PGD(Linf(EPS), step=EPS / 4, steps=20, keep="last")(plain(), x, y), y


def best_known(model: nn.Module, own: "np.ndarray") -> "np.ndarray":
    """What remains if crafted points count as well, image by image."""
    x, y = crafted()
    classifier = wrap(model, K)
    with inference(classifier), torch.no_grad():
        return own & (classifier(x).argmax(1) == y).numpy()


def judge(case: WrongModel) -> str:
    """refused, warned, right, or wrong; with what was said."""
    model = case.make()
    try:
        found = audit(model, audited_images(), CONDITIONS)
    except ValueError as error:
        return f"refused: {error}"
    said = cautions(found)
    if said:
        return "warned: " + " | ".join(said)
    own = found.correct("pgd10")
    left = best_known(model, own)
    worst = np.bincount(found.labels[own & ~left], minlength=K).max()
    if own.mean() <= left.mean() + ALLOWED and worst <= ALLOWED_OF_A_CLASS:
        return "right"
    told = found.checks[0]
    if told.excess and own.mean() - told.excess <= left.mean() + ALLOWED:
        return f"warned: {told.sentence(found.names)}"
    return f"wrong: {own.mean():.2f} where {left.mean():.2f} is known, and {worst} too many of one class"


def test_the_tables_are_as_long_as_they_should_be() -> None:
    assert len({case.name for case in WRONG}) == len(WRONG) >= 110
    assert len({case.name for case in SOUND}) == len(SOUND) >= 25


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_a_wrong_model_is_refused_warned_of_or_right(
    case: WrongModel, record_property: Callable[[str, object], None]
) -> None:
    torch.manual_seed(0)
    outcome = judge(case)
    record_property("wrong_models", 1)
    record_property({"wrong": "silently_wrong"}.get(kind := outcome.partition(":")[0], kind), 1)
    assert not outcome.startswith("wrong"), outcome
    if case.words:
        assert re.search(case.words, outcome), outcome


@pytest.mark.parametrize("case", SOUND, ids=lambda case: case.name)
def test_a_sound_model_raises_no_alarm(case: SoundModel, record_property: Callable[[str, object], None]) -> None:
    record_property("sound_models", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = audit(case.make(), audited_images(), CONDITIONS)
    alarms = [said for said in cautions(found) if not said.startswith(HARMLESS)]
    record_property("alarms", len(alarms) > 0)
    assert alarms == []
    if case.known:
        expected = audit(plain(), audited_images(), CONDITIONS, check=False)
        assert abs(found.tally("pgd10").overall - expected.tally("pgd10").overall) <= 0.02


def test_the_checks_of_a_large_audit_cost_at_most_a_twentieth() -> None:
    """Counted in passes: 10,000 images under PGD-20, from a network of which a quarter survives to one that holds."""
    conditions = (("pgd20", replace(ATTACK, steps=20)),)
    counts = {"forwards": 0, "backwards": 0}
    make_auditor(CountedPasses(plain(), counts), audited_images(), conditions)
    before = sum(counts.values())
    assert counts["backwards"] > 0
    small = audit(plain(), audited_images(), conditions)
    record = small.conditions["pgd20"]
    mine = (record.forwards + record.backwards) / len(small.ids)
    each = cost_of_one(ATTACK.ball, K)
    for passes in (12.0, mine, 42.0):  # of an image, on average; 42 if none falls
        most = limit_sample(10_000, int(10_000 * passes), each)
        assert before + most * (each.forwards + each.backwards) <= 0.05 * 10_000 * passes
    (check,) = small.checks
    assert 0 < check.forwards <= check.sampled * each.forwards and 0 < check.backwards <= check.sampled * each.backwards
    assert limit_sample(200, 2_000, each) == 50 == limit_sample(10_000, 420_000, each)


class CountedPasses(nn.Module):
    """Counts the passes of single images, forwards and backwards, of itself and of its copies."""

    def __init__(self, net: nn.Module, counts: dict[str, int]) -> None:
        super().__init__()
        self.net, self.counts = net, counts

    def forward(self, x: Tensor) -> Tensor:
        self.counts["forwards"] += len(x)
        z: Tensor = self.net(x)
        if z.requires_grad:
            z.register_hook(self.count)  # type: ignore[no-untyped-call]
        return z

    def count(self, gradient: Tensor) -> None:
        self.counts["backwards"] += len(gradient)

    def __deepcopy__(self, memo: dict[int, Any]) -> "CountedPasses":
        return CountedPasses(copy.deepcopy(self.net), self.counts)


@pytest.mark.medium
@pytest.mark.parametrize("name", [*CIFAR, "mnist_cnn_a_adv", "akamaster", "chenyaofo"])
def test_public_networks_raise_no_alarm(test_data: Path, name: str) -> None:
    """Six networks that others trained, standard, adversarially and with certificates, at two radii."""
    model, data, radii = public_network(test_data, name)
    assert (name == "akamaster") == any("akamaster" in note for note in model.notes)
    for eps in radii:
        conditions = (("clean", Clean()), ("pgd20", PGD(Linf(eps), step=eps / 4, steps=20, keep="fooled")))
        found = audit(model, data, conditions)
        assert cautions(found) == (), eps
        checked = found.checks[0]
        assert bool(checked.sampled) == bool(checked.survivors) and not checked.fires
