"""Tests that several papers' exhibits are put to. Each takes the exhibit's view and the words of a case."""

import numpy as np

from leastwise.papers.claims import Finding, agreement, spread
from leastwise.papers.verdicts.view import Missing, View


def differ(view: View, role: str) -> tuple[Finding, ...]:
    found = tuple(one for audited in view.audits(role) for one in spread.classes_differ(*audited))
    if not found:
        raise Missing(f"{role} is not among the results")
    return found


def widens(view: View, exhibit: str, before: str, after: str, attack: str) -> tuple[Finding, ...]:
    """Natural accuracy of one network, of that exhibit, against the other's natural accuracy or robustness."""
    return spread.spread_widens(view.of(exhibit).audit(before), view.audit(after, attack))


def profiles(view: View, *roles: str) -> tuple[Finding, ...]:
    """Of all roles, or of some."""
    return agreement.profiles_agree(np.stack([view.profile(role) for role in roles or view.roles]))


def mutual(view: View, role: str, attack: str) -> tuple[Finding, ...]:
    return agreement.confusions_are_mutual_and_near(*view.audit(role, attack))
