"""APGD and the contract every attack keeps: the ball, the batch, runs on what still stands, trouble, randomness."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.base import BROKEN, FINE, FLAT, NEVER, Outcome, rows_of
from leastwise.attacks.goals import CE, DLR, KL, Goal, Targeted, TargetedDLR
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.core.losses import margin
from leastwise.models.zoo.registry import build
from tests.attacks.networks_to_attack import mixed, noise_for, thirty_mixed
from tests.conftest import SHAPE, K

pytestmark = pytest.mark.slow

BALLS = (Linf(0.02), L2(0.2), L1(0.7))
GOALS: tuple[Goal, ...] = (CE(), DLR(), KL())


# P15: the contract


@given(
    kind=st.sampled_from([Linf, L2, L1]),
    eps=st.floats(0, 1),
    goal=st.sampled_from(GOALS),
    steps=st.integers(3, 12),
    targets=st.integers(0, 9),
    keep=st.sampled_from(["last", "fooled"]),
    k=st.integers(2, 7),
    b=st.integers(1, 5),
    shape=st.tuples(st.sampled_from([1, 3]), st.integers(1, 12), st.integers(1, 12)),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=40, deadline=None)
def test_p15_stays_in_its_ball_and_leaves_the_model_alone(
    kind: type[Linf] | type[L2] | type[L1],
    eps: float,
    goal: Goal,
    steps: int,
    targets: int,
    keep: str,
    k: int,
    b: int,
    shape: tuple[int, int, int],
    dtype: torch.dtype,
    seed: int,
) -> None:
    ball = kind(eps * {Linf: 1, L2: 5, L1: 20}[kind])
    attack = APGD(ball, goal, steps, targets, keep=keep)
    model = little(shape, k, dtype, seed % 1000)
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(b, *shape, generator=g, dtype=dtype)
    y = torch.randint(0, k, (b,), generator=g)
    x_before, generator_before = x.clone(), torch.random.get_rng_state()
    found = attack.run(model, x, y, noise_for(x, seed))
    assert bool(attack.allows(x, found.x_adv).all())
    assert bool((ball.norm(found.x_adv - x) <= ball.eps + 1e-6 * max(1, ball.eps)).all())
    assert found.x_adv.dtype == dtype and not found.x_adv.requires_grad
    assert float(found.x_adv.min()) >= 0 and float(found.x_adv.max()) <= 1
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(x, x_before) and torch.equal(torch.random.get_rng_state(), generator_before)
    assert torch.equal(found.fooled, found.step != NEVER)
    assert bool((model(found.x_adv).argmax(1) != y)[found.fooled].all())


def little(shape: tuple[int, int, int], k: int, dtype: torch.dtype, seed: int) -> nn.Module:
    """A network for images of any size, down to one pixel."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        size = int(np.prod(shape))
        return nn.Sequential(nn.Flatten(), nn.Linear(size, 16), nn.ReLU(), nn.Linear(16, k)).to(dtype).eval()


@pytest.mark.parametrize("ball", [Linf(0.01), L2(3.0), L1(60.0)], ids=str)
def test_p15_stays_in_its_ball_at_imagenet_size(ball: Ball) -> None:
    shape = (3, 224, 224)
    model = little(shape, K, torch.float32, 0)
    x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    attack = APGD(ball, steps=5)
    found = attack.run(model, x, model(x).argmax(1), noise_for(x))
    assert bool(attack.allows(x, found.x_adv).all())
    assert bool((ball.norm(found.x_adv - x) > 0.9 * ball.eps).all())


# Who leaves the batch, and what runs share


def survivors_agree(a: Outcome, b: Outcome) -> None:
    assert torch.equal(a.fooled, b.fooled)
    assert 0 < int(a.fooled.sum()) < len(a.fooled)
    assert torch.allclose(a.x_adv[~a.fooled], b.x_adv[~b.fooled], atol=1e-9)


@pytest.mark.parametrize("ball", BALLS, ids=str)
@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_survivors_do_not_notice_that_others_left(ball: Ball, goal: Goal) -> None:
    model, x, _ = thirty_mixed()
    y = model(x).argmax(1)
    last = APGD(ball, goal, steps=15)
    stays, leaves = (replace(last, keep=keep).run(model, x, y, noise_for(x)) for keep in ("last", "fooled"))
    survivors_agree(stays, leaves)
    assert torch.equal(stays.step, leaves.step)
    assert leaves.backwards < stays.backwards == 15 * len(x)


