"""What every search for the nearest mistake keeps to: DDN, FMN and both of Carlini and Wagner's."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leastwise.attacks.base import BROKEN, FINE, FLAT, NEVER, Attack
from leastwise.attacks.min_norm.cw import CWL2, CWInf
from leastwise.attacks.min_norm.ddn_fmn import DDN, FMN
from leastwise.attacks.threats import L1, L2, Linf
from leastwise.models.classifier import Classifier
from tests.attacks.contract import check_contract
from tests.attacks.min_norm.searches import SEARCHES, short
from tests.attacks.networks_to_attack import mixed, noise_for
from tests.conftest import K
from tests.oracles.linear_models import binary, grey

pytestmark = pytest.mark.slow

SHORT_CW = (CWL2(L2(0.3), iterations=12, searches=4), CWInf(Linf(0.03), iterations=12, searches=2))
ALL = SEARCHES + SHORT_CW


@given(
    attack=st.sampled_from(ALL),
    eps=st.floats(0, 1),
    keep=st.sampled_from(["last", "fooled"]),
    k=st.integers(2, 7),
    b=st.integers(1, 4),
    shape=st.tuples(st.sampled_from([1, 3]), st.integers(5, 12), st.integers(5, 12)),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=20, deadline=None)
def test_p15_every_search_stays_in_its_ball_and_leaves_the_model_alone(
    attack: FMN, eps: float, keep: str, k: int, b: int, shape: tuple[int, int, int], seed: int
) -> None:
    budget = {"steps": 3} if isinstance(attack, FMN | DDN) else {"iterations": 3, "searches": 2}
    scale = {Linf: 1, L2: 5, L1: 50}[type(attack.ball)]
    check_contract(replace(attack, **budget, keep=keep).at(scale * eps), k, b, shape, seed)


@pytest.mark.parametrize("attack", ALL, ids=short)
def test_the_outcome_at_a_radius_is_the_distance_against_it(attack: FMN) -> None:
    model, x, y = mixed()
    x, y = x[:20], y[:20]
    found = attack.closest(model, x, y, noise_for(x))
    eps = torch.where(torch.arange(len(x)) % 2 == 0, 0.5, 1.5) * found.distance[found.distance > 0].median()
    last = attack.at(eps).run(model, x, y, noise_for(x))
    assert torch.equal(last.fooled, found.distance <= eps)
    assert 0 < int(last.fooled.sum()) < len(x)
    assert bool((model(last.x_adv).argmax(1) != y)[last.fooled].all())
    assert torch.equal(last.x_adv[~last.fooled], x[~last.fooled])
    assert bool((last.step[last.fooled & (found.distance > 0)] > 0).all())
    assert bool((last.step[found.distance == 0] == 0).all())

    # An example that leaves at its first point inside the ball costs less, and the verdict is the same.
    fooled = replace(attack, keep="fooled").at(eps).run(model, x, y, noise_for(x))
    assert torch.equal(fooled.fooled, last.fooled)
    assert torch.equal(fooled.step, last.step)
    assert fooled.backwards < last.backwards and fooled.forwards < last.forwards
    assert bool(attack.at(eps).allows(x, fooled.x_adv).all())


@pytest.mark.parametrize("attack", ALL, ids=short)
def test_survivors_do_not_notice_who_leaves(attack: FMN) -> None:
    """Alone, in another order, or beside examples that leave early: the same search, to rounding."""
    model, x, y = mixed()
    x, y = x[:12], y[:12]
    together = attack.closest(model, x, y, noise_for(x))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    for rows in order.split(5):
        apart = attack.closest(model, x[rows], y[rows], noise_for(x).pick(rows))
        assert torch.allclose(apart.distance, together.distance[rows], atol=1e-9)
        assert torch.allclose(apart.x_adv, together.x_adv[rows], atol=1e-9)
    eps = float(together.distance[together.distance > 0].median())
    fooled = replace(attack, keep="fooled").at(eps).run(model, x, y, noise_for(x))
    rows = (~fooled.fooled).nonzero().squeeze(1)
    survivors = attack.closest(model, x[rows], y[rows], noise_for(x).pick(rows))
    assert torch.allclose(survivors.distance, together.distance[rows], atol=1e-9)


@pytest.mark.parametrize("attack", ALL, ids=short)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_misclassified_images_are_at_distance_zero(attack: FMN, dtype: torch.dtype) -> None:
    model, x, y = mixed(dtype)
    x, y = x[:30], y[:30]
    found = attack.closest(model, x, y, noise_for(x))
    wrong = model(x).argmax(1) != y
    assert torch.equal(found.distance == 0, wrong) and bool(wrong.any())
    assert torch.equal(found.x_adv[wrong], x[wrong])
    assert found.x_adv.dtype == dtype and found.distance.dtype == torch.float64


class Constant(nn.Module):
    """Zero gradient everywhere; class 1 of 3 wins."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0 * x.flatten(1)[:, :3] + torch.tensor([0.0, 1.0, 0.5], dtype=x.dtype)


