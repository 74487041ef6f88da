"""APGD in L1: projection onto ball and box, the sparse step, and the trajectory against a plain reference."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import nn

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.apgd.l1 import phases, project_onto_ball_and_box, spread_over_largest
from leastwise.attacks.threats import L1
from tests.attacks.apgd.slow_goals import value_and_gradient
from tests.attacks.networks_to_attack import Watched, noise_for, thirty_mixed

pytestmark = pytest.mark.medium


def test_phases_of_l1_share_the_steps() -> None:
    assert phases(100) == ((3, 30), (2, 30), (1, 40))
    assert phases(10) == ((3, 3), (2, 3), (1, 4))
    assert phases(3) == ((3, 1), (2, 1), (1, 1))


def sorted_projection(x: np.ndarray, d: np.ndarray, eps: float) -> np.ndarray:
    """By trying every breakpoint of the piecewise linear sum."""
    room = np.where(d > 0, 1 - x, x)

    def kept(s: float) -> np.ndarray:
        return np.clip(np.abs(d) - s, 0, room)

    if kept(0).sum() <= eps:
        return x + np.sign(d) * kept(0)
    breaks = np.unique(np.concatenate([[0.0], np.abs(d).ravel(), np.maximum(np.abs(d) - room, 0).ravel()]))
    for left, right in pairwise(breaks):
        a, b = kept(left).sum(), kept(right).sum()
        if b <= eps <= a:
            s = left if a == b else left + (a - eps) / (a - b) * (right - left)
            return x + np.sign(d) * kept(s)
    raise AssertionError("the sum reaches zero")


@given(
    seed=st.integers(0, 10_000),
    eps=st.floats(0, 20),
    spread=st.floats(0.01, 5),
    shape=st.tuples(st.sampled_from([1, 3]), st.integers(1, 9), st.integers(1, 9)),
)
@settings(max_examples=100, deadline=None)
def test_l1_projection_meets_ball_and_box_and_is_the_nearest(
    seed: int, eps: float, spread: float, shape: tuple[int, int, int]
) -> None:
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(4, *shape, generator=g, dtype=torch.float64)
    x[x < 0.1] = 0.0  # black pixels have no room below
    d = spread * torch.randn(4, *shape, generator=g, dtype=torch.float64)
    ours = project_onto_ball_and_box(x, d, torch.full((4,), eps, dtype=torch.float64))
    for i in range(4):
        slow = sorted_projection(x[i].numpy(), d[i].numpy(), eps)
        assert ours[i].numpy() == pytest.approx(slow, abs=1e-9)
    rounded = project_onto_ball_and_box(x.float(), d.float(), torch.full((4,), eps))
    assert bool(L1(eps).norm(rounded - x.float()).le(eps + 1e-6 * max(1, eps)).all())
    assert rounded.numpy() == pytest.approx(ours.numpy(), abs=1e-4)


def test_l1_projection_is_that_of_a_solver() -> None:
    """The breakpoint formula itself, against quadratic programming on a handful of pixels."""
    rng = np.random.default_rng(0)
    for eps in (0.1, 0.5, 1.5):
        x, d = rng.random(6), rng.normal(size=6)
        answer = minimize(  # p = up - down with up, down >= 0, so that the L1 norm is linear
            lambda v, d=d: ((v[:6] - v[6:] - d) ** 2).sum(),
            np.zeros(12),
            bounds=[(0, 1 - a) for a in x] + [(0, a) for a in x],
            constraints={"type": "ineq", "fun": lambda v, eps=eps: eps - v.sum()},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        point = torch.from_numpy(x).view(1, 1, 2, 3), torch.from_numpy(d).view(1, 1, 2, 3)
        ours = project_onto_ball_and_box(*point, torch.tensor([eps], dtype=torch.float64))
        assert ours.flatten().numpy() == pytest.approx(x + answer.x[:6] - answer.x[6:], abs=1e-5)


def test_the_sparse_step_by_hand() -> None:
    g = torch.tensor([[3.0, -5.0, 1.0, 0.0], [2.0, 2.0, -2.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    step = spread_over_largest(g, torch.tensor([2, 1, 3]))
    assert step[0].tolist() == [0.5, -0.5, 0.0, 0.0]
    assert step[1].tolist() == pytest.approx([1 / 3, 1 / 3, -1 / 3, 0])  # three entries tie for the largest
    assert step[2].tolist() == [0, 0, 0, 0]


def textbook_l1(
    model: nn.Module, x: torch.Tensor, y: int, eps: float, n: int, start: torch.Tensor
) -> tuple[list[torch.Tensor], int]:
    """APGD of "Mind the box" for one image: all points looked at, and how many times it went back to the best."""
    looked, returns, best = [], 0, start
    size = x.numel()

    def project(point: torch.Tensor, radius: float) -> torch.Tensor:
        return torch.from_numpy(sorted_projection(x.numpy(), (point - x).numpy(), radius))

    third = int(np.ceil(0.3 * n))
    for times, steps in ((3, third), (2, third), (1, n - 2 * third)):
        radius = times * eps
        at = best = project(best, radius)
        high, gradient = value_and_gradient(model, "ce", at, y, 0)
        looked.append(at)
        slope, eta, before = gradient, radius, int((at != x).sum())
        share = before / size / 1.5
        for t in range(1, steps + 1):
            ordered = gradient.abs().flatten().sort().values
            smallest = ordered[size - max(int(share * size + 1e-9), 1)]
            sparse = torch.where(gradient.abs() >= smallest, gradient, 0).sign()
            at = project(at + eta * sparse / sparse.abs().sum(), radius)
            looked.append(at)
            loss, gradient = value_and_gradient(model, "ce", at, y, 0)
            if loss > high:
                best, high, slope = at, loss, gradient
            if t % max(int(0.04 * steps), 1) == 0:
                now = int((best != x).sum())
                if now < 0.95 * before:
                    eta, at, gradient, returns = radius, best, slope, returns + 1
                else:
                    eta = max(eta / 1.5, radius / 10)
                before, share = now, now / size / 1.5
    return looked, returns


@pytest.mark.parametrize("eps", [0.5, 3.0])
def test_every_iterate_of_l1_is_that_of_the_textbook(eps: float) -> None:
    model, x, y = thirty_mixed()
    x, y, n = x[:4], y[:4], 30
    shown, noise = Watched(model), noise_for(x)
    found = APGD(L1(eps), steps=n).run(shown, x, y, noise)
    assert (found.forwards, found.backwards) == (4 * (n + 3), 4 * n)
    returns = 0
    normal = noise.fork("start").normal(tuple(x.shape[1:]), x.dtype)
    for i in range(len(x)):
        looked, back = textbook_l1(model, x[i], int(y[i]), eps, n, x[i] + normal[i])
        ours = torch.stack([batch[i] for batch in shown.shown])
        assert torch.allclose(ours, torch.stack(looked), atol=1e-6)
        returns += back
    assert returns > 0
