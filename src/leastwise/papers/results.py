"""What the recipes of an exhibit gave, by role."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from leastwise.audit.evidence import Evidence
from leastwise.core.counts import Tally
from leastwise.insight.features import Moments, inter_class_similarity, intra_class_variance
from leastwise.jobs.images import Picture
from leastwise.papers.claims.trainings import SeededAudits, TrainingPair
from leastwise.papers.exhibit import Exhibit
from leastwise.papers.recipes import Absent, Measured, Recipe, Trained
from leastwise.papers.scales import scale
from leastwise.statistics.accuracy import ClassValues


class RecipeResult(NamedTuple):
    """What a recipe gave."""

    evidence: Evidence | None = None  # of an audit; of one after every epoch, the last
    moments: Moments | None = None  # of features, where they were kept
    epochs: tuple[Tally, ...] = ()  # of a training: clean accuracy on its own images
    robust_epochs: tuple[Tally, ...] = ()  # of a training: at its own radius, on some of its images
    each: tuple[Mapping[str, Tally], ...] = ()  # of an audit after every epoch: its conditions
    entropies: tuple[Mapping[str, float], ...] = ()  # of the same: the mean entropy of its outputs, by condition
    plane: Float[np.ndarray, "n 2"] | None = None  # of an audit: features in two dimensions, in the evidence's order
    pictures: tuple[Picture, ...] = ()  # of an audit: the single images that an exhibit shows
    notes: tuple[str, ...] = ()  # on the images behind it, such as that they are a declared part


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

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the images behind the results, each sentence once."""
        return tuple(dict.fromkeys(note for role in self.roles for _, one in self.parts(role) for note in one.notes))

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

    def seeds(self, role: str, attack: str = "clean") -> SeededAudits:
        """A role under a condition in every seed of its training that is there, the declared one first."""
        audited, name = self.audit(role, attack)
        recipe = next(
            recipe
            for recipe, one in self.parts(role)
            if isinstance(recipe, Measured) and one.evidence is audited and name in recipe.conditions
        )
        # One network may be audited for several exhibits; it is one seed all the same.
        others: dict[int, Evidence] = {}
        for other, one in list_seeds(self.results, name, recipe):
            if isinstance(other.model, Trained) and other.model != recipe.model and is_same_training(other, recipe):
                others.setdefault(other.model.seed, one)
        return ((audited, name), *((evidence, name) for evidence in others.values()))

    def seeded_recipes(self, role: str, attack: str = "clean") -> tuple[SeededAudits, ...]:
        """Every recipe on the data of a role that has several seeds under the role's condition."""
        audited, name = self.audit(role, attack)
        recipe = next(one for one, held in self.parts(role) if held.evidence is audited)
        assert isinstance(recipe, Measured), "an audit comes from a recipe that measures"
        families: dict[Trained, dict[int, tuple[Evidence, str]]] = {}
        for other, evidence in list_seeds(self.results, name, recipe):
            assert isinstance(other.model, Trained), "only trainings have seeds"
            families.setdefault(replace(other.model, seed=0), {}).setdefault(other.model.seed, (evidence, name))
        return tuple(tuple(held.values()) for held in families.values() if len(held) > 1)

    def pair(self, before: tuple[str, str], after: tuple[str, str]) -> TrainingPair:
        """Two roles, each under a condition, as ways of training."""
        sides = before, after
        first, second = (self.seeds(*side) for side in sides)
        return TrainingPair(first, second, (self.seeded_recipes(*before), self.seeded_recipes(*after)))

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

    def shapes(self, role: str) -> tuple[tuple[ClassValues, ClassValues], ...]:
        """The same in every seed of its training whose features were kept, the declared one first."""
        self.moments(role)  # or its reason
        recipe = next(one for one, held in self.parts(role) if held.moments is not None)
        assert isinstance(recipe, Measured), "features come from an audit"
        moments: dict[int, Moments] = {}
        for other, one in self.results.items():
            if not isinstance(other, Measured) or one.moments is None or other.data != recipe.data:
                continue
            if other.model != recipe.model and is_same_training(other, recipe):
                assert isinstance(other.model, Trained), "only trainings have seeds"
                moments.setdefault(other.model.seed, one.moments)
        return tuple(
            (inter_class_similarity(found.means), intra_class_variance(found))
            for found in (self.moments(role), *moments.values())
        )

    def epochs(self, role: str) -> tuple[Tally, ...]:
        for _, one in self.parts(role):
            if one.epochs:
                return one.epochs
        raise MissingResult(f"the epochs of {role} are not among the results")


def list_seeds(results: Results, condition: str, like: Measured) -> list[tuple[Measured, Evidence]]:
    """Audits of trained networks on the images of a recipe under one of its conditions, whatever was trained."""
    return [
        (other, one.evidence)
        for other, one in results.items()
        if isinstance(other, Measured) and isinstance(other.model, Trained) and one.evidence is not None
        if condition in other.conditions and (other.data, other.split, other.keep) == (like.data, like.split, like.keep)
        if condition == "clean" or other.threat == like.threat
        if not gives_one_answer(one.evidence)
    ]


def is_same_training(one: Measured, other: Measured) -> bool:
    """Whether two audits are of the same recipe with other seeds."""
    a, b = one.model, other.model
    return isinstance(a, Trained) and isinstance(b, Trained) and replace(a, seed=b.seed) == b


def gives_one_answer(evidence: Evidence) -> bool:
    """Under every condition, of images of several classes."""
    if len(np.unique(evidence.labels)) < 2:
        return False
    return all(len(np.unique(one.predicted)) == 1 for one in evidence.conditions.values())
