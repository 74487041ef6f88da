"""What the exhibits of Ahn decide."""

from leastwise.papers.ahn.exhibits import GRID, METHODS
from leastwise.papers.claims.agreement import convergence_predicts, same_hard_groups
from leastwise.papers.claims.base import Finding
from leastwise.papers.claims.spread import average_for_spread, radius_trends
from leastwise.papers.results import Missing, Rule, View, words
from leastwise.papers.rules import named, present

SATURATES = 8.0  # in 1/255


def trends(view: View, name: str) -> tuple[Finding, ...]:
    """The radius in 1/255."""
    audits = {float(eps): view.audit(f"{name}, eps {eps}/255", "pgd") for eps in GRID}
    attacked = audits[SATURATES][1]
    return radius_trends({eps: one for eps, (one, _) in audits.items()}, "clean", attacked, SATURATES)


def fair(view: View, base: str, other: str, attack: str) -> tuple[Finding, ...]:
    evidence, name = view.audit(base, attack)
    return average_for_spread(evidence, view.audit(other, attack)[0], name)


def converged(view: View, name: str) -> tuple[Finding, ...]:
    """A method's own training against its own robustness."""
    return convergence_predicts(view.epochs(name), view.of("ahn/table1").profile(name, "pgd"))


def clean_converged(view: View, name: str) -> tuple[Finding, ...]:
    """Training on clean images against the robustness of another network: what the paper's conclusion says."""
    robust = view.of("ahn/fig1").profile(f"{name}, eps {SATURATES:g}/255", "pgd")
    return convergence_predicts(view.epochs("clean"), robust)


def hard_groups(view: View) -> tuple[Finding, ...]:
    """Over the methods that are there."""
    there = present(view, view.roles, "pgd")
    audits = [view.audit(role, "pgd") for role in there]
    if not audits[0][0].groups:
        raise Missing("the data have no superclasses")
    found = same_hard_groups([evidence for evidence, _ in audits], audits[0][1])
    return named(found, there, view.roles)


BOTH = words("PGD", "TRADES")
PAIRS = (("PGD", "PGD + CFA"), ("TRADES", "TRADES + CFA"), ("TRADES", "TRADES + FRL"))
RULES = (
    Rule("C14", "ahn/fig1", trends, BOTH),
    Rule("C15", "ahn/table1", fair, tuple((*pair, attack) for pair in PAIRS for attack in ("clean", "pgd"))),
    Rule("C16", "ahn/fig2efgh", clean_converged, BOTH),
    Rule("C16", "ahn/fig3", converged, words(*METHODS)),
    Rule("C17", "ahn/fig4", hard_groups),
    Rule("C17", "ahn/fig11", hard_groups),
    Rule("C17", "ahn/fig12", hard_groups),
)
