"""What the exhibits of Tian et al. decide."""

import numpy as np

from leastwise.audit.evidence import Evidence
from leastwise.papers.claims.agreement import SAME_CLASS_ORDER, same_class_order
from leastwise.papers.claims.attacks import (
    ANIMALS_ARE_SMOOTHER,
    BACKGROUNDS_DRIVE_CONFUSION,
    IMAGES_COME_HOME,
    QUERIES_GAIN_ON_WEAK,
    SMALL_BETA_OF_DOG_LIFTS_CAT,
    STRONGER_ATTACKS_GAIN_ON_WEAK,
    TEMPERATURE_IS_STRONGER,
    TEMPERATURE_WIDENS_SPREAD,
    WHITE_BACKGROUND_HELPS,
    backgrounds_drive_adversarial_confusion,
    class_is_lifted,
    confidence_is_smoother,
    gains_on_weak_classes,
    homing_is_pairwise,
    images_come_home,
    temperature_gains_where_smooth,
    temperature_is_stronger,
    temperature_widens_spread,
    white_background_helps,
    white_background_spares_natural,
)
from leastwise.papers.claims.base import ClaimFinding
from leastwise.papers.claims.spread import CLASSES_DIFFER, TRAINING_WIDENS_SPREAD
from leastwise.papers.judge import (
    VerdictRule,
    confusion_rules,
    judge_class_differences,
    one_word_cases,
    widening_rules,
)
from leastwise.papers.results import ExhibitResults, MissingResult
from leastwise.papers.tian2021.exhibits import ALL_SIX, CAT, DEFENCES, WITHOUT_CLASS

TABLE1_ATTACKS = ("fgsm", "pgd", "transfer")  # on all images; C&W and NAttack are on fewer


