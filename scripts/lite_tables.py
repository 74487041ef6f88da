"""Fills the tables of docs/results/lite.md from the CSV files under results/lite/pages.

    python -m scripts.lite_tables

A comment such as `<!-- tian2021/table5; rows CIFAR-10, CIFAR-100; columns * CV* -->` stands before each table and says
what is in it; `<!-- claims -->` stands before the table of verdicts. Patterns are separated by commas, and *
stands for anything. A test holds the page to what this writes.
"""

import csv
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from leastwise.papers.claims.table import CLAIMS
from leastwise.papers.drawing.claims import NOT_MEASURED, count_verdicts
from leastwise.papers.registry import PAPERS
from leastwise.report.charts.heatmap import format_cell

HERE = Path(__file__).parents[1]
PAGE = HERE / "docs" / "results" / "lite.md"
PAGES = HERE / "results" / "lite" / "pages"
BLOCK = re.compile(r"(<!-- (?P<what>[^>]+?) -->\n)(?:\|.*\n)*")
Line = dict[str, str]


def fill_tables(text: str) -> str:
    """The page with every table as the results have it."""
    return BLOCK.sub(lambda block: block[1] + "".join(f"{row}\n" for row in make_rows(block["what"])), text)


def make_rows(what: str) -> list[str]:
    if what == "claims":
        return claim_rows()
    exhibit, *choices = (part.strip() for part in what.split(";"))
    wanted = {kind: rest for kind, _, rest in (choice.partition(" ") for choice in choices)}
    rows, columns = (patterns(wanted.get(kind, "*")) for kind in ("rows", "columns"))
    lines = [
        line
        for line in read_lines(PAGES / f"{exhibit}.csv")
        if line["ours"] and matches_any(line["row"], rows) and matches_any(line["column"], columns)
    ]
    if not lines:
        raise ValueError(f"nothing in {exhibit} is called so: {what}")
    cells = {(line["row"], line["column"]): format_line(line) for line in lines}
    units = {line["column"]: line["unit"] for line in lines}
    head = ["", *(f"{name}, {unit}" for name, unit in units.items())]
    body = [
        [row, *(cells.get((row, column), "") for column in units)] for row in dict.fromkeys(row for row, _ in cells)
    ]
    return markdown(head, body)


def format_line(line: Line) -> str:
    """Ours with its interval, and what the paper prints in italics."""
    ours, low, high = (line[name] and format_cell(float(line[name]), 1) for name in ("ours", "low", "high"))
    printed = f" *{line['printed'].replace('-', '−')}*" if line["printed"] else ""
    return f"{ours}{f' [{low}, {high}]' if low else ''}{printed}"


def claim_rows() -> list[str]:
    """Every claim with how many of the cases that were measured decide it, over all papers."""
    found: dict[str, dict[tuple[str, str], str]] = {}
    for paper in PAPERS:
        for line in read_lines(PAGES / paper / "claims.csv"):
            found.setdefault(line["claim"], {})[line["exhibit"], line["measured on"]] = line["verdict"]
    measured = {claim: [v for v in cases.values() if v != NOT_MEASURED] for claim, cases in found.items()}
    said = {claim: count_verdicts(cases) if cases else NOT_MEASURED for claim, cases in measured.items()}
    return markdown(
        ["", "claim", "at this scale"],
        [[name, claim.statement, said.get(name, NOT_MEASURED)] for name, claim in CLAIMS.items()],
    )


def markdown(head: list[str], body: Iterable[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body)]


def patterns(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(", "))


def matches_any(name: str, among: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, one) for one in among)


def read_lines(file: Path) -> list[Line]:
    with file.open(newline="") as content:
        return list(csv.DictReader(content))


if __name__ == "__main__":
    PAGE.write_text(fill_tables(PAGE.read_text()))
