"""HopSkipJump: the distance to the boundary from predicted classes alone."""

import math

import pytest
import torch
from torch import nn

from leastwise.attacks.base import NEVER
from leastwise.attacks.min_norm.hop_skip_jump import HopSkipJump, count_halvings
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.models.classifier import wrap
from tests.attacks.networks_to_attack import Watched, mixed, noise_for
from tests.conftest import SHAPE
from tests.oracles.linear_models import binary, grey

BALLS = [(L2(0.1), 2.0), (Linf(0.1), 1.0)]


def boundary(dual: float, seed: int = 5) -> tuple[nn.Module, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A two-class linear model with images and labels, and |w·x + b| / |w|_dual, which nothing can undercut."""
    model, w = binary(seed)
    x = grey(8)
    with torch.no_grad():
        z = model(x)
    distance = (z[:, 0] - z[:, 1]).abs() / torch.linalg.vector_norm(w.flatten(), dual)
    return model, x, z.argmax(dim=1), distance


@pytest.mark.parametrize(("ball", "dual"), BALLS)
def test_p25_the_distance_of_a_linear_boundary_is_neared_from_above(ball: Ball, dual: float) -> None:
    model, x, y, distance = boundary(dual)
    excess = []
    for queries in (300, 1000, 3000):
        found = HopSkipJump(ball, queries=queries).closest(model, x, y, noise_for(x))
        assert bool((found.distance >= distance * (1 - 1e-6)).all()) and found.forwards <= queries * len(x)
        assert bool((model(found.x_adv).argmax(dim=1) != y).all()) and found.backwards == 0
        assert torch.allclose(ball.norm(found.x_adv - x).double(), found.distance)
        excess.append(float((found.distance / distance).max()) - 1)
    # The paper's error falls about as 1/queries: from 300 to 3,000 by far more than a half.
    assert excess[0] > excess[1] > excess[2] and excess[2] < 0.2


@pytest.mark.parametrize(("ball", "dual"), BALLS)
def test_p25_an_example_is_fooled_within_eps_where_the_boundary_is(ball: Ball, dual: float) -> None:
    model, x, y, distance = boundary(dual)
    for factor, falls in ((0.99, False), (1.25, True)):
        attack = HopSkipJump(ball.at(factor * distance), queries=3000, keep="fooled")
        found = attack.run(model, x, y, noise_for(x))
        assert bool((found.fooled == falls).all()) and bool(attack.allows(x, found.x_adv).all())
        assert bool(((found.step > 0) == falls).all()) and int(found.step.max()) <= 3000
    assert found.forwards < 3000 * len(x)  # they left when they were inside


def test_predicted_classes_are_all_it_reads() -> None:
    model, x, y = mixed(torch.float32)
    x, y = x[:10], y[:10]

    def name_classes(images: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return model(images).argmax(dim=1)

    attack = HopSkipJump(L2(0.3), queries=200, probes=20)
    named = attack.run(wrap(name_classes, 5), x, y, noise_for(x))
    logits = attack.run(model, x, y, noise_for(x))
    assert torch.equal(named.x_adv, logits.x_adv) and torch.equal(named.step, logits.step)


def test_an_example_does_not_depend_on_its_company_and_counts_its_own_queries() -> None:
    model, x, y = mixed(torch.float64)
    x, y, noise = x[:6], y[:6], noise_for(x[:6])
    attack = HopSkipJump(L2(0.05), queries=250, probes=20)
    together = attack.closest(model, x, y, noise)
    for i in range(6):
        rows = torch.tensor([i])
        watched = Watched(model)
        alone = attack.closest(watched, x[rows], y[rows], noise.pick(rows))
        # Rounding of a batch may turn a single answer at the boundary; distances then differ in the last digits.
        assert torch.allclose(alone.distance, together.distance[rows], rtol=0.02)
        assert alone.forwards == sum(len(shown) for shown in watched.shown) <= 250


def test_without_any_misclassified_start_there_is_no_distance() -> None:
    class One(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tensor([[1.0, 0.0]]).expand(len(x), 2)

    x, y = torch.rand(3, *SHAPE), torch.tensor([0, 0, 1])
    found = HopSkipJump(L2(0.1), queries=100, starts=9).closest(One(), x, y, noise_for(x))
    assert found.distance.tolist() == [math.inf, math.inf, 0.0] and torch.equal(found.x_adv, x)
    assert found.forwards == 3 + 2 * 9
    outcome = HopSkipJump(L2(0.1), queries=100).run(One(), x, y, noise_for(x))
    assert outcome.step.tolist() == [NEVER, NEVER, 0] and outcome.fooled.tolist() == [False, False, True]


def test_the_boundary_is_found_as_exactly_as_the_paper_asks() -> None:
    assert count_halvings(L2(1.0), 64) == 9 and count_halvings(Linf(1.0), 64) == 12  # d^1.5 = 2^9, d^2 = 2^12
    assert count_halvings(L2(1.0), 150_528) == count_halvings(Linf(1.0), 3072 * 49) == 24


def test_settings_that_make_no_sense_are_refused() -> None:
    for settings, message in (
        ({"ball": L1(1.0)}, "measures distance in L2 or Linf, but saw L1"),
        ({"queries": 0}, "the number of queries must be at least 1"),
        ({"probes": 0}, "probes must be at least 1"),
        ({"target": torch.zeros(3, dtype=torch.int64)}, "goes to any wrong class: for a target use"),
    ):
        with pytest.raises(ValueError, match=message):
            HopSkipJump(**settings)  # type: ignore[arg-type]
    assert str(HopSkipJump()) == "HopSkipJump, 2500 queries, L2 eps 0.5, the nearest mistake of the whole search"
