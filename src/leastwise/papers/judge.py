"""Which evidence decides which claim: from what the exhibits of a paper found to findings and verdicts.

A rule says how an exhibit speaks to a claim. The tests that exhibits of several papers are put to are here too; each
takes the results of the exhibit and the words of a case.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leastwise.papers.claims.agreement import (
    CONFUSIONS_ARE_MUTUAL,
    confusions_are_mutual,
    confusions_stay_near,
    profiles_agree,
)
from leastwise.papers.claims.base import Claim, ClaimDecision, ClaimFinding, combine_decisions
from leastwise.papers.claims.spread import classes_differ, spread_widens
from leastwise.papers.claims.trainings import TrainingPair
from leastwise.papers.exhibit import Exhibit
from leastwise.papers.results import ExhibitResults, MissingResult, Results


@dataclass(frozen=True)
class VerdictRule:
    """How an exhibit speaks to a claim: a test of its results, once for each case."""

    claim: Claim
    exhibit: str
    test: Callable[..., tuple[ClaimFinding, ...]]  # of the exhibit's results and of the words of a case
    cases: tuple[tuple[str, ...], ...] = ((),)
    part: str = ""  # of the claim, where it has several

    def __post_init__(self) -> None:
        assert self.part in self.claim.parts, f"{self.claim.id} has the parts {self.claim.parts}, not {self.part!r}"


@dataclass(frozen=True)
class ClaimVerdict:
    """What one case of a rule says about its claim, or what is missing to say it."""

    claim: Claim
    part: str
    exhibit: str
    measured_on: tuple[str, ...]  # roles and conditions
    findings: tuple[ClaimFinding, ...]  # none where something is missing
    missing: str = ""

    @property
    def on(self) -> str:
        return "; ".join(self.measured_on)

    @property
    def verdict(self) -> ClaimDecision:
        return combine_decisions(self.findings)


def one_word_cases(*cases: str) -> tuple[tuple[str, ...], ...]:
    """Cases of one word each."""
    return tuple((case,) for case in cases)


def judge_claims(
    rules: Iterable[VerdictRule], results: Results, scale: str, *, exhibits: Mapping[str, Exhibit]
) -> tuple[ClaimVerdict, ...]:
    """Every rule on everything that is there to decide it, and what is missing for the rest.

    `exhibits` are those of all papers by their ids: a test may compare with another exhibit.
    """
    found = []
    for rule in rules:
        view = ExhibitResults(exhibits[rule.exhibit], scale, results, exhibits)
        for case in rule.cases:
            on = tuple(word for word in case if word not in exhibits)
            try:
                found.append(ClaimVerdict(rule.claim, rule.part, rule.exhibit, on, rule.test(view, *case)))
            except ValueError as reason:  # something is missing, or there is too little of it to say anything
                found.append(ClaimVerdict(rule.claim, rule.part, rule.exhibit, on, (), str(reason)))
    return tuple(found)


def judge_class_differences(view: ExhibitResults, role: str, attack: str) -> tuple[ClaimFinding, ...]:
    """Whether classes differ under a condition of a role."""
    return classes_differ(*view.audit(role, attack))


def judge_widening(
    view: ExhibitResults, exhibit: str, before: str, after: str, attack: str
) -> tuple[ClaimFinding, ...]:
    """Natural accuracy of one training, of that exhibit, against the other's natural accuracy or robustness."""
    other = view.of(exhibit)
    return spread_widens(
        TrainingPair(
            other.seeds(before),
            view.seeds(after, attack),
            (other.seeded_recipes(before), view.seeded_recipes(after, attack)),
        )
    )


def widening_rules(claim: Claim, exhibit: str, cases: Sequence[tuple[str, str, str]]) -> tuple[VerdictRule, ...]:
    """The two parts of a wider spread: of natural accuracy, and of robustness, against natural accuracy before."""
    parts = {"clean": "of natural accuracy", "pgd": "of robustness"}
    return tuple(
        VerdictRule(claim, exhibit, judge_widening, tuple((*case, attack) for case in cases), part)
        for attack, part in parts.items()
    )


def judge_profiles(view: ExhibitResults, *roles: str) -> tuple[ClaimFinding, ...]:
    """Of all roles, or of some: of those that are there, and named where some are not."""
    wanted = roles or view.roles
    there = roles_with_results(view, wanted)
    found = profiles_agree(np.stack([view.profile(role) for role in there]))
    return name_roles(found, there, wanted)


def roles_with_results(view: ExhibitResults, roles: Sequence[str], attack: str = "clean") -> tuple[str, ...]:
    """The roles that have results under a condition; at least two."""
    found = tuple(role for role in roles if any(name.startswith(attack) for _, name in view.audits(role)))
    if len(found) < 2:
        raise MissingResult(f"{len(found)} of {len(roles)} are among the results, and two are needed")
    return found


def name_roles(
    findings: tuple[ClaimFinding, ...], there: Sequence[str], wanted: Sequence[str]
) -> tuple[ClaimFinding, ...]:
    """With the names of what entered, unless everything did."""
    if len(there) == len(wanted):
        return findings
    return tuple(replace(one, what=f"{one.what}: only {', '.join(there)}") for one in findings)


def confusion_rules(exhibit: str, cases: tuple[tuple[str, str], ...]) -> tuple[VerdictRule, ...]:
    """The two parts of the claim about confusions, for roles under conditions."""
    mutual, near = CONFUSIONS_ARE_MUTUAL.parts
    return (
        VerdictRule(CONFUSIONS_ARE_MUTUAL, exhibit, judge_mutual_confusions, cases, mutual),
        VerdictRule(CONFUSIONS_ARE_MUTUAL, exhibit, judge_near_confusions, cases, near),
    )


def judge_mutual_confusions(view: ExhibitResults, role: str, attack: str) -> tuple[ClaimFinding, ...]:
    """Whether the confusions of a role are mutual."""
    return confusions_are_mutual(*view.audit(role, attack))


def judge_near_confusions(view: ExhibitResults, role: str, attack: str) -> tuple[ClaimFinding, ...]:
    """Whether the confusions of a role stay inside superclasses."""
    return confusions_stay_near(*view.audit(role, attack))
