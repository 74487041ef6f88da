"""What a study found: a row per training and condition, a ranking by the worst class, a CSV file and a page."""

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from leastwise.audit.evidence import Evidence
from leastwise.core.text import csv_text, percent
from leastwise.jobs.study import StudyCell, StudyPlan
from leastwise.report.html import render_page


class StudyRow(NamedTuple):
    """What one audit found under one condition."""

    cell: StudyCell
    condition: str
    images: int
    overall: float
    worst: float
    worst_class: str
    gap: float
    folder: str


def make_rows(cell: StudyCell, evidence: Evidence, folder: str) -> list[StudyRow]:
    """The rows of one audit; `folder` is where its own results lie, seen from the page."""
    frame, found = evidence.frame(), []
    for number, condition in enumerate(frame.conditions):
        worst = int(frame.worst[number])
        found.append(
            StudyRow(
                cell,
                condition,
                int(frame.n[number].sum()),
                float(frame.overall[number]),
                float(frame.accuracy[number][worst]),
                frame.names[worst],
                float(frame.gap[number]),
                folder,
            )
        )
    return found


def study_csv(rows: Sequence[StudyRow]) -> str:
    """One line per training and condition; fractions with six digits."""
    lines = [[*row.cell, *row[1:]] for row in rows]
    written = [[f"{value:.6f}" if isinstance(value, float) else str(value) for value in line] for line in lines]
    return csv_text([[*StudyCell._fields, *StudyRow._fields[1:]], *written])


class RankedMethod(NamedTuple):
    """A method of training one model at one radius, over its seeds."""

    model: str
    method: str
    eps: str
    rows: tuple[StudyRow, ...]

    def mean(self, what: str) -> float:
        """The mean over the seeds of a number of the rows: worst, overall or gap."""
        return statistics.fmean(getattr(row, what) for row in self.rows)

    def spread(self, what: str) -> float:
        """The standard deviation over the seeds; NaN of a single one."""
        return statistics.stdev(getattr(row, what) for row in self.rows) if len(self.rows) > 1 else math.nan


def rank_methods(rows: Sequence[StudyRow], condition: str) -> list[RankedMethod]:
    """The methods under one condition, the highest worst class first."""
    cells = {row.cell[:3]: None for row in rows}
    ranked = [RankedMethod(*c, tuple(r for r in rows if r.cell[:3] == c and r.condition == condition)) for c in cells]
    return sorted((one for one in ranked if one.rows), key=lambda one: -one.mean("worst"))


def hardest_condition(rows: Sequence[StudyRow]) -> str:
    """The condition with the lowest accuracy over all trainings."""
    conditions = {row.condition: None for row in rows}
    return min(conditions, key=lambda c: statistics.fmean(row.overall for row in rows if row.condition == c))


def make_study_page(study: StudyPlan, rows: Sequence[StudyRow]) -> str:
    """One table per radius, best worst class first, with links to the audits."""
    condition = hardest_condition(rows)
    ranked = rank_methods(rows, condition)
    tables = [(eps, [table_line(one, rows) for one in ranked if one.eps == eps]) for eps in study.eps]
    words = {
        "title": study.title,
        "data": study.data,
        "condition": condition,
        "seeds": len(study.seeds),
        "tables": tables,
    }
    return render_page("study.html.j2", words)


def table_line(one: RankedMethod, rows: Sequence[StudyRow]) -> dict[str, Any]:
    """What the table says of a method: names, numbers in percent, and its audits by seed."""
    clean = [r.overall for r in rows if r.cell[:3] == one[:3] and r.condition == "clean"]
    return {
        "names": [one.model, one.method, ", ".join(sorted({row.worst_class for row in one.rows}))],
        "numbers": [
            *(mean_and_spread(one, what) for what in ("worst", "overall", "gap")),
            percent(statistics.fmean(clean)) if clean else "–",
        ],
        "audits": [(row.folder, row.cell.seed) for row in one.rows],
    }


def mean_and_spread(one: RankedMethod, what: str) -> str:
    """`41.2 ± 0.8`, in percent; a single seed has no spread."""
    spread = one.spread(what)
    return percent(one.mean(what)) + ("" if math.isnan(spread) else f" ± {percent(spread)}")
