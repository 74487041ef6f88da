"""The record of a condition: one row per example, and sums by class. Records of different examples become one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Float, Int

ExampleInts = Int[np.ndarray, " n"]
ExampleFloats = Float[np.ndarray, " n"]
ClassMatrix = Float[np.ndarray, "k k"]
ReachedCounts = Int[np.ndarray, "pairs pairs"]  # k × k, or 0 × 0 where nobody asked
ClassSums = Float[np.ndarray, "summed summed"]  # k × k, or 0 × 0 where there are too many classes

MOST_SUMMED = 1000  # classes up to which sums by class are kept: at 10,000 they would be 1.6 GB for each condition


@dataclass(frozen=True, eq=False)
class Record:
    """What one condition did to each example, and class sums for the geometry of the outputs."""

    predicted: ExampleInts
    runner_up: ExampleInts
    margin: ExampleFloats  # true logit minus the largest other
    p_true: ExampleFloats
    p_predicted: ExampleFloats
    p_runner_up: ExampleFloats
    p_squared: ExampleFloats  # sum over classes of squared probabilities: gives the variance of confidence
    entropy: ExampleFloats
    by: ExampleInts  # member of a combined attack that ended with this point
    step: ExampleInts  # steps (gradients, or queries) after which it was first misclassified, or NEVER
    trouble: ExampleInts  # of survivors: FLAT where the input gradient was zero, so that the attack could not move
    each: ExampleInts  # bit m is set if member m of a combined attack fooled it
    rounded: ExampleInts  # predicted at the point as an image of 8 bits; NEVER where nobody asked
    linf: ExampleFloats  # size of the perturbation, both ways
    l2: ExampleFloats
    logit_sum: ClassSums  # row: true class; sum of logits
    probability_sum: ClassSums
    reached: ReachedCounts  # images of the row's class that were turned into the column's, by an attack that tries all
    forwards: int  # passes of single examples
    backwards: int


SUMS = ("logit_sum", "probability_sum", "reached", "forwards", "backwards")  # what adds; the rest follows each other


class RecordColumns:
    """Records of `n` different examples under one condition, which become one: columns follow each other, sums add.

    Each record is copied into place as it comes and let go. Keeping the small arrays of every batch instead would
    leave them between the large blocks of freed pixels, which then could not be used again: memory would grow.
    """

    def __init__(self, n: int) -> None:
        self.n, self.done = n, 0
        self.columns: dict[str, Any] = {}
        self.sums: dict[str, Any] = dict.fromkeys(SUMS, 0)

    def add(self, record: Record) -> None:
        """The next examples."""
        self.put(record, self.done)
        self.add_sums({name: getattr(record, name) for name in SUMS})
        self.done += len(record.predicted)

    def put(self, record: Record, at: int) -> None:
        """The columns of some examples at their place."""
        for f in fields(Record):
            if f.name not in SUMS:
                value = getattr(record, f.name)
                column = self.columns.setdefault(f.name, np.empty(self.n, value.dtype))
                column[at : at + len(value)] = value

    def add_sums(self, sums: Mapping[str, Any]) -> None:
        """Sums of floats depend on their order in the last bits: whoever calls this keeps to one order."""
        self.sums = {name: self.sums[name] + sums[name] for name in SUMS}

    def whole(self, order: ExampleInts | None = None) -> Record:
        """One record of everything that was added, or of some rows of it in a given order."""
        columns = self.columns if order is None else {name: column[order] for name, column in self.columns.items()}
        return Record(**columns, **self.sums)


def join_records(records: Iterable[Record], n: int, order: ExampleInts | None = None) -> Record:
    """Records of `n` different examples under one condition, as one."""
    columns = RecordColumns(n)
    for one in records:
        columns.add(one)
    assert columns.done == n, f"{n} examples were announced, but {columns.done} came"
    return columns.whole(order)
