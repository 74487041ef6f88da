"""What counts as the same answers: rounding of one model, and nothing more."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from leastwise.models.answers import (
    MOST_IMAGES,
    Answers,
    ask_model,
    choose_rows,
    compare_answers,
    compare_margins,
    find_spread,
    read_answers,
)
from leastwise.models.classifier import Classifier
from leastwise.models.zoo.registry import build
from tests.conftest import SHAPE, K

X, IDS = torch.rand(20, *SHAPE, generator=torch.Generator().manual_seed(0)), torch.arange(100, 120)


def ask(model: nn.Module, batch: int = 20, **settings: float) -> Answers:
    return ask_model(model, X, IDS, batch=batch, attacked=True, gradients=True, **settings)


def shifted(answers: Answers, part: float) -> Answers:
    """One logit of one image moved by a part of the spread."""
    logits = answers.logits.copy()
    logits[7, 2] += part * find_spread(answers, answers)
    return replace(answers, logits=logits)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_tolerance_is_a_ten_thousandth_of_the_spread_at_any_scale(scale: float) -> None:
    found = ask(build("convnet", SHAPE, K, seed=3), unrest=0.0)
    found = replace(found, logits=scale * found.logits, moved=scale * found.moved)
    assert compare_answers(found, shifted(found, 0.5e-4)).same and not compare_answers(found, shifted(found, 2e-4)).same
    assert compare_answers(found, shifted(replace(found, device="cuda"), 2e-3)).same  # TF32
    assert not compare_answers(found, shifted(replace(found, device="cuda"), 2e-2)).same


def test_rounding_of_batches_threads_and_halves_stays_below_it(network: Classifier) -> None:
    whole = ask(network)
    for batch in (1, 3, 7):
        assert compare_answers(whole, ask(network, batch)).same
    half = replace(whole, bits=2**-7)  # as of a network in bfloat16
    size = float(np.abs(whole.logits).max())
    assert compare_answers(half, replace(half, logits=half.logits + 2**-7 * size)).same
    torch.set_num_threads(2)
    try:
        assert compare_answers(whole, ask(network)).same
    finally:
        torch.set_num_threads(1)


def test_answers_survive_a_claim_bit_by_bit_and_damaged_ones_are_none() -> None:
    found = ask(build("convnet", SHAPE, K, seed=3))
    told = json.loads(json.dumps(found.to_json()))
    back = read_answers(told)
    assert back is not None and np.array_equal(back.logits, found.logits) and np.array_equal(back.ids, found.ids)
    assert np.array_equal(back.moved, found.moved) and np.array_equal(back.slopes, found.slopes)
    assert compare_answers(back, found).same and back.slopes.shape == (16, 8)
    for damage in (None, [], {}, {**told, "ids": 3}, {**told, "logits": {"shape": [2, 2], "f4": "AAAA"}}):
        assert read_answers(damage) is None
    assert read_answers({**told, "unrest": float("nan")}) is None
    assert read_answers({**told, "ids": {"shape": [1], "i8": "AAAAAAAAAAA="}}) is None


class Turned(nn.Module):
    """The same logits with another backward pass."""

    def __init__(self, net: nn.Module, back: float) -> None:
        super().__init__()
        self.net, self.back = net, back

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.back * x + (x - self.back * x).detach()
        return self.net(torch.cat([mixed[:, :1], x[:, 1:]], dim=1))


def test_a_gradient_that_belongs_to_no_forward_pass_is_seen() -> None:
    net = build("convnet", SHAPE, K, seed=3)
    honest, turned = ask(Turned(net, 1.0)), ask(Turned(net, 0.5))
    found = compare_answers(honest, turned)
    assert not found.same and "logits are the same, but input gradients differ by" in found.words
    assert compare_answers(honest, ask(net)).same


def test_numbers_that_are_not_finite_are_compared_by_where_they_are() -> None:
    found = ask(build("convnet", SHAPE, K, seed=3), unrest=0.0)
    broken = replace(found, moved=np.where(np.arange(K) == 1, np.nan, found.moved).astype(np.float32))
    assert compare_answers(broken, broken).same
    assert not compare_answers(found, broken).same and not compare_answers(broken, found).same


def test_margins_tell_models_apart_where_logits_were_not_kept() -> None:
    found, labels = ask(build("convnet", SHAPE, K, seed=3), unrest=0.0), np.arange(20) % K
    rows = np.arange(20)
    others = np.where(np.arange(K) == labels[:, None], -np.inf, found.logits).max(axis=1)
    margins = found.logits[rows, labels] - others
    assert compare_margins(found, rows, labels=labels, margins=margins).same
    far = margins + 1e-2 * find_spread(found, found)
    assert not compare_margins(found, rows, labels=labels, margins=far).same
    assert compare_margins(found, rows[:0], labels=labels[:0], margins=margins[:0]).words.startswith("no image")


@pytest.mark.parametrize(("n", "k", "kept"), [(5, 10, 5), (10_000, 10, 100), (50_000, 1000, 32), (90_000, 10_000, 8)])
def test_fewer_images_are_kept_where_classes_are_many(n: int, k: int, kept: int) -> None:
    rows = choose_rows(n, k)
    assert len(rows) == kept <= MOST_IMAGES and rows[0] == 0 and rows[-1] == n - 1 and (np.diff(rows) > 0).all()
