"""Conditions of Benz et al. that are chosen or put together from several: a soft attack, and means over severities."""

from collections.abc import Iterable, Mapping

import numpy as np

from leastwise.audit.evidence import Evidence
from leastwise.papers.benz2021.exhibits import CORRUPTED, SEVERITIES
from leastwise.papers.results import AuditedCondition, MissingResult
from leastwise.statistics.accuracy import ClassValues

SOFT = 0.6  # what a soft attack leaves of a standard network; the paper prints 59.5 %


def find_soft_attack(audits: Iterable[AuditedCondition]) -> AuditedCondition:
    """Of the radii that were tried, the one whose overall accuracy is nearest to 60 %; the smaller of two as near."""
    attacked = [one for one in audits if one[1].startswith("pgd")]
    if not attacked:
        raise MissingResult("no attack is among the results")
    return min(attacked, key=lambda one: abs(one[0].tally(one[1]).overall - SOFT))


def list_severities(evidence: Evidence) -> dict[str, tuple[str, ...]]:
    """The conditions of each corruption, of those that were run: all severities, or the one that was."""
    found = {
        name: tuple(f"{name}:{severity}" for severity in SEVERITIES if f"{name}:{severity}" in evidence.conditions)
        for name in CORRUPTED
    }
    return {name: conditions for name, conditions in found.items() if conditions}


def mean_profiles(evidence: Evidence) -> Mapping[str, ClassValues]:
    """Class accuracies of each corruption, the mean over its severities."""
    return {
        name: np.mean([evidence.tally(condition).accuracy.numpy() for condition in conditions], axis=0)
        for name, conditions in list_severities(evidence).items()
    }
