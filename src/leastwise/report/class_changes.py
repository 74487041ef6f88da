"""One model against another, class by class, on the same images."""

from dataclasses import dataclass

from leastwise.audit.evidence import Evidence
from leastwise.report.terminal.table import same_images
from leastwise.statistics.intervals import CONFIDENCE
from leastwise.statistics.paired import PairedComparison, compare_class_wise


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
    found = compare_class_wise(a.correct(condition), b.correct(condition), a.labels, a.k)
    rows = zip(a.names, found.classes, found.adjusted.tolist(), strict=True)
    return tuple(ClassChange(name, pair, p) for name, pair, p in rows if pair is not None)
