"""Random corners: on a linear model that looks at one pixel, each corner is a fair coin."""

import pytest
import torch

from leastwise.attacks.base import NEVER
from leastwise.attacks.corners import Corners
from leastwise.attacks.naming import Threat
from leastwise.attacks.registry import make_attack
from leastwise.attacks.threats import L1, L2, Linf
from tests.attacks.contract import check_contract
from tests.attacks.networks_to_attack import Partly, Watched, mixed, noise_for
from tests.conftest import SHAPE, Linear
from tests.oracles.linear_models import binary, grey

EPS = 0.1


def one_pixel(margin: float) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """Two logits, ±(first pixel - 1/2), and 400 images whose first pixel is `margin` above or below one half."""
    weight = torch.zeros(2, grey(1)[0].numel(), dtype=torch.float64)
    weight[:, 0] = torch.tensor([1.0, -1.0])
    x, y = grey(400), torch.arange(400) % 2
    x[:, 0, 0, 0] = torch.where(y == 0, 0.5 + margin, 0.5 - margin)
    return Linear(weight, torch.tensor([-0.5, 0.5], dtype=torch.float64)), x, y


def test_each_corner_is_a_fair_coin_for_an_image_within_reach() -> None:
    model, x, y = one_pixel(0.9 * EPS)
    found = Corners(Linf(EPS), draws=30).run(model, x, y, noise_for(x))
    assert bool(found.fooled.all())  # all but 400 / 2^30 of them
    for draws in (1, 2, 3):  # geometric: a share 2^-draws survives, within four standard deviations
        left, share = int((found.step > draws).sum()), 0.5**draws
        assert abs(left - 400 * share) < 4 * (400 * share * (1 - share)) ** 0.5
        fewer = Corners(Linf(EPS), draws=draws).run(model, x, y, noise_for(x))
        assert torch.equal(fewer.fooled, found.step <= draws)


def test_no_corner_fools_where_the_margin_is_beyond_reach_and_none_at_radius_zero() -> None:
    model, x, y = one_pixel(1.1 * EPS)
    assert not bool(Corners(Linf(EPS), draws=30).run(model, x, y, noise_for(x)).fooled.any())
    network, x, y = mixed()
    found = Corners(Linf(0.0), draws=3).run(network, x, y, noise_for(x))
    wrong = network(x).argmax(1) != y
    assert torch.equal(found.fooled, wrong) and 0 < int(wrong.sum()) < len(x) and torch.equal(found.x_adv, x)


@pytest.mark.parametrize("draws", [1, 5])
def test_an_image_is_lost_if_any_corner_that_was_shown_is_on_the_other_side(draws: int) -> None:
    model, w = binary(seed=4)
    x, attack = grey(60), Corners(Linf(0.4), draws=draws)  # far, since most of w · s cancels; yet nothing is clipped
    y = model(x).argmax(1)
    watched = Watched(model)
    found = attack.run(watched, x, y, noise_for(x))
    assert torch.equal(watched.shown[0], x) and len(watched.shown) <= draws + 1
    assert found.forwards == sum(map(len, watched.shown)) and found.backwards == 0
    assert found.forwards == len(x) + int(torch.where(found.fooled, found.step, draws).sum())
    # The linear form at the point that is left: clean logits and w · d.
    z = model(x)
    after = z[:, 0] - z[:, 1] + (found.x_adv - x).flatten(1) @ w
    assert torch.equal(found.fooled, (after > 0) != (y == 0)) and 0 < int(found.fooled.sum()) < 60


@pytest.mark.parametrize("ball", [Linf(0.034), L2(0.33), L1(3.0)])
def test_every_pixel_moves_equally_far_and_the_point_is_on_the_edge(ball: Linf | L2 | L1) -> None:
    model, _ = binary(seed=4)
    x = grey(40)  # nothing is clipped
    moved = Corners(ball, keep="last")(model, x, model(x).argmax(1)) - x
    sizes, edge = moved.flatten(1).abs(), torch.full((40,), float(ball.eps), dtype=torch.float64)
    assert torch.allclose(ball.norm(moved), edge, rtol=0, atol=1e-9)
    assert torch.allclose(sizes, sizes[:, :1].expand_as(sizes), rtol=0, atol=1e-12)
    up = float((moved > 0).double().mean())
    assert abs(up - 0.5) < 4 * 0.5 / moved.numel() ** 0.5


def test_with_last_only_the_last_corner_counts() -> None:
    model, x, y = one_pixel(0.9 * EPS)
    found = Corners(Linf(EPS), draws=3, keep="last").run(model, x, y, noise_for(x))
    assert abs(int(found.fooled.sum()) - 200) < 4 * 10
    assert set(found.step.tolist()) == {3, NEVER} and found.forwards == 2 * len(x)


def test_a_radius_for_each_image_is_kept() -> None:
    model, x, y = one_pixel(0.9 * EPS)
    eps = torch.where(torch.arange(400) < 200, EPS, 0.5 * EPS)
    found = Corners(Linf(EPS), draws=30).at(eps).run(model, x, y, noise_for(x))
    assert torch.equal(found.fooled, torch.arange(400) < 200)


def test_logits_that_are_not_finite_fool_nobody() -> None:
    model, x, y = one_pixel(0.9 * EPS)
    x = x + 0.2  # brighter than one half, where this network is broken
    found = Corners(Linf(EPS), draws=3).run(Partly(model), x, y, noise_for(x))
    assert not bool(found.fooled.any()) and bool((found.trouble != 0).all())


def test_its_name_says_how_many_and_less_than_one_is_refused() -> None:
    threat = Threat(Linf(EPS), 0.01)
    assert make_attack("corners", threat) == Corners(Linf(EPS))
    assert make_attack("corners:5", threat) == Corners(Linf(EPS), draws=5)
    with pytest.raises(ValueError, match="at least one draw"):
        Corners(draws=0)


@pytest.mark.parametrize("keep", ["fooled", "last"])
@pytest.mark.parametrize("ball", [Linf(0.1), L2(0.5), L1(3.0)])
def test_it_keeps_the_contract(ball: Linf | L2 | L1, keep: str) -> None:
    for seed in range(5):
        check_contract(Corners(ball, draws=4, keep=keep), 4, 6, SHAPE, seed)
