"""What the papers print, as data: shown beside our numbers and used to check the metric code, never to train.

`PAPER/printed.csv` has one number per line: paper, exhibit, row, column, relation, value, unit.

    relation   =, or > and < where the text gives a bound, or `about`
    value      as printed, with its decimals: 50.8 was rounded more than 50.80
    unit       %, points, %² (percent squared), images, class (from 0), class from 1, or empty

`outside.csv` has what others report of the same networks. `errata.csv` has what is wrong, missing or ambiguous in the
papers, the exhibits it touches, and what is done about it here, at scale lite too where that is something else.
"""

import csv
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent

ACROSS = "across"  # the paper of contradictions between papers
ROUGHLY = 0.1  # what `about` leaves open, as a share of the value


class PrintedCell(NamedTuple):
    """One number that a paper prints."""

    paper: str
    exhibit: str
    row: str
    column: str
    relation: str
    printed: str
    unit: str

    @property
    def value(self) -> float:
        return float(self.printed)

    @property
    def last_place(self) -> float:
        """One unit of the last printed decimal."""
        return float(10.0 ** -len(self.printed.partition(".")[2]))

    def agrees(self, low: float, high: float) -> bool:
        """Whether the printed number is compatible with our interval, in the same unit.

        A printed number stands for one unit of its last place either way: Tian's totals are cut off, not rounded.
        """
        if self.relation == ">":
            return high > self.value
        if self.relation == "<":
            return low < self.value
        slack = max(self.last_place, ROUGHLY * abs(self.value)) if self.relation == "about" else self.last_place
        return self.value - slack <= high and low <= self.value + slack


class Erratum(NamedTuple):
    """Something that is wrong, missing or ambiguous in a paper, and what is done about it."""

    id: str
    paper: str
    exhibits: tuple[str, ...]  # of that paper, such as `table3`, or of any, such as `ahn/table1`; may be none
    severity: str
    what: str
    resolution: str
    lite: str = ""  # what is done at scale lite, where that is something else

    def resolve(self, scale: str) -> str:
        """What is done about it at a scale."""
        return self.lite if scale == "lite" and self.lite else self.resolution


@cache
def read_printed(paper: str) -> tuple[PrintedCell, ...]:
    """Every number of a paper, in the order of the file; of `outside` too."""
    path = FOLDER / "outside.csv" if paper == "outside" else FOLDER / paper / "printed.csv"
    if not path.is_file():
        known = sorted(file.parent.name for file in FOLDER.glob("*/printed.csv"))
        raise ValueError(f"there is no paper {paper!r}: choose {', '.join(known)}")
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(
            PrintedCell(r["paper"], r["exhibit"], r["row"], r["column"], r["relation"], r["value"], r["unit"])
            for r in csv.DictReader(file)
        )


def printed_table(exhibit: str) -> dict[str, dict[str, PrintedCell]]:
    """The numbers of an exhibit such as `tian2021/table3`: rows of columns, in the paper's order; empty for a figure
    without numbers."""
    paper, _, name = exhibit.partition("/")
    rows: dict[str, dict[str, PrintedCell]] = {}
    for cell in read_printed(paper):
        if cell.exhibit == name:
            rows.setdefault(cell.row, {})[cell.column] = cell
    return rows


class PrintedComparison(NamedTuple):
    """A printed number beside ours, which is (value, low, high) in its unit."""

    cell: PrintedCell
    ours: tuple[float, float, float] | None
    agrees: bool | None  # None where we have nothing to say


def compare_with_printed(
    exhibit: str, ours: Mapping[tuple[str, str], tuple[float, float, float]]
) -> tuple[PrintedComparison, ...]:
    """Every printed number of an exhibit beside ours, which are given by row and column."""
    found = []
    for row, columns in printed_table(exhibit).items():
        for column, cell in columns.items():
            mine = ours.get((row, column))
            known = mine is not None and not (math.isnan(mine[1]) or math.isnan(mine[2]))
            found.append(PrintedComparison(cell, mine, cell.agrees(*mine[1:]) if mine is not None and known else None))
    return tuple(found)


@cache
def read_errata(paper: str) -> tuple[Erratum, ...]:
    """What is wrong, missing or ambiguous in a paper."""
    with (FOLDER / "errata.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            Erratum(
                *(r["id"], r["paper"], tuple(r["exhibits"].split())),
                *(r["severity"], r["what"], r["resolution"], r["lite"]),
            )
            for r in csv.DictReader(file)
            if r["paper"] == paper
        )


def exhibit_errata(exhibit: str) -> tuple[Erratum, ...]:
    """The errata that touch an exhibit, and where papers contradict each other on it."""
    paper, _, name = exhibit.partition("/")
    own = tuple(one for one in read_errata(paper) if name in one.exhibits)
    return own + tuple(one for one in read_errata(ACROSS) if exhibit in one.exhibits)


def paper_errata(paper: str) -> tuple[Erratum, ...]:
    """The errata of a paper that touch no exhibit."""
    return tuple(one for one in read_errata(paper) if not one.exhibits)
