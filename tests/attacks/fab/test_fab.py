"""FAB: closed forms on linear models, the plain search, the contract every attack keeps."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leastwise.attacks.base import BROKEN, FINE, FLAT, NEVER
from leastwise.attacks.fab.fab import FAB, BoundaryRecord, FABState, look_nearest, random_start
from leastwise.attacks.min_norm.search import Closest, outcome_in_ball
from leastwise.attacks.threats import L1, L2, Linf, dual_norm
from leastwise.core.losses import margin, other_logits
from leastwise.models.classifier import Classifier, wrap
from tests.attacks.contract import check_contract
from tests.attacks.fab.sorting_step import BALLS, ORDER, exact_step
from tests.attacks.networks_to_attack import mixed, noise_for
from tests.conftest import SHAPE, B, K, random_linear

DUAL = {Linf: 1, L2: 2, L1: math.inf}

# P25: linear models


def linear(k: int, seed: int, b: int = 20) -> tuple[Classifier, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A linear model, grey images of its predicted classes, and the normals of their boundaries [b k d]."""
    model = random_linear(k, seed=seed)
    g = torch.Generator().manual_seed(seed)
    x = 0.5 + 0.1 * (torch.rand(b, *SHAPE, generator=g, dtype=torch.float64) - 0.5)
    y = model(x).argmax(1)
    weight = model.net.weight.detach()
    return model, x, y, weight[None] - weight[y][:, None]


@pytest.mark.parametrize("kind", [Linf, L2])
@pytest.mark.parametrize("targets", [0, 1])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_p25_the_first_step_crosses_the_boundary_by_a_twentieth(kind: type, targets: int, seed: int) -> None:
    model, x, y, normal = linear(2, seed)
    z = model(x).detach()
    needed = margin(z, y) / normal.norm(p=DUAL[kind], dim=2).amax(1)
    found = FAB(kind(1.0), steps=1, targets=targets).closest(model, x, y, noise_for(x))
    assert torch.allclose(found.distance, 1.05 * needed, rtol=1e-9)
    assert torch.allclose(margin(model(found.x_adv), y), -0.05 * margin(z, y), rtol=1e-6)


@pytest.mark.parametrize("kind", [Linf, L2])
@pytest.mark.parametrize("targets", [0, 9])
@pytest.mark.parametrize("k", [2, 5])
def test_p25_the_distance_is_the_margin_over_the_dual_norm(kind: type, targets: int, k: int) -> None:
    """The overshoot is a twentieth of the last step, so a search ends within a percent of the nearest boundary."""
    model, x, y, normal = linear(k, 3)
    z = model(x).detach()
    gaps = z.gather(1, y[:, None]) - z
    needed = (gaps / normal.norm(p=DUAL[kind], dim=2).clamp_min(1e-9)).scatter(1, y[:, None], math.inf).amin(1)
    attack = FAB(kind(1.0), steps=8, targets=targets)
    found = attack.closest(model, x, y, noise_for(x))
    assert bool((found.distance >= needed * (1 - 1e-9)).all()) and bool((found.distance < 1.01 * needed).all())
    eps = float(needed.quantile(0.6))  # in the ball exactly if the boundary is, up to that percent
    for keep in ("last", "fooled"):
        fooled = FAB(kind(eps), 8, targets, keep=keep).run(model, x, y, noise_for(x)).fooled
        assert bool(fooled[needed < eps / 1.01].all()) and not bool(fooled[needed > eps].any())


@pytest.mark.parametrize("kind", BALLS)
def test_p25_where_pixels_are_at_their_bounds_the_distance_is_the_boxed_one(kind: type) -> None:
    """Black and white images: half of the pixels cannot move the way they should."""
    model = random_linear(2, seed=8)
    g = torch.Generator().manual_seed(4)
    x = torch.randint(0, 2, (30, *SHAPE), generator=g).double()
    z, y = model(x).detach(), model(x).argmax(1)
    weight = model.net.weight.detach()
    normals = (weight[1 - y] - weight[y]).numpy()
    flat = x.flatten(1).numpy()
    steps = [exact_step(kind, p, w, -float(gap)) for p, w, gap in zip(flat, normals, margin(z, y), strict=True)]
    needed = torch.from_numpy(np.linalg.norm(np.array(steps), ord=ORDER[kind], axis=1))
    unboxed = margin(z, y) / dual_norm(kind(1.0), torch.from_numpy(normals))
    found = FAB(kind(1.0), steps=20, targets=1).closest(model, x, y, noise_for(x))
    assert bool((needed > unboxed + 1e-12).any())
    assert bool((found.distance >= needed * (1 - 1e-9)).all())
    assert float((found.distance / needed).median()) < 1.01 and float((found.distance / needed).max()) < 1.06


