"""One model against another, class by class, on the same images."""

from dataclasses import dataclass

import numpy as np

from leastwise.audit.evidence import Evidence
from leastwise.core.recipe import describe_difference
from leastwise.statistics.accuracy import CONFIDENCE, PairedComparison, compare_class_wise, compare_paired


def same_images(a: Evidence, b: Evidence) -> bool:
    """Whether two audits were of the same images, so that they can be paired."""
    return (
        a.data == b.data and a.names == b.names and np.array_equal(a.ids, b.ids) and np.array_equal(a.labels, b.labels)
    )


def compare_pair(
    a: Evidence, b: Evidence, condition: str, *, cls: int | None = None, confidence: float = CONFIDENCE
) -> PairedComparison:
    """B against A on the same images, of one class or of all."""
    if not same_images(a, b):
        raise ValueError("models can be paired only on the same images: audit both on the same data")
    rows = slice(None) if cls is None else a.labels == cls
    return compare_paired(a.correct(condition)[rows], b.correct(condition)[rows], confidence)


def different_attacks(a: Evidence, b: Evidence) -> dict[str, str]:
    """Conditions that have one name in both and not one meaning: where their settings differ."""
    both = {
        name: describe_difference(a.attacks[name], b.attacks[name]) for name in a.conditions if name in b.conditions
    }
    return {name: apart for name, apart in both.items() if apart}


@dataclass(frozen=True)
class ClassChange:
    """A class under B against A; `p` is the McNemar p-value, adjusted by Holm for the number of classes."""

    name: str
    paired: PairedComparison
    p: float

    @property
    def significant(self) -> bool:
        """Whether chance does not explain the change."""
        return self.p < 1 - CONFIDENCE


def list_changes(a: Evidence, b: Evidence, condition: str) -> tuple[ClassChange, ...]:
    """Every class that has images, in the order of the classes."""
    assert same_images(a, b)
    found = compare_class_wise(a.correct(condition), b.correct(condition), a.labels, k=a.k)
    rows = zip(a.names, found.classes, found.adjusted.tolist(), strict=True)
    return tuple(ClassChange(name, pair, p) for name, pair, p in rows if pair is not None)
