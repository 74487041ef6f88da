"""What the exhibits of Benz et al. decide."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leastwise.papers.benz2021.exhibits import CORRUPTIONS, PROTOCOL_SETS
from leastwise.papers.claims.agreement import robust_agree_more
from leastwise.papers.claims.base import Finding
from leastwise.papers.claims.spread import fair_weights_narrow, weakest_class_changes
from leastwise.papers.recipes import Measured
from leastwise.papers.results import Missing, Rule, View, words
from leastwise.papers.rules import differ, mutual, profiles, widens


def of_one_data_set(view: View, data: str) -> tuple[Finding, ...]:
    """Roles that begin with its name are its models."""
    roles = of_their_own(view, [role for role in view.roles if role.startswith(f"{data} ")])
    stand_in = [f"{there} for {wanted}" for wanted, there in (archs(view, role) for role in roles) if there != wanted]
    found = profiles(view, *roles)
    if view.scale == "smoke" or not stand_in:
        return found
    return tuple(replace(one, what=f"{one.what}; {', '.join(dict.fromkeys(stand_in))}") for one in found)


def archs(view: View, role: str) -> tuple[str, str]:
    """The architecture that the paper has, and the one that was measured; twice the first where nothing was."""
    need = view.exhibit.needs[role]
    assert isinstance(need, Measured), "networks are compared by their audits"
    found = [recipe.model.arch for recipe, _ in view.parts(role) if isinstance(recipe, Measured)]
    return need.model.arch, (found or [need.model.arch])[0]


def of_their_own(view: View, roles: Sequence[str]) -> tuple[str, ...]:
    """Without architectures whose place another has taken at this scale: they would agree by that alone."""
    if view.scale == "smoke":  # decides nothing, and shall run everything
        return tuple(roles)
    first: dict[str, str] = {}  # what stands in, and for whom
    kept = []
    for role in roles:
        wanted, there = archs(view, role)
        if not view.parts(role) or first.setdefault(there, wanted) == wanted:
            kept.append(role)
    if len(kept) < len(roles) and sum(bool(view.parts(role)) for role in kept) < 2:
        raise Missing("at this scale one network stands for all architectures that are there")
    return tuple(kept)


def made_so(view: View, construction: str) -> tuple[Finding, ...]:
    """Networks of robust and of non-robust features, made in one way."""
    return profiles(view, *(role for role in view.roles if role.endswith(construction)))


def robust_more(view: View) -> tuple[Finding, ...]:
    other = view.of("benz2021/fig5")
    standard = [other.profile(role) for role in other.roles if role.startswith("standard ")]
    return robust_agree_more(np.stack(standard), np.stack([view.profile(role) for role in view.roles]))


def narrowed(view: View, base: str, attack: str) -> tuple[Finding, ...]:
    evidence, name = view.audit(base, attack)
    return fair_weights_narrow(evidence, view.audit(f"{base} fair", attack)[0], name)


def weakest(view: View, role: str) -> tuple[Finding, ...]:
    evidence, clean = view.audit(role)
    corrupted = [name for _, name in view.audits(role) if name in CORRUPTIONS]
    return weakest_class_changes(evidence, clean, corrupted)


FIG9 = ("standard resnet50-imagenet", "robust-l2-3.0 resnet50-imagenet")
KINDS = ("standard", "adversarial")
ATTACKS = ("pgd", "clean")
RULES = (
    Rule("C1", "benz2021/fig1", differ, words("standard")),
    Rule("C1", "benz2021/fig2", differ, words("adversarial")),
    Rule("C2", "benz2021/fig2", widens, tuple(("benz2021/fig1", *KINDS, attack) for attack in ATTACKS)),
    Rule("C3", "benz2021/fig3", of_one_data_set, words("mnist", "svhn")),
    Rule("C3", "benz2021/fig4", of_one_data_set, words("cifar10", "cifar100")),
    Rule("C3", "benz2021/fig5", of_one_data_set, words("tiny-imagenet", "standard")),
    Rule("C3", "benz2021/fig6", profiles),
    Rule("C2", "benz2021/fig9", widens, (("benz2021/fig9", *FIG9, "clean"),)),
    Rule("C4", "benz2021/fig9", profiles),
    Rule("C3", "benz2021/fig11", profiles),
    Rule("C5", "benz2021/fig11", robust_more),
    Rule("C6", "benz2021/fig12", mutual, (("standard", "clean"),)),
    Rule("C6", "benz2021/fig13", mutual, (("standard", "clean"),)),
    Rule("C3", "benz2021/fig14", made_so, words("matched", "targeted_set")),
    Rule("C23", "benz2021/fig15", narrowed, (("standard", "clean"), ("adversarial", "clean"), ("adversarial", "pgd"))),
    Rule("C24", "benz2021/fig16", weakest, words("standard")),
    Rule("C1", "benz2021/protocol", differ, words(*(f"{data} {kind}" for data in PROTOCOL_SETS for kind in KINDS))),
    Rule(
        "C2",
        "benz2021/protocol",
        widens,
        tuple(
            ("benz2021/protocol", f"{data} standard", f"{data} adversarial", attack)
            for data in PROTOCOL_SETS
            for attack in ATTACKS
        ),
    ),
    Rule("C4", "benz2021/protocol", of_one_data_set, words(*PROTOCOL_SETS)),
    Rule("C24", "benz2021/protocol", weakest, words("corruptions, adversarial")),
)
