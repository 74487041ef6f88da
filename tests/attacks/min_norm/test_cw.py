"""Carlini and Wagner's searches: closed forms, torch's own Adam as a slow reference, the search over c.

What they share with the other searches for the nearest mistake is tested in tests/attacks/test_nearest.py.
"""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from leastwise.attacks.min_norm.cw import CWL2, CWInf
from leastwise.attacks.min_norm.cw_search import Descent, take_next_c
from leastwise.attacks.threats import L2, Linf
from leastwise.core.losses import margin
from leastwise.core.types import Labels
from tests.attacks.networks_to_attack import mixed, noise_for
from tests.conftest import random_linear
from tests.oracles.linear_models import binary, grey

pytestmark = pytest.mark.slow

EXACT = {"patience": 1.0, "bisections": 0}  # neither gives up nor polishes


@pytest.mark.parametrize("seed", [5, 6])
@pytest.mark.parametrize(
    ("attack", "dual", "excess"),
    [(CWInf(iterations=200), 1.0, 0.02), (CWL2(iterations=100), 2.0, 0.01)],
    ids=["CWInf", "CWL2"],
)
def test_p25_distances_are_those_of_the_boundary(attack: CWInf | CWL2, dual: float, excess: float, seed: int) -> None:
    model, w = binary(seed)
    x = grey(10, 9)
    y = model(x).argmax(1)
    needed = margin(model(x), y).detach() / w.norm(p=dual)
    found = attack.closest(model, x, y, noise_for(x))
    ratio = found.distance / needed
    assert float(ratio.min()) > 1 - 1e-9 and float(ratio.max()) < 1 + excess
    assert bool((model(found.x_adv).argmax(1) != y).all())


@pytest.mark.parametrize(
    ("attack", "dual", "excess"),
    [(CWInf(iterations=100), 1.0, 0.05), (CWL2(iterations=60), 2.0, 0.02)],
    ids=["CWInf", "CWL2"],
)
def test_p25_with_five_classes_the_nearest_is_found(attack: CWInf | CWL2, dual: float, excess: float) -> None:
    model = random_linear(5, seed=2)
    x = grey(10, 4)
    z = model(x).detach()
    y = z.argmax(1)
    weight = model.net.weight.detach()
    size = (weight[y][:, None] - weight[None]).norm(p=dual, dim=2).clamp_min(1e-9)
    needed = ((z.gather(1, y[:, None]) - z) / size).scatter(1, y[:, None], torch.inf).amin(1)
    ratio = attack.closest(model, x, y, noise_for(x)).distance / needed
    assert float(ratio.min()) > 1 - 1e-9 and float(ratio.median()) < 1 + excess


@pytest.mark.parametrize(
    "attack", [CWInf(searches=1, **EXACT), CWL2(searches=1, c=10.0, **EXACT)], ids=["CWInf", "CWL2"]
)
def test_p25_more_iterations_are_never_farther(attack: CWInf | CWL2) -> None:
    """For one c, a longer run goes on where the shorter one ends."""
    model, x, y = mixed()
    x, y = x[:10], y[:10]
    runs = [replace(attack, iterations=n).closest(model, x, y, noise_for(x)).distance for n in (5, 20, 40)]
    assert bool((runs[0] >= runs[1]).all() and (runs[1] >= runs[2]).all())
    assert bool((runs[2] < runs[0]).any())


# The search over c


def searching(n: int, c: float) -> Descent:
    ones, image = torch.ones(n, dtype=torch.float64), torch.full((n, 1, 1, 1), 0.5, dtype=torch.float64)
    count = torch.zeros(n, dtype=torch.int64)
    return Descent(
        rows=torch.arange(n),
        x=image,
        centre=image,
        y=count,
        bound=(count,),
        w=torch.zeros_like(image),
        m=torch.ones_like(image),
        v=torch.ones_like(image),
        t=count + 7,
        checked=ones,
        c=c * ones,
        low=0 * ones,
        high=math.inf * ones,
        search=count,
        won=ones == 0,
        tau=ones,
    )


def test_p25_the_search_over_c_brackets_the_smallest_that_succeeds() -> None:
    needed = torch.tensor([2e-4, 0.03, 0.7, 41.0, 1e7], dtype=torch.float64)
    now = searching(5, 1e-3)
    everyone = torch.ones(5, dtype=torch.bool)
    for tried in range(1, 13):
        now = take_next_c(replace(now, won=now.c >= needed), everyone)
        found = now.high.isfinite()
        assert bool((now.low < needed).all() and (now.high >= needed).all())
        assert torch.allclose(now.c[found], (now.low + now.high)[found] / 2)
        assert torch.allclose(now.c[~found], torch.tensor(10.0**tried * 1e-3, dtype=torch.float64))
        assert now.search.tolist() == [tried] * 5 and not bool(now.won.any())
    assert bool(now.high.isfinite().all())
    assert bool(((now.high - now.low)[:3] < 0.01 * now.high[:3]).all())  # halved at each try since the first success


