"""What the exhibits of Tian et al. decide."""

from leastwise.papers.claims.agreement import CONFUSIONS_ARE_MUTUAL
from leastwise.papers.claims.attacks import (
    ANIMALS_ARE_SMOOTHER,
    BACKGROUNDS_DRIVE_CONFUSION,
    IMAGES_COME_HOME,
    QUERIES_GAIN_ON_WEAK,
    SMALL_BETA_OF_DOG_LIFTS_CAT,
    STRONGER_ATTACKS_GAIN_ON_WEAK,
    TEMPERATURE_IS_STRONGER,
    backgrounds_drive_adversarial_confusion,
    class_is_lifted,
    confidence_is_smoother,
    gains_on_weak_classes,
    homing_is_common_and_pairwise,
    temperature_gains_where_smooth,
)
from leastwise.papers.claims.base import ClaimFinding
from leastwise.papers.claims.spread import CLASSES_DIFFER, TRAINING_WIDENS_SPREAD
from leastwise.papers.judge import (
    VerdictRule,
    judge_class_differences,
    judge_confusions,
    judge_widening,
    one_word_cases,
)
from leastwise.papers.results import ExhibitResults, MissingResult
from leastwise.papers.tian2021.exhibits import ALL_SIX, CAT, DEFENCES, WITHOUT_CLASS


def judge_stronger_attacks(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """What PGD gains over FGSM, by class."""
    return gains_on_weak_classes(view.audit(name, "fgsm"), view.audit(name, "pgd"))


def judge_query_attacks(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """What NAttack gains over transfer, by class."""
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
    return confidence_is_smoother(evidence, clean, animals, steeper=vehicles)


def judge_homing(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Whether images come home when their confound class is removed."""
    full, name = view.audit("full", "pgd")
    without = {c: view.audit(role, "pgd")[0] for c, role in WITHOUT_CLASS.items()}
    return homing_is_common_and_pairwise(full, without, name)


def judge_lift(view: ExhibitResults, before: str, after: str) -> tuple[ClaimFinding, ...]:
    """Whether cat is lifted by a smaller beta of dog."""
    (a, name), (b, _) = view.audit(before, "tpgd"), view.audit(after, "tpgd")
    return class_is_lifted(a, b, name, cls=view.cls(CAT))


def judge_backgrounds(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Whether confusions stay inside colours more under attack than without."""
    evidence, attacked = view.audit("adversarial", "pgd")
    return backgrounds_drive_adversarial_confusion(evidence, "clean", attacked)


FOUR = one_word_cases(*DEFENCES)
RULES: tuple[VerdictRule, ...] = (
    VerdictRule(CLASSES_DIFFER, "tian2021/fig1", judge_class_differences, one_word_cases(*ALL_SIX)),
    VerdictRule(CLASSES_DIFFER, "tian2021/table1", judge_class_differences, FOUR),
    VerdictRule(CONFUSIONS_ARE_MUTUAL, "tian2021/fig2", judge_confusions, tuple((data, "pgd") for data in ALL_SIX)),
    VerdictRule(CONFUSIONS_ARE_MUTUAL, "tian2021/fig4a", judge_confusions, (("full", "pgd"),)),
    VerdictRule(STRONGER_ATTACKS_GAIN_ON_WEAK, "tian2021/table1", judge_stronger_attacks, FOUR),
    VerdictRule(QUERIES_GAIN_ON_WEAK, "tian2021/table1", judge_query_attacks, FOUR),
    VerdictRule(TEMPERATURE_IS_STRONGER, "tian2021/table3", judge_temperature, FOUR),
    VerdictRule(ANIMALS_ARE_SMOOTHER, "tian2021/fig3a", judge_smoothness, FOUR),
    VerdictRule(IMAGES_COME_HOME, "tian2021/fig4b", judge_homing),
    VerdictRule(SMALL_BETA_OF_DOG_LIFTS_CAT, "tian2021/fig4c", judge_lift, (("6", "0.5"),)),
    VerdictRule(SMALL_BETA_OF_DOG_LIFTS_CAT, "tian2021/table4", judge_lift, (("white", "white, adjusted"),)),
    VerdictRule(BACKGROUNDS_DRIVE_CONFUSION, "tian2021/fig5", judge_backgrounds),
    VerdictRule(
        CLASSES_DIFFER,
        "tian2021/table5",
        judge_class_differences,
        one_word_cases(*(f"{data}, {kind}" for data in ALL_SIX for kind in ("standard", "adversarial"))),
    ),
    VerdictRule(
        TRAINING_WIDENS_SPREAD,
        "tian2021/table5",
        judge_widening,
        tuple(
            ("tian2021/table5", f"{data}, standard", f"{data}, adversarial", attack)
            for data in ALL_SIX
            for attack in ("pgd", "clean")
        ),
    ),
)
