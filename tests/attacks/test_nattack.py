"""NAttack: its gradient estimate on a linear score, standardised rewards, and what a linear model allows."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import leastwise.attacks.nattack as module
from leastwise.attacks.base import BROKEN, FINE, NEVER, ask
from leastwise.attacks.goals import KL, Margin, Targeted
from leastwise.attacks.nattack import (
    NAttack,
    Survey,
    advantages,
    directions,
    image_of,
    move_mean,
    own_signs,
    start_state,
    survey,
)
from leastwise.attacks.threats import L2, Ball, Linf
from leastwise.core.losses import margin
from leastwise.core.recipe import recipe_key
from tests.attacks.networks_to_attack import Partly, linear, mixed, noise_for
from tests.conftest import SHAPE, K, random_linear

pytestmark = pytest.mark.slow

SMALL = NAttack(Linf(0.08), population=12, steps=12)


def few(b: int = 24) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    model, x, y = mixed()
    return model, x[:b], y[:b]


def grey(b: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(9)
    return 0.5 + 0.1 * (torch.rand(b, *SHAPE, generator=g, dtype=torch.float64) - 0.5)


# The estimate


def test_a7_expected_step_is_the_gradient() -> None:
    """A linear score of v: the pull is grad/|grad|, up to the sampling error sqrt(144 / 4000) = 0.19."""
    x, n = grey(6), 4000
    y = torch.zeros(6, dtype=torch.int64)
    attack = NAttack(population=n, sigma=0.1, lr=0.02)
    front = start_state(attack, nn.Flatten(), x, y, noise_for(x))
    e, sign = directions(front, n, 0), own_signs(front, n, 0)
    gradient = torch.randn(6, *SHAPE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    v = front.mean[:, None] + attack.sigma * sign[:, :, None, None, None] * e
    score = (v * gradient[:, None]).sum(dim=(2, 3, 4))
    finite = torch.ones_like(score, dtype=torch.bool)
    moved = (move_mean(attack, front, e=e, sign=sign, seen=Survey(score, finite, ~finite)).mean - front.mean).flatten(1)
    assert bool((nn.functional.cosine_similarity(moved, gradient.flatten(1)) > 0.9).all())
    along = (moved * nn.functional.normalize(gradient.flatten(1))).sum(1)
    assert along.tolist() == pytest.approx([attack.lr / attack.sigma] * 6, rel=0.1)


def test_a7_expected_step_on_a_quadratic_score_is_the_gradient() -> None:
    """-|v - c|² has the gradient 2(c - v); where it is steep, sigma² of curvature does not matter."""
    x, n = grey(4), 4000
    attack = NAttack(population=n)
    front = start_state(attack, nn.Flatten(), x, torch.zeros(4, dtype=torch.int64), noise_for(x))
    e, sign = directions(front, n, 3), own_signs(front, n, 3)
    centre = front.mean + torch.randn(4, *SHAPE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    v = front.mean[:, None] + attack.sigma * sign[:, :, None, None, None] * e
    score = -(v - centre[:, None]).square().sum(dim=(2, 3, 4))
    finite = torch.ones_like(score, dtype=torch.bool)
    moved = (move_mean(attack, front, e=e, sign=sign, seen=Survey(score, finite, ~finite)).mean - front.mean).flatten(1)
    assert bool((nn.functional.cosine_similarity(moved, (centre - front.mean).flatten(1)) > 0.9).all())


def test_a7_directions_are_standard_normal_and_signs_fair() -> None:
    x = torch.full((40, 3, 5, 4), 0.5)
    front = start_state(SMALL, nn.Flatten(), x, torch.zeros(40, dtype=torch.int64), noise_for(x))
    e = directions(front, 3000, 0)
    assert e.shape == (3000, 3, 5, 4)
    assert float(e.mean()) == pytest.approx(0, abs=0.01) and float(e.std()) == pytest.approx(1, abs=0.01)
    assert float((e.abs() < 1.0).double().mean()) == pytest.approx(0.6827, abs=0.005)
    between = torch.corrcoef(e.flatten(1).T) - torch.eye(60)
    assert float(between.abs().max()) < 5 / math.sqrt(3000)
    sign = own_signs(front, 3000, 0)
    assert sign.abs().eq(1).all() and float(torch.corrcoef(sign).fill_diagonal_(0).abs().max()) < 5 / math.sqrt(3000)
    assert not torch.equal(e, directions(front, 3000, 1)) and not torch.equal(sign, own_signs(front, 3000, 1))


# Rewards


@given(st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=40))
@settings(max_examples=60, deadline=None)
def test_a7_standardised_rewards_have_mean_zero(values: list[float]) -> None:
    reward = torch.tensor([values])
    a = advantages(reward, torch.ones_like(reward, dtype=torch.bool))
    assert float(a.mean()) == pytest.approx(0, abs=1e-6)
    spread = float(reward.double().std(correction=0))
    assert float(a.std(correction=0)) == pytest.approx(spread / (spread + 1e-7), abs=1e-5)


@pytest.mark.parametrize("value", [0.0, 1.2345678, -37.1, 1e-20, 3e30])
def test_a7_equal_rewards_move_nothing(value: float) -> None:
    """In float32 the mean of 300 equal numbers is not that number: rounding over 1e-7 would move the Gaussian."""
    reward = torch.full((1, 300), value)
    finite = torch.ones_like(reward, dtype=torch.bool)
    assert torch.equal(advantages(reward, finite), torch.zeros(1, 300, dtype=torch.float64))
    x = torch.rand(1, *SHAPE, generator=torch.Generator().manual_seed(0))
    attack = NAttack(population=300)
    front = start_state(attack, nn.Flatten(), x, torch.zeros(1, dtype=torch.int64), noise_for(x))
    e, sign = directions(front, 300, 0), own_signs(front, 300, 0)
    assert torch.equal(move_mean(attack, front, e=e, sign=sign, seen=Survey(reward, finite, ~finite)).mean, front.mean)


def test_a7_rewards_that_are_not_finite_have_no_say() -> None:
    reward = torch.tensor([[1.0, torch.nan, 3.0, torch.inf], [torch.nan] * 4])
    finite = reward.isfinite()
    a = advantages(reward, finite)
    assert a[0].tolist() == pytest.approx([-1, 0, 1, 0], abs=1e-6) and a[1].tolist() == [0] * 4


def test_a7_reward_is_half_the_hinged_difference_of_log_probabilities() -> None:
    """Each sample against its own best other class, seen one image at a time."""
    model, x, y = few(5)
    front = start_state(SMALL, model, x, y, noise_for(x))
    e, sign = directions(front, 12, 0), own_signs(front, 12, 0)
    seen = survey(SMALL, model, front, e=e, sign=sign)
    for n in range(5):
        for k in range(12):
            v = front.mean[n] + 0.1 * sign[n, k] * e[k]
            point = (x[n] + ((v.tanh() + 1) / 2 - x[n]).clamp(-0.08, 0.08)).clamp(0, 1)
            log_p = model(point[None]).detach().log_softmax(1)[0]
            others = torch.cat((log_p[: y[n]], log_p[y[n] + 1 :]))
            assert float(seen.reward[n, k]) == pytest.approx(-0.5 * max(float(log_p[y[n]] - others.max()), 0), abs=1e-9)
            assert bool(seen.reached[n, k]) == bool(log_p.argmax() != y[n])


@pytest.mark.parametrize("images", [1, 7, 12, 1000])
def test_how_many_images_go_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch, images: int) -> None:
    model, x, y = few(5)
    front = start_state(SMALL, model, x, y, noise_for(x))
    e, sign = directions(front, 12, 0), own_signs(front, 12, 0)
    whole = survey(SMALL, model, front, e=e, sign=sign)
    sizes = []

    def counting(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sizes.append(len(x))
        return ask(model, x)

    monkeypatch.setattr(module, "ask", counting)
    monkeypatch.setattr(module, "IMAGES", images)
    parts = survey(SMALL, model, front, e=e, sign=sign)
    assert torch.allclose(parts.reward, whole.reward, atol=1e-9)
    assert max(sizes) == min(images, 60) and sum(sizes) == 60


# The attack


def test_p25_nattack_succeeds_on_a_linear_model_when_it_can_and_never_when_not() -> None:
    model = random_linear(2, seed=5)
    weight = model.net.weight.detach()
    x = grey(12)
    y = model(x).argmax(1)
    needed = margin(model(x), y).detach() / (weight[0] - weight[1]).norm(p=1)
    attack = NAttack(population=100, steps=60)
    above = attack.at(1.3 * needed).run(model, x, y, noise_for(x))
    assert bool(above.fooled.all()) and not bool((above.step == 0).any())
    for more in (attack, replace(attack, steps=20, take_samples=True)):
        assert not bool(more.at(0.999 * needed).run(model, x, y, noise_for(x)).fooled.any())


@given(
    ball=st.sampled_from([Linf(0.0), Linf(0.05), Linf(1.0), L2(0.4), L2(3.0)]),
    k=st.integers(2, 7),
    b=st.integers(1, 4),
    shape=st.tuples(st.sampled_from([1, 3]), st.integers(1, 9), st.integers(1, 9)),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    take_samples=st.booleans(),
    each=st.booleans(),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=50, deadline=None)
def test_p15_nattack_stays_in_its_ball(
    ball: Ball,
    k: int,
    b: int,
    shape: tuple[int, int, int],
    dtype: torch.dtype,
    take_samples: bool,
    each: bool,
    seed: int,
) -> None:
    model = linear(shape, k, seed % 1000, dtype)
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(b, *shape, generator=g, dtype=dtype).mul(1.5).sub(0.25).clamp(0, 1)  # some at exactly 0 and 1
    y = torch.randint(0, k, (b,), generator=g)
    attack = NAttack(ball, population=5, sigma=0.5, lr=0.3, steps=4, take_samples=take_samples)
    if each:
        attack = attack.at(torch.linspace(0, 1, b, dtype=dtype) * ball.eps)
    x_before, generator_before = x.clone(), torch.random.get_rng_state()

    found = attack.run(model, x, y, noise_for(x, seed))

    assert bool(attack.allows(x, found.x_adv).all())
    assert bool((attack.ball.norm(found.x_adv - x) <= torch.as_tensor(attack.ball.eps) + 1e-6).all())
    assert found.x_adv.shape == x.shape and found.x_adv.dtype == dtype and not found.x_adv.requires_grad
    assert float(found.x_adv.min()) >= 0 and float(found.x_adv.max()) <= 1
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(x, x_before) and torch.equal(torch.random.get_rng_state(), generator_before)
    assert torch.equal(found.fooled, found.step != NEVER)
    assert bool(found.trouble.eq(FINE).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_images_at_zero_and_one_start_where_they_are(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, 1.0, 0.5, 0.25], dtype=dtype).view(1, 1, 2, 2)
    front = start_state(SMALL, nn.Flatten(), x, torch.zeros(1, dtype=torch.int64), noise_for(x))
    assert bool(front.mean.isfinite().all())
    assert torch.allclose(image_of(front, front.mean), x, atol=0.003)


def test_examples_that_leave_do_not_change_what_others_do() -> None:
    model, x, y = few()
    last = replace(SMALL, keep="last").run(model, x, y, noise_for(x))
    fooled = SMALL.run(model, x, y, noise_for(x))
    stay = ~fooled.fooled
    assert torch.allclose(fooled.x_adv[stay], last.x_adv[stay], atol=1e-9)
    assert set(fooled.step.tolist()) >= {NEVER, 0} and bool((fooled.step > 0).any())
    assert not bool(last.fooled[stay].any())
    wrong_at_once = model(x).argmax(1) != y
    assert torch.equal(fooled.x_adv[wrong_at_once], x[wrong_at_once])
    assert torch.equal(fooled.fooled, model(fooled.x_adv).argmax(1) != y)
    assert torch.equal(last.fooled, model(last.x_adv).argmax(1) != y)


def test_an_example_meets_the_same_samples_in_any_batch() -> None:
    model, x, y = few()
    eps = torch.linspace(0, 0.15, len(x), dtype=x.dtype)
    for attack in (replace(SMALL, keep="last"), replace(SMALL, take_samples=True)):
        together = attack.at(eps).run(model, x, y, noise_for(x))
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
        for rows in (order[:11], order[11:12]):
            alone = attack.at(eps[rows]).run(model, x[rows], y[rows], noise_for(x).pick(rows))
            assert torch.allclose(alone.x_adv, together.x_adv[rows], atol=1e-9)
            assert torch.equal(alone.step, together.step[rows])
        again = attack.at(eps).run(model, x, y, noise_for(x))
        assert torch.equal(again.x_adv, together.x_adv)
        assert 0 < int(together.fooled.sum()) < len(x)


def test_it_counts_what_it_asks() -> None:
    model, x, y = few()
    last = replace(SMALL, keep="last").run(model, x, y, noise_for(x))
    assert (last.forwards, last.backwards) == (len(x) * (12 * 12 + 1), 0)
    found = SMALL.run(model, x, y, noise_for(x))
    tests = {0: 1, 10: 3, 12: 4, NEVER: 4}  # the image; the means after 0, 10 and 12 steps
    at_start = (found.step == 0) & (model(x).argmax(1) == y)
    asked = [tests[t] + 12 * (12 if t == NEVER else t) for t in found.step.tolist()]
    assert found.forwards == sum(asked) + int(at_start.sum())
    assert NAttack(goal=KL(), steps=0, keep="last").run(model, x, y, noise_for(x)).forwards == 2 * len(x)


def test_samples_count_only_when_asked_for() -> None:
    model, x, y = few()
    wide = replace(SMALL, sigma=1.0, steps=9)
    means, samples = (replace(wide, take_samples=take).run(model, x, y, noise_for(x)) for take in (False, True))
    assert int(samples.fooled.sum()) > int(means.fooled.sum())
    assert bool((samples.step[samples.fooled] <= 9).all()) and bool((samples.step == 1).any())
    assert torch.equal(samples.fooled, model(samples.x_adv).argmax(1) != y)
    assert bool(SMALL.allows(x, samples.x_adv).all())


def test_a_target_is_reached_and_nothing_else_counts() -> None:
    model, x, y = few()
    target = (y + 2) % K
    found = NAttack(Linf(0.2), Targeted(target), population=30, steps=20).run(model, x, y, noise_for(x))
    assert torch.equal(found.fooled, model(found.x_adv).argmax(1) == target)
    assert 0 < int(found.fooled.sum()) < len(x)


@pytest.mark.parametrize("keep", ["last", "fooled"])
def test_numbers_that_are_not_finite_are_never_robustness(keep: str) -> None:
    model, x, y = few()
    found = replace(SMALL, keep=keep).run(Partly(model), x, y, noise_for(x))
    bad = x.flatten(1).mean(1) > 0.52
    assert bool((found.fooled | (found.trouble == BROKEN))[bad].all()) and bool(bad.any())
    assert bool((found.x_adv[found.fooled].flatten(1).mean(1) <= 0.5).all())
    everywhere = replace(SMALL, keep=keep, steps=2).run(Partly(nn.Flatten()), x.clamp_min(0.7), y, noise_for(x))
    assert not bool(everywhere.fooled.any()) and bool((everywhere.trouble == BROKEN).all())


def test_the_model_never_sees_an_empty_batch() -> None:
    model, x, y = few()

    class Strict(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert len(x) > 0
            return model(x)

    attack = replace(SMALL, take_samples=True)
    for labels in (y, (model(x).argmax(1) + 1) % K):
        attack.at(0.9).run(Strict(), x, labels, noise_for(x))
    found = attack.run(Strict(), x, labels, noise_for(x))
    assert bool(found.fooled.all()) and torch.equal(found.x_adv, x) and found.forwards == len(x)


def test_a_black_box_without_gradients_will_do() -> None:
    model, x, y = few()

    class BlackBox(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(model(x).detach().numpy().copy())

    attack = replace(SMALL, steps=3)
    assert not attack.gradients
    assert torch.equal(attack.run(BlackBox(), x, y, noise_for(x)).x_adv, attack.run(model, x, y, noise_for(x)).x_adv)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"population": 1}, "2 or more"),
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"lr": -0.1}, "lr zero or more"),
        ({"steps": -1}, "number of steps"),
        ({"take_samples": True, "keep": "last"}, "needs keep"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NAttack(**wrong)


def test_it_says_what_it_does_and_has_a_key() -> None:
    assert str(NAttack(Linf(0.25))) == (
        "NAttack with 500 steps of 300 queries on the margin with kappa = 0, Linf eps 0.25, sigma 0.1, lr 0.02, "
        "every 10th mean counts"
    )
    assert recipe_key(NAttack()) != recipe_key(NAttack(sigma=0.2))
    assert NAttack().goal == Margin(0.0)
