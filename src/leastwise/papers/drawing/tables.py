"""Tables: what the paper printed beside ours, as HTML cells, CSV and LaTeX."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mode
from types import MappingProxyType
from typing import Any

from leastwise.core.text import csv_text, escape_latex
from leastwise.papers.drawing.inputs import CellValue, OurCells
from leastwise.papers.printed import PrintedCell, printed_table

UNCOMPARED = "nothing here corresponds to it"
UNDEFINED = "not defined for these results"
DIGITS = {"%": 1, "points": 1, "%²": 1, "images": 0, "": 2, "times": 1, "1/255": 0, "nats": 2}
RELATIONS = {"=": "equal", ">": "above", "<": "below", "about": "about"}  # a sign would be a formula to a spreadsheet
SIGNS = {
    "−": "$-$",
    "λ": r"$\lambda$",
    "β": r"$\beta$",
    "α": r"$\alpha$",
    "∞": r"$\infty$",
    "²": r"\textsuperscript{2}",
}
HEADER = ("row", "column", "relation", "printed", "unit", "ours", "low", "high", "agrees", "why not", "scale")


@dataclass(frozen=True)
class TableCell:
    """One number of a table: printed, ours, or both."""

    printed: PrintedCell | None
    ours: CellValue
    unit: str
    decimals: int = 0  # that the paper prints in this column

    @property
    def digits(self) -> int:
        return max(DIGITS.get(self.unit, 0), self.decimals)

    @property
    def agrees(self) -> bool | None:
        if self.printed is None or isinstance(self.ours, str):
            return None
        _, low, high = self.ours
        return None if low != low or high != high else self.printed.agrees(low, high)

    def number(self, value: float) -> str:
        shown = f"{value:.{self.digits}f}"
        return shown.lstrip("-") if not float(shown) else shown.replace("-", "−")

    @property
    def interval(self) -> str:
        """Empty where the number has none: the position of a class, what the paper states itself."""
        if isinstance(self.ours, str) or self.ours[1] != self.ours[1]:
            return ""
        return f"[{self.number(self.ours[1])}, {self.number(self.ours[2])}]"

    @property
    def as_printed(self) -> str:
        if self.printed is None:
            return ""
        return f"{self.printed.relation.replace('=', '')} {self.printed.printed}".strip().replace("-", "−")


@dataclass(frozen=True)
class ComparisonTable:
    """The numbers of one exhibit."""

    id: str  # such as tian2021/table3
    scale: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    entries: Mapping[tuple[str, str], TableCell]

    def unit(self, column: str) -> str:
        """The unit that all numbers of a column share."""
        units = {entry.unit for (_, name), entry in self.entries.items() if name == column}
        return next(iter(units)) if len(units) == 1 else ""

    def why(self, row: str) -> str:
        """The reason that all numbers of a row share, if they do."""
        reasons = {entry.ours for (name, _), entry in self.entries.items() if name == row}
        reason = next(iter(reasons)) if len(reasons) == 1 else None
        return reason if isinstance(reason, str) else ""


def make_table(
    exhibit: str,
    scale: str,
    ours: OurCells,
    *,
    units: Mapping[str, str] = MappingProxyType({}),
    lead: Sequence[str] = (),
) -> ComparisonTable | None:
    """Printed rows and columns first, in the paper's order; None where there is no number at all.

    Columns that `lead`, with what is derived from them, stand before all others.

    A cell has the unit that is printed, in its place or elsewhere in its column; `units` are of the columns that the
    paper does not have.
    """
    printed = printed_table(exhibit)
    places = [(row, column) for row, cells in printed.items() for column in cells]
    places += [place for place in ours if place not in set(places)]
    if not places:
        return None
    known = {column: cell.unit for cells in printed.values() for column, cell in cells.items()}
    decimals = printed_decimals(printed)
    entries = {}
    for row, column in places:
        cell = printed.get(row, {}).get(column)
        unit = cell.unit if cell is not None else {**units, **known}.get(column)
        assert unit is not None, f"the drawing of {exhibit} declares no unit for its column {column!r}"
        value = ours.get((row, column), UNCOMPARED)
        undefined = not isinstance(value, str) and value[0] != value[0]
        entries[row, column] = TableCell(cell, UNDEFINED if undefined else value, unit, decimals.get(column, 0))
    rows, columns = (tuple(dict.fromkeys(place[i] for place in places)) for i in (0, 1))
    return ComparisonTable(exhibit, scale, rows, put_first(order_columns(columns, known), lead), entries)


def printed_decimals(printed: Mapping[str, Mapping[str, PrintedCell]]) -> dict[str, int]:
    """How many the paper prints in most cells of a column: a cell of Ahn's has more, some zeros have fewer."""
    seen: dict[str, list[int]] = {}
    for cells in printed.values():
        for column, cell in cells.items():
            seen.setdefault(column, []).append(len(cell.printed.partition(".")[2]))
    return {column: mode(counts) for column, counts in seen.items()}


