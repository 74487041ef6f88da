"""What the exhibits of Benz et al. decide."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leastwise.papers.benz2021.exhibits import CORRUPTIONS, PROTOCOL_SETS
from leastwise.papers.claims.agreement import (
    ARCHITECTURES_AGREE,
    CONFUSIONS_ARE_MUTUAL,
    ROBUST_NETWORKS_AGREE_MORE,
    TRAININGS_AGREE,
    robust_agree_more,
)
from leastwise.papers.claims.base import ClaimFinding
from leastwise.papers.claims.spread import (
    CLASSES_DIFFER,
    CORRUPTIONS_CHANGE_WEAKEST_CLASS,
    FAIR_WEIGHTS_NARROW_SPREAD,
    TRAINING_WIDENS_SPREAD,
    fair_weights_narrow,
    weakest_class_changes,
)
from leastwise.papers.judge import (
    VerdictRule,
    judge_class_differences,
    judge_confusions,
    judge_profiles,
    judge_widening,
    one_word_cases,
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


def judge_fair_weights(view: ExhibitResults, base: str, attack: str) -> tuple[ClaimFinding, ...]:
    """What fair weights do to the spread and to the average of a training."""
    evidence, name = view.audit(base, attack)
    return fair_weights_narrow(evidence, view.audit(f"{base} fair", attack)[0], name)


def judge_weakest_class(view: ExhibitResults, role: str) -> tuple[ClaimFinding, ...]:
    """Whether another class is the weakest under corruptions."""
    evidence, clean = view.audit(role)
    corrupted = [name for _, name in view.audits(role) if name in CORRUPTIONS]
    return weakest_class_changes(evidence, clean, corrupted)


FIG9 = ("standard resnet50-imagenet", "robust-l2-3.0 resnet50-imagenet")
KINDS = ("standard", "adversarial")
ATTACKS = ("pgd", "clean")
RULES: tuple[VerdictRule, ...] = (
    VerdictRule(CLASSES_DIFFER, "benz2021/fig1", judge_class_differences, one_word_cases("standard")),
    VerdictRule(CLASSES_DIFFER, "benz2021/fig2", judge_class_differences, one_word_cases("adversarial")),
    VerdictRule(
        TRAINING_WIDENS_SPREAD,
        "benz2021/fig2",
        judge_widening,
        tuple(("benz2021/fig1", *KINDS, attack) for attack in ATTACKS),
    ),
    VerdictRule(ARCHITECTURES_AGREE, "benz2021/fig3", judge_one_data_set, one_word_cases("mnist", "svhn")),
    VerdictRule(ARCHITECTURES_AGREE, "benz2021/fig4", judge_one_data_set, one_word_cases("cifar10", "cifar100")),
    VerdictRule(ARCHITECTURES_AGREE, "benz2021/fig5", judge_one_data_set, one_word_cases("tiny-imagenet", "standard")),
    VerdictRule(ARCHITECTURES_AGREE, "benz2021/fig6", judge_profiles),
    VerdictRule(TRAINING_WIDENS_SPREAD, "benz2021/fig9", judge_widening, (("benz2021/fig9", *FIG9, "clean"),)),
    VerdictRule(TRAININGS_AGREE, "benz2021/fig9", judge_profiles),
    VerdictRule(ARCHITECTURES_AGREE, "benz2021/fig11", judge_profiles),
    VerdictRule(ROBUST_NETWORKS_AGREE_MORE, "benz2021/fig11", judge_robust_agreement),
    VerdictRule(CONFUSIONS_ARE_MUTUAL, "benz2021/fig12", judge_confusions, (("standard", "clean"),)),
    VerdictRule(CONFUSIONS_ARE_MUTUAL, "benz2021/fig13", judge_confusions, (("standard", "clean"),)),
    VerdictRule(ARCHITECTURES_AGREE, "benz2021/fig14", judge_construction, one_word_cases("matched", "targeted_set")),
    VerdictRule(
        FAIR_WEIGHTS_NARROW_SPREAD,
        "benz2021/fig15",
        judge_fair_weights,
        (("standard", "clean"), ("adversarial", "clean"), ("adversarial", "pgd")),
    ),
    VerdictRule(CORRUPTIONS_CHANGE_WEAKEST_CLASS, "benz2021/fig16", judge_weakest_class, one_word_cases("standard")),
    VerdictRule(
        CLASSES_DIFFER,
        "benz2021/protocol",
        judge_class_differences,
        one_word_cases(*(f"{data} {kind}" for data in PROTOCOL_SETS for kind in KINDS)),
    ),
    VerdictRule(
        TRAINING_WIDENS_SPREAD,
        "benz2021/protocol",
        judge_widening,
        tuple(
            ("benz2021/protocol", f"{data} standard", f"{data} adversarial", attack)
            for data in PROTOCOL_SETS
            for attack in ATTACKS
        ),
    ),
    VerdictRule(TRAININGS_AGREE, "benz2021/protocol", judge_one_data_set, one_word_cases(*PROTOCOL_SETS)),
    VerdictRule(
        CORRUPTIONS_CHANGE_WEAKEST_CLASS,
        "benz2021/protocol",
        judge_weakest_class,
        one_word_cases("corruptions, adversarial"),
    ),
)
