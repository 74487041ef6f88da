"""The step onto a hyperplane within the box, against a slow one that sorts."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leastwise.attacks.fab.hyperplane import step_onto
from leastwise.attacks.threats import L1
from tests.attacks.fab.sorting_step import BALLS, ORDER, exact_step


def hyperplanes(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points in the box, many at its bounds, with weights, some zero, and gaps, some zero and some out of reach."""
    rng = np.random.default_rng(seed)
    m, n, d = rng.integers(1, 4), rng.integers(1, 5), rng.integers(1, 13)
    points = (rng.uniform(-0.5, 1.5, (m, n, d))).clip(0, 1)
    scale = rng.choice([1e-12, 1.0, 1e6])
    w = rng.uniform(0.01, 1, (n, d)) * rng.choice([-1, 0, 1], (n, d))
    gap = rng.uniform(-3, 3, (m, n)) * rng.choice([0, 0.1, 1, 1], (m, n))
    return points, scale * w, scale * gap


@pytest.mark.parametrize("kind", BALLS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_a13_the_step_is_that_of_the_sorting_reference(kind: type, seed: int) -> None:
    points, w, gap = hyperplanes(seed)
    ours = step_onto(kind(1.0), torch.from_numpy(points), torch.from_numpy(w), gap=torch.from_numpy(gap)).numpy()
    exact = np.array(
        [
            [exact_step(kind, p, normal, g) for p, normal, g in zip(row, w, gaps, strict=True)]
            for row, gaps in zip(points, gap, strict=True)
        ]
    )
    if kind is not L1:
        assert np.abs(ours - exact).max() < 1e-9
    # For L1 pixels of equal weight are equally good: only size and reach are determined.
    sizes = [np.linalg.norm(d, ord=ORDER[kind], axis=2) for d in (ours, exact)]
    assert np.abs(sizes[0] - sizes[1]).max() < 1e-9
    reached = [(w * d).sum(2) / np.abs(w).max(1).clip(1e-300) for d in (ours, exact)]
    assert np.abs(reached[0] - reached[1]).max() < 1e-9
    assert points_in_box(points + ours)


def points_in_box(points: np.ndarray) -> bool:
    return bool(points.min() >= -1e-12 and points.max() <= 1 + 1e-12)


@pytest.mark.parametrize("kind", BALLS)
@given(seed=st.integers(0, 2**32), share=st.floats(0, 1.5), spread=st.floats(0, 6))
@settings(max_examples=25, deadline=None)
def test_a13_the_step_hits_the_hyperplane_when_it_can(kind: type, seed: int, share: float, spread: float) -> None:
    """Weights over several orders of magnitude; beyond all there is, the corner of the box."""
    rng = np.random.default_rng(seed)
    w = torch.from_numpy(rng.normal(size=(3, 40)) * 10.0 ** -rng.uniform(0, spread, (3, 40)))
    points = torch.from_numpy(rng.integers(0, 256, (2, 3, 40)) / 255)
    sign = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
    most = (w * torch.where(w * sign[:, None] < 0, 1 - points, -points)).sum(2)  # the change of w·p to the corner
    step = step_onto(kind(1.0), points, w, gap=-share * most)
    reached = (w * step).sum(2)
    assert torch.allclose(reached, min(share, 1.0) * most, rtol=1e-12, atol=1e-12)
    assert points_in_box((points + step).numpy())
    if share > 1:
        assert torch.allclose(points + step, (w * sign[:, None] < 0).double().expand_as(points), atol=1e-12)


@pytest.mark.parametrize("kind", BALLS)
@pytest.mark.parametrize("d", [784, 3 * 224 * 224])
def test_a13_float32_hits_the_hyperplane_at_image_sizes(kind: type, d: int) -> None:
    g = torch.Generator().manual_seed(0)
    points, w = (torch.rand(2, 2, d, generator=g) * 1.2 - 0.1).clamp(0, 1), torch.randn(2, d, generator=g) * 1e-3
    for size in (0.001, 0.05):
        gap = size * w.abs().sum(1).expand(2, 2)
        step = step_onto(kind(1.0), points, w, gap=gap)
        reached = (w.double() * step.double()).sum(2)
        assert torch.allclose(reached, -gap.double(), rtol=2e-5)


def test_a13_no_weights_no_step() -> None:
    for kind in BALLS:
        step = step_onto(kind(1.0), torch.rand(2, 3, 5), torch.zeros(3, 5), gap=torch.ones(2, 3))
        assert bool((step == 0).all())


@pytest.mark.parametrize("kind", BALLS)
def test_a13_the_step_of_a_row_does_not_depend_on_the_others(kind: type) -> None:
    g = torch.Generator().manual_seed(0)
    points, w, gap = torch.rand(2, 9, 300, generator=g), torch.randn(9, 300, generator=g), torch.randn(2, 9) * 30
    together = step_onto(kind(1.0), points, w, gap=gap)
    for i in range(9):
        one = slice(i, i + 1)
        assert torch.equal(step_onto(kind(1.0), points[:, one], w[one], gap=gap[:, one]), together[:, one])


def test_a_ball_of_another_shape_is_refused() -> None:
    class Cone:
        eps = 1.0

    with pytest.raises(ValueError, match="Linf, L2 and L1"):
        step_onto.__wrapped__(Cone(), torch.rand(1, 1, 2), torch.ones(1, 2), gap=torch.ones(1, 1))
