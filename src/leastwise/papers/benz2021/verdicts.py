"""What the exhibits of Benz et al. decide."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leastwise.papers.benz2021.conditions import find_soft_attack, list_severities
from leastwise.papers.benz2021.exhibits import CAT, PROTOCOL_SETS
from leastwise.papers.claims.agreement import (
    ARCHITECTURES_AGREE,
    ROBUST_NETWORKS_AGREE_MORE,
    TRAININGS_AGREE,
    profiles_agree,
    robust_agree_more,
)
from leastwise.papers.claims.base import ClaimFinding
from leastwise.papers.claims.spread import (
    CLASSES_DIFFER,
    CORRUPTIONS_CHANGE_WEAKEST_CLASS,
    FAIR_WEIGHTS_NARROW_SPREAD,
    IMPORTANT_CLASS_COSTS_AVERAGE,
    TRAINING_WIDENS_SPREAD,
    classes_differ,
    fair_weights_cost_little,
    fair_weights_narrow,
    weakest_class_changes,
    weight_costs_average,
    weight_lifts_its_class,
)
from leastwise.papers.judge import (
    VerdictRule,
    confusion_rules,
    judge_class_differences,
    judge_profiles,
    one_word_cases,
    widening_rules,
)
from leastwise.papers.recipes import Measured
from leastwise.papers.results import ExhibitResults, MissingResult


def judge_one_data_set(view: ExhibitResults, data: str) -> tuple[ClaimFinding, ...]:
    """Roles that begin with its name are its models."""
    roles = drop_stand_ins(view, [role for role in view.roles if role.startswith(f"{data} ")])
    stand_in = [
        f"{there} for {wanted}"
        for wanted, there in (wanted_and_measured_archs(view, role) for role in roles)
        if there != wanted
    ]
    found = judge_profiles(view, *roles)
    if view.scale == "smoke" or not stand_in:
        return found
    return tuple(replace(one, what=f"{one.what}; {', '.join(dict.fromkeys(stand_in))}") for one in found)


def wanted_and_measured_archs(view: ExhibitResults, role: str) -> tuple[str, str]:
    """The architecture that the paper has, and the one that was measured; twice the first where nothing was."""
    need = view.exhibit.needs[role]
    assert isinstance(need, Measured), "networks are compared by their audits"
    found = [recipe.model.arch for recipe, _ in view.parts(role) if isinstance(recipe, Measured)]
    return need.model.arch, (found or [need.model.arch])[0]


def drop_stand_ins(view: ExhibitResults, roles: Sequence[str]) -> tuple[str, ...]:
    """Without architectures whose place another has taken at this scale: they would agree by that alone."""
    if view.scale == "smoke":  # decides nothing, and shall run everything
        return tuple(roles)
    first: dict[str, str] = {}  # what stands in, and for whom
    kept = []
    for role in roles:
        wanted, there = wanted_and_measured_archs(view, role)
        if not view.parts(role) or first.setdefault(there, wanted) == wanted:
            kept.append(role)
    if len(kept) < len(roles) and sum(bool(view.parts(role)) for role in kept) < 2:
        raise MissingResult("at this scale one network stands for all architectures that are there")
    return tuple(kept)


def judge_construction(view: ExhibitResults, construction: str) -> tuple[ClaimFinding, ...]:
    """Networks of robust and of non-robust features, made in one way."""
    return judge_profiles(view, *(role for role in view.roles if role.endswith(construction)))


def judge_robust_agreement(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Whether robust networks of ImageNet agree more than the standard ones of Fig. 5."""
    other = view.of("benz2021/fig5")
    standard = [other.profile(role) for role in other.roles if role.startswith("standard ")]
    return robust_agree_more(np.stack(standard), np.stack([view.profile(role) for role in view.roles]))


def judge_soft_differences(view: ExhibitResults, role: str, _: str) -> tuple[ClaimFinding, ...]:
    """Whether classes differ under the radius that leaves about 60 %."""
    return classes_differ(*find_soft_attack(view.audits(role)))


def judge_same_classes(view: ExhibitResults, data: str) -> tuple[ClaimFinding, ...]:
    """Standard and adversarial training on all test images where an exhibit has them: what is followed has fewer."""
    whole = view.of("tian2021/table5")
    try:
        profiles = [whole.profile(f"{data}, {kind}") for kind in KINDS]
    except (KeyError, MissingResult):
        profiles = [view.profile(f"{data} {kind}") for kind in KINDS]
    return profiles_agree(np.stack(profiles))


def judge_fair_weights(view: ExhibitResults, base: str, attack: str) -> tuple[ClaimFinding, ...]:
    """What fair weights do to the spread of a training."""
    return fair_weights_narrow(view.pair((base, attack), (f"{base} fair", attack)))


def judge_fair_cost(view: ExhibitResults, base: str) -> tuple[ClaimFinding, ...]:
    """What fair weights cost on average, where the paper calls it small."""
    return fair_weights_cost_little(view.pair((base, "clean"), (f"{base} fair", "clean")))


