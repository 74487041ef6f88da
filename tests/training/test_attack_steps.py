"""Fewer attack steps in earlier epochs: counts by hand, what the loop does with them, and keys that stay."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import nn

from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.core.recipe import recipe_key, to_plain_json
from leastwise.models.zoo.registry import build
from leastwise.training.attack_steps import (
    ATTACK_STEPS,
    AttackSteps,
    FewFirst,
    Rising,
    find_attack_steps,
    shorten_attack,
)
from leastwise.training.loop import fit
from leastwise.training.methods.pgd_at import PGDAT, friendly_attack
from leastwise.training.methods.standard import Standard
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.cfa import CFA
from leastwise.training.recipe import Training, Validation
from leastwise.training.schedules import Constant
from tests.training.batches_and_losses import ON_CE, ON_KL, blobs

DATA = blobs((12, 9, 7, 6, 6), shape=(3, 8, 6))
FIVE = PGD(Linf(0.1), step=0.02, steps=5)


def counts(rule: AttackSteps, most: int, epochs: int) -> list[int]:
    return [rule.count(most, epoch, epochs) for epoch in range(epochs)]


def test_steps_rise_evenly_and_are_all_taken_at_the_end() -> None:
    assert counts(Rising(), 5, 5) == [1, 2, 3, 4, 5]
    assert counts(Rising(), 5, 9) == [1, 2, 2, 3, 3, 4, 4, 5, 5]  # halves are rounded up
    assert counts(Rising(first=2, until=0.5), 10, 6) == [2, 6, 10, 10, 10, 10]
    assert counts(Rising(), 5, 1) == [5] and counts(Rising(first=7), 5, 3) == [5, 5, 5]
    assert counts(FewFirst(), 10, 5) == [2, 2, 10, 10, 10] and counts(FewFirst(steps=9), 7, 2) == [7, 7]


@dataclass(frozen=True)
class Recording(PGDAT):
    """Notes the attack of every batch."""

    def craft(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor, noise: Any) -> torch.Tensor:
        SEEN.append(self.attack)
        return super().craft(model, x, y, noise)


SEEN: list[PGD] = []


@pytest.mark.parametrize("stretch", [False, True])
def test_every_epoch_is_trained_with_its_own_number_of_steps(stretch: bool) -> None:
    SEEN.clear()
    rule = Rising(stretch=stretch)
    training = Training(Recording(FIVE), epochs=3, batch_size=20, schedule=Constant(0.01), attack_steps=rule)
    model = build("convnet", DATA.shape, DATA.k, seed=0)
    list(fit(model, DATA, training))
    assert [attack.steps for attack in SEEN] == [1, 1, 3, 3, 5, 5]
    far = [float(attack.steps * attack.step) for attack in SEEN]
    assert far == pytest.approx([0.1] * 6 if stretch else [0.02, 0.02, 0.06, 0.06, 0.1, 0.1])
    assert all(attack.ball == FIVE.ball for attack in SEEN)


@pytest.mark.parametrize("objective", [PGDAT(ON_CE), TRADES(ON_KL)], ids=["pgd-at", "trades"])
def test_an_epoch_is_that_of_the_method_with_so_many_steps(objective: PGDAT | TRADES) -> None:
    """The first epoch with the rule is an epoch of the method with one step; so is one that begins anew from there."""
    attack = replace(objective.attack, steps=4)
    shorter = replace(objective, attack=replace(attack, steps=1))
    base = Training(replace(objective, attack=attack), 4, 20, Constant(0.05), policies=(CFA(),))
    base = replace(base, validation=Validation(per_class=2))
    weights = []
    for training in (replace(base, attack_steps=Rising()), replace(base, objective=shorter)):
        model = build("convnet", DATA.shape, DATA.k, seed=3).double()
        next(iter(fit(model, DATA, training)))
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*weights)


def test_a_paused_training_goes_on_with_the_same_steps() -> None:
    training = Training(PGDAT(replace(ON_CE, steps=3)), 3, 20, Constant(0.05), attack_steps=Rising())
    whole = build("convnet", DATA.shape, DATA.k, seed=3).double()
    *_, last = fit(whole, DATA, training)
    cut = build("convnet", DATA.shape, DATA.k, seed=3).double()
    turns = iter([False, True])
    courses = fit(cut, DATA, training, pause=lambda: next(turns, False))
    for snapshot in courses:
        if not snapshot.whole:
            break
    assert (snapshot.finished, snapshot.batch) == (1, 1)
    *_, again = fit(cut, DATA, training, after=snapshot)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), cut.parameters(), strict=True))
    assert again.seen is not None and last.seen is not None and again.seen.loss == last.seen.loss


def test_keys_stay_and_a_rule_is_part_of_them() -> None:
    plain = Training(PGDAT(FIVE))
    assert "attack_steps" not in to_plain_json(plain)
    found = {
        recipe_key(replace(plain, attack_steps=rule)) for rule in (None, Rising(), FewFirst(), Rising(stretch=True))
    }
    assert len(found) == 4 and recipe_key(plain) in found


def test_nothing_changes_without_a_rule_or_where_all_steps_are_taken() -> None:
    objective = PGDAT(FIVE)
    assert shorten_attack(objective, None, 0, epochs=3) is objective
    assert shorten_attack(objective, Rising(), 2, epochs=3) is objective
    friendly = PGDAT(friendly_attack(Linf(0.1), 0.02, 5))
    assert shorten_attack(friendly, Rising(), 0, epochs=3).attack.patience == 1


def test_mistakes_are_refused() -> None:
    assert find_attack_steps("rising") == ATTACK_STEPS["rising"]
    with pytest.raises(ValueError, match="no rule 'rise' for attack steps: choose rising, few-first"):
        find_attack_steps("rise")
    with pytest.raises(ValueError, match="Standard has no attack whose steps"):
        Training(Standard(), attack_steps=Rising())
    for wrong in (lambda: Rising(first=0), lambda: FewFirst(steps=0)):
        with pytest.raises(ValueError, match="at least one step, but saw 0"):
            wrong()
    for wrong in (lambda: Rising(until=0.0), lambda: FewFirst(share=1.0)):
        with pytest.raises(ValueError, match="a share of the epochs"):
            wrong()
