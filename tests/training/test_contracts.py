"""What methods, policies and the other parts of a training promise by their types."""

import subprocess
import sys
from typing import ClassVar

import pytest
import torch

from leastwise.attacks.threats import Linf
from leastwise.training.attack_steps import ATTACK_STEPS, AttackSteps
from leastwise.training.averaging import AVERAGINGS, Averaging
from leastwise.training.base import Objective, Policy, Terms
from leastwise.training.compose import apply_terms
from leastwise.training.recipe import OPTIMISERS, Optimiser
from leastwise.training.registry import METHODS, POLICIES, apply_settings
from leastwise.training.schedules import SCHEDULES, Schedule


def test_everything_with_a_name_inherits_from_its_contract() -> None:
    assert all(isinstance(row.make(Linf(0.1), 0.02, 2), Objective) for row in METHODS.values())
    assert all(isinstance(row.policy, Policy) for row in POLICIES.values())
    assert all(isinstance(one, Averaging) for one in AVERAGINGS.values())
    assert all(isinstance(one, Schedule) for one in SCHEDULES.values())
    assert all(isinstance(one, Optimiser) for one in OPTIMISERS.values())
    assert all(isinstance(one, AttackSteps) for one in ATTACK_STEPS.values())


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("radius", "radii"),
        ("weigths", "weights"),
        ("part_weight", "part_weights"),
        ("penalties", "penalty"),
        ("label_logit", "label_logits"),
        ("samples", "sampling"),
        ("updates", "update"),
        ("initial", "init"),
        ("needs_validaton", "needs_validation"),
    ],
)
def test_a_misspelt_hook_or_need_of_a_policy_is_refused(misspelt: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"Mine defines {misspelt}, .*did you mean {meant}[?]"):
        type("Mine", (Policy,), {misspelt: lambda self, *_: None})


def test_a_misspelt_hook_of_an_objective_is_refused() -> None:
    with pytest.raises(ValueError, match=r"did you mean craft[?]"):

        class Mine(Objective):
            def crafted(self, model, x, y, noise): ...


def test_a_misspelt_need_of_an_averaging_is_refused() -> None:
    with pytest.raises(ValueError, match=r"did you mean fresh_statistics[?]"):

        class Mine(Averaging):
            fresh_statistic: ClassVar[bool] = True


def test_a_policy_that_overrides_nothing_changes_nothing() -> None:
    class Idle(Policy):
        pass

    idle, n = Idle(), torch.ones(5, dtype=torch.int64)
    assert idle.init(n) == {} and idle.weights({}) is None and idle.sampling({}) is None
    assert not (idle.needs_validation or idle.needs_first_look or idle.needs_validation_loss)


def test_weights_do_not_weigh_a_penalty_and_both_count() -> None:
    class Both(Policy):
        def weights(self, s):
            return torch.tensor([1.0, 2.0, 3.0])

        def penalty(self, terms, y, s):
            return torch.full_like(terms.label, 10.0)

    y = torch.tensor([0, 2, 1, 2])
    found = apply_terms(Terms(torch.ones(4), clean=torch.zeros(4, 3)), ((Both(), {}),), y)
    assert found.per_example.tolist() == [11.0, 13.0, 12.0, 13.0]


def test_the_choices_of_a_recipe_are_known_without_torch() -> None:
    code = "import sys, leastwise.training.choices; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_an_unknown_setting_is_answered_with_the_nearest() -> None:
    parts = {"method": METHODS["trades"].make(Linf(0.1), 0.02, 2), "cfa": POLICIES["cfa"].policy}
    with pytest.raises(ValueError, match=r"CFA has no setting 'lamda1': did you mean lambda1[?]"):
        apply_settings(parts, ("cfa.lamda1=1",))
    with pytest.raises(ValueError, match=r"TRADES has no setting 'bata': did you mean beta[?]"):
        apply_settings(parts, ("bata=1",))
