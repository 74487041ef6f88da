"""What the exhibits of Ahn decide."""

from leastwise.papers.ahn.exhibits import CHAIR, FOX, GRID, METHODS, SWEEP_ROLES
from leastwise.papers.claims.agreement import (
    CONVERGENCE_PREDICTS_ROBUSTNESS,
    HARD_CLASSES_WOBBLE,
    METHODS_SHARE_HARD_GROUPS,
    convergence_predicts,
    hard_classes_wobble,
    same_hard_groups,
)
from leastwise.papers.claims.base import ClaimFinding, average, share_images
from leastwise.papers.claims.spread import (
    EASY_CLASS_IS_SPARED,
    FAIRNESS_COSTS_AVERAGE,
    RADIUS_WIDENS_SPREAD,
    accuracy_falls_with_radius,
    easy_class_is_spared,
    fair_method_costs,
    fair_method_narrows,
    robustness_saturates,
    spread_rises_with_radius,
)
from leastwise.papers.claims.trainings import pool_spread
from leastwise.papers.judge import VerdictRule, name_roles, one_word_cases, roles_with_results
from leastwise.papers.results import ExhibitResults, MissingResult

SATURATES = 8.0  # in 1/255


def judge_accuracy_over_radius(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """Whether clean accuracy falls with the radius, in 1/255."""
    audits = {float(eps): view.audit(SWEEP_ROLES[name, eps])[0] for eps in GRID}
    return accuracy_falls_with_radius(audits, "clean")


def judge_spread_over_radius(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """Whether the spread rises with the radius."""
    audits = {float(eps): view.audit(SWEEP_ROLES[name, eps], "pgd") for eps in GRID}
    attacked = audits[SATURATES][1]
    return spread_rises_with_radius({eps: one for eps, (one, _) in audits.items()}, "clean", attacked)


def judge_saturation(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """Whether robustness rises up to 8/255 only, by the spread between seeds."""
    audits = {float(eps): view.audit(SWEEP_ROLES[name, eps], "pgd") for eps in GRID}
    role = SWEEP_ROLES[name, int(SATURATES)]
    spread = pool_spread(
        [float(average(one.accuracies()[0], one.n)) for one in map(share_images, group)]
        for group in view.seeded_recipes(role, "pgd")
    )
    found = {eps: one for eps, (one, _) in audits.items()}
    return robustness_saturates(found, audits[SATURATES][1], saturates=SATURATES, spread=spread)


def judge_narrowing(view: ExhibitResults, base: str, other: str) -> tuple[ClaimFinding, ...]:
    """Whether a fair method narrows the spread of its base and lifts the worst clean class."""
    return fair_method_narrows(view.pair((base, "clean"), (other, "clean")), view.pair((base, "pgd"), (other, "pgd")))


def judge_cost(view: ExhibitResults, base: str, other: str) -> tuple[ClaimFinding, ...]:
    """The averages that the text says fall: robust ones, and of FRL clean ones too."""
    kinds = ("robust", "clean") if other.endswith("FRL") else ("robust",)
    attack = {"robust": "pgd", "clean": "clean"}
    return fair_method_costs({kind: view.pair((base, attack[kind]), (other, attack[kind])) for kind in kinds})


def judge_wobble(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """A method's own training against its own robustness."""
    return hard_classes_wobble(view.epochs(name), view.of("ahn/table1").profile(name, "pgd"))


def judge_chair_and_fox(view: ExhibitResults, name: str) -> tuple[ClaimFinding, ...]:
    """Whether adversarial training at 8/255 spares chair and not fox, against training on clean images."""
    pair = view.pair(("clean", "clean"), (SWEEP_ROLES[name, int(SATURATES)], "clean"))
    return easy_class_is_spared(pair, easy=view.cls(CHAIR), hard=view.cls(FOX))


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
FALLS, WIDENS, SATURATED = RADIUS_WIDENS_SPREAD.parts
NARROWER, COST = FAIRNESS_COSTS_AVERAGE.parts
PAIRS = (("PGD", "PGD + CFA"), ("TRADES", "TRADES + FRL"))  # as the text compares them
RULES: tuple[VerdictRule, ...] = (
    VerdictRule(RADIUS_WIDENS_SPREAD, "ahn/fig1", judge_accuracy_over_radius, BOTH, FALLS),
    VerdictRule(RADIUS_WIDENS_SPREAD, "ahn/fig1", judge_spread_over_radius, BOTH, WIDENS),
    VerdictRule(RADIUS_WIDENS_SPREAD, "ahn/fig1", judge_saturation, BOTH, SATURATED),
    VerdictRule(FAIRNESS_COSTS_AVERAGE, "ahn/table1", judge_narrowing, PAIRS, NARROWER),
    VerdictRule(FAIRNESS_COSTS_AVERAGE, "ahn/table1", judge_cost, PAIRS, COST),
    VerdictRule(EASY_CLASS_IS_SPARED, "ahn/fig2abcd", judge_chair_and_fox, BOTH),
    VerdictRule(CONVERGENCE_PREDICTS_ROBUSTNESS, "ahn/fig2efgh", judge_clean_convergence, BOTH),
    VerdictRule(CONVERGENCE_PREDICTS_ROBUSTNESS, "ahn/fig3", judge_convergence, one_word_cases(*METHODS)),
    VerdictRule(HARD_CLASSES_WOBBLE, "ahn/fig3", judge_wobble, one_word_cases(*METHODS)),
    VerdictRule(METHODS_SHARE_HARD_GROUPS, "ahn/fig4", judge_hard_groups),
    VerdictRule(METHODS_SHARE_HARD_GROUPS, "ahn/fig11", judge_hard_groups),
    VerdictRule(METHODS_SHARE_HARD_GROUPS, "ahn/fig12", judge_hard_groups),
)
