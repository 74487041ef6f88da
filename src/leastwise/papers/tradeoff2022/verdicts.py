"""What the exhibits of the paper on the tradeoff decide."""

import numpy as np

from leastwise.insight.features import cosines
from leastwise.papers.claims.agreement import SIMILARITY_PREDICTS_ERROR, similarity_predicts_error
from leastwise.papers.claims.base import ClaimFinding
from leastwise.papers.claims.features import (
    ENTROPY_ALLOWS_LARGER_WEIGHT,
    ENTROPY_LIFTS_AVERAGE,
    SIMILARITY_MARKS_WEAKEST_CLASS,
    SIMILARITY_RISES,
    SMOOTHING_LIFTS_WORST_CLASS,
    allows_a_larger_weight,
    average_rises,
    entropy_is_higher,
    hardest_is_most_similar,
    hardest_varies_less,
    similarity_changes,
    variance_falls,
    worst_class_rises,
)
from leastwise.papers.claims.spread import (
    TRAINING_WIDENS_SPREAD,
    TWO_CLASSES_CARRY_THE_DROP,
    few_classes_carry_the_drop,
)
from leastwise.papers.judge import VerdictRule, one_word_cases, widening_rules
from leastwise.papers.results import ExhibitResults
from leastwise.papers.tradeoff2022.exhibits import BIRD, CAT, ME_TRADES_ROLES, TRADES_ROLES