def judge_important_class(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Whether a larger weight lifts cat."""
    return weight_lifts_its_class({float(role): view.audit(role) for role in view.roles}, view.cls(CAT))


def judge_importance_cost(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Whether a larger weight of cat lowers the average."""
    return weight_costs_average({float(role): view.audit(role) for role in view.roles})


def judge_weakest_class(view: ExhibitResults, role: str) -> tuple[ClaimFinding, ...]:
    """Whether another class is the weakest under most corruptions, means over the severities that were run."""
    evidence, clean = view.audit(role)
    return weakest_class_changes(evidence, clean, list_severities(evidence))


def judge_weakest_class_at_three(view: ExhibitResults, role: str, severity: str) -> tuple[ClaimFinding, ...]:
    """The same at one severity."""
    evidence, clean = view.audit(role)
    wanted = {name: [f"{name}:{severity[-1]}"] for name in list_severities(evidence)}
    return weakest_class_changes(evidence, clean, wanted)


FIG9 = ("standard resnet50-imagenet", "robust-l2-3.0 resnet50-imagenet")
KINDS = ("standard", "adversarial")
NARROWER, CHEAP = FAIR_WEIGHTS_NARROW_SPREAD.parts
LIFTS, LOWERS = IMPORTANT_CLASS_COSTS_AVERAGE.parts
RULES: tuple[VerdictRule, ...] = (
    VerdictRule(CLASSES_DIFFER, "benz2021/fig1", judge_class_differences, (("standard", "clean"),)),
    VerdictRule(CLASSES_DIFFER, "benz2021/fig1", judge_soft_differences, (("standard", "soft attack"),)),
    VerdictRule(
        CLASSES_DIFFER, "benz2021/fig2", judge_class_differences, (("adversarial", "clean"), ("adversarial", "pgd"))
    ),
    *widening_rules(TRAINING_WIDENS_SPREAD, "benz2021/fig2", (("benz2021/fig1", *KINDS),)),
    VerdictRule(ARCHITECTURES_AGREE, "benz2021/fig3", judge_one_data_set, one_word_cases("mnist", "svhn")),
    VerdictRule(ARCHITECTURES_AGREE, "benz2021/fig4", judge_one_data_set, one_word_cases("cifar10", "cifar100")),
    VerdictRule(ARCHITECTURES_AGREE, "benz2021/fig5", judge_one_data_set, one_word_cases("tiny-imagenet", "standard")),
    VerdictRule(ARCHITECTURES_AGREE, "benz2021/fig6", judge_profiles),
    *widening_rules(TRAINING_WIDENS_SPREAD, "benz2021/fig9", (("benz2021/fig9", *FIG9),))[:1],
    VerdictRule(TRAININGS_AGREE, "benz2021/fig9", judge_profiles),
    VerdictRule(ARCHITECTURES_AGREE, "benz2021/fig11", judge_profiles),
    VerdictRule(ROBUST_NETWORKS_AGREE_MORE, "benz2021/fig11", judge_robust_agreement),
    *confusion_rules("benz2021/fig12", (("standard", "clean"),)),
    *confusion_rules("benz2021/fig13", (("standard", "clean"),)),
    VerdictRule(ARCHITECTURES_AGREE, "benz2021/fig14", judge_construction, one_word_cases("matched", "targeted_set")),
    VerdictRule(
        FAIR_WEIGHTS_NARROW_SPREAD,
        "benz2021/fig15",
        judge_fair_weights,
        (("standard", "clean"), ("adversarial", "clean"), ("adversarial", "pgd")),
        NARROWER,
    ),
    VerdictRule(FAIR_WEIGHTS_NARROW_SPREAD, "benz2021/fig15", judge_fair_cost, one_word_cases("standard"), CHEAP),
    VerdictRule(IMPORTANT_CLASS_COSTS_AVERAGE, "benz2021/table1", judge_important_class, part=LIFTS),
    VerdictRule(IMPORTANT_CLASS_COSTS_AVERAGE, "benz2021/table1", judge_importance_cost, part=LOWERS),
    VerdictRule(CORRUPTIONS_CHANGE_WEAKEST_CLASS, "benz2021/fig16", judge_weakest_class, one_word_cases("standard")),
    VerdictRule(
        CORRUPTIONS_CHANGE_WEAKEST_CLASS,
        "benz2021/fig16",
        judge_weakest_class_at_three,
        (("standard", "severity 3"),),
    ),
    VerdictRule(
        CLASSES_DIFFER,
        "benz2021/protocol",
        judge_class_differences,
        tuple((f"{data} {kind}", attack) for data in PROTOCOL_SETS for kind in KINDS for attack in ("clean", "pgd")),
    ),
    *widening_rules(
        TRAINING_WIDENS_SPREAD,
        "benz2021/protocol",
        tuple(("benz2021/protocol", f"{data} standard", f"{data} adversarial") for data in PROTOCOL_SETS),
    ),
    VerdictRule(TRAININGS_AGREE, "benz2021/protocol", judge_same_classes, one_word_cases(*PROTOCOL_SETS)),
    VerdictRule(
        CORRUPTIONS_CHANGE_WEAKEST_CLASS,
        "benz2021/protocol",
        judge_weakest_class,
        one_word_cases("corruptions, adversarial"),
    ),
)