def test_a13_fab_follows_the_class_whose_boundary_is_nearest() -> None:
    model, x, y, normal = linear(K, 5)
    z = model(x).detach()
    for kind in BALLS:
        distance = (z.gather(1, y[:, None]) - z) / normal.norm(p=DUAL[kind], dim=2).clamp_min(1e-9)
        best = distance.scatter(1, y[:, None], math.inf).argmin(1)
        seen, gradients = look_nearest(model, kind(1.0), x, y=y)
        rows = torch.arange(len(x))
        assert gradients == K - 1
        assert torch.allclose(seen.gradient.flatten(1), normal[rows, best])
        assert torch.allclose(seen.score, z[rows, best] - z[rows, y])


# The search


class Curved(nn.Module):
    """Small and quick, with boundaries that bend."""

    def __init__(self) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.first = nn.Parameter(torch.randn(math.prod(SHAPE), 16, generator=g, dtype=torch.float64))
        self.second = nn.Parameter(torch.randn(16, K, generator=g, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ((x.flatten(1) - 0.5) @ self.first).tanh() @ self.second


def curved(b: int = 60) -> tuple[Classifier, torch.Tensor, torch.Tensor]:
    """A network and images of which every ninth is misclassified already."""
    model = wrap(Curved(), K, mean=(), std=()).eval()
    x = torch.rand(b, *SHAPE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = model(x).argmax(1)
    y[::9] = (y[::9] + 1) % K
    return model, x, y


def plain_search(
    attack: FAB, model: nn.Module, x: torch.Tensor, y: int, target: int
) -> tuple[float, torch.Tensor | None]:
    """FAB toward one class for one image, written the slow way: (distance, point)."""
    kind, at, best, point = type(attack.ball), x.clone(), math.inf, None
    for t in range(attack.steps + 1):
        here = at[None].clone().requires_grad_()
        z = model(here)[0]
        (gradient,) = torch.autograd.grad(z[target] - z[y], here)
        z = z.detach()
        if int(z.argmax()) != y:
            distance = float((at - x).flatten().norm(p=ORDER[kind]))
            if distance < best:
                best, point = distance, at.clone()
        if t == attack.steps:
            return best, point
        back = x + attack.beta * (at - x) if int(z.argmax()) != y else at
        w = gradient.flatten().numpy()
        offset = float(z[target] - z[y]) - float(w @ at.flatten().numpy())
        steps = [
            torch.from_numpy(exact_step(kind, p.flatten().numpy(), w, float(w @ p.flatten().numpy()) + offset))
            for p in (back, x)
        ]
        sizes = [max(float(d.norm(p=ORDER[kind])), 1e-8) for d in steps]
        alpha = min(sizes[0] / sum(sizes), attack.alpha_max)
        at = (1 - alpha) * (back + attack.eta * steps[0].view_as(x)) + alpha * (x + attack.eta * steps[1].view_as(x))
        at = at.clamp(0, 1)
    raise AssertionError


@pytest.mark.parametrize("kind", BALLS)
def test_a13_the_search_is_the_plain_one(kind: type) -> None:
    model, x, y = curved()
    x, y = x[:8], y[:8]
    attack = FAB(kind(1.0), steps=8, targets=2)
    found = attack.closest(model, x, y, noise_for(x))
    z = model(x).detach()
    ranked = other_logits(z, y).topk(2, dim=1).indices
    assert int((found.distance == 0).sum()) == int((z.argmax(1) != y).sum()) == 1
    for i in range(len(x)):
        if found.distance[i] == 0:
            continue
        runs = [plain_search(attack, model, x[i], int(y[i]), int(t)) for t in ranked[i]]
        distance, point = min(runs, key=lambda run: run[0])
        assert float(found.distance[i]) == pytest.approx(distance, abs=1e-9)
        assert torch.allclose(found.x_adv[i], x[i] if point is None else point, atol=1e-9)


@pytest.mark.parametrize("kind", BALLS)
@pytest.mark.parametrize("targets", [0, 3])
def test_closest_points_are_mistakes_at_their_distance(kind: type, targets: int) -> None:
    model, x, y = curved()
    attack = FAB(kind(0.5), steps=10, targets=targets)
    found = attack.closest(model, x, y, noise_for(x))
    assert bool(found.distance.isfinite().all())
    assert torch.allclose(attack.ball.norm(found.x_adv - x), found.distance, atol=1e-12)
    assert torch.equal(found.distance == 0, model(x).argmax(1) != y)
    assert bool((model(found.x_adv).argmax(1) != y).all())
    more = FAB(kind(0.5), steps=20, targets=targets).closest(model, x, y, noise_for(x))
    assert bool((more.distance <= found.distance).all())


@pytest.mark.parametrize(("targets", "restarts"), [(9, 1), (0, 1), (2, 2)])
@pytest.mark.parametrize("kind", [Linf, L2])
def test_leaving_at_the_first_point_fools_the_same_examples(kind: type, targets: int, restarts: int) -> None:
    """And `step` is the same: the gradients taken when an example was first seen misclassified in the ball."""
    model, x, y = curved()
    distance = FAB(kind(1.0), steps=8).closest(model, x, y, noise_for(x)).distance
    eps = float(distance[distance > 0].quantile(0.5))
    attacks = [FAB(kind(eps), 8, targets, restarts, keep=keep) for keep in ("last", "fooled")]
    last, fooled = (attack.run(model, x, y, noise_for(x)) for attack in attacks)
    for found in (last, fooled):
        assert bool(attacks[0].allows(x, found.x_adv).all())
        assert torch.equal(found.fooled, model(found.x_adv).argmax(1) != y)
        assert torch.equal(found.x_adv[~found.fooled], x[~found.fooled])
    assert 0.2 < float(last.fooled.double().mean()) < 0.9
    assert torch.equal(last.fooled, fooled.fooled) and torch.equal(last.step, fooled.step)
    assert fooled.backwards < last.backwards


@pytest.mark.parametrize("keep", ["last", "fooled"])
@pytest.mark.parametrize("kind", BALLS)
def test_an_example_meets_the_same_search_in_any_batch(kind: type, keep: str) -> None:
    """Also when others leave and when it is alone: restarts and all."""
    model, x, y = curved()
    eps = {Linf: 0.03, L2: 0.2, L1: 1.0}[kind]
    attack = FAB(kind(eps), steps=6, targets=2, restarts=2, keep=keep)
    together = attack.run(model, x, y, noise_for(x))
    assert 0 < int(together.fooled.sum()) < len(x)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    for rows in (*order[:60].split(23), order[60:61], order[61:62]):
        alone = attack.run(model, x[rows], y[rows], noise_for(x).pick(rows))
        assert torch.equal(alone.fooled, together.fooled[rows]) and torch.equal(alone.step, together.step[rows])
        assert torch.allclose(alone.x_adv, together.x_adv[rows], atol=1e-9)


def test_a_radius_per_example_is_each_examples_own() -> None:
    model, x, y = curved()
    attack = FAB(Linf(0.03), steps=12, targets=2)
    distance = attack.closest(model, x, y, noise_for(x)).distance
    factor = torch.tensor([0.9, 1.1], dtype=torch.float64).repeat(len(x) // 2)
    for keep in ("last", "fooled"):
        own = FAB(Linf(distance * factor), steps=12, targets=2, keep=keep)
        found = own.run(model, x, y, noise_for(x))
        assert torch.equal(found.fooled, (factor > 1) | (distance == 0))
        assert bool(own.allows(x, found.x_adv).all())
    assert torch.equal(attack.at(distance * factor).run(model, x, y, noise_for(x)).fooled, found.fooled)


def test_passes_are_counted() -> None:
    model, x, y = curved()
    calls = []
    hook = model.register_forward_hook(lambda *_: calls.append(len(_[1][0])))
    right = int((model(x).argmax(1) == y).sum())
    for targets, gradients in ((2, 2), (0, K - 1), (50, K - 1)):
        calls.clear()
        found = FAB(Linf(0.03), steps=4, targets=targets).run(model, x, y, noise_for(x))
        runs = {2: 2, 0: 1, 50: K - 1}[targets]
        assert found.forwards == sum(calls) == len(x) + 5 * runs * right
        assert found.backwards == 4 * gradients * right
    hook.remove()


def test_only_later_restarts_are_random_and_start_at_half_the_radius() -> None:
    model, x, y = curved()
    one = FAB(Linf(0.02), steps=5, targets=1)
    assert torch.equal(one.run(model, x, y, noise_for(x, 1)).x_adv, one.run(model, x, y, noise_for(x, 2)).x_adv)
    alone = one.closest(model, x, y, noise_for(x)).distance
    twice = FAB(Linf(0.02), steps=5, targets=1, restarts=2)
    again = [twice.closest(model, x, y, noise_for(x, seed)).distance for seed in (1, 2)]
    assert all(bool((distance <= alone).all()) for distance in again) and not torch.equal(*again)

    x = x * 0.2 + 0.4
    distance = torch.full((len(x),), math.inf, dtype=torch.float64)
    distance[::2] = 0.02
    for kind in BALLS:
        zero = torch.zeros_like(y)
        found = BoundaryRecord(x.clone(), distance, zero, zero, torch.full_like(distance, 0.05))
        front = FABState(torch.arange(len(x)), x, y, x, None, (), kind(0.05))
        away = front.ball.norm(random_start(front, found, noise_for(x)) - x)
        assert torch.allclose(away, torch.where(distance < 1, 0.01, 0.025).double())


def test_a_target_must_be_predicted() -> None:
    model, x, y = curved()
    y = model(x).argmax(1)
    target = (y + 1 + torch.arange(len(y)) % (K - 1)) % K
    target[0] = y[0]  # there already
    attack = FAB(L2(2.0), steps=15, target=target)
    found = attack.closest(model, x, y, noise_for(x))
    hit = found.distance.isfinite()
    assert float(hit.double().mean()) > 0.9 and float(found.distance[0]) == 0
    assert torch.equal(model(found.x_adv).argmax(1)[hit], target[hit])
    untargeted = FAB(L2(2.0), steps=15).closest(model, x, y, noise_for(x))
    assert bool((found.distance >= 0.97 * untargeted.distance)[1:].all())
    outcome = FAB(L2(0.5), steps=15, target=target, keep="fooled").run(model, x, y, noise_for(x))
    assert torch.equal(outcome.fooled, found.distance <= 0.5) and 0 < int(outcome.fooled.sum()) < len(x)
    with pytest.raises(ValueError, match="one target per example, but saw 60 for 3"):
        attack.run(model, x[:3], y[:3], noise_for(x[:3]))


# The contract


@given(
    kind=st.sampled_from(BALLS),
    eps=st.floats(0, 1),
    steps=st.integers(0, 4),
    targets=st.integers(0, 4),
    restarts=st.integers(1, 2),
    keep=st.sampled_from(["last", "fooled"]),
    k=st.integers(2, 7),
    b=st.integers(1, 5),
    shape=st.tuples(st.sampled_from([1, 3]), st.integers(5, 12), st.integers(5, 12)),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=25, deadline=None)
def test_p15_fab_stays_in_its_ball_and_leaves_the_model_alone(
    kind: type,
    eps: float,
    steps: int,
    targets: int,
    restarts: int,
    keep: str,
    k: int,
    b: int,
    shape: tuple[int, int, int],
    seed: int,
) -> None:
    check_contract(FAB(kind(eps), steps, targets, restarts, keep=keep), k, b, shape, seed)


@pytest.mark.parametrize("targets", [0, 3])
@pytest.mark.parametrize("keep", ["last", "fooled"])
def test_numbers_that_are_not_finite_are_never_robustness(targets: int, keep: str) -> None:
    """Half of the examples have a gradient that is not finite, half a flat one; then all logits are NaN."""

    class Trouble(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kind = x[:, 0, 0, 0].round()
            z = torch.eye(K)[torch.zeros(len(x), dtype=torch.int64)]
            nothing = (x - x.detach()).sum((1, 2, 3))
            return z + torch.where(kind == 1, nothing, 1.0).sqrt()[:, None]

    x = torch.zeros(6, *SHAPE)
    x[::2, 0, 0, 0] = 1.0
    y = torch.zeros(6, dtype=torch.int64)
    found = FAB(Linf(0.1), steps=2, targets=targets, keep=keep).run(Trouble(), x, y, noise_for(x))
    assert not bool(found.fooled.any()) and found.step.tolist() == [NEVER] * 6
    assert torch.equal(found.x_adv, x)
    assert set(found.trouble[1::2].tolist()) == {FLAT} and set(found.trouble[::2].tolist()) == {BROKEN}

    class Nan(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1)[:, :K] * math.nan

    found = FAB(Linf(0.1), steps=2, targets=targets, keep=keep).run(Nan(), x, y, noise_for(x))
    assert not bool(found.fooled.any()) and found.trouble.tolist() == [BROKEN] * 6


def test_within_keeps_only_what_is_in_the_ball() -> None:
    x = torch.rand(4, *SHAPE)
    x_adv = torch.rand(4, *SHAPE)
    distance = torch.tensor([0.0, 0.1, 0.3, math.inf])
    found = Closest(x_adv, distance, 7, 5, torch.tensor([FINE, FLAT, FLAT, BROKEN]))
    for eps in (0.2, torch.tensor([0.2, 0.1, 0.2, 1.0])):
        outcome = outcome_in_ball(found, Linf(eps), x, step=torch.tensor([0, 3, 4, 5]))
        assert outcome.fooled.tolist() == [True, True, False, False] and outcome.step.tolist() == [0, 3, NEVER, NEVER]
        assert torch.equal(outcome.x_adv, torch.cat((x_adv[:2], x[2:])))
        assert outcome.trouble.tolist() == [FINE, FINE, FLAT, BROKEN]
        assert (outcome.forwards, outcome.backwards) == (7, 5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": -1}, "number of steps"),
        ({"targets": -1}, "targets is a number of classes"),
        ({"restarts": 0}, "at least once, but saw 0"),
        ({"alpha_max": 1.5}, "alpha_max must be between"),
        ({"eta": 0.9}, "eta must be at least 1"),
        ({"beta": 0.0}, "beta must be above 0"),
        ({"ball": Linf(0.1), "keep": "first"}, "keep"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(Exception, match=message):
        FAB(**values)


def test_it_says_what_it_does() -> None:
    assert str(FAB()) == "100 steps of FAB-T toward 9 classes, Linf eps 0.03137, the closest point counts"
    assert str(FAB(L2(0.5), 20, targets=0, restarts=5, keep="fooled")) == (
        "20 steps of FAB, 5 times, L2 eps 0.5, any point in the ball counts"
    )
    assert "toward a target class" in str(FAB(target=torch.zeros(B, dtype=torch.int64)))


@pytest.mark.parametrize("keep", ["last", "fooled"])
def test_runs_side_by_side_are_runs_in_order(keep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x, y = mixed()
    attack = FAB(Linf(0.02), steps=8, targets=3, keep=keep, room=1000)
    beside = attack.run(model, x, y, noise_for(x))
    monkeypatch.setattr("leastwise.attacks.fab.fab.runs_per_pass", lambda *counts: 1)
    in_order = attack.run(model, x, y, noise_for(x))
    assert torch.allclose(beside.x_adv, in_order.x_adv, atol=1e-9)
    assert torch.equal(beside.step, in_order.step) and torch.equal(beside.trouble, in_order.trouble)
    assert 0 < int(beside.fooled.sum()) < len(x) and beside.backwards >= in_order.backwards