def judge_shares(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Whether bird and cat carry almost half of the fall."""
    return few_classes_carry_the_drop(view.seeds("ST"), view.seeds("PGD-AT"), classes=(view.cls(BIRD), view.cls(CAT)))


def judge_similarity(view: ExhibitResults, base: str, other: str, direction: str) -> tuple[ClaimFinding, ...]:
    """Whether classes are more similar than under another training, or less."""
    before, after = ([similar for similar, _ in view.shapes(role)] for role in (base, other))
    return similarity_changes(before, after, up=direction == UP)


def judge_variance(view: ExhibitResults, base: str, other: str) -> tuple[ClaimFinding, ...]:
    """Whether classes vary less than under another training."""
    before, after = ([varied for _, varied in view.shapes(role)] for role in (base, other))
    return variance_falls(before, after)


def judge_most_similar(view: ExhibitResults, role: str) -> tuple[ClaimFinding, ...]:
    """Whether the class that falls first under PGD is the most similar one."""
    evidence, attacked = view.of(ATTACKED_IN[role]).audit(role, "pgd")
    return hardest_is_most_similar(evidence, attacked, view.shape(role)[0])


def judge_most_varied(view: ExhibitResults, role: str) -> tuple[ClaimFinding, ...]:
    """Whether it is another than the class with the largest variance."""
    evidence, attacked = view.of(ATTACKED_IN[role]).audit(role, "pgd")
    return hardest_varies_less(evidence, attacked, view.shape(role)[1])


def judge_single_classes(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Each class in the network where it alone was attacked; the paper says nothing of variances there."""
    similar, _ = view.shape("ST")
    alone = np.array([view.shape(f"single {c}")[0][c] for c in range(len(similar))])
    return similarity_changes([similar], [alone], up=True)


def judge_telling_apart(view: ExhibitResults, method: str, attack: str) -> tuple[ClaimFinding, ...]:
    """Whether similarity to cat predicts the error of telling it apart."""
    similar = cosines(view.moments("ST").means)[view.cls(CAT)]
    error = np.full(len(similar), np.nan)
    for c in range(len(similar)):
        if c != CAT:
            evidence, name = view.audit(f"{method}, cat and {c}", attack)
            error[c] = 1 - evidence.tally(name).overall
    return similarity_predicts_error(similar, error)


def judge_lift(view: ExhibitResults, base: str, other: str, attack: str) -> tuple[ClaimFinding, ...]:
    """Whether smoothing or entropy lifts the worst class."""
    return worst_class_rises(view.pair((base, attack), (other, attack)))


def judge_average(view: ExhibitResults, base: str, other: str, attack: str) -> tuple[ClaimFinding, ...]:
    """Whether maximum entropy lifts the average."""
    return average_rises(view.pair((base, attack), (other, attack)))


def judge_entropy(view: ExhibitResults, attack: str) -> tuple[ClaimFinding, ...]:
    """Whether TRADES has the higher entropy."""
    return entropy_is_higher(view.of("tradeoff2022/table4").pair(("PGD-AT", attack), ("TRADES λ=6", attack)))


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
UP, DOWN = "rises", "falls"
ATTACKS = ("pgd", "cw", "autoattack")
ATTACKED_IN = {"ST": "tradeoff2022/fig1ab", "PGD-AT": "tradeoff2022/fig1ab"}  # where the same networks are attacked
SMOOTHED = (("PGD-AT", "PGD-AT+LS"), ("PGD-AT", "ME-AT"), ("TRADES", "TRADES+LS"), ("TRADES", "ME-TRADES"))
# The paper says so of both in PGD-AT, and of maximum entropy in TRADES: accuracy at lambda 15, robustness at 27.
LIFTED = (
    *(("PGD-AT", other, attack) for other in ("PGD-AT+LS", "ME-AT β=0.5") for attack in ("clean", *ATTACKS)),
    ("TRADES λ=6", "ME-TRADES β=1 λ=15", "clean"),
    *(("TRADES λ=6", "ME-TRADES β=1 λ=27", attack) for attack in ATTACKS),
)
RISES, VARIES = SIMILARITY_RISES.parts
LESS_SIMILAR, LESS_VARIED, WORST_RISES = SMOOTHING_LIFTS_WORST_CLASS.parts
HIGHER, LARGER = ENTROPY_ALLOWS_LARGER_WEIGHT.parts
MOST_SIMILAR, NOT_MOST_VARIED = SIMILARITY_MARKS_WEAKEST_CLASS.parts
RULES: tuple[VerdictRule, ...] = (
    *widening_rules(TRAINING_WIDENS_SPREAD, "tradeoff2022/fig1ab", (("tradeoff2022/fig1ab", "ST", "PGD-AT"),)),
    VerdictRule(TWO_CLASSES_CARRY_THE_DROP, "tradeoff2022/fig1c", judge_shares),
    VerdictRule(
        SIMILARITY_RISES, "tradeoff2022/fig2", judge_similarity, tuple(("ST", name, UP) for name in TWO), RISES
    ),
    VerdictRule(SIMILARITY_RISES, "tradeoff2022/fig2", judge_variance, tuple(("ST", name) for name in TWO), VARIES),
    VerdictRule(
        SIMILARITY_MARKS_WEAKEST_CLASS, "tradeoff2022/fig2", judge_most_similar, one_word_cases("PGD-AT"), MOST_SIMILAR
    ),
    VerdictRule(
        SIMILARITY_MARKS_WEAKEST_CLASS,
        "tradeoff2022/fig2",
        judge_most_varied,
        one_word_cases("PGD-AT"),
        NOT_MOST_VARIED,
    ),
    VerdictRule(SIMILARITY_RISES, "tradeoff2022/fig4", judge_single_classes, part=RISES),
    VerdictRule(
        SIMILARITY_PREDICTS_ERROR,
        "tradeoff2022/fig5",
        judge_telling_apart,
        tuple((name, attack) for name in TWO for attack in ("clean", "pgd")),
    ),
    VerdictRule(
        SMOOTHING_LIFTS_WORST_CLASS,
        "tradeoff2022/fig6",
        judge_similarity,
        tuple((*pair, DOWN) for pair in SMOOTHED),
        LESS_SIMILAR,
    ),
    VerdictRule(SMOOTHING_LIFTS_WORST_CLASS, "tradeoff2022/fig6", judge_variance, SMOOTHED, LESS_VARIED),
    VerdictRule(SMOOTHING_LIFTS_WORST_CLASS, "tradeoff2022/table4", judge_lift, LIFTED, WORST_RISES),
    VerdictRule(
        ENTROPY_LIFTS_AVERAGE,
        "tradeoff2022/table3",
        judge_average,
        tuple(("PGD-AT", "ME-AT β=0.5", attack) for attack in ("clean", "pgd")),
    ),
    VerdictRule(
        ENTROPY_ALLOWS_LARGER_WEIGHT, "tradeoff2022/fig7", judge_entropy, one_word_cases("clean", "pgd"), HIGHER
    ),
    VerdictRule(ENTROPY_ALLOWS_LARGER_WEIGHT, "tradeoff2022/table2", judge_weights, one_word_cases(*ATTACKS), LARGER),
)
