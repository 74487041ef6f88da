"""What the exhibits of the paper on the tradeoff decide."""

import numpy as np

from leastwise.audit.evidence import Evidence
from leastwise.insight.features import cosines
from leastwise.papers.claims.agreement import similarity_predicts_error
from leastwise.papers.claims.base import Finding
from leastwise.papers.claims.features import (
    allows_a_larger_weight,
    entropy_is_higher,
    similarity_rises,
    similarity_rises_and_variance_falls,
    smoothing_lowers,
    worst_class_rises,
)
from leastwise.papers.claims.spread import few_classes_carry_the_drop
from leastwise.papers.results import Rule, View, words
from leastwise.papers.rules import widens
from leastwise.papers.tradeoff2022.exhibits import BIRD, CAT


def shares(view: View) -> tuple[Finding, ...]:
    (before, name), (after, _) = view.audit("ST"), view.audit("PGD-AT")
    return few_classes_carry_the_drop(before, after, name, (view.cls(BIRD), view.cls(CAT)))


def more_similar(view: View, name: str) -> tuple[Finding, ...]:
    (similar, varied), (similar_after, varied_after) = view.shape("ST"), view.shape(name)
    return similarity_rises_and_variance_falls((similar, similar_after), (varied, varied_after))


def alone_more_similar(view: View) -> tuple[Finding, ...]:
    """Each class in the network where it alone was attacked; the paper says nothing of variances there."""
    similar, _ = view.shape("ST")
    alone = np.array([view.shape(f"single {c}")[0][c] for c in range(len(similar))])
    return similarity_rises((similar, alone))


def told_apart(view: View, method: str, attack: str) -> tuple[Finding, ...]:
    similar = cosines(view.moments("ST").means)[view.cls(CAT)]
    error = np.full(len(similar), np.nan)
    for c in range(len(similar)):
        if c != CAT:
            evidence, name = view.audit(f"{method}, cat and {c}", attack)
            error[c] = 1 - evidence.tally(name).overall
    return similarity_predicts_error(similar, error)


def smoothed(view: View, base: str, other: str) -> tuple[Finding, ...]:
    (similar, varied), (similar_after, varied_after) = view.shape(base), view.shape(other)
    return smoothing_lowers((similar, similar_after), (varied, varied_after))


def lifted(view: View, base: str, other: str, attack: str) -> tuple[Finding, ...]:
    before, name = view.audit(base, attack)
    return worst_class_rises(before, view.audit(other, attack)[0], name)


def entropies(view: View, attack: str) -> tuple[Finding, ...]:
    base, name = view.audit("PGD-AT", attack)
    return entropy_is_higher(base, view.audit("TRADES", attack)[0], name)


def weights(view: View, attack: str) -> tuple[Finding, ...]:
    models: dict[str, dict[float, Evidence]] = {"TRADES": {}, "ME-TRADES": {}}
    for role in view.roles:
        evidence, name = view.audit(role, attack)
        models[role.split()[0]][float(role.rpartition("=")[2])] = evidence
    return allows_a_larger_weight(models["TRADES"], models["ME-TRADES"], name)


TWO = ("PGD-AT", "TRADES")
ATTACKS = ("pgd", "cw", "autoattack")
# The paper says so of both in PGD-AT, and of maximum entropy in TRADES: accuracy at lambda 15, robustness at 27.
LIFTED = (
    *(("PGD-AT", other, attack) for other in ("PGD-AT+LS", "ME-AT β=0.5") for attack in ("clean", *ATTACKS)),
    ("TRADES λ=6", "ME-TRADES β=1 λ=15", "clean"),
    *(("TRADES λ=6", "ME-TRADES β=1 λ=27", attack) for attack in ATTACKS),
)
RULES = (
    Rule(
        "C2",
        "tradeoff2022/fig1ab",
        widens,
        tuple(("tradeoff2022/fig1ab", "ST", "PGD-AT", attack) for attack in ("pgd", "clean")),
    ),
    Rule("C22", "tradeoff2022/fig1c", shares),
    Rule("C18", "tradeoff2022/fig2", more_similar, words(*TWO)),
    Rule("C18", "tradeoff2022/fig4", alone_more_similar),
    Rule("C19", "tradeoff2022/fig5", told_apart, tuple((name, attack) for name in TWO for attack in ("clean", "pgd"))),
    Rule(
        "C20",
        "tradeoff2022/fig6",
        smoothed,
        (("PGD-AT", "PGD-AT+LS"), ("PGD-AT", "ME-AT"), ("TRADES", "TRADES+LS"), ("TRADES", "ME-TRADES")),
    ),
    Rule("C21", "tradeoff2022/fig7", entropies, words("clean", "pgd")),
    Rule("C20", "tradeoff2022/table4", lifted, LIFTED),
    Rule("C21", "tradeoff2022/table2", weights, words(*ATTACKS)),
)
