"""Corruptions and random points as conditions."""

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leastwise.attacks.base import BROKEN, NEVER
from leastwise.attacks.choices import Keep
from leastwise.attacks.corruptions import Corrupted, NoiseKind, RandomNoise, draw_point
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.core.losses import margin
from leastwise.core.noise import Noise
from leastwise.core.recipe import recipe_key
from leastwise.data.corrupt.registry import Corruption
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import audit
from leastwise.models.zoo.registry import build
from tests.attacks.contract import check_contract
from tests.attacks.networks_to_attack import mixed, noise_for
from tests.conftest import SHAPE, B, K, random_linear

PICTURE = (3, 12, 10)


# Corruptions


@pytest.mark.parametrize("name", ["gaussian_noise", "contrast", "glass_blur"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_condition_is_the_corruption_with_the_same_noise(name: str, dtype: torch.dtype) -> None:
    model = build("small", PICTURE, K, seed=0).to(dtype).eval()
    g = torch.Generator().manual_seed(0)
    x, y = torch.rand(B, *PICTURE, generator=g, dtype=dtype), torch.randint(0, K, (B,), generator=g)
    noise = Noise(4, 1000 + 3 * torch.arange(B), "/audit")
    corruption = Corruption(name, 4)
    found = Corrupted(corruption).run(model, x, y, noise)
    assert torch.equal(found.x_adv, corruption(x, noise)) and not torch.equal(found.x_adv, x)
    assert torch.equal(found.fooled, model(found.x_adv).argmax(1) != y)
    assert found.step.tolist() == [0 if fooled else NEVER for fooled in found.fooled.tolist()]
    assert (found.forwards, found.backwards) == (B, 0)
    assert torch.equal(Corrupted(corruption)(model, x, y, seed=2), corruption(x, Noise(2, torch.arange(B), "/attack")))
    rows = torch.tensor([5, 2])
    alone = Corrupted(corruption).run(model, x[rows], y[rows], noise.pick(rows))
    assert torch.equal(alone.x_adv, found.x_adv[rows])


def test_an_audit_corrupts_as_the_corruption_itself_does() -> None:
    """The images an audit shows its model are `Corruption(...)(x, Noise(seed, ids, "/audit"))`."""
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (30, *PICTURE), generator=g, dtype=torch.uint8).numpy()
    labels = torch.arange(30).numpy() % K
    data = Dataset.of(images, labels, tuple("abcde"), ids=100 + torch.arange(30).numpy())
    model = build("small", PICTURE, K, seed=0).eval()
    seen: list[torch.Tensor] = []
    model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
    corruption = Corruption("shot_noise", 2)
    audit(model, data, (("shot", Corrupted(corruption)),), seed=6, batch_size=30)
    batch = data.batch(torch.arange(30).numpy())
    wanted = corruption(batch.x, Noise(6, batch.ids, "/audit"))
    assert any(torch.equal(x, wanted) for x in seen)


def test_higher_severity_is_further_away() -> None:
    model = build("small", PICTURE, K, seed=0).eval()
    x = torch.rand(B, *PICTURE, generator=torch.Generator().manual_seed(0))
    y = torch.zeros(B, dtype=torch.int64)
    for name in ("gaussian_noise", "shot_noise", "contrast"):
        found = [Corrupted(Corruption(name, s)).run(model, x, y, noise_for(x)).x_adv for s in range(1, 6)]
        distance = torch.stack([(x_adv - x).flatten(1).norm(dim=1) for x_adv in found])
        assert bool((distance.diff(dim=0) > 0).all())


def test_a_corruption_has_no_radius() -> None:
    condition = Corrupted(Corruption("fog", 2))
    assert condition.at(0.5) is condition and not condition.gradients
    x = torch.rand(2, *PICTURE)
    assert condition.allows(x, 1 - x).tolist() == [True, True]
    assert condition.allows(x, x - 1.1).tolist() == [False, False]
    assert condition.allows(x, x + 1.1).tolist() == [False, False]
    assert recipe_key(condition) != recipe_key(Corrupted(Corruption("fog", 3)))
    assert str(condition) == "corrupted by fog, severity 2"


# Random points


@st.composite
def noises(draw: st.DrawFn) -> RandomNoise:
    eps = draw(st.floats(0, 1))
    ball: Ball = draw(st.sampled_from([Linf(eps), L2(5 * eps), L1(20 * eps)]))
    kind, keep = draw(st.sampled_from(get_args(NoiseKind))), draw(st.sampled_from(get_args(Keep)))
    return RandomNoise(ball, kind, draw(st.integers(1, 4)), keep)


@given(
    attack=noises(),
    k=st.integers(2, 7),
    b=st.integers(1, 5),
    shape=st.tuples(st.sampled_from([1, 3]), st.integers(5, 12), st.integers(5, 12)),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=25, deadline=None)
def test_p15_random_noise_stays_in_its_ball_and_leaves_the_model_alone(
    attack: RandomNoise, k: int, b: int, shape: tuple[int, int, int], seed: int
) -> None:
    check_contract(attack, k, b, shape, seed)


@pytest.mark.parametrize("kind", get_args(NoiseKind))
@pytest.mark.parametrize("ball", [Linf(0.08), L2(0.6)], ids=str)
def test_last_is_the_worst_of_the_draws_and_fooled_the_first_mistake(ball: Ball, kind: NoiseKind) -> None:
    model, x, y = mixed()
    attack = RandomNoise(ball, kind, 6)
    points = torch.stack([single(attack, x, number) for number in range(1, 7)])
    wrong = torch.stack([model(point).argmax(1) != y for point in points])
    margins = torch.stack([margin(model(point), y) for point in points])
    every = torch.arange(len(x))

    last = attack.run(model, x, y, noise_for(x))
    assert torch.equal(last.x_adv, points[margins.argmin(0), every])
    assert torch.equal(last.fooled, wrong.any(0)) and 0 < int(last.fooled.sum()) < len(x)
    assert torch.equal(last.step, torch.where(wrong.any(0), wrong.int().argmax(0) + 1, NEVER))
    assert (last.forwards, last.backwards) == (6 * len(x), 0)

    fooled = RandomNoise(ball, kind, 6, "fooled").run(model, x, y, noise_for(x))
    with_clean = torch.cat([(model(x).argmax(1) != y)[None], wrong])
    assert torch.equal(fooled.step, torch.where(with_clean.any(0), with_clean.int().argmax(0), NEVER))
    where = torch.where(with_clean.any(0), with_clean.int().argmax(0), 0)
    shown = torch.cat([x[None], points])
    assert torch.allclose(fooled.x_adv[fooled.fooled], shown[where, every][fooled.fooled], atol=1e-12)
    # Survivors return the point that came nearest to a mistake, the image itself included.
    nearest = torch.cat([margin(model(x), y)[None], margins]).argmin(0)
    assert torch.allclose(fooled.x_adv[~fooled.fooled], shown[nearest, every][~fooled.fooled], atol=1e-12)
    assert fooled.forwards == int(torch.where(with_clean.any(0), where, 6).sum()) + len(x)


def single(attack: RandomNoise, x: torch.Tensor, number: int) -> torch.Tensor:
    return draw_point(attack.kind, x, attack.ball, noise=noise_for(x).fork(attack.kind, number))


def test_the_kinds_are_the_distributions_they_are_named_after() -> None:
    """Mean, spread and support over 30,000 pixels, far from the pixel range's ends."""
    x, eps = torch.full((100, 3, 10, 10), 0.5, dtype=torch.float64), 0.1
    uniform, gaussian, corners = (
        (single(RandomNoise(Linf(eps), kind), x, 1) - x).flatten() / eps for kind in get_args(NoiseKind)
    )
    assert float(uniform.std()) == pytest.approx(1 / 3**0.5, rel=0.02) and float(uniform.abs().max()) <= 1 + 1e-9
    assert corners.abs().sub(1).abs().max() < 1e-9 and abs(float(corners.mean())) < 0.03
    # |N(0, 1)| > 1 with probability 0.3173, all of which lies on the edge.
    assert float((gaussian.abs() > 1 - 1e-9).double().mean()) == pytest.approx(0.3173, abs=0.01)
    inner = gaussian[gaussian.abs() < 0.999]
    assert float(inner.std()) == pytest.approx(0.5396, rel=0.02)  # of a normal cut off at one standard deviation
    sphere = single(RandomNoise(L2(eps), "corners"), x, 1) - x
    assert sphere.flatten(1).norm(dim=1).tolist() == pytest.approx([eps] * 100, rel=1e-9)


def test_random_noise_on_a_linear_model_is_a_coin_with_known_odds() -> None:
    """Corners move a linear score by eps·sum ±w_i: about N(0, eps²·|w|²), so mistakes have a known frequency."""
    model = random_linear(2, seed=5)
    weight = model.net.weight.detach()
    w = weight[0] - weight[1]
    x = torch.full((4000, *SHAPE), 0.5, dtype=torch.float64)
    y = model(x).argmax(1)
    gap = float(margin(model(x[:1]), y[:1]).detach())
    eps = gap / float(w.norm())
    assert eps < 0.5
    found = RandomNoise(Linf(eps), "corners").run(model, x, y, noise_for(x))
    assert float(found.fooled.double().mean()) == pytest.approx(0.1587, abs=0.02)  # P(N(0, 1) > 1)
    twice = RandomNoise(Linf(eps), "corners", 2).run(model, x, y, noise_for(x))
    assert float(twice.fooled.double().mean()) == pytest.approx(1 - 0.8413**2, abs=0.025)


@pytest.mark.parametrize("keep", get_args(Keep))
def test_a_radius_per_example_and_any_batch(keep: Keep) -> None:
    model, x, y = mixed()
    eps = torch.linspace(0, 0.3, len(x), dtype=x.dtype)
    attack = RandomNoise(Linf(1.0), "corners", 3, keep).at(eps)
    found = attack.run(model, x, y, noise_for(x))
    assert bool(attack.allows(x, found.x_adv).all()) and torch.equal(found.x_adv[0], x[0])
    for rows in torch.randperm(len(x), generator=torch.Generator().manual_seed(0)).split(17):
        alone = attack.at(eps[rows]).run(model, x[rows], y[rows], noise_for(x).pick(rows))
        assert torch.equal(alone.x_adv, found.x_adv[rows]) and torch.equal(alone.step, found.step[rows])


def test_a_tie_that_the_label_wins_is_no_mistake() -> None:
    class Tied(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.new_zeros(len(x), 3)

    x = torch.rand(2, *SHAPE)
    found = RandomNoise(Linf(0.1), draws=2).run(Tied(), x, torch.tensor([0, 1]), noise_for(x))
    assert found.fooled.tolist() == [False, True] and found.step.tolist() == [NEVER, 1]


def test_logits_that_are_not_finite_are_never_robustness() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.full((len(x), K), torch.nan, dtype=x.dtype)

    x, y = torch.rand(3, *PICTURE), torch.arange(3)
    for keep in get_args(Keep):
        for condition in (RandomNoise(Linf(0.1), draws=2, keep=keep), Corrupted(Corruption("contrast"))):
            found = condition.run(Broken(), x, y, noise_for(x))
            assert not bool(found.fooled.any()) and found.trouble.tolist() == [BROKEN] * 3


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one draw, but saw 0"):
        RandomNoise(Linf(0.1), draws=0)
    assert not RandomNoise(Linf(0.1)).gradients
    assert str(RandomNoise(Linf(0.1), "corners", 5, "fooled")) == (
        "corners noise in Linf eps 0.1, the worst of 5, the image counts too"
    )
    assert recipe_key(RandomNoise(Linf(0.1))) != recipe_key(RandomNoise(Linf(0.1), draws=2))
