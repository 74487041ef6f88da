"""AutoAttack: its members, P16, and networks with two and a hundred classes."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.autoattack import make_autoattack
from leastwise.attacks.base import BROKEN, FLAT, Outcome
from leastwise.attacks.combine import Cascade
from leastwise.attacks.fab.fab import FAB
from leastwise.attacks.goals import DLR
from leastwise.attacks.pgd import PGD
from leastwise.attacks.square import Square
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.models.zoo.registry import build
from tests.attacks.networks_to_attack import mixed, noise_for
from tests.conftest import SHAPE

pytestmark = pytest.mark.medium


def brief(attack: Cascade, steps: int = 10, queries: int = 40) -> Cascade:
    """Fewer steps and queries, the same members."""
    shorter = [
        replace(m, queries=queries) if isinstance(m, Square) else replace(m, steps=steps) for m in attack.members
    ]
    return Cascade(tuple(shorter))


def test_a15_the_members_are_those_of_the_reference_in_its_order() -> None:
    standard = make_autoattack(Linf(0.03)).members
    assert [type(member) for member in standard] == [APGD, APGD, FAB, Square]
    ce, targeted, fab, square = standard
    assert (ce.steps, ce.targets, ce.restarts) == (100, 0, 1) and str(ce.goal) == "CE"
    assert (targeted.steps, targeted.targets, targeted.restarts) == (100, 9, 1)
    assert (fab.steps, fab.targets, fab.restarts) == (100, 9, 1)
    assert (square.queries, square.p_init, square.rescale, square.restarts) == (5000, 0.8, False, 1)
    plus = make_autoattack(Linf(0.03), "plus").members
    assert [type(member) for member in plus] == [APGD, APGD, FAB, Square, APGD, FAB]
    assert [getattr(member, "restarts", 1) for member in plus] == [5, 5, 5, 1, 1, 1]
    assert isinstance(plus[1].goal, DLR) and plus[2].targets == 0
    assert [member.eot for member in make_autoattack(Linf(0.03), "rand").members] == [20, 20]


@pytest.mark.parametrize("ball", [Linf(0.03), L2(0.2)], ids=str)
def test_p16_no_member_alone_is_stronger(ball: Ball) -> None:
    model, x, y = mixed()
    cascade = brief(make_autoattack(ball))
    together = cascade.run(model, x, y, noise_for(x))
    left = torch.ones_like(y, dtype=torch.bool)
    for number, member in enumerate(cascade.members):
        alone = member.run(model, x, y, noise_for(x))
        assert bool((together.fooled | ~alone.fooled).all()), member
        assert torch.equal(together.fooled & (together.by == number), alone.fooled & left)
        left &= ~alone.fooled
    assert torch.equal(~together.fooled, left) and 0 < int(left.sum()) < len(y)


def test_p16_any_iterate_is_at_least_as_strong_as_the_last() -> None:
    model, x, y = mixed()
    for attack in (PGD(Linf(0.03), step=0.01), APGD(Linf(0.03), steps=10)):
        last, anywhere = (replace(attack, keep=keep).run(model, x, y, noise_for(x)) for keep in ("last", "fooled"))
        assert bool((anywhere.fooled | ~last.fooled).all())


@pytest.mark.parametrize("k", [2, 3, 100])
@pytest.mark.parametrize("version", ["standard", "plus"])
def test_any_number_of_classes_goes_through(version: str, k: int) -> None:
    model = build("small", SHAPE, k, seed=1).eval()
    x = torch.rand(12, *SHAPE, generator=torch.Generator().manual_seed(0))
    y = model(x).argmax(1)
    attack = brief(make_autoattack(Linf(0.2), version), 4, 10)
    found: Outcome = attack.run(model, x, y, noise_for(x))
    assert bool(attack.allows(x, found.x_adv).all())
    assert torch.equal(found.fooled, model(found.x_adv).argmax(1) != y)
    said = " ".join(attack.notes(k))
    assert ("needs 4 classes" in said) == (k < 4)
    assert ("DLR needs 3 classes" in said) == (k < 3 and version == "plus")


def test_models_that_are_blind_or_broken_are_not_robust() -> None:
    """Rounded pixels give no gradient, which Square does not need; NaN is never a survivor without trouble."""
    inside, x, y = mixed()

    class Rounded(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return inside((8 * x).round() / 8) + 0 * x.sum()

    blind = brief(make_autoattack(Linf(0.06)))
    found = blind.run(Rounded(), x, y, noise_for(x))
    assert set(found.trouble[~found.fooled].tolist()) == {FLAT}
    assert bool((found.by[found.fooled] == 3).any())

    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return inside(x) * torch.nan

    found = blind.run(Broken(), x, y, noise_for(x))
    assert not bool(found.fooled.any()) and set(found.trouble.tolist()) == {BROKEN}


def test_autoattack_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="norms linf and l2, but saw l1"):
        make_autoattack(L1(5.0))


def test_a_radius_per_example_works_in_every_combination() -> None:
    model, x, y = mixed()
    eps = torch.linspace(0.005, 0.06, len(x), dtype=torch.float64)
    attack = brief(make_autoattack(Linf(0.03))).at(eps)
    found = attack.run(model, x, y, noise_for(x))
    assert bool(((found.x_adv - x).flatten(1).abs().amax(1) <= eps + 1e-9).all())
    for i in (3, 40, 77):
        alone = brief(make_autoattack(Linf(float(eps[i])))).run(
            model, x[i : i + 1], y[i : i + 1], noise_for(x).pick(torch.tensor([i]))
        )
        assert bool(alone.fooled) == bool(found.fooled[i])
