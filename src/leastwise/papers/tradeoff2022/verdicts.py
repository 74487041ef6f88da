"""What the exhibits of the paper on the tradeoff decide."""

import numpy as np

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
from leastwise.papers.tradeoff2022.exhibits import BIRD, CAT, ME_TRADES_ROLES, TRADES_ROLES


def judge_shares(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Whether bird and cat carry almost half of the fall."""
    (before, name), (after, _) = view.audit("ST"), view.audit("PGD-AT")
    return few_classes_carry_the_drop(before, after, name, classes=(view.cls(BIRD), view.cls(CAT)))


def judge_similarity(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """Whether classes are more similar and vary less than in standard training."""
    (similar, varied), (similar_after, varied_after) = view.shape("ST"), view.shape(name)
    return similarity_rises_and_variance_falls((similar, similar_after), (varied, varied_after))


def judge_single_classes(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Each class in the network where it alone was attacked; the paper says nothing of variances there."""
    similar, _ = view.shape("ST")
    alone = np.array([view.shape(f"single {c}")[0][c] for c in range(len(similar))])
    return similarity_rises((similar, alone))


def judge_telling_apart(view: ExhibitResults, method: str, attack: str) -> tuple[ClaimFinding, ...]:
    """Whether similarity to cat predicts the error of telling it apart."""
    similar = cosines(view.moments("ST").means)[view.cls(CAT)]
    error = np.full(len(similar), np.nan)
    for c in range(len(similar)):
        if c != CAT:
            evidence, name = view.audit(f"{method}, cat and {c}", attack)
            error[c] = 1 - evidence.tally(name).overall
    return similarity_predicts_error(similar, error)


def judge_smoothing(view: ExhibitResults, base: str, other: str) -> tuple[ClaimFinding, ...]:
    """Whether smoothing or entropy lowers similarity and variance."""
    (similar, varied), (similar_after, varied_after) = view.shape(base), view.shape(other)
    return smoothing_lowers((similar, similar_after), (varied, varied_after))


def judge_lift(view: ExhibitResults, base: str, other: str, attack: str) -> tuple[ClaimFinding, ...]:
    """Whether smoothing or entropy lifts the worst class."""
    before, name = view.audit(base, attack)
    return worst_class_rises(before, view.audit(other, attack)[0], name)


def judge_entropy(view: ExhibitResults, attack: str) -> tuple[ClaimFinding, ...]:
    """Whether TRADES has the higher entropy."""
    base, name = view.audit("PGD-AT", attack)
    return entropy_is_higher(base, view.audit("TRADES", attack)[0], name)


def judge_weights(view: ExhibitResults, attack: str) -> tuple[ClaimFinding, ...]:
    """Whether maximum entropy allows a larger weight."""
    plain, regularised = (
        {lam: view.audit(role, attack) for lam, role in roles.items()} for roles in (TRADES_ROLES, ME_TRADES_ROLES)
    )
    name = next(iter(regularised.values()))[1]
    return allows_a_larger_weight(
        {lam: evidence for lam, (evidence, _) in plain.items()},
        {lam: evidence for lam, (evidence, _) in regularised.items()},
        name,
    )


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
