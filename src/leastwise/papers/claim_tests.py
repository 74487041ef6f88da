"""Tests that several papers' exhibits are put to. Each takes the exhibit's view and the words of a case."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leastwise.papers.claims.agreement import confusions_are_mutual_and_near, profiles_agree
from leastwise.papers.claims.base import ClaimFinding
from leastwise.papers.claims.spread import classes_differ, spread_widens
from leastwise.papers.results import ExhibitResults, MissingResult


def judge_class_differences(view: ExhibitResults, role: str) -> tuple[ClaimFinding, ...]:
    found = tuple(one for audited in view.audits(role) for one in classes_differ(*audited))
    if not found:
        raise MissingResult(f"{role} is not among the results")
    return found


def judge_widening(
    view: ExhibitResults, exhibit: str, before: str, after: str, attack: str
) -> tuple[ClaimFinding, ...]:
    """Natural accuracy of one network, of that exhibit, against the other's natural accuracy or robustness."""
    return spread_widens(view.of(exhibit).audit(before), view.audit(after, attack))


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


def judge_confusions(view: ExhibitResults, role: str, attack: str) -> tuple[ClaimFinding, ...]:
    return confusions_are_mutual_and_near(*view.audit(role, attack))