def test_c_does_not_overflow_in_a_long_search() -> None:
    now = searching(1, 1.0)
    for _ in range(60):
        now = take_next_c(now, torch.ones(1, dtype=torch.bool))
    assert now.c.tolist() == [1e10]


def test_those_that_are_not_over_keep_their_c_and_their_adam() -> None:
    now = take_next_c(searching(3, 1.0), torch.tensor([True, False, False]))
    assert now.c.tolist() == [10, 1, 1] and now.t.tolist() == [0, 7, 7]
    assert now.m.flatten().tolist() == now.v.flatten().tolist() == [0, 1, 1]
    assert now.checked.tolist() == [math.inf, 1, 1]


def test_p25_a_c_below_the_closed_form_fails_and_one_above_succeeds() -> None:
    """For gap m and normal w, |d|² + c·(m - w·d)+ is least at the boundary from c = 2m / |w|² on, short of it below."""
    model, w = binary(5)
    x = grey(1, 9)
    y = model(x).argmax(1)
    gap = margin(model(x), y).detach()
    needed = float(2 * gap / w.norm() ** 2)
    attack = CWL2(searches=1, iterations=200, lr=0.002, **EXACT)
    below, above = (replace(attack, c=f * needed).closest(model, x, y, noise_for(x)) for f in (0.9, 1.1))
    assert float(below.distance) == math.inf
    assert float(above.distance) == pytest.approx(float(gap / w.norm()), rel=0.01)


# A slow plain reference: one example at a time with torch's Adam


class Plain:
    """One example in the tanh variable: the loss, and the distance of a misclassified iterate."""

    def __init__(self, attack: CWL2 | CWInf, model: nn.Module, x: torch.Tensor, label: int) -> None:
        self.attack, self.model, self.x, self.label = attack, model, x, label
        self.first = torch.atanh((2 * x - 1) * 0.999999)
        self.centre = self.pixels(self.first)
        self.best = math.inf

    def pixels(self, w: torch.Tensor) -> torch.Tensor:
        return (torch.tanh(w) + 1) / 2

    def started(self, w: torch.Tensor) -> tuple[torch.Tensor, torch.optim.Optimizer]:
        w = w.clone().requires_grad_()
        return w, torch.optim.Adam([w], lr=self.attack.lr, eps=self.attack.adam_eps)

    def step(self, w: torch.Tensor, adam: torch.optim.Optimizer, c: float, tau: float) -> tuple[float, bool, float]:
        point = self.pixels(w)
        z = self.model(point[None])[0]
        others = torch.cat([z[: self.label], z[self.label + 1 :]])
        d = point - self.centre
        size = (d.abs() - tau).clamp_min(0).sum() if isinstance(self.attack, CWInf) else d.square().sum()
        loss = size + c * (z[self.label] - others.max() + self.attack.confidence).clamp_min(0)
        (w.grad,) = torch.autograd.grad(loss, w)
        moved = (point.detach() - self.x).flatten()
        distance = moved.abs().max().item() if isinstance(self.attack, CWInf) else moved.norm().item()
        hit = bool(others.max() - z[self.label] >= self.attack.confidence) and int(z.argmax()) != self.label
        if hit:
            self.best = min(self.best, distance)
        adam.step()
        return loss.item(), hit, distance


def plain_l2(attack: CWL2, model: nn.Module, x: torch.Tensor, label: int) -> float:
    run = Plain(attack, model, x, label)
    c, low, high = attack.c, 0.0, math.inf
    for _ in range(attack.searches):
        w, adam = run.started(run.first)
        checked, won = math.inf, False
        for t in range(attack.iterations):
            loss, hit, _ = run.step(w, adam, c, 0.0)
            won |= hit
            if t % math.ceil(attack.iterations / 10) == 0:
                if not loss <= 0.9999 * checked:
                    break
                checked = loss
        low, high = (low, c) if won else (c, high)
        c = 10 * c if high == math.inf else (low + high) / 2
    return run.best


def plain_inf(attack: CWInf, model: nn.Module, x: torch.Tensor, label: int) -> float:
    run = Plain(attack, model, x, label)
    c, low, high, tau = attack.c, 0.0, math.inf, 1.0
    for _ in range(attack.searches):
        won, failed, start = False, False, run.first
        while tau > attack.tau_least and not failed:
            w, adam = run.started(start)
            checked, failed = math.inf, True
            for t in range(attack.iterations):
                here = run.pixels(w.detach().clone())
                loss, hit, distance = run.step(w, adam, c, tau)
                if hit and distance <= tau:
                    won, failed, tau = True, False, attack.tau_decay * distance
                    start = torch.atanh((2 * here - 1) * 0.999999)
                    break
                if t % math.ceil(attack.iterations / 10) == 0:
                    if not checked - loss > 1e-4:
                        break
                    checked = loss
        low, high = (low, c) if won else (c, high)
        c = 10 * c if high == math.inf else (low + high) / 2
    return run.best


