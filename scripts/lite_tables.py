"""Fills the tables of docs/results/lite.md and learned.md from the CSV files under results/lite/pages.

    python -m scripts.lite_tables

A comment such as `<!-- tian2021/table5; rows CIFAR-10, CIFAR-100; columns * CV* -->` stands before each table and says
what is in it; `<!-- claims -->` stands before the table of verdicts, and `<!-- findings C7, C8 -->` before one of every
number that decides some claims. Patterns are separated by commas, and *
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
LEARNED = PAGE.with_name("learned.md")
PAGES = HERE / "results" / "lite" / "pages"
BLOCK = re.compile(r"(<!-- (?P<what>[^>]+?) -->\n)(?:\|.*\n)*")
Line = dict[str, str]


def fill_tables(text: str) -> str:
    """The page with every table as the results have it."""
    return BLOCK.sub(lambda block: block[1] + "".join(f"{row}\n" for row in make_rows(block["what"])), text)


def make_rows(what: str) -> list[str]:
    if what == "claims":
        return claim_rows()
    if what.startswith("findings "):
        return finding_rows(patterns(what.removeprefix("findings ")))
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
    """Every claim with how many of the cases that were measured decide it, part by part, over all papers."""
    said = summarise_verdicts()
    return markdown(
        ["", "claim", "at this scale"], [[name, claim.statement, said[name]] for name, claim in CLAIMS.items()]
    )


def summarise_verdicts() -> dict[str, str]:
    """What the pages say of each claim: of its parts one by one, and what was not measured."""
    found: dict[str, dict[str, dict[tuple[str, str, str], str]]] = {
        name: {part: {} for part in claim.parts} for name, claim in CLAIMS.items()
    }
    for paper in PAPERS:
        for line in read_lines(PAGES / paper / "claims.csv"):
            case = (paper, line["exhibit"], line["measured on"])
            if line["verdict"] != NOT_MEASURED:
                found[line["claim"]][line["part"]][case] = line["verdict"]
    return {name: "; ".join(say_part(part, cases) for part, cases in parts.items()) for name, parts in found.items()}


def say_part(part: str, cases: dict[tuple[str, str, str], str]) -> str:
    said = count_verdicts(tuple(cases.values())) if cases else NOT_MEASURED
    return f"{part}: {said}" if part else said


def finding_rows(claims: tuple[str, ...]) -> list[str]:
    """Every number that speaks to some claims, with its interval and its verdict."""
    rows = [
        [
            f"{line['claim']} {line['part']}".strip(),
            *(line[name] for name in ("exhibit", "measured on", "what")),
            format_finding(line),
            line["verdict"],
        ]
        for paper in PAPERS
        for line in read_lines(PAGES / paper / "claims.csv")
        if matches_any(line["claim"], claims) and line["verdict"] != NOT_MEASURED
    ]
    return markdown(["claim", "exhibit", "measured on", "number", "value", "verdict of the case"], rows)


def format_finding(line: Line) -> str:
    """A value with its interval and unit."""
    value, low, high = (line[name] and format_cell(float(line[name]), 2) for name in ("value", "low", "high"))
    return f"{value}{f' [{low}, {high}]' if low else ''} {line['unit']}".strip()


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
    for page in (PAGE, LEARNED):
        page.write_text(fill_tables(page.read_text()))
