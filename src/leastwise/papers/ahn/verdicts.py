"""What the exhibits of Ahn decide."""

from leastwise.papers.ahn.exhibits import GRID, METHODS, SWEEP_ROLES
from leastwise.papers.claims.agreement import (
    CONVERGENCE_PREDICTS_ROBUSTNESS,
    METHODS_SHARE_HARD_GROUPS,
    convergence_predicts,
    same_hard_groups,
)
from leastwise.papers.claims.base import ClaimFinding
from leastwise.papers.claims.spread import (
    FAIRNESS_COSTS_AVERAGE,
    RADIUS_WIDENS_SPREAD,
    average_for_spread,
    radius_trends,
)
from leastwise.papers.judge import VerdictRule, name_roles, one_word_cases, roles_with_results
from leastwise.papers.results import ExhibitResults, MissingResult

SATURATES = 8.0  # in 1/255


def judge_trends(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """The radius in 1/255."""
    audits = {float(eps): view.audit(SWEEP_ROLES[name, eps], "pgd") for eps in GRID}
    attacked = audits[SATURATES][1]
    return radius_trends({eps: one for eps, (one, _) in audits.items()}, "clean", attacked, saturates=SATURATES)


def judge_fairness(view: ExhibitResults, base: str, other: str, attack: str) -> tuple[ClaimFinding, ...]:
    """What a fair method does to average, worst class and spread of its base."""
    evidence, name = view.audit(base, attack)
    return average_for_spread(evidence, view.audit(other, attack)[0], name)


def judge_convergence(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """A method's own training against its own robustness."""
    return convergence_predicts(view.epochs(name), view.of("ahn/table1").profile(name, "pgd"))


def judge_clean_convergence(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """Training on clean images against the robustness of another network: what the paper's conclusion says."""
    robust = view.of("ahn/fig1").profile(SWEEP_ROLES[name, int(SATURATES)], "pgd")
    return convergence_predicts(view.epochs("clean"), robust)


def judge_hard_groups(view: ExhibitResults) -> tuple[ClaimFinding, ...]:
    """Over the methods that are there."""
    there = roles_with_results(view, view.roles, "pgd")
    audits = [view.audit(role, "pgd") for role in there]
    if not audits[0][0].groups:
        raise MissingResult("the data have no superclasses")
    found = same_hard_groups([evidence for evidence, _ in audits], audits[0][1])
    return name_roles(found, there, view.roles)


BOTH = one_word_cases("PGD", "TRADES")
PAIRS = (("PGD", "PGD + CFA"), ("TRADES", "TRADES + CFA"), ("TRADES", "TRADES + FRL"))
RULES: tuple[VerdictRule, ...] = (
    VerdictRule(RADIUS_WIDENS_SPREAD, "ahn/fig1", judge_trends, BOTH),
    VerdictRule(
        FAIRNESS_COSTS_AVERAGE,
        "ahn/table1",
        judge_fairness,
        tuple((*pair, attack) for pair in PAIRS for attack in ("clean", "pgd")),
    ),
    VerdictRule(CONVERGENCE_PREDICTS_ROBUSTNESS, "ahn/fig2efgh", judge_clean_convergence, BOTH),
    VerdictRule(CONVERGENCE_PREDICTS_ROBUSTNESS, "ahn/fig3", judge_convergence, one_word_cases(*METHODS)),
    VerdictRule(METHODS_SHARE_HARD_GROUPS, "ahn/fig4", judge_hard_groups),
    VerdictRule(METHODS_SHARE_HARD_GROUPS, "ahn/fig11", judge_hard_groups),
    VerdictRule(METHODS_SHARE_HARD_GROUPS, "ahn/fig12", judge_hard_groups),
)