def test_survivors_of_targets_do_not_notice_that_others_left() -> None:
    model, x, _ = mixed()
    y = model(x).argmax(1)
    attack = APGD(Linf(0.015), steps=5, targets=3)
    stays, leaves = (replace(attack, keep=keep).run(model, x, y, noise_for(x)) for keep in ("last", "fooled"))
    survivors_agree(stays, leaves)
    assert int(leaves.step.max()) > 5  # one that fell to a later target: steps count through the runs


def test_fooled_examples_cost_nothing_more() -> None:
    model, x, y = thirty_mixed()
    attack = APGD(Linf(0.02), steps=12, keep="fooled")
    found = attack.run(model, x, y, noise_for(x))
    begun = model(x).argmax(1) == y
    assert found.step[~begun].tolist() == [0] * int((~begun).sum())
    assert torch.equal(found.x_adv[~begun], x[~begun])
    later = torch.where(found.fooled, found.step, attack.steps)[begun].tolist()
    assert found.forwards == len(x) + sum(t + 1 for t in later)
    assert found.backwards == sum(min(t + 1, attack.steps) for t in later)


@pytest.mark.parametrize("attack", [APGD(steps=10), APGD(L1(1.0), steps=10), APGD(steps=5, targets=2)], ids=str)
@pytest.mark.parametrize("keep", ["last", "fooled"])
def test_an_example_meets_the_same_attack_in_any_batch(attack: APGD, keep: str) -> None:
    model, x, y = thirty_mixed()
    attack = replace(attack, keep=keep)
    together = attack.run(model, x, y, noise_for(x))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    for rows in (*order[1:].split(10), order[:1]):
        alone = attack.run(model, x[rows], y[rows], noise_for(x).pick(rows))
        assert torch.allclose(alone.x_adv, together.x_adv[rows], atol=1e-9)
        assert torch.equal(alone.step, together.step[rows])


@pytest.mark.parametrize("keep", ["last", "fooled"])
def test_restarts_are_the_attack_run_again_on_what_stands(keep: str) -> None:
    model, x, y = thirty_mixed()
    one = APGD(Linf(0.02), steps=6, keep=keep)
    first, many = (replace(one, restarts=n).run(model, x, y, noise_for(x)) for n in (1, 4))
    assert torch.equal(many.x_adv[first.fooled], first.x_adv[first.fooled])
    assert torch.equal(many.each, many.fooled.long()) and int(many.by.max()) == 0
    assert int(many.fooled.sum()) > int(first.fooled.sum()) and int(many.step.max()) > 6


