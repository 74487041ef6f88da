"""The registry: every attack is in it, every name has a cost, and what the reports ask of a stored attack is there."""

import inspect
import pkgutil
from importlib import import_module

import pytest
from torch import nn

import leastwise.attacks
from leastwise.attacks.base import Attack, Clean, Passes
from leastwise.attacks.combine import CombinedAttack
from leastwise.attacks.external import ExternalAttack
from leastwise.attacks.min_norm.search import NearestMistake
from leastwise.attacks.naming import AttackName, Threat
from leastwise.attacks.registry import CLASSES, NAMES, class_of, find_name, make_attack
from leastwise.attacks.surrogate import Surrogate
from leastwise.attacks.threats import L2, Linf
from leastwise.papers.cost import condition_passes
from leastwise.papers.scales import LITE_HEAVY

EXAMPLES = {row.spelling: row.example or "transfer:other.pt" for row in NAMES}


def make(name: str) -> Attack:
    norm = L2 if name.startswith(("cwl2", "ddn")) else Linf
    return make_attack(name, Threat(norm(0.1), 0.02, load=lambda file: Surrogate(file, "", nn.Identity())))


def all_attacks() -> set[type[Attack]]:
    """The classes of the package that can be made."""
    modules = [import_module(m.name) for m in pkgutil.walk_packages(leastwise.attacks.__path__, "leastwise.attacks.")]
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    return {kind for kind in kinds if issubclass(kind, Attack) and not inspect.isabstract(kind)}


def test_every_attack_inherits_the_contract_and_is_registered_by_its_recipe_name() -> None:
    assert set(CLASSES.values()) == all_attacks()
    assert all(issubclass(kind, Attack) and vars(kind)["recipe_name"] == name for name, kind in CLASSES.items())
    assert class_of("Foreign") is ExternalAttack and class_of("Nobody") is None


@pytest.mark.parametrize("row", NAMES, ids=lambda row: row.spelling)
def test_a_name_makes_its_class_and_is_found_by_its_example(row: AttackName) -> None:
    example = EXAMPLES[row.spelling]
    assert find_name(example)[0] == row
    made = make(example)
    parts = (made, *(made.inner if isinstance(made, CombinedAttack) else ()))  # pgd3x2 is a PGD inside its restarts
    assert row.kind is None or any(isinstance(one, row.kind) for one in parts)


@pytest.mark.parametrize("name", EXAMPLES.values())
@pytest.mark.parametrize("k", [2, 10, 100])
def test_the_estimates_of_papers_are_the_cost_of_the_attack(name: str, k: int) -> None:
    norm = "l2" if name.startswith(("cwl2", "ddn")) else "linf"
    passes = make(name).cost(k)
    assert isinstance(passes, Passes) and passes.forwards >= 1
    assert condition_passes(name, k, norm) == passes.forwards + 2 * passes.backwards


def test_the_costs_that_used_to_count_as_one() -> None:
    assert make("apgd-t").cost(10) == make("fab-t").cost(10) == Passes(1 + 9 * 101, 9 * 100)
    assert make("fab").cost(10) == Passes(102, 100 * 9) and make("cwl2").cost(10) == Passes(2 + 9 * 1001 + 8, 9000)
    assert make("autoattack").cost(10) == make("apgd-ce+apgd-t+fab-t+square").cost(10) == Passes(6924, 1900)


@pytest.mark.parametrize("name", ["apgd", "pgd", "autoatack", "pgd20+nobody", "nobody[0.1]"])
def test_an_unknown_attack_in_an_estimate_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="there is no attack"):
        condition_passes(name, 10)


def test_a_scale_shortens_only_attacks_that_there_are() -> None:
    for name, (shorter, _) in LITE_HEAVY.items():
        assert condition_passes(shorter, 10) <= condition_passes(name, 10)


def test_what_attacks_need_is_what_they_say() -> None:
    without = {row.spelling for row in NAMES if not make(EXAMPLES[row.spelling]).gradients}
    queries = {"square[:N]", "nattack[:N]"}
    labels = {"transfer:FILE[+FILE]", "corners[:N]", "uniform[:N]", "gaussian[:N]", "hsj[:N]"}
    assert without == {"clean", "CORRUPTION[:S]"} | queries | labels
    for need, names in (("queries", queries), ("labels", labels)):
        assert {row.spelling for row in NAMES if row.kind and row.kind.needs == need} == names
    reading = {row.spelling for row in NAMES if make(EXAMPLES[row.spelling]).logits}
    assert reading == set(EXAMPLES) - labels - {"clean", "CORRUPTION[:S]"}
    assert Clean.needs == "nothing" and ExternalAttack.needs is None


def test_who_looks_for_the_nearest_mistake() -> None:
    nearest = {name for name, kind in CLASSES.items() if issubclass(kind, NearestMistake)}
    assert nearest == {"CWInf", "CWL2", "DDN", "FAB", "FMN", "HopSkipJump"}