class NotANumber(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)[:, :3] * math.nan


class NotAGradient(nn.Module):
    """Finite logits, class 1 of 3 wins, and a gradient that is not a number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.detach()).sqrt().flatten(1)[:, :3] + torch.tensor([0.0, 1.0, 0.5], dtype=x.dtype)


@pytest.mark.parametrize("keep", ["last", "fooled"])
@pytest.mark.parametrize("attack", ALL, ids=short)
@pytest.mark.parametrize(
    ("model", "trouble"), [(Constant(), FLAT), (NotANumber(), BROKEN), (NotAGradient(), BROKEN)], ids=lambda v: str(v)
)
def test_nothing_found_for_want_of_a_gradient_is_said(attack: FMN, model: nn.Module, trouble: int, keep: str) -> None:
    x, y = grey(4), torch.ones(4, dtype=torch.int64)
    attack = replace(attack, keep=keep)
    found, outcome = (f(model, x, y, noise_for(x)) for f in (attack.closest, attack.run))
    assert found.distance.tolist() == [math.inf] * 4 and torch.equal(found.x_adv, x)
    assert found.trouble.tolist() == outcome.trouble.tolist() == [trouble] * 4
    assert not bool(outcome.fooled.any()) and outcome.step.tolist() == [NEVER] * 4
    if trouble == FLAT:
        missed = attack.closest(model, x, torch.zeros(4, dtype=torch.int64), noise_for(x))
        assert missed.distance.tolist() == [0] * 4


# Targets


@pytest.mark.parametrize("attack", ALL, ids=short)
def test_a_target_is_where_it_goes(attack: FMN) -> None:
    model, x, y = mixed()
    x, y = x[:10], y[:10]
    target = (y + 1) % K
    budget = {"steps": 50} if isinstance(attack, FMN | DDN) else {"iterations": 60, "searches": 1, "c": 10.0}
    found = replace(attack, target=target, **budget).closest(model, x, y, noise_for(x))
    got = found.distance.isfinite()
    assert float(got.double().mean()) > 0.8
    assert torch.equal(model(found.x_adv).argmax(1)[got], target[got])
    assert torch.equal(found.distance == 0, model(x).argmax(1) == target)


@pytest.mark.parametrize("attack", ALL, ids=short)
def test_with_two_classes_the_target_is_the_other_one(attack: FMN) -> None:
    model, _ = binary(3)
    x = grey(8)
    y = model(x).argmax(1)
    plainly, aimed = (a.closest(model, x, y, noise_for(x)) for a in (attack, replace(attack, target=1 - y)))
    assert torch.allclose(plainly.distance, aimed.distance, atol=1e-12)


@pytest.mark.parametrize("attack", ALL, ids=short)
def test_targets_that_do_not_fit_are_refused(attack: FMN) -> None:
    model, _ = binary(3)
    x, y = grey(4), torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ValueError, match="one target class per image, but saw 3 for 4"):
        replace(attack, target=y[:3]).run(model, x, y, noise_for(x))


def test_searches_are_attacks() -> None:
    for attack in ALL:
        assert isinstance(attack, Attack)
        model, x, y = mixed(torch.float32)
        assert attack(model, x[:2], y[:2]).shape == x[:2].shape


@pytest.mark.parametrize("attack", [FMN(Linf(0.03), steps=4), DDN(L2(0.3), steps=4), *SHORT_CW], ids=short)
def test_imagenet_size_and_grey_images_work(attack: FMN) -> None:
    """A smoke test: one grey image of 224 × 224 pixels."""
    model = Classifier(nn.Sequential(nn.AvgPool2d(32), nn.Flatten(), nn.Linear(49, 3)), 3).eval()
    x = torch.rand(1, 1, 224, 224, generator=torch.Generator().manual_seed(0))
    found = replace(attack, keep="fooled").run(model, x, model(x).argmax(1), noise_for(x))
    assert bool(attack.allows(x, found.x_adv).all()) and found.trouble.tolist() == [FINE]
