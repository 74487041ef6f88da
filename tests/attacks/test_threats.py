"""Balls: projections against an independent solution, samples with the right law."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import L1, L2, Ball, Linf, doubt_radius
from leastwise.core.noise import Noise
from tests.conftest import SHAPE

BALLS: tuple[Ball, ...] = (Linf(0.3), L2(0.7), L1(2.0))


def some(b: int, scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(b, *SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_projection_lands_inside_is_idempotent_and_is_the_nearest_point(ball: Ball) -> None:
    d = some(20)
    inside = ball.project(d)
    assert bool((ball.norm(inside) <= ball.eps + 1e-12).all())
    assert torch.allclose(ball.project(inside), inside, atol=1e-12)
    small = 0.001 * d
    assert torch.equal(ball.project(small), small)
    # Nearest: no other point of the ball is closer (variational inequality of a projection).
    other = ball.project(some(20).flip(0))
    assert bool((((d - inside) * (other - inside)).flatten(1).sum(1) <= 1e-9).all())


@pytest.mark.parametrize(
    ("ball", "dual"), [(Linf(0.3), 1), (L2(0.7), 2), (L1(2.0, 0.0), torch.inf)], ids=["Linf", "L2", "L1"]
)
def test_steepest_reaches_the_dual_norm(ball: Ball, dual: float) -> None:
    g = some(20, 1e-30)
    s = ball.steepest(g)
    assert ball.norm(s).tolist() == pytest.approx([1.0] * 20)
    assert (s * g).flatten(1).sum(1).tolist() == pytest.approx(g.flatten(1).norm(p=dual, dim=1).tolist(), rel=1e-9)
    assert torch.equal(ball.steepest(torch.zeros_like(g)), torch.zeros_like(g))


def test_steepest_survives_gradients_whose_squares_underflow() -> None:
    g = some(5, 1e-25).float()
    assert L2(1.0).norm(L2(1.0).steepest(g)).tolist() == pytest.approx([1.0] * 5, rel=1e-5)


def test_samples_are_uniform() -> None:
    x = torch.zeros(4000, *SHAPE, dtype=torch.float64)
    noise = Noise(0, torch.arange(4000), "/ball")
    d = Linf(0.3).sample(x, noise)
    assert stats.kstest(d[:, 1, 2, 3].numpy(), stats.uniform(-0.3, 0.6).cdf).pvalue > 0.001
    d = L2(0.7).sample(x, noise)
    dimensions = d[0].numel()
    volume = (L2(0.7).norm(d) / 0.7) ** dimensions  # the share of the ball's volume inside the radius
    assert stats.kstest(volume.numpy(), "uniform").pvalue > 0.001
    assert abs(float(d[:, 0, 0, 0].mean())) < 0.01
    d = L1(2.0).sample(x, noise)
    volume = (L1(2.0).norm(d) / 2.0) ** dimensions
    assert stats.kstest(volume.numpy(), "uniform").pvalue > 0.001
    # On the simplex of 145 parts the share of one entry is Beta(1, 144).
    share = d[:, 1, 2, 3].abs() / 2.0
    assert stats.kstest(share.numpy(), stats.beta(1, dimensions).cdf).pvalue > 0.001


def test_a_sparse_step_is_shared_by_the_largest_entries() -> None:
    g = some(4)
    s = L1(1.0, share=0.05).steepest(g)
    moved = round(0.05 * g[0].numel())
    assert (s != 0).flatten(1).sum(1).tolist() == [moved] * 4
    assert L1(1.0).norm(s).tolist() == pytest.approx([1.0] * 4)
    assert float(g.abs()[s != 0].min(0).values) >= float(g[0].abs().flatten().sort().values[-moved - 9])
    with pytest.raises(ValueError, match="share of pixels"):
        L1(1.0, share=1.5)


@given(st.lists(st.floats(0, 2), min_size=3, max_size=3))
@settings(max_examples=30, deadline=None)
def test_a_radius_per_example(radii: list[float]) -> None:
    for kind in (Linf, L2, L1):
        ball = kind(torch.tensor(radii, dtype=torch.float64))
        one_by_one = torch.cat([kind(r).project(some(3)[i : i + 1]) for i, r in enumerate(radii)])
        assert torch.allclose(ball.project(some(3)), one_by_one, atol=1e-12)


@pytest.mark.parametrize("eps", [-1.0, float("nan"), float("inf"), torch.tensor([0.1, -0.1])])
def test_a_radius_must_be_a_finite_number(eps: object) -> None:
    for kind in (Linf, L2, L1):
        with pytest.raises(ValueError, match="eps must be a finite number"):
            kind(eps)


def test_attacks_that_can_hardly_move_are_told_of() -> None:
    """Eps of Linf under another norm, which is the default there, zero, and steps that lead nowhere."""
    for eps in (8 / 255, 1 / 1020, 0.3):
        assert doubt_radius(Linf(eps)) == ()
        assert not PGD(Linf(eps), step=eps / 4, steps=1).notes(10)
    for eps in (0.25, 0.5, 3.0):
        assert doubt_radius(L2(eps)) == doubt_radius(L1(24 * eps)) == ()
    for ball in (Linf(0.0), Linf(8 / 255**2), L2(8 / 255), L1(8 / 255), L2(0.0)):
        assert ["next to nothing is attacked" in said for said in doubt_radius(ball)] == [True]
    assert doubt_radius(None) == ()
    (said,) = PGD(Linf(0.05), step=1e-4, steps=20).notes(10)
    assert "20 steps of 0.0001 go 0.002 of a radius of 0.05" in said and "check --step" in said
    assert PGD(Linf(0.05), step=0.0, steps=20).notes(10) and not PGD(Linf(0.05), step=0.01, steps=1).notes(10)
