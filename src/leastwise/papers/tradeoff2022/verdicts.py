"""What the exhibits of the paper on the tradeoff decide."""

import numpy as np

from leastwise.audit.evidence import Evidence
from leastwise.insight.features import cosines
from leastwise.papers.claims.agreement import SIMILARITY_PREDICTS_ERROR, similarity_predicts_error
from leastwise.papers.claims.base import ClaimFinding
from leastwise.papers.claims.features import (
    ENTROPY_ALLOWS_LARGER_WEIGHT,
    SIMILARITY_RISES,
    SMOOTHING_LIFTS_WORST_CLASS,
    allows_a_larger_weight,
    entropy_is_higher,
    similarity_rises,
    similarity_rises_and_variance_falls,
    smoothing_lowers,
    worst_class_rises,
)
from leastwise.papers.claims.spread import (
    TRAINING_WIDENS_SPREAD,
    TWO_CLASSES_CARRY_THE_DROP,
    few_classes_carry_the_drop,
)
from leastwise.papers.judge import VerdictRule, judge_widening, one_word_cases
from leastwise.papers.results import ExhibitResults
from leastwise.papers.tradeoff2022.exhibits import BIRD, CAT


def judge_shares(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    (before, name), (after, _) = view.audit("ST"), view.audit("PGD-AT")
    return few_classes_carry_the_drop(before, after, name, (view.cls(BIRD), view.cls(CAT)))


def judge_similarity(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    (similar, varied), (similar_after, varied_after) = view.shape("ST"), view.shape(name)
    return similarity_rises_and_variance_falls((similar, similar_after), (varied, varied_after))


def judge_single_classes(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Each class in the network where it alone was attacked; the paper says nothing of variances there."""
    similar, _ = view.shape("ST")
    alone = np.array([view.shape(f"single {c}")[0][c] for c in range(len(similar))])
    return similarity_rises((similar, alone))


def judge_telling_apart(view: ExhibitResults, method: str, attack: str) -> tuple[ClaimFinding, ...]:
    similar = cosines(view.moments("ST").means)[view.cls(CAT)]
    error = np.full(len(similar), np.nan)
    for c in range(len(similar)):
        if c != CAT:
            evidence, name = view.audit(f"{method}, cat and {c}", attack)
            error[c] = 1 - evidence.tally(name).overall
    return similarity_predicts_error(similar, error)


def judge_smoothing(view: ExhibitResults, base: str, other: str) -> tuple[ClaimFinding, ...]:
    (similar, varied), (similar_after, varied_after) = view.shape(base), view.shape(other)
    return smoothing_lowers((similar, similar_after), (varied, varied_after))


def judge_lift(view: ExhibitResults, base: str, other: str, attack: str) -> tuple[ClaimFinding, ...]:
    before, name = view.audit(base, attack)
    return worst_class_rises(before, view.audit(other, attack)[0], name)


def judge_entropy(view: ExhibitResults, attack: str) -> tuple[ClaimFinding, ...]:
    base, name = view.audit("PGD-AT", attack)
    return entropy_is_higher(base, view.audit("TRADES", attack)[0], name)


def judge_weights(view: ExhibitResults, attack: str) -> tuple[ClaimFinding, ...]:
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
RULES: tuple[VerdictRule, ...] = (
    VerdictRule(
        TRAINING_WIDENS_SPREAD,
        "tradeoff2022/fig1ab",
        judge_widening,
        tuple(("tradeoff2022/fig1ab", "ST", "PGD-AT", attack) for attack in ("pgd", "clean")),
    ),
    VerdictRule(TWO_CLASSES_CARRY_THE_DROP, "tradeoff2022/fig1c", judge_shares),
    VerdictRule(SIMILARITY_RISES, "tradeoff2022/fig2", judge_similarity, one_word_cases(*TWO)),
    VerdictRule(SIMILARITY_RISES, "tradeoff2022/fig4", judge_single_classes),
    VerdictRule(
        SIMILARITY_PREDICTS_ERROR,
        "tradeoff2022/fig5",
        judge_telling_apart,
        tuple((name, attack) for name in TWO for attack in ("clean", "pgd")),
    ),
    VerdictRule(
        SMOOTHING_LIFTS_WORST_CLASS,
        "tradeoff2022/fig6",
        judge_smoothing,
        (("PGD-AT", "PGD-AT+LS"), ("PGD-AT", "ME-AT"), ("TRADES", "TRADES+LS"), ("TRADES", "ME-TRADES")),
    ),
    VerdictRule(ENTROPY_ALLOWS_LARGER_WEIGHT, "tradeoff2022/fig7", judge_entropy, one_word_cases("clean", "pgd")),
    VerdictRule(SMOOTHING_LIFTS_WORST_CLASS, "tradeoff2022/table4", judge_lift, LIFTED),
    VerdictRule(ENTROPY_ALLOWS_LARGER_WEIGHT, "tradeoff2022/table2", judge_weights, one_word_cases(*ATTACKS)),
)