@pytest.mark.parametrize(
    "attack", [APGD(Linf(0.02), steps=6, restarts=4), APGD(L1(0.5), steps=6, targets=2, restarts=2)]
)
@pytest.mark.parametrize("keep", ["last", "fooled"])
@pytest.mark.parametrize("room", [0, 1000])
def test_runs_side_by_side_are_runs_in_order(
    attack: APGD, keep: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x, y = thirty_mixed()
    attack = replace(attack, keep=keep, room=room)
    beside = attack.run(model, x, y, noise_for(x))
    monkeypatch.setattr("leastwise.attacks.apgd.apgd.runs_per_pass", lambda *counts: 1)
    in_order = attack.run(model, x, y, noise_for(x))
    assert torch.allclose(beside.x_adv, in_order.x_adv, atol=1e-9)
    for a, b in zip(beside, in_order, strict=True):
        if isinstance(a, torch.Tensor) and not a.is_floating_point():
            assert torch.equal(a, b)
    assert 0 < int(beside.fooled.sum()) < len(x) and beside.backwards >= in_order.backwards


def test_targets_are_the_classes_ranked_after_the_label() -> None:
    """One run toward each, from starts of their own, on what still stands."""
    model, x, _ = thirty_mixed()
    z = model(x).detach()
    y, ranked = z.argmax(1), z.argsort(dim=1, descending=True)
    attack = APGD(Linf(0.02), steps=8, targets=9)  # nine targets, of which five classes have four
    found = attack.run(model, x, y, noise_for(x))
    fooled, forwards = torch.zeros_like(found.fooled), len(x)
    for number in range(1, K):
        rows = rows_of(~fooled)
        noise = noise_for(x).pick(rows)
        noise = noise.fork("target", number - 1) if number > 1 else noise
        alone = replace(attack, goal=TargetedDLR(ranked[rows, number]), targets=0)
        run = alone.run(model, x[rows], y[rows], noise)
        assert torch.allclose(run.x_adv[run.fooled], found.x_adv[rows[run.fooled]], atol=1e-9)
        fooled[rows[run.fooled]], forwards = True, forwards + run.forwards
    assert torch.equal(found.fooled, fooled) and found.forwards == forwards
    assert 0 < int(fooled.sum()) < len(x)


def test_a_target_is_never_the_label() -> None:
    """Toward its own label the targeted ratio is zero everywhere; clean mistakes would go there."""
    model, x, y = thirty_mixed()
    y = (model(x).argmax(1) + 1) % K
    found = APGD(Linf(0.001), steps=3, targets=9).run(model, x, y, noise_for(x))
    assert found.trouble.tolist() == [FINE] * len(x) and bool(found.fooled.all())


def test_a_goal_with_a_target_wants_the_target() -> None:
    model, x, _ = thirty_mixed()
    y = model(x).argmax(1)
    target = (y + 1) % K
    for keep in ("last", "fooled"):
        found = APGD(Linf(0.05), Targeted(target), steps=15, restarts=2, keep=keep).run(model, x, y, noise_for(x))
        assert bool((model(found.x_adv).argmax(1) == target)[found.fooled].all())
        assert 0 < int(found.fooled.sum()) < len(x)


# Trouble, randomness, and what users are told


@pytest.mark.parametrize("keep", ["last", "fooled"])
@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_numbers_that_are_not_finite_are_never_robustness(ball: Ball, keep: str) -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1)[:, :K] * torch.where(x[:, 0, 0, :1] > 0.5, torch.nan, 1.0)

    x = torch.rand(20, *SHAPE, generator=torch.Generator().manual_seed(0))
    x[:10, 0, 0, 0], x[10:, 0, 0, 0] = 0.99, 0.2  # the first ten are NaN wherever eps leads
    y = x.flatten(1)[:, :K].argmax(1)
    small = ball.at(ball.eps / 10)
    for attack in (APGD(small, steps=4, keep=keep), APGD(small, steps=4, targets=2, keep=keep)):
        found = attack.run(Broken(), x, y, noise_for(x))
        assert found.trouble[:10].tolist() == [BROKEN] * 10 and not bool(found.fooled[:10].any())
        assert bool(attack.allows(x, found.x_adv).all())
        assert set(found.trouble[10:].tolist()) == {FINE}


def test_a_start_without_numbers_is_left_behind() -> None:
    """What can be seen later still becomes the best point, though nothing compares with NaN."""

    class Holes(nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            z = x.flatten(1) @ torch.eye(x.flatten(1).shape[1], K, dtype=x.dtype)
            return z * torch.nan if self.calls == 2 else z

    x, y = torch.full((2, *SHAPE), 0.5, dtype=torch.float64), torch.tensor([0, 1])
    x.flatten(1)[torch.arange(2), y] = 0.9
    found = APGD(Linf(0.1), steps=10, keep="fooled").run(Holes(), x, y, noise_for(x))
    assert found.trouble.tolist() == [BROKEN] * 2
    assert torch.allclose(margin(found.x_adv.flatten(1)[:, :K], y), torch.tensor(0.2, dtype=torch.float64))


def test_a_flat_model_is_reported() -> None:
    class Flat(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0 * x.flatten(1)[:, :K] + torch.arange(K, dtype=x.dtype)

    x, y = torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(0)), torch.full((4,), K - 1)
    for ball in BALLS:
        assert APGD(ball, steps=3).run(Flat(), x, y, noise_for(x)).trouble.tolist() == [FLAT] * 4


class Shaken(nn.Module):
    """Noise from torch's own generator on every pass."""

    def __init__(self, model: nn.Module, size: float) -> None:
        super().__init__()
        self.model, self.size = model, size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x + self.size * torch.randn_like(x))


