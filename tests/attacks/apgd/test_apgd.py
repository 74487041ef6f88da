"""APGD: its schedule and loss, its trajectory against a plain reference, and closed forms on linear models."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.apgd.halving import checkpoints
from leastwise.attacks.base import NEVER, rows_of
from leastwise.attacks.goals import CE, DLR, Goal, TargetedDLR
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.core.losses import dlr, margin, targeted_dlr
from leastwise.models.classifier import Classifier
from tests.attacks.apgd.slow_goals import value_and_gradient
from tests.attacks.networks_to_attack import Watched, noise_for, thirty_mixed
from tests.conftest import SHAPE, K, random_linear

# The schedule and the loss


def test_g6_checkpoints_of_a_hundred_steps() -> None:
    assert checkpoints(100) == (22, 41, 57, 70, 80, 87, 93, 99)


def test_checkpoints_of_few_steps() -> None:
    """Windows of at least one step, worked out by hand from the shares 22 %, 3 % and 6 %."""
    assert checkpoints(1) == (1,)
    assert checkpoints(10) == (2, 3, 4, 5, 6, 7, 8, 9, 10)
    assert checkpoints(50) == (11, 21, 30, 38, 45)  # windows 11, 10, 9, 8, 7, and 6 would be too many


@given(scale=st.floats(0.01, 100), shift=st.floats(-50, 50), k=st.integers(4, 12), seed=st.integers(0, 1000))
def test_p4_dlr_does_not_change_when_logits_are_scaled_and_shifted(
    scale: float, shift: float, k: int, seed: int
) -> None:
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(20, k, generator=g, dtype=torch.float64)
    y, target = torch.randint(0, k, (20,), generator=g), torch.randint(0, k, (20,), generator=g)
    assert torch.allclose(dlr(scale * z + shift, y), dlr(z, y), rtol=1e-7, atol=1e-9)
    assert torch.allclose(targeted_dlr(scale * z + shift, y, target), targeted_dlr(z, y, target), rtol=1e-7, atol=1e-9)


def test_p4_scaled_logits_meet_the_same_attack() -> None:
    """Up to the first mistake: where the label ranks third the ratio is 1, and the sign of its gradient is noise."""
    model, x, y = thirty_mixed()

    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 40 * model(x) + 3

    for attack in (APGD(Linf(0.03), DLR(), 15, keep="fooled"), APGD(Linf(0.03), steps=6, targets=3, keep="fooled")):
        a, b = (attack.run(m, x, y, noise_for(x)) for m in (model, Scaled()))
        assert torch.allclose(a.x_adv, b.x_adv, atol=1e-9) and torch.equal(a.step, b.step)


# The trajectory, against references that treat one example at a time


def pull(x: torch.Tensor, point: torch.Tensor, eps: float, norm: str) -> torch.Tensor:
    d = point - x
    d = d.clamp(-eps, eps) if norm == "Linf" else d * min(1.0, eps / float(d.norm()))
    return (x + d).clamp(0, 1)


def textbook(
    model: nn.Module, goal: str, x: torch.Tensor, y: int, target: int, ball: Linf | L2, n: int, start: torch.Tensor
) -> tuple[list[torch.Tensor], list[float], list[int]]:
    """Algorithm 1 of Croce and Hein for one image: all iterates, their losses, and after which steps it was halved."""
    eps, norm, points = ball.eps, type(ball).__name__, [start]
    losses, gradients = [], []

    def see() -> None:
        loss, gradient = value_and_gradient(model, goal, points[-1], y, target)
        losses.append(loss)
        gradients.append(gradient)

    see()
    eta, previous, halvings = 2 * eps, start, []
    here, gradient, w, stale = start, gradients[0], 0, None  # stale: (eta, best loss) at the last checkpoint
    for t in range(1, n + 1):
        direction = gradient.sign() if norm == "Linf" else gradient / gradient.norm()
        z = pull(x, here + eta * direction, eps, norm)
        new = z if t == 1 else pull(x, here + 0.75 * (z - here) + 0.25 * (here - previous), eps, norm)
        previous = here
        points.append(new)
        see()
        here, gradient = new, gradients[-1]
        if t in checkpoints(n):
            rises = sum(losses[i] > losses[i - 1] for i in range(w + 1, t + 1))
            best = max(losses)
            if rises <= 0.75 * (t - w) or (stale is not None and stale == (eta, best)):
                stale = (eta, best)
                eta /= 2
                halvings.append(t)
                at = losses.index(best)
                here, gradient = points[at], gradients[at]
            else:
                stale = (eta, best)
            w = t
    return points, losses, halvings


@pytest.mark.parametrize("ball", [Linf(0.03), L2(0.3)], ids=str)
@pytest.mark.parametrize("goal", ["ce", "dlr", "targeted"])
def test_every_iterate_is_that_of_the_textbook(goal: str, ball: Linf | L2) -> None:
    model, x, y = thirty_mixed()
    x, y, n = x[:5], y[:5], 25
    target = (y + 2) % K
    shown = Watched(model)
    goals: dict[str, Goal] = {"ce": CE(), "dlr": DLR(), "targeted": TargetedDLR(target)}
    found = APGD(ball, goals[goal], steps=n).run(shown, x, y, noise_for(x))
    assert len(shown.shown) == n + 1 and (found.forwards, found.backwards) == (5 * (n + 1), 5 * n)
    halved = set()
    for i in range(len(x)):
        points, losses, halvings = textbook(model, goal, x[i], int(y[i]), int(target[i]), ball, n, shown.shown[0][i])
        ours = torch.stack([batch[i] for batch in shown.shown])
        assert torch.allclose(ours, torch.stack(points), atol=1e-9)
        halved |= set(halvings)
        wrong = rows_of(model(torch.stack(points)).argmax(1) != y[i]).tolist()
        assert int(found.step[i]) == (wrong[0] if wrong else NEVER)
        kept = points[wrong[-1]] if wrong else points[int(np.argmax(losses))]
        assert torch.allclose(found.x_adv[i], kept, atol=1e-9)
    assert len(halved) > 3 and int(found.fooled.sum()) > 0


@pytest.mark.parametrize("ball", [Linf(0.05), L2(0.5)], ids=str)
def test_the_start_is_on_the_edge_of_the_ball(ball: Ball) -> None:
    model, _, _ = thirty_mixed()
    x, y = torch.full((9, *SHAPE), 0.5, dtype=torch.float64), torch.zeros(9, dtype=torch.int64)
    shown = Watched(model)
    APGD(ball, steps=1).run(shown, x, y, noise_for(x))
    assert torch.allclose(ball.norm(shown.shown[0] - x), torch.tensor(ball.eps, dtype=torch.float64))


# P25: closed forms on linear models


def grey(b: int, seed: int = 0) -> torch.Tensor:
    """Images near mid-grey, where no eps used here reaches a pixel bound."""
    g = torch.Generator().manual_seed(seed)
    return 0.5 + 0.1 * (torch.rand(b, *SHAPE, generator=g, dtype=torch.float64) - 0.5)


@cache
def line_through_grey() -> tuple[Classifier, torch.Tensor]:
    """A linear model of two classes whose boundary passes through mid-grey, and the normal of the boundary."""
    model = random_linear(2, seed=5)
    with torch.no_grad():
        model.net.bias -= model(torch.full((1, *SHAPE), 0.5, dtype=torch.float64))[0]
    weight = model.net.weight.detach()
    return model, weight[0] - weight[1]


AIMS = {"CE": APGD(), "targets": APGD(targets=9), "DLR": APGD(goal=DLR())}


@pytest.mark.parametrize("keep", ["last", "fooled"])
@pytest.mark.parametrize("aim", AIMS)
@pytest.mark.parametrize(("ball", "dual"), [(Linf, 1), (L2, 2), (L1, torch.inf)], ids=["Linf", "L2", "L1"])
def test_p25_apgd_succeeds_exactly_when_eps_exceeds_margin_over_the_dual_norm(
    ball: type[Linf] | type[L2] | type[L1], dual: float, aim: str, keep: str
) -> None:
    model, w = line_through_grey()
    x = grey(60, 9)
    y = model(x).argmax(1)
    needed = margin(model(x), y).detach() / w.norm(p=dual)
    eps = float(needed.median())
    found = replace(AIMS[aim], ball=ball(eps), keep=keep, steps=50).run(model, x, y, noise_for(x))
    clear = (needed / eps - 1).abs() > 1e-4
    assert found.fooled[clear].tolist() == (needed < eps)[clear].tolist()
    assert 0 < int(found.fooled.sum()) < len(x)


@pytest.mark.parametrize("ball", [Linf, L2, L1])
def test_p25_a_radius_per_example_is_each_examples_own(ball: type[Linf] | type[L2] | type[L1]) -> None:
    model, w = line_through_grey()
    x = grey(30, 3)
    y = model(x).argmax(1)
    needed = margin(model(x), y).detach() / w.norm(p={Linf: 1, L2: 2, L1: torch.inf}[ball])
    attack = APGD(ball(0.1), steps=50, keep="fooled")
    assert bool(attack.at(1.001 * needed).run(model, x, y, noise_for(x)).fooled.all())
    assert not bool(attack.at(0.999 * needed).run(model, x, y, noise_for(x)).fooled.any())
