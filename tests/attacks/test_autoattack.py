"""AutoAttack: its members, P16, and networks with two and a hundred classes."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.autoattack import make_autoattack, make_fast_autoattack, make_opening
from leastwise.attacks.base import BROKEN, FLAT, Attack, Outcome
from leastwise.attacks.combine import Cascade
from leastwise.attacks.fab.fab import FAB
from leastwise.attacks.goals import DLR
from leastwise.attacks.pgd import PGD
from leastwise.attacks.pma import PMA
from leastwise.attacks.square import Square
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.models.zoo.registry import build
from tests.attacks.networks_to_attack import mixed, noise_for
from tests.conftest import SHAPE

pytestmark = pytest.mark.medium


def brief(attack: Cascade, steps: int = 10, queries: int = 40) -> Cascade:
    """Fewer steps and queries, the same members."""
    return Cascade(tuple(shorten(member, steps, queries) for member in attack.members))


def shorten(member: Attack, steps: int, queries: int) -> Attack:
    """Rules for the hopeless look as early as before, in proportion."""
    if isinstance(member, Cascade):
        return brief(member, steps, queries)
    after = {APGD: steps // 4, FAB: steps // 4, Square: queries // 4}.get(type(member), 1)
    if (rule := getattr(member, "hopeless", None)) is not None:
        member = replace(member, hopeless=replace(rule, after=max(1, after)))
    return replace(member, queries=queries) if isinstance(member, Square) else replace(member, steps=steps)


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


def test_the_fast_version_opens_and_gives_up_and_the_opened_one_is_the_reference_behind_it() -> None:
    opening, targeted, fab, square = make_fast_autoattack(Linf(0.03)).members
    assert isinstance(opening, Cascade) and opening == make_opening(Linf(0.03))
    assert [type(member) for member in opening.members] == [PMA, APGD]
    assert opening.members[0] == PMA(Linf(0.03), 100, "fooled") and opening.members[1].steps == 20
    rules = [member.hopeless for member in (targeted, fab, square)]
    assert [type(member) for member in (targeted, fab, square)] == [APGD, FAB, Square] and None not in rules
    assert make_autoattack(Linf(0.03), opened=True).members == (opening, *make_autoattack(Linf(0.03)).members)
    assert all(getattr(m, "hopeless", None) is None for m in make_autoattack(Linf(0.03), opened=True).members)


@pytest.mark.parametrize(
    ("ball", "version", "seed"), [(Linf(0.02), "standard", 0), (L2(0.15), "standard", 1), (Linf(0.02), "plus", 2)]
)
def test_behind_an_opening_autoattack_is_never_weaker(ball: Ball, version: str, seed: int) -> None:
    """Image by image, with the same seeds and budgets: the union of the opening and of what AutoAttack fells alone."""
    model, x, y = mixed()
    alone = brief(make_autoattack(ball, version), 6, 30)
    opened = brief(make_autoattack(ball, version, opened=True), 6, 30)
    noise = noise_for(x, seed)
    before, after = (attack.run(model, x, y, noise) for attack in (alone, opened))
    opening = opened.members[0].run(model, x, y, noise)
    assert torch.equal(after.fooled, before.fooled | opening.fooled)
    assert torch.equal(model(after.x_adv).argmax(1) != y, after.fooled)
    assert torch.equal(after.by[after.fooled] == 0, opening.fooled[after.fooled])
    assert 0 < int(after.fooled.sum()) < len(y)


def test_the_fast_version_costs_less_and_finds_nearly_the_same() -> None:
    model, x, y = mixed()
    ball = Linf(0.02)
    whole = brief(make_autoattack(ball), 20, 200).run(model, x, y, noise_for(x))
    fast = brief(make_fast_autoattack(ball), 20, 200).run(model, x, y, noise_for(x))
    assert fast.forwards + 2 * fast.backwards < whole.forwards + 2 * whole.backwards
    assert int((fast.fooled != whole.fooled).sum()) <= 1 and 10 < int(whole.fooled.sum()) < len(y) - 10


@pytest.mark.parametrize("k", [2, 3, 100])
def test_the_fast_version_takes_any_number_of_classes(k: int) -> None:
    model = build("small", SHAPE, k, seed=1).eval()
    x = torch.rand(12, *SHAPE, generator=torch.Generator().manual_seed(0))
    y = model(x).argmax(1)
    attack = brief(make_fast_autoattack(Linf(0.2)), 4, 10)
    found = attack.run(model, x, y, noise_for(x))
    assert bool(attack.allows(x, found.x_adv).all())
    assert torch.equal(found.fooled, model(found.x_adv).argmax(1) != y)
    with pytest.raises(ValueError, match="linf and l2, but saw l1"):
        make_fast_autoattack(L1(5.0))


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
