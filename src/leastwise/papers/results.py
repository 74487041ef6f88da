"""What the recipes of an exhibit gave, by role."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from leastwise.audit.evidence import Evidence
from leastwise.core.counts import Tally
from leastwise.insight.features import Moments, inter_class_similarity, intra_class_variance
from leastwise.jobs.extras import Picture
from leastwise.papers.exhibit import Exhibit
from leastwise.papers.recipes import Absent, Measured, Recipe
from leastwise.papers.scales import scale
from leastwise.statistics.intervals import ClassValues


class RecipeResult(NamedTuple):
    """What a recipe gave."""

    evidence: Evidence | None = None  # of an audit; of one after every epoch, the last
    moments: Moments | None = None  # of features, where they were kept
    epochs: tuple[Tally, ...] = ()  # of a training: clean accuracy on its own images
    dynamics: tuple[Mapping[str, Any], ...] = ()  # of a training: what it recorded of each epoch, as on disk
    each: tuple[Mapping[str, Tally], ...] = ()  # of an audit after every epoch: its conditions
    entropies: tuple[Mapping[str, float], ...] = ()  # of the same: the mean entropy of its outputs, by condition
    plane: Float[np.ndarray, "n 2"] | None = None  # of an audit: features in two dimensions, in the evidence's order
    pictures: tuple[Picture, ...] = ()  # of an audit: the single images that an exhibit shows


Results = Mapping[Recipe, RecipeResult]  # what is there: a recipe that failed or was not run is missing
AuditedCondition = tuple[Evidence, str]  # and a condition


STAND_INS = {"autoattack": ("autoattack", "apgd-ce")}  # a small scale has a shorter one


class MissingResult(ValueError):
    """Something that a claim needs is not among the results."""


@dataclass(frozen=True, eq=False)
class ExhibitResults:
    """The results that one exhibit asks for, by the names of its roles."""

    exhibit: Exhibit
    scale: str
    results: Results
    siblings: Mapping[str, Exhibit]  # every exhibit by its id

    def of(self, exhibit: str) -> "ExhibitResults":
        """Another exhibit with the same results."""
        return replace(self, exhibit=self.siblings[exhibit])

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self.exhibit.needs)

    @property
    def recipes(self) -> dict[str, tuple[Recipe | Absent, ...]]:
        """What the scale makes of each role."""
        return self.exhibit(self.scale)

    def cls(self, c: int) -> int:
        """The class that stands for a class of the paper at this scale."""
        return scale(self.scale).cls(c)

    def parts(self, role: str) -> list[tuple[Recipe, RecipeResult]]:
        recipes = [one for one in scale(self.scale)(self.exhibit.needs[role]) if not isinstance(one, Absent)]
        return [(one, self.results[one]) for one in recipes if one in self.results]

    def audits(self, role: str) -> list[AuditedCondition]:
        """Every condition of a role; nothing where it was not audited.

        A network that gives one answer to all images has learnt nothing, and decides no claim; at scale smoke nothing
        is decided anyway.
        """
        found = [(recipe, one.evidence) for recipe, one in self.parts(role) if isinstance(recipe, Measured)]
        if self.scale != "smoke" and any(evidence and gives_one_answer(evidence) for _, evidence in found):
            raise MissingResult(f"{role} gives one answer to all images: its training failed")
        return [(evidence, name) for recipe, evidence in found if evidence for name in recipe.conditions]

    def audit(self, role: str, attack: str = "clean") -> AuditedCondition:
        """The condition whose name begins so; scales change what follows."""
        for evidence, name in self.audits(role):
            if name.startswith(STAND_INS.get(attack, attack)):
                return evidence, name
        raise MissingResult(f"{role} under {attack} is not among the results")

    def profile(self, role: str, attack: str = "clean") -> ClassValues:
        evidence, name = self.audit(role, attack)
        return evidence.tally(name).accuracy.numpy()

    def moments(self, role: str) -> Moments:
        for _, one in self.parts(role):
            if one.moments is not None:
                return one.moments
        raise MissingResult(f"the features of {role} are not among the results")

    def shape(self, role: str) -> tuple[ClassValues, ClassValues]:
        """Similarity and variance of the classes' features."""
        found = self.moments(role)
        return inter_class_similarity(found.means), intra_class_variance(found)

    def epochs(self, role: str) -> tuple[Tally, ...]:
        for _, one in self.parts(role):
            if one.epochs:
                return one.epochs
        raise MissingResult(f"the epochs of {role} are not among the results")


def gives_one_answer(evidence: Evidence) -> bool:
    """Under every condition, of images of several classes."""
    if len(np.unique(evidence.labels)) < 2:
        return False
    return all(len(np.unique(one.predicted)) == 1 for one in evidence.conditions.values())