@pytest.mark.parametrize("confidence", [0.0, 0.02])
@pytest.mark.parametrize(
    "attack",
    [CWL2(iterations=20, searches=5, bisections=0), CWInf(iterations=20, searches=3, bisections=0)],
    ids=["CWL2", "CWInf"],
)
def test_the_batch_finds_what_a_plain_search_with_torchs_adam_finds(attack: CWL2 | CWInf, confidence: float) -> None:
    model, x, y = mixed()
    x, y = x[:6], y[:6]
    attack = replace(attack, confidence=confidence)
    found = attack.closest(model, x, y, noise_for(x))
    right = model(x).argmax(1) == y
    assert torch.equal(found.distance > 0, right) and bool(found.distance[right].isfinite().any())
    reference = plain_l2 if isinstance(attack, CWL2) else plain_inf
    for i in right.nonzero().flatten().tolist():
        distance = reference(attack, model, x[i], int(y[i]))
        assert float(found.distance[i]) == pytest.approx(distance, abs=1e-8)
    moved = right & found.distance.isfinite()
    assert bool((margin(model(found.x_adv), y)[moved] <= -confidence).all())


def test_bisections_bring_the_point_nearer_and_keep_it_misclassified() -> None:
    model, x, y = mixed()
    x, y = x[:12], y[:12]
    for attack in (CWInf(iterations=20, searches=1), CWL2(iterations=20, searches=2, c=1.0)):
        rough, fine = (replace(attack, bisections=n).closest(model, x, y, noise_for(x)) for n in (0, 10))
        found = fine.distance.isfinite() & (fine.distance > 0)
        assert bool((fine.distance <= rough.distance).all())
        assert float((fine.distance[found] / rough.distance[found]).mean()) < 0.99
        assert bool((model(fine.x_adv).argmax(1) != y)[found].all())
        assert fine.forwards - rough.forwards == 10 * int(found.sum()) and fine.backwards == rough.backwards


def test_one_that_has_nothing_to_gain_gives_up_early() -> None:
    """Without progress a c is left at the second look, after a tenth of the iterations."""
    x, y = grey(3), torch.ones(3, dtype=torch.int64)

    class Constant(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0 * x.flatten(1)[:, :3] + torch.tensor([0.0, 1.0, 0.5], dtype=x.dtype)

    for attack in (CWL2(iterations=100, searches=4), CWInf(iterations=100, searches=4)):
        found = attack.closest(Constant(), x, y, noise_for(x))
        assert (found.forwards, found.backwards) == (3 + 3 * 4 * 11, 3 * 4 * 11)


def test_tau_that_has_reached_its_least_ends_the_search() -> None:
    model, w = binary(5)
    x = grey(5)
    y = model(x).argmax(1)
    needed = margin(model(x), y).detach() / w.norm(p=1)
    early = CWInf(iterations=100, tau_least=0.5).closest(model, x, y, noise_for(x))
    late = CWInf(iterations=100).closest(model, x, y, noise_for(x))
    assert early.backwards < 0.5 * late.backwards
    assert bool((early.distance >= needed).all())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CWL2(Linf(0.1)), "measures distance in L2, but saw Linf"),
        (lambda: CWInf(L2(0.1)), "measures distance in Linf, but saw L2"),
        (lambda: CWL2(iterations=0), "number of iterations must be at least 1"),
        (lambda: CWInf(searches=0), "number of searches must be at least 1"),
        (lambda: CWL2(lr=0.0), "lr must be a positive number"),
        (lambda: CWL2(c=-1.0), "c must be a positive number"),
        (lambda: CWL2(confidence=-1.0), "confidence must be zero or more"),
        (lambda: CWInf(tau_decay=1.0), "tau_decay must be between 0 and 1"),
        (lambda: CWInf(tau_least=0.0), "tau_least must be positive"),
    ],
)
def test_settings_that_make_no_sense_are_refused(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_descriptions_say_budget_ball_and_what_counts() -> None:
    target: Labels = torch.zeros(2, dtype=torch.int64)
    assert str(CWInf()) == (
        "CW-inf, 5 searches of 1000 iterations of lr 0.005, Linf eps 0.031, the nearest mistake of the whole search"
    )
    assert str(CWL2(confidence=2.0, keep="fooled", target=target)) == (
        "CW-2, 9 searches of 1000 iterations of lr 0.01 with confidence 2, L2 eps 0.5, the nearest point of a target "
        "class, until inside the ball"
    )
