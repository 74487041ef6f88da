"""Results of recipes -> one HTML page per paper with every exhibit drawn, and its numbers as CSV and LaTeX."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leastwise.core.files import write_atomic
from leastwise.core.text import csv_text
from leastwise.papers.cost import find_released
from leastwise.papers.drawing import claims
from leastwise.papers.drawing.claims import SMOKE, ClaimRow, summarise_claims
from leastwise.papers.drawing.inputs import (
    DrawingInput,
    Drawings,
    ExhibitDrawing,
    Note,
    NotShown,
    describe_completeness,
    list_marks,
    list_missing,
)
from leastwise.papers.drawing.tables import ComparisonTable, make_table, table_csv, table_latex, table_rows
from leastwise.papers.exhibit import Exhibit, Paper, list_assumptions
from leastwise.papers.judge import VerdictRule, judge_claims
from leastwise.papers.printed import exhibit_errata, paper_errata
from leastwise.papers.recipes import Absent, Measured, Recipe, trainings
from leastwise.papers.registry import EXHIBITS, load_drawings, load_rules
from leastwise.papers.results import ExhibitResults, Results
from leastwise.papers.scales import SCALES, describe_measurements, describe_recipe
from leastwise.report.html import number_figures, render_page

PAGE = "index.html"
FITTING = 6  # columns of a table that have room for number, interval and printed number side by side
# What a reader must know before any number.
CAVEATS = {
    "smoke": "Scale smoke: shows only that everything runs. A few images inside the package and networks trained for "
    "seconds; no number on this page means anything.",
    "lite": "Scale lite: real data, but a small network and a short training on two cores. Nothing on this page is a "
    "reproduction of the paper; printed numbers stand beside ours for orientation.",
    "full": "Scale full: the paper’s own setting, with what it leaves open filled in as the footnotes say.",
}


@dataclass(frozen=True, eq=False)
class ExhibitSection:
    """What the page shows of one exhibit."""

    exhibit: Exhibit
    drawing: ExhibitDrawing
    table: ComparisonTable | None
    completeness: str  # what of it is there, unless it is all
    claims: tuple[str, ...]  # that it speaks to, by id

    @property
    def name(self) -> str:
        return self.exhibit.id.partition("/")[2]


def write_page(
    paper: Paper,
    exhibits: tuple[Exhibit, ...],
    scale: str,
    *,
    results: Results,
    failed: Mapping[Recipe, str],
    folder: Path,
) -> tuple[Path, ...]:
    """index.html, NAME.csv and NAME.tex of each table, NAME.figures.csv of each exhibit with figures, the claims."""
    inputs = {one.id: DrawingInput(paper, ExhibitResults(one, scale, results, EXHIBITS), failed) for one in exhibits}
    rules: list[VerdictRule] = [rule for rule in load_rules(paper) if rule.exhibit in inputs]
    sections = [make_section(one, rules) for one in inputs.values()]
    verdicts = judge_claims(rules, results, scale, exhibits=EXHIBITS)
    rows = claims.list_claim_rows(verdicts, scale, inputs)
    files = {PAGE: render_paper(paper, sections, scale, rows=rows)}
    for one in sections:
        if one.table is not None:
            files |= {f"{one.name}.csv": table_csv(one.table), f"{one.name}.tex": table_latex(one.table)}
        if figures := figure_csv(one.drawing, scale):
            files[f"{one.name}.figures.csv"] = figures
    if rows:
        files |= {"claims.csv": claims.claims_csv(rows), "claims.tex": claims.claims_latex(rows)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_atomic(folder / name, text.encode())
    return tuple(folder / name for name in files)


def make_section(inputs: DrawingInput, rules: Sequence[VerdictRule]) -> ExhibitSection:
    """An exhibit drawn, with its table and the claims that its rules speak to."""
    exhibit, scale = inputs.view.exhibit, inputs.view.scale
    more: tuple[Note, ...] = (*list_missing(inputs), *(f"{note}." for note in inputs.view.notes))
    made = draw_exhibit(inputs) + ExhibitDrawing(notes=more)
    table = make_table(exhibit.id, scale, made.ours, units=made.units, lead=made.lead)
    cited = {rule.claim for rule in rules if rule.exhibit == exhibit.id}
    ids = tuple(claim.id for claim in sorted(cited, key=lambda claim: claim.number))
    return ExhibitSection(exhibit, made, table, describe_completeness(inputs), ids)


def draw_exhibit(inputs: DrawingInput) -> ExhibitDrawing:
    """An exhibit by the function that its id names."""
    drawings: Drawings = load_drawings(inputs.paper)
    return drawings[inputs.view.exhibit.id](inputs)


def write_notes(notes: Sequence[Note]) -> tuple[str, ...]:
    """The notes as sentences: what is not shown for one reason in one of them, at the place of the first."""
    lacking: dict[str, dict[str, str]] = {}
    for note in notes:
        if isinstance(note, NotShown):
            for what in note.what:  # a row and the figure of its name are one
                lacking.setdefault(note.why, {}).setdefault(what.casefold(), what)
    sentences = {why: f"Not shown: {'; '.join(what.values())} ({why})." for why, what in lacking.items()}
    return tuple(dict.fromkeys(sentences[note.why] if isinstance(note, NotShown) else note for note in notes))


def figure_csv(made: ExhibitDrawing, scale: str) -> str:
    """A line for each mark of each figure; empty without figures."""
    rows = [
        {"figure": figure.title, "scale": scale} | row
        for figure in (*made.panels, *made.wide)
        for row in list_marks(figure)
    ]
    if not rows:
        return ""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [["" if row.get(name) is None else str(row[name]) for name in columns] for row in rows]
    return csv_text([columns, *cells])


def render_paper(paper: Paper, sections: Sequence[ExhibitSection], scale: str, *, rows: tuple[ClaimRow, ...]) -> str:
    """The page as HTML."""
    specs: list[Any] = []
    exports: list[dict[str, str]] = []
    shown = [section_context(one, scale, specs, exports=exports) for one in sections]
    if rows:
        exports.append({"csv": claims.claims_csv(rows), "latex": claims.claims_latex(rows)})
    words = {
        "title": paper.title,
        "paper": paper,
        "scale": scale,
        "caveat": CAVEATS[scale],
        "about": SCALES[scale].about,
        "recipe": describe_page_recipe(sections, scale),
        "complete": f"{sum(not one.completeness for one in sections)} of {len(sections)}",
        "numbering": "named" if paper.id == "ahn" else f"numbered from {paper.first_class}",
        "exhibits": shown,
        "elsewhere": paper_errata(paper.id),
        "claims": rows,
        "measured": [row for row in rows if row.finding is not None],
        "unmeasured": [row for row in rows if row.finding is None],
        "summary": () if scale == "smoke" else summarise_claims(rows),
        "claims_export": len(exports) - 1,
        "smoke": SMOKE if scale == "smoke" else "",
    }
    return render_page("paper.html.j2", words, specs=specs, exports=exports, package="leastwise.papers")


def describe_page_recipe(sections: Sequence[ExhibitSection], scale: str) -> tuple[str, ...]:
    """How the networks of all exhibits were trained, and which attacks saw fewer images."""
    recipes = tuple(dict.fromkeys(one for section in sections for one in recipes_at(section.exhibit, scale)))
    said = describe_recipe(trainings(recipes))
    fewer = describe_measurements(one for one in recipes if isinstance(one, Measured))
    return (*said, f"in test: {fewer}") if fewer else said


def recipes_at(exhibit: Exhibit, scale: str) -> tuple[Recipe, ...]:
    """What an exhibit can have at a scale."""
    return tuple(one for parts in exhibit(scale).values() for one in parts if not isinstance(one, Absent))


def section_context(
    section: ExhibitSection, scale: str, specs: list[Any], *, exports: list[dict[str, str]]
) -> dict[str, Any]:
    """What the template needs of an exhibit; its figures go to `specs`, its table as text to `exports`."""
    one, made, table = section.exhibit, section.drawing, section.table
    if table is not None:
        exports.append({"csv": table_csv(table), "latex": table_latex(table)})
    return {
        "id": section.name,
        "label": exhibit_heading(section.name),
        "title": one.title,
        "shows": one.shows,
        "basis": describe_basis(one, scale),
        "panels": number_figures(made.panels, specs),
        "wide": number_figures(made.wide, specs),
        "images": made.images,
        "notes": write_notes(made.notes),
        "table": None if table is None else table_context(table),
        "pairs": made.pairs,
        "export": len(exports) - 1,
        "assumed": list_assumptions(one.assumed, scale),
        "errata": exhibit_errata(one.id),
        "claims": section.claims,
        "there": section.completeness,
        "stands_in": bool(one.classes) and scale == "smoke",
    }


def table_context(table: ComparisonTable) -> dict[str, Any]:
    """What the template needs of a table; many columns are set closer, so that they fit a screen of 1280 pixels."""
    return {"columns": column_headings(table), "rows": table_rows(table), "dense": len(table.columns) > FITTING}


def column_headings(table: ComparisonTable) -> list[dict[str, str]]:
    """The columns of a table with their units."""
    return [{"name": column, "unit": table.unit(column)} for column in table.columns]


def exhibit_heading(name: str) -> str:
    """Table 3 of table3, Fig. 2abcd of fig2abcd."""
    found = re.fullmatch(r"(table|fig)(\d+)([a-z]*)", name)
    if found is None:
        return name.capitalize()
    return f"{'Table' if found[1] == 'table' else 'Fig.'} {found[2]}{found[3]}"


def describe_basis(one: Exhibit, scale: str) -> str:
    """The networks behind an exhibit at this scale."""
    given_away = len(find_released(recipes_at(one, scale)))
    said = [f"{given_away} released network{'s' if given_away > 1 else ''}"] if given_away else []
    if trained := one.trainings(scale):
        archs, data, epochs = (
            ", ".join(dict.fromkeys(values))
            for values in ([t.arch for t in trained], [t.data.name for t in trained], [str(t.epochs) for t in trained])
        )
        count = f"{len(trained)} training{'s' if len(trained) > 1 else ''}"
        said.insert(0, f"{count} of {archs} on {data}; {epochs} epochs")
    nothing = "nothing can be had at this scale" if one.needs else "computed from the paper alone"
    said += [] if scale == "smoke" else describe_reductions(one, scale)
    return "; ".join(said) or nothing


def describe_reductions(one: Exhibit, scale: str) -> list[str]:
    """What a scale trains or measures on fewer images than the paper, or with a shorter attack."""
    fewest = {(t.data.name, t.data.per_class) for t in one.trainings(scale) if t.data.per_class is not None}
    found = dict.fromkeys(f"trained on {n} images of each class of {name}" for name, n in sorted(fewest))
    for role, parts in one(scale).items():
        need = one.needs[role]
        for part in parts:
            if not (isinstance(part, Measured) and isinstance(need, Measured)):
                continue
            fewer = part.data.per_class if part.data.per_class != need.data.per_class else None
            images = f" on {fewer} image{'s' if fewer > 1 else ''} of each class" if fewer else ""
            when = "every epoch" if part.each_epoch else ""
            short = [f"{name} (shortened)" for name in part.conditions if name not in need.conditions]
            for what in short or ([when or ", ".join(part.conditions)] if fewer else []):
                found[f"{what}{images}"] = None
    return list(found)