def judge_stronger_attacks(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """What PGD gains over FGSM, by class."""
    return gains_on_weak_classes(view.audit(name, "fgsm"), view.audit(name, "pgd"))


def judge_query_attacks(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """What NAttack gains over transfer, by class."""
    return gains_on_weak_classes(view.audit(name, "transfer"), view.audit(f"{name}, 2000 images", "nattack"))


def strongest_temperature(view: ExhibitResults, name: str) -> tuple[Evidence, str, str, int]:
    """The temperature that is strongest on the whole, as in the paper: evidence, PGD, the grid, and its place there."""
    evidence, pgd = view.audit(name, "pgd")
    _, grid = view.audit(name, "tpgd")
    totals = [evidence.against(grid, member).overall for member in range(len(evidence.members(grid)))]
    return evidence, pgd, grid, totals.index(min(totals))


def judge_temperature(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """Whether Temperature-PGD is stronger than PGD."""
    evidence, pgd, grid, member = strongest_temperature(view, name)
    return temperature_is_stronger(evidence, pgd, grid, member=member)


def judge_smooth_gains(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """Whether it gains where confidence is smooth."""
    evidence, pgd, grid, member = strongest_temperature(view, name)
    return temperature_gains_where_smooth(evidence, pgd, grid, member=member)


def judge_wider_spread(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """Whether it widens the spread."""
    evidence, pgd, grid, member = strongest_temperature(view, name)
    return temperature_widens_spread(evidence, pgd, grid, member=member)


def judge_class_order(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Whether all attacks on all defences order the classes alike; of those that are there."""
    cells = [(name, attack) for name in DEFENCES for attack in TABLE1_ATTACKS]
    profiles = []
    for name, attack in cells:
        try:
            profiles.append(view.profile(name, attack))
        except MissingResult:
            continue
    if len(profiles) < 2:
        raise MissingResult(f"{len(profiles)} of {len(cells)} are among the results, and two are needed")
    return same_class_order(np.stack(profiles))


def judge_smoothness(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """Of CIFAR-10's two superclasses the first is vehicles, the second animals."""
    evidence, clean = view.audit(name)
    if len(evidence.groups) != 2:
        raise MissingResult("there are not two superclasses")
    (_, vehicles), (_, animals) = evidence.groups
    return confidence_is_smoother(evidence, clean, animals, steeper=vehicles)


def judge_homing(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Whether images come home when their confound class is removed."""
    return images_come_home(*homing_audits(view))


def judge_pairwise_homing(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Whether they come home from one class."""
    return homing_is_pairwise(*homing_audits(view))


def homing_audits(view: ExhibitResults) -> tuple[Evidence, dict[int, Evidence], str]:
    """The network of all classes, those without each, and the attack."""
    full, name = view.audit("full", "pgd")
    return full, {c: view.audit(role, "pgd")[0] for c, role in WITHOUT_CLASS.items()}, name


def judge_lift(view: ExhibitResults, before: str, after: str) -> tuple[ClaimFinding, ...]:
    """Whether cat is lifted by a smaller beta of dog."""
    return class_is_lifted(view.pair((before, "tpgd"), (after, "tpgd")), cls=view.cls(CAT))


def judge_white(view: ExhibitResults, role: str) -> tuple[ClaimFinding, ...]:
    """Whether more cats withstand Temperature-PGD on white."""
    return white_background_helps(view.audit("original", "tpgd"), view.audit(role, "tpgd"))


def judge_white_natural(view: ExhibitResults, role: str) -> tuple[ClaimFinding, ...]:
    """Whether natural answers stay on white."""
    return white_background_spares_natural(view.audit("original"), view.audit(role))


def judge_backgrounds(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Whether confusions stay inside colours more under attack than without."""
    evidence, attacked = view.audit("adversarial", "pgd")
    return backgrounds_drive_adversarial_confusion(evidence, "clean", attacked)


FOUR = one_word_cases(*DEFENCES)
STRONGER, SMOOTH = TEMPERATURE_IS_STRONGER.parts
HOME, PAIRWISE = IMAGES_COME_HOME.parts
ATTACKED, NATURAL = WHITE_BACKGROUND_HELPS.parts
WHITE = one_word_cases("white", "white, tight masks", "white, wide masks")
RULES: tuple[VerdictRule, ...] = (
    VerdictRule(CLASSES_DIFFER, "tian2021/fig1", judge_class_differences, tuple((data, "pgd") for data in ALL_SIX)),
    VerdictRule(
        CLASSES_DIFFER,
        "tian2021/table1",
        judge_class_differences,
        tuple((name, attack) for name in DEFENCES for attack in TABLE1_ATTACKS),
    ),
    *confusion_rules("tian2021/fig2", tuple((data, "pgd") for data in ALL_SIX)),
    *confusion_rules("tian2021/fig4a", (("full", "pgd"),)),
    VerdictRule(STRONGER_ATTACKS_GAIN_ON_WEAK, "tian2021/table1", judge_stronger_attacks, FOUR),
    VerdictRule(QUERIES_GAIN_ON_WEAK, "tian2021/table1", judge_query_attacks, FOUR),
    VerdictRule(SAME_CLASS_ORDER, "tian2021/table1", judge_class_order),
    VerdictRule(TEMPERATURE_IS_STRONGER, "tian2021/table3", judge_temperature, FOUR, STRONGER),
    VerdictRule(TEMPERATURE_IS_STRONGER, "tian2021/table3", judge_smooth_gains, FOUR, SMOOTH),
    VerdictRule(TEMPERATURE_WIDENS_SPREAD, "tian2021/table3", judge_wider_spread, FOUR),
    VerdictRule(ANIMALS_ARE_SMOOTHER, "tian2021/fig3a", judge_smoothness, FOUR),
    VerdictRule(IMAGES_COME_HOME, "tian2021/fig4b", judge_homing, part=HOME),
    VerdictRule(IMAGES_COME_HOME, "tian2021/fig4b", judge_pairwise_homing, part=PAIRWISE),
    VerdictRule(SMALL_BETA_OF_DOG_LIFTS_CAT, "tian2021/fig4c", judge_lift, (("6", "0.5"),)),
    VerdictRule(SMALL_BETA_OF_DOG_LIFTS_CAT, "tian2021/table4", judge_lift, (("white", "white, adjusted"),)),
    VerdictRule(WHITE_BACKGROUND_HELPS, "tian2021/table4", judge_white, WHITE, ATTACKED),
    VerdictRule(WHITE_BACKGROUND_HELPS, "tian2021/table4", judge_white_natural, WHITE, NATURAL),
    VerdictRule(BACKGROUNDS_DRIVE_CONFUSION, "tian2021/fig5", judge_backgrounds),
    VerdictRule(
        CLASSES_DIFFER,
        "tian2021/table5",
        judge_class_differences,
        tuple((f"{data}, {kind}", "clean") for data in ALL_SIX for kind in ("standard", "adversarial")),
    ),
    *widening_rules(
        TRAINING_WIDENS_SPREAD,
        "tian2021/table5",
        tuple(("tian2021/table5", f"{data}, standard", f"{data}, adversarial") for data in ALL_SIX),
    ),
)