def order_columns(columns: Iterable[str], printed: Container[str]) -> tuple[str, ...]:
    """`CV without noise` follows the printed `CV`; other columns of ours come last."""
    order: list[str] = []
    for column in columns:
        own = [p for p in order if p in printed and column not in printed and column.startswith(f"{p} ")]
        order.insert(order.index(own[-1]) + 1 if own else len(order), column)
    return tuple(order)


def put_first(columns: Sequence[str], lead: Sequence[str]) -> tuple[str, ...]:
    """The columns that lead, each with its own such as `CV without noise`, and then the others as they were."""
    of = {name: [column for column in columns if column == name or column.startswith(f"{name} ")] for name in lead}
    first = dict.fromkeys(column for some in of.values() for column in some)
    return tuple(dict.fromkeys((*first, *columns)))


def table_csv(made: ComparisonTable) -> str:
    """A line for each number, with its reason where there is none."""
    lines = [list(HEADER)]
    for (row, column), entry in made.entries.items():
        said = ["", "", ""] if isinstance(entry.ours, str) else [format_number(v) for v in entry.ours]
        agrees = "" if entry.agrees is None or made.scale == "smoke" else "yes" if entry.agrees else "no"
        cell = entry.printed
        lines.append(
            [
                row,
                column,
                RELATIONS[cell.relation] if cell else "",
                cell.printed if cell else "",
                entry.unit,
                *said,
                agrees,
                entry.ours if isinstance(entry.ours, str) else "",
                made.scale,
            ]
        )
    return csv_text(lines)


def format_number(value: float) -> str:
    """Six digits, and nothing for a number that is not one."""
    return "" if value != value else f"{value:.6g}"


def table_latex(made: ComparisonTable) -> str:
    """For the booktabs package, in the shape of the paper's table."""
    lines = []
    for row in made.rows:
        cells = [cell_latex(made.entries.get((row, column))) for column in made.columns]
        lines.append(f"{escape_symbols(row)} & {' & '.join(cells)} \\\\\n")
    units = [made.unit(column) for column in made.columns]
    named = [f"{column} ({unit})" if unit else column for column, unit in zip(made.columns, units, strict=True)]
    head = " & ".join(["", *map(escape_symbols, named)])
    return (
        f"% needs \\usepackage{{booktabs}}; {made.id}, scale {made.scale}: ours [95 % interval] (printed)\n"
        f"\\begin{{tabular}}{{l{'r' * len(made.columns)}}}\n\\toprule\n"
        f"{head} \\\\\n\\midrule\n{''.join(lines)}\\bottomrule\n\\end{{tabular}}\n"
    )


def escape_symbols(text: str) -> str:
    """Letters that LaTeX has only as mathematics."""
    return "".join(SIGNS.get(letter, letter) for letter in escape_latex(text))


def cell_latex(entry: TableCell | None) -> str:
    """Ours with its interval, and the printed number in parentheses."""
    if entry is None:
        return ""
    printed = f" ({escape_symbols(entry.as_printed)})" if entry.printed else ""
    if isinstance(entry.ours, str):
        return f"--{printed}"
    interval = f" {entry.interval}" if entry.interval else ""
    return f"{escape_symbols(entry.number(entry.ours[0]) + interval)}{printed}"


def table_rows(made: ComparisonTable) -> list[dict[str, Any]]:
    """What the template shows."""
    rows = []
    for row in made.rows:
        why = made.why(row)
        cells = [describe_cell(made.entries.get((row, column)), why, made.scale) for column in made.columns]
        rows.append({"name": row, "why": why, "cells": cells})
    return rows


def describe_cell(entry: TableCell | None, said: str, scale: str) -> dict[str, str]:
    """`said` is a reason that the row gives already."""
    if entry is None:
        return dict.fromkeys(("ours", "interval", "printed", "agrees", "why"), "")
    missing = isinstance(entry.ours, str)
    agrees = {True: "within", False: "outside", None: ""}[entry.agrees]
    return {
        "ours": "" if isinstance(entry.ours, str) else entry.number(entry.ours[0]),
        "interval": entry.interval,
        "printed": entry.as_printed,
        "agrees": "" if scale == "smoke" else agrees,
        "why": (str(entry.ours) if entry.ours != said else "–") if missing else "",
    }
