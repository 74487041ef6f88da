"""Superclasses: which classes belong together, and how robust they are together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from leastwise.core.counts import Tally
from leastwise.data.classes import Groups

Partition = Int[np.ndarray, " k"]  # the number of each class's part


def number_parts(groups: Groups, k: int) -> Partition:
    """The number of each class's superclass; -1 for a class without one."""
    part = np.full(k, -1)
    for number, (_, classes) in enumerate(groups):
        part[list(classes)] = number
    return part


def classes_by_group(groups: Groups, k: int) -> Int[np.ndarray, " k"]:
    """The classes superclass by superclass, those without one last: the order in which Benz draws CIFAR-100."""
    listed = [c for _, classes in groups for c in classes]
    return np.array([*listed, *sorted(set(range(k)) - set(listed))])


@dataclass(frozen=True)
class GroupAccuracy:
    """A superclass over several models: the mean of its accuracies, and of its best and its worst class.

    The last two show what the first hides: Ahn's hardest class is in an easy superclass.
    """

    name: str
    accuracy: float  # over images
    lowest: float
    highest: float


def rank_groups(models: Sequence[Tally], groups: Groups) -> tuple[GroupAccuracy, ...]:
    """Superclasses by accuracy, best first (Ahn, Fig. 4); those without images are left out."""
    found = []
    for name, classes in groups:
        members = [c for c in classes if all(int(tally.n[c]) > 0 for tally in models)]
        if members:
            overall = [float(tally.correct[members].sum() / tally.n[members].sum()) for tally in models]
            by_class = np.mean([tally.accuracy[members].tolist() for tally in models], axis=0)
            found.append(GroupAccuracy(name, float(np.mean(overall)), float(by_class.min()), float(by_class.max())))
    return tuple(sorted(found, key=lambda one: -one.accuracy))