def test_p26_a_model_with_randomness_is_repeatable_and_the_callers_stream_is_untouched() -> None:
    model, x, y = thirty_mixed()
    attack = APGD(Linf(0.03), steps=4, eot=3)
    torch.manual_seed(7)
    state = torch.random.get_rng_state()
    one = attack.run(Shaken(model, 0.05), x, y, noise_for(x))
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(8)
    two = attack.run(Shaken(model, 0.05), x, y, noise_for(x))
    assert torch.equal(one.x_adv, two.x_adv) and torch.equal(one.step, two.step)
    other = attack.run(Shaken(model, 0.05), x, y, noise_for(x, seed=1))
    assert not torch.equal(one.x_adv, other.x_adv)
    assert (one.forwards, one.backwards) == (3 * 5 * len(x), 3 * 4 * len(x))


def test_averaging_over_passes_is_nothing_for_a_model_without_randomness() -> None:
    model, x, y = thirty_mixed()
    for keep in ("last", "fooled"):
        one, three = (APGD(Linf(0.02), steps=10, eot=n, keep=keep).run(model, x, y, noise_for(x)) for n in (1, 3))
        assert torch.equal(one.step, three.step) and torch.allclose(one.x_adv, three.x_adv, atol=1e-9)


def test_averaging_over_passes_finds_the_gradient_behind_the_noise() -> None:
    """On a linear model with noise on its weights far larger than they are: one pass is lost, many are not."""
    g = torch.Generator().manual_seed(0)
    w = torch.randn(int(np.prod(SHAPE)), generator=g, dtype=torch.float64)

    class Noisy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = (x.flatten(1) - 0.5) @ (w + 5 * torch.randn_like(w)) + 1.0
            return torch.stack([z, torch.zeros_like(z)], dim=1)

    x, y = torch.full((1, *SHAPE), 0.5, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
    fall = []
    for eot in (1, 200):
        end = APGD(Linf(0.001), steps=1, eot=eot).run(Noisy(), x, y, noise_for(x)).x_adv
        fall.append(float(-((end - x).flatten(1) @ w) / (0.001 * w.abs().sum())))
    assert fall[0] < 0.5 < 0.9 < fall[1] <= 1 + 1e-9


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "at least 1 steps"),
        ({"steps": 2, "ball": L1(1.0)}, "at least 3 steps"),
        ({"targets": -1}, "target classes"),
        ({"restarts": 0}, "restarts and eot"),
        ({"eot": 0}, "restarts and eot"),
        ({"rho": 1.5}, "rho"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        APGD(**wrong)


def test_few_classes_are_pointed_out() -> None:
    assert APGD().notes(2) == () and APGD(targets=9).notes(4) == () and APGD(goal=DLR()).notes(3) == ()
    assert "needs 4 classes and there are 3" in APGD(targets=9).notes(3)[0]
    assert "needs 3 classes and there are 2" in APGD(goal=DLR()).notes(2)[0]


def test_the_attack_says_what_it_is() -> None:
    said = str(APGD(L2(0.5), targets=9, restarts=2, eot=20, keep="fooled"))
    assert said == (
        "APGD: 100 steps on targeted DLR toward 9 classes, L2 eps 0.5, 2 restarts, 20 passes per gradient, "
        "the first misclassified iterate counts"
    )


@pytest.mark.parametrize("keep", ["last", "fooled"])
@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_nobody_to_attack_is_no_trouble(ball: Ball, keep: str) -> None:
    """Smoke test: an empty batch, and one in which all are wrong at once."""
    model, x, y = thirty_mixed()
    for attack in (APGD(ball, steps=3, keep=keep), APGD(ball, steps=3, targets=2, keep=keep)):
        assert len(attack.run(model, x[:0], y[:0], noise_for(x[:0])).fooled) == 0
        wrong = (model(x).argmax(1) + 1) % K
        assert bool(attack.at(0.001).run(model, x, wrong, noise_for(x)).fooled.all())


def test_the_short_call_uses_evaluation_mode() -> None:
    """Smoke test: a batch of one, in training mode."""
    model = build("small", SHAPE, K, seed=0).train()
    x = torch.rand(1, *SHAPE, generator=torch.Generator().manual_seed(0))
    x_adv = APGD(steps=3)(model, x, torch.zeros(1, dtype=torch.int64))
    assert bool(APGD().allows(x, x_adv).all()) and model.training
