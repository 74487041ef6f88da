"""Runs that are given up: who goes on is found again by hand, and what goes on is the attack without the rule."""

from dataclasses import replace

import pytest
import torch

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.base import NEVER, Attack
from leastwise.attacks.fab.fab import FAB
from leastwise.attacks.goals import CE, TargetedDLR
from leastwise.attacks.hopeless import Hopeless
from leastwise.attacks.square import Square
from leastwise.attacks.targets import rank_by_logits
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.core.losses import margin
from leastwise.core.recipe import recipe_key, to_plain_json
from tests.attacks.contract import check_contract
from tests.attacks.networks_to_attack import Watched, mixed, noise_for
from tests.conftest import K


def test_what_is_left_is_compared_with_what_was_won() -> None:
    clean, best = torch.tensor([-4.0, -4.0, -4.0, -4.0, -1.0]), torch.tensor([-4.0, -2.0, -1.0, -0.5, 0.5])
    assert Hopeless(5, 0.25).lets_go_on(clean, best).tolist() == [False, False, False, True, True]
    assert Hopeless(5, 1.0).lets_go_on(clean, best).tolist() == [False, True, True, True, True]


@pytest.mark.parametrize("ball", [Linf(0.012), L2(0.12)], ids=str)
def test_square_goes_on_where_little_is_left(ball: Ball) -> None:
    model, x, y = mixed()
    rule = Hopeless(30, 1.0)
    attack = Square(ball, queries=90, keep="fooled")
    early, whole = (replace(attack, queries=n).run(model, x, y, noise_for(x)) for n in (30, 90))
    found = replace(attack, hopeless=rule).run(model, x, y, noise_for(x))
    clean, left = margin(model(x), y).detach(), margin(model(early.x_adv), y).detach()
    goes_on = early.fooled | (left <= clean - left)
    expected = torch.where(goes_on.view(-1, 1, 1, 1), whole.x_adv, early.x_adv)
    assert torch.equal(found.x_adv, expected)
    assert torch.equal(found.step, torch.where(goes_on, whole.step, NEVER))
    assert 0 < int(goes_on.sum() - early.fooled.sum()) < int((~early.fooled).sum())
    queries = torch.where(found.fooled, found.step, torch.where(goes_on, 91, 31))  # after the look at the image
    assert found.forwards == len(x) + int(queries.sum())


@pytest.mark.parametrize("ball", [Linf(0.008), L2(0.08)], ids=str)
def test_apgd_t_goes_on_where_little_is_left(ball: Ball) -> None:
    model, x, _ = mixed()
    y = model(x).argmax(1)
    target = rank_by_logits(model(x).detach(), y)[:, 0]
    rule = Hopeless(4, 1.5)
    attack = APGD(ball, steps=20, targets=1)
    shown = Watched(model)
    whole = attack.run(shown, x, y, noise_for(x))
    points = torch.stack(shown.shown[1:6])  # behind the look at the images: the start and four steps
    scores = torch.stack([TargetedDLR(target).score(model(at), y, target).detach() for at in points])
    clean = TargetedDLR(target).score(model(x), y, target).detach()
    best, at = scores.max(dim=0)
    goes_on = -best <= 1.5 * (best - clean)
    early = (torch.stack([model(at).argmax(1) != y for at in points])).any(dim=0)
    found = replace(attack, hopeless=rule).run(model, x, y, noise_for(x))
    still = goes_on | early  # a ratio toward one class says nothing of a mistake elsewhere, which counts
    assert torch.equal(found.fooled[goes_on], whole.fooled[goes_on])
    assert torch.allclose(found.x_adv[goes_on], whole.x_adv[goes_on], atol=1e-9)
    best_points = points[at, torch.arange(len(x))]
    assert torch.allclose(found.x_adv[~still], best_points[~still], atol=1e-9) and not bool(found.fooled[~still].any())
    assert 0 < int((~still).sum()) < len(x)
    assert found.forwards == len(x) + int(torch.where(goes_on, 21, 5).sum())


@pytest.mark.parametrize("ball", [Linf(0.008), L2(0.08)], ids=str)
def test_fab_goes_on_where_the_nearest_mistake_is_not_far(ball: Ball) -> None:
    model, x, _ = mixed()
    y = model(x).argmax(1)
    attack = FAB(ball, steps=12, targets=1)
    early, whole = (replace(attack, steps=n).closest(model, x, y, noise_for(x)) for n in (3, 12))
    found = replace(attack, hopeless=Hopeless(3, 0.3)).search(model, x, y, noise_for(x))[0]
    goes_on = early.distance <= 1.3 * float(ball.eps)
    assert torch.equal(found.distance, torch.where(goes_on, whole.distance, early.distance))
    assert torch.equal(found.x_adv, torch.where(goes_on.view(-1, 1, 1, 1), whole.x_adv, early.x_adv))
    assert 0 < int(goes_on.sum()) < len(x)
    nearest = replace(attack, hopeless=Hopeless(3, 0.3)).closest(model, x, y, noise_for(x))
    assert torch.equal(nearest.distance, whole.distance)  # who asks for distances gives nobody up


RULED: tuple[Attack, ...] = (
    Square(Linf(0.02), queries=40, keep="fooled", hopeless=Hopeless(10, 0.5)),
    APGD(Linf(0.02), steps=8, targets=3, keep="fooled", hopeless=Hopeless(2, 0.5)),
    APGD(Linf(0.02), steps=8, targets=2, aim="difference", order="distance", hopeless=Hopeless(2, 0.5)),
    FAB(Linf(0.02), steps=8, targets=3, keep="fooled", hopeless=Hopeless(2, 0.1)),
)


@pytest.mark.parametrize("attack", RULED, ids=str)
def test_a_rule_only_ever_loses_and_says_so(attack: Square | APGD | FAB) -> None:
    model, x, y = mixed()
    ruled, whole = (one.run(model, x, y, noise_for(x)) for one in (attack, replace(attack, hopeless=None)))
    assert bool((whole.fooled | ~ruled.fooled).all()) and ruled.forwards < whole.forwards
    assert "given up after" in str(attack) and "hopeless" in to_plain_json(attack)
    assert "hopeless" not in to_plain_json(replace(attack, hopeless=None))
    assert recipe_key(attack) != recipe_key(replace(attack, hopeless=None))


@pytest.mark.parametrize("attack", RULED, ids=str)
def test_it_keeps_the_contract(attack: Attack) -> None:
    for seed, k in enumerate((2, K)):
        check_contract(attack, k, 6, (3, 5, 4), seed)


def test_mistakes_are_refused() -> None:
    rule = Hopeless(5, 0.5)
    for wrong in (lambda: Hopeless(0, 0.5), lambda: Hopeless(5, 0.0)):
        with pytest.raises(ValueError, match="but saw 0"):
            wrong()
    with pytest.raises(ValueError, match="known of the margin, but the goal is CE"):
        Square(goal=CE(), hopeless=rule)
    for wrong in (lambda: APGD(hopeless=rule), lambda: APGD(L1(3.0), targets=2, hopeless=rule)):
        with pytest.raises(ValueError, match="runs toward targets in Linf and L2"):
            wrong()
