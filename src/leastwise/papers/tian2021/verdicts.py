"""What the exhibits of Tian et al. decide."""

from leastwise.papers.claims.attacks import (
    backgrounds_drive_adversarial_confusion,
    class_is_lifted,
    confidence_is_smoother,
    gains_on_weak_classes,
    homing_is_common_and_pairwise,
    temperature_gains_where_smooth,
)
from leastwise.papers.claims.base import Finding
from leastwise.papers.results import Missing, Rule, View, words
from leastwise.papers.rules import differ, mutual, widens
from leastwise.papers.tian2021.exhibits import ALL_SIX, CAT, DEFENCES


def stronger(view: View, name: str) -> tuple[Finding, ...]:
    return gains_on_weak_classes(view.audit(name, "fgsm"), view.audit(name, "pgd"))


def queries(view: View, name: str) -> tuple[Finding, ...]:
    return gains_on_weak_classes(view.audit(name, "transfer"), view.audit(f"{name}, 2000 images", "nattack"))


def temperature(view: View, name: str) -> tuple[Finding, ...]:
    """By the temperature that is strongest on the whole, as in the paper."""
    evidence, pgd = view.audit(name, "pgd")
    _, grid = view.audit(name, "tpgd")
    totals = [evidence.against(grid, member).overall for member in range(len(evidence.members(grid)))]
    return temperature_gains_where_smooth(evidence, pgd, grid, member=totals.index(min(totals)))


def smoother(view: View, name: str) -> tuple[Finding, ...]:
    """Of CIFAR-10's two superclasses the first is vehicles, the second animals."""
    evidence, clean = view.audit(name)
    if len(evidence.groups) != 2:
        raise Missing("there are not two superclasses")
    (_, vehicles), (_, animals) = evidence.groups
    return confidence_is_smoother(evidence, clean, animals, vehicles)


def homes(view: View) -> tuple[Finding, ...]:
    full, name = view.audit("full", "pgd")
    without = {int(role.split()[1]): view.audit(role, "pgd")[0] for role in view.roles if role != "full"}
    return homing_is_common_and_pairwise(full, without, name)


def lifted(view: View, before: str, after: str) -> tuple[Finding, ...]:
    (a, name), (b, _) = view.audit(before, "tpgd"), view.audit(after, "tpgd")
    return class_is_lifted(a, b, name, view.cls(CAT))


def backgrounds(view: View) -> tuple[Finding, ...]:
    evidence, attacked = view.audit("adversarial", "pgd")
    return backgrounds_drive_adversarial_confusion(evidence, "clean", attacked)


FOUR = words(*DEFENCES)
RULES = (
    Rule("C1", "tian2021/fig1", differ, words(*ALL_SIX)),
    Rule("C1", "tian2021/table1", differ, FOUR),
    Rule("C6", "tian2021/fig2", mutual, tuple((data, "pgd") for data in ALL_SIX)),
    Rule("C6", "tian2021/fig4a", mutual, (("full", "pgd"),)),
    Rule("C7", "tian2021/table1", stronger, FOUR),
    Rule("C8", "tian2021/table1", queries, FOUR),
    Rule("C9", "tian2021/table3", temperature, FOUR),
    Rule("C10", "tian2021/fig3a", smoother, FOUR),
    Rule("C11", "tian2021/fig4b", homes),
    Rule("C12", "tian2021/fig4c", lifted, (("6", "0.5"),)),
    Rule("C12", "tian2021/table4", lifted, (("white", "white, adjusted"),)),
    Rule("C13", "tian2021/fig5", backgrounds),
    Rule(
        "C1",
        "tian2021/table5",
        differ,
        words(*(f"{data}, {kind}" for data in ALL_SIX for kind in ("standard", "adversarial"))),
    ),
    Rule(
        "C2",
        "tian2021/table5",
        widens,
        tuple(
            ("tian2021/table5", f"{data}, standard", f"{data}, adversarial", attack)
            for data in ALL_SIX
            for attack in ("pgd", "clean")
        ),
    ),
)
