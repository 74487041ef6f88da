"""Which classes targeted attacks go to: both orders against a plain computation, their costs, and MM3."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from leastwise.attacks.apgd.apgd import AIMS, APGD
from leastwise.attacks.fab.fab import FAB
from leastwise.attacks.goals import TargetedDifference
from leastwise.attacks.naming import Threat
from leastwise.attacks.registry import make_attack
from leastwise.attacks.targets import CANDIDATES, rank_by_distance, rank_by_logits
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.core.recipe import to_plain_json
from tests.attacks.networks_to_attack import Watched, noise_for, thirty_mixed
from tests.conftest import SHAPE, K, random_linear

DUAL = {Linf: 1, L2: 2, L1: torch.inf}


def plain_order(model: nn.Module, x: torch.Tensor, y: int, dual: float) -> list[int]:
    """MALT's order for one image: a pass and a gradient for every class."""
    ratios = []
    for t in range(K):
        if t != y:
            here = x.clone().requires_grad_()
            z = model(here[None])[0]
            (g,) = torch.autograd.grad(z[t] - z[y], here)
            ratios.append((float((z[y] - z[t]).detach() / g.flatten().norm(p=dual)), t))
    return [t for _, t in sorted(ratios)]


@pytest.mark.parametrize("ball", [Linf(0.1), L2(0.1), L1(0.1)], ids=str)
def test_the_order_by_distance_is_that_of_the_ratio(ball: Ball) -> None:
    model, x, y = thirty_mixed()
    ranked = rank_by_distance(model, x, y, ball=ball)
    assert ranked.tolist() == [plain_order(model, x[i], int(y[i]), DUAL[type(ball)]) for i in range(len(x))]
    by_logits = rank_by_logits(model(x).detach(), y)
    assert not torch.equal(ranked, by_logits) and torch.equal(ranked.sort(1).values, by_logits.sort(1).values)


def test_only_the_likeliest_are_candidates_and_the_flat_come_last() -> None:
    model = random_linear(CANDIDATES + 30, torch.float64, seed=2)
    x = torch.rand(4, *SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z = model(x).detach()
    y = z.argmax(1)
    ranked = rank_by_distance(model, x, y, ball=Linf(0.1))
    assert ranked.shape == (4, CANDIDATES)
    assert torch.equal(ranked.sort(1).values, rank_by_logits(z, y)[:, :CANDIDATES].sort(1).values)

    class Flat(nn.Module):
        """Classes 0 and 1 look at the image, the others are constant."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rest = torch.tensor([0.9, 0.5, 0.7], dtype=x.dtype).expand(len(x), -1)
            seen = torch.stack((2 * x.flatten(1).sum(1), -x.flatten(1).sum(1)), dim=1)
            return torch.cat((seen - seen.detach(), rest), dim=1)  # logits 0, 0 and the rest

    order = rank_by_distance(Flat(), x, torch.full((4,), 2), ball=Linf(0.1))
    assert order.tolist() == [[0, 1, 4, 3]] * 4


@pytest.mark.parametrize("attack", [APGD(Linf(0.02), steps=6, targets=2), FAB(Linf(0.02), steps=6, targets=2)])
def test_targets_by_distance_are_those_of_the_plain_order(attack: APGD | FAB, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x, y = thirty_mixed()
    near = replace(attack, order="distance", keep="fooled")
    found = near.run(model, x, y, noise_for(x))
    by_logits = replace(near, order="logits").run(model, x, y, noise_for(x))
    ranked = torch.tensor([plain_order(model, x[i], int(y[i]), 1) for i in range(len(x))])
    monkeypatch.setattr("leastwise.attacks.targets.rank_by_logits", lambda z, y: ranked)
    plain = replace(near, order="logits").run(model, x, y, noise_for(x))
    assert torch.equal(found.x_adv, plain.x_adv) and torch.equal(found.step, plain.step)
    assert not torch.equal(found.x_adv, by_logits.x_adv)
    right = int((model(x).argmax(1) == y).sum())  # nobody ranks classes for an image that is wrong as it is
    assert found.forwards == plain.forwards + right and found.backwards == plain.backwards + right * (K - 1)


@pytest.mark.parametrize("attack", [APGD(Linf(0.02), steps=6, targets=2), FAB(Linf(0.02), steps=6, targets=2)])
def test_ranking_is_counted_in_passes(attack: APGD | FAB) -> None:
    model, x, y = thirty_mixed()
    near = replace(attack, order="distance")
    shown = Watched(model)
    found = near.run(shown, x, y, noise_for(x))
    most, plain = near.cost(K), attack.cost(K)
    assert most is not None and plain is not None
    assert sum(map(len, shown.shown)) == found.forwards <= len(x) * most.forwards
    assert found.backwards <= len(x) * most.backwards
    assert (most.forwards - plain.forwards, most.backwards - plain.backwards) == (1, K - 1)
    assert near.cost(1000).backwards == attack.cost(1000).backwards + CANDIDATES


def test_mm3_climbs_the_difference_toward_the_three_likeliest(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x, _ = thirty_mixed()
    y = model(x).argmax(1)
    mm3 = make_attack("mm3", Threat(Linf(0.01), 0.0025))
    assert isinstance(mm3, APGD) and (mm3.steps, mm3.targets, mm3.aim, mm3.order) == (20, 3, "difference", "logits")
    found = mm3.run(model, x, y, noise_for(x))
    made: list[TargetedDifference] = []
    monkeypatch.setitem(AIMS, "difference", lambda target: made.append(TargetedDifference(target)) or made[-1])
    again = mm3.run(model, x, y, noise_for(x))
    assert torch.equal(found.x_adv, again.x_adv)
    first = model(x).detach().scatter(1, y[:, None], -torch.inf).argmax(1)
    assert torch.equal(made[0].target, first)
    z = model(x).detach()
    by_hand = torch.stack([z[i, first[i]] - z[i, y[i]] for i in range(len(x))])
    assert torch.equal(made[0].score(z, y, first), by_hand)
    assert mm3.notes(3) == () and "APGD: 20 steps on z_target - z_label toward 3 classes" in str(mm3)


def test_names_and_keys() -> None:
    threat = Threat(Linf(0.1), 0.02)
    plain, five, near = (make_attack(name, threat) for name in ("apgd-t", "apgd-t:5", "apgd-t:5@malt"))
    assert (plain, five, near) == (
        APGD(Linf(0.1), targets=9, keep="fooled"),
        APGD(Linf(0.1), targets=5, keep="fooled"),
        APGD(Linf(0.1), targets=5, keep="fooled", order="distance"),
    )
    assert make_attack("fab-t:3@malt", threat) == FAB(Linf(0.1), targets=3, keep="fooled", order="distance")
    assert "order" not in to_plain_json(plain) and "aim" not in to_plain_json(FAB()) and "order" in to_plain_json(near)
    assert "nearest 5 classes" in str(near)
    with pytest.raises(ValueError, match="one pass per gradient, but saw eot = 3"):
        APGD(targets=2, order="distance", eot=3)
