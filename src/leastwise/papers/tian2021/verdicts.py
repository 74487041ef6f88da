"""What the exhibits of Tian et al. decide."""

from leastwise.papers.claim_tests import judge_class_differences, judge_confusions, judge_widening
from leastwise.papers.claims.attacks import (
    backgrounds_drive_adversarial_confusion,
    class_is_lifted,
    confidence_is_smoother,
    gains_on_weak_classes,
    homing_is_common_and_pairwise,
    temperature_gains_where_smooth,
)
from leastwise.papers.claims.base import ClaimFinding
from leastwise.papers.results import ExhibitResults, MissingResult, VerdictRule, one_word_cases
from leastwise.papers.tian2021.exhibits import ALL_SIX, CAT, DEFENCES


def judge_stronger_attacks(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    return gains_on_weak_classes(view.audit(name, "fgsm"), view.audit(name, "pgd"))


def judge_query_attacks(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    return gains_on_weak_classes(view.audit(name, "transfer"), view.audit(f"{name}, 2000 images", "nattack"))


def judge_temperature(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """By the temperature that is strongest on the whole, as in the paper."""
    evidence, pgd = view.audit(name, "pgd")
    _, grid = view.audit(name, "tpgd")
    totals = [evidence.against(grid, member).overall for member in range(len(evidence.members(grid)))]
    return temperature_gains_where_smooth(evidence, pgd, grid, member=totals.index(min(totals)))


def judge_smoothness(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """Of CIFAR-10's two superclasses the first is vehicles, the second animals."""
    evidence, clean = view.audit(name)
    if len(evidence.groups) != 2:
        raise MissingResult("there are not two superclasses")
    (_, vehicles), (_, animals) = evidence.groups
    return confidence_is_smoother(evidence, clean, animals, vehicles)


def judge_homing(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    full, name = view.audit("full", "pgd")
    without = {int(role.split()[1]): view.audit(role, "pgd")[0] for role in view.roles if role != "full"}
    return homing_is_common_and_pairwise(full, without, name)


def judge_lift(view: ExhibitResults, before: str, after: str) -> tuple[ClaimFinding, ...]:
    (a, name), (b, _) = view.audit(before, "tpgd"), view.audit(after, "tpgd")
    return class_is_lifted(a, b, name, view.cls(CAT))


def judge_backgrounds(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    evidence, attacked = view.audit("adversarial", "pgd")
    return backgrounds_drive_adversarial_confusion(evidence, "clean", attacked)


FOUR = one_word_cases(*DEFENCES)
RULES = (
    VerdictRule("C1", "tian2021/fig1", judge_class_differences, one_word_cases(*ALL_SIX)),
    VerdictRule("C1", "tian2021/table1", judge_class_differences, FOUR),
    VerdictRule("C6", "tian2021/fig2", judge_confusions, tuple((data, "pgd") for data in ALL_SIX)),
    VerdictRule("C6", "tian2021/fig4a", judge_confusions, (("full", "pgd"),)),
    VerdictRule("C7", "tian2021/table1", judge_stronger_attacks, FOUR),
    VerdictRule("C8", "tian2021/table1", judge_query_attacks, FOUR),
    VerdictRule("C9", "tian2021/table3", judge_temperature, FOUR),
    VerdictRule("C10", "tian2021/fig3a", judge_smoothness, FOUR),
    VerdictRule("C11", "tian2021/fig4b", judge_homing),
    VerdictRule("C12", "tian2021/fig4c", judge_lift, (("6", "0.5"),)),
    VerdictRule("C12", "tian2021/table4", judge_lift, (("white", "white, adjusted"),)),
    VerdictRule("C13", "tian2021/fig5", judge_backgrounds),
    VerdictRule(
        "C1",
        "tian2021/table5",
        judge_class_differences,
        one_word_cases(*(f"{data}, {kind}" for data in ALL_SIX for kind in ("standard", "adversarial"))),
    ),
    VerdictRule(
        "C2",
        "tian2021/table5",
        judge_widening,
        tuple(
            ("tian2021/table5", f"{data}, standard", f"{data}, adversarial", attack)
            for data in ALL_SIX
            for attack in ("pgd", "clean")
        ),
    ),
)
