"""Results of recipes -> one HTML page per paper with every exhibit drawn, and its numbers as CSV and LaTeX."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leastwise.core.files import write_atomic
from leastwise.papers.ahn import drawings as ahn
from leastwise.papers.benz2021 import drawings as benz2021
from leastwise.papers.cost import released
from leastwise.papers.drawing import claims
from leastwise.papers.drawing.claims import SMOKE, ClaimRow, summarise_claims
from leastwise.papers.drawing.exhibit_drawing import ExhibitDrawing, list_marks
from leastwise.papers.drawing.inputs import DrawingInput
from leastwise.papers.drawing.tables import ComparisonTable, make_table, table_csv, table_latex, table_rows
from leastwise.papers.exhibit import Exhibit, Paper
from leastwise.papers.judge import judge_claims
from leastwise.papers.printed import exhibit_errata, paper_errata
from leastwise.papers.recipes import Absent, Measured, Recipe
from leastwise.papers.registry import PAPERS
from leastwise.papers.results import ExhibitResults, Results
from leastwise.papers.scales import SCALES
from leastwise.papers.tian2021 import drawings as tian2021
from leastwise.papers.tradeoff2022 import drawings as tradeoff2022
from leastwise.report.export import csv_text
from leastwise.report.html import number_figures, render_page

PAGE = "index.html"
NOT_SHOWN = re.compile(r"Not shown: (?P<what>.+?) \((?P<why>.+)\)\.")
DRAWINGS: dict[str, Callable[[DrawingInput], ExhibitDrawing]] = {
    **benz2021.DRAWINGS,
    **tian2021.DRAWINGS,
    **ahn.DRAWINGS,
    **tradeoff2022.DRAWINGS,
}
EXHIBITS = {one.id: one for paper in PAPERS.values() for one in paper.exhibits}
# What a reader must know before any number.
CAVEATS = {
    "smoke": "Scale smoke: shows only that everything runs. A few images inside the package and networks trained for "
    "seconds; no number on this page means anything.",
    "lite": "Scale lite: real data, but a small network and a short training on two cores. Nothing on this page is a "
    "reproduction of the paper; printed numbers stand beside ours for orientation.",
    "full": "Scale full: the paper’s own setting, with what it leaves open filled in as the footnotes say.",
}


def write_page(
    paper: Paper,
    exhibits: tuple[Exhibit, ...],
    scale: str,
    results: Results,
    failed: Mapping[Recipe, str],
    folder: Path,
) -> tuple[Path, ...]:
    """index.html, NAME.csv and NAME.tex of each table, NAME.figures.csv of each exhibit with figures, the claims."""
    inputs = {one.id: DrawingInput(paper, ExhibitResults(one, scale, results, EXHIBITS), failed) for one in exhibits}
    made = {one.id: draw_exhibit(inputs[one.id]) for one in exhibits}
    tables = {one.id: make_table(one.id, scale, made[one.id].ours) for one in exhibits}
    found = claims.list_claim_rows(judge_claims(paper.id, results, scale), exhibits, scale, inputs)
    there = {one.id: describe_completeness(inputs[one.id].view) for one in exhibits}
    files = {PAGE: render_paper(paper, exhibits, scale, made, tables, found, there)}
    for one in exhibits:
        name = one.id.partition("/")[2]
        table = tables[one.id]
        if table is not None:
            files |= {f"{name}.csv": table_csv(table), f"{name}.tex": table_latex(table)}
        if figures := figure_csv(made[one.id], scale):
            files[f"{name}.figures.csv"] = figures
    if found:
        files |= {"claims.csv": claims.claims_csv(found), "claims.tex": claims.claims_latex(found)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_atomic(folder / name, text.encode())
    return tuple(folder / name for name in files)


def draw_exhibit(inputs: DrawingInput) -> ExhibitDrawing:
    """An exhibit by the function that its id names."""
    made = DRAWINGS[inputs.view.exhibit.id](inputs)
    return replace(made, notes=merge_notes(made.notes))


def merge_notes(notes: Sequence[str]) -> tuple[str, ...]:
    """What is not shown for one reason in one sentence, at the place of the first of them."""
    lacking: dict[str, dict[str, None]] = {}
    order: dict[str, None] = {}
    for note in notes:
        if found := NOT_SHOWN.fullmatch(note):
            lacking.setdefault(found["why"], {})[found["what"]] = None
            order[found["why"]] = None
        else:
            order[note] = None
    return tuple(f"Not shown: {'; '.join(lacking[one])} ({one})." if one in lacking else one for one in order)


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


def render_paper(
    paper: Paper,
    exhibits: tuple[Exhibit, ...],
    scale: str,
    made: Mapping[str, ExhibitDrawing],
    tables: Mapping[str, ComparisonTable | None],
    found: tuple[ClaimRow, ...],
    there: Mapping[str, str],
) -> str:
    specs: list[Any] = []
    exports: list[dict[str, str]] = []
    shown = [
        exhibit_context(one, scale, made[one.id], tables[one.id], specs, exports) | {"there": there[one.id]}
        for one in exhibits
    ]
    if found:
        exports.append({"csv": claims.claims_csv(found), "latex": claims.claims_latex(found)})
    words = {
        "title": paper.title,
        "paper": paper,
        "scale": scale,
        "caveat": CAVEATS[scale],
        "about": SCALES[scale].about,
        "numbering": "named" if paper.id == "ahn" else f"numbered from {paper.first_class}",
        "exhibits": shown,
        "elsewhere": paper_errata(paper.id),
        "claims": found,
        "measured": [row for row in found if row.finding is not None],
        "unmeasured": [row for row in found if row.finding is None],
        "summary": () if scale == "smoke" else summarise_claims(found),
        "claims_export": len(exports) - 1,
        "smoke": SMOKE if scale == "smoke" else "",
    }
    return render_page("paper.html.j2", words, specs=specs, exports=exports, package="leastwise.papers")


def exhibit_context(
    one: Exhibit,
    scale: str,
    made: ExhibitDrawing,
    table: ComparisonTable | None,
    specs: list[Any],
    exports: list[dict[str, str]],
) -> dict[str, Any]:
    if table is not None:
        exports.append({"csv": table_csv(table), "latex": table_latex(table)})
    return {
        "id": one.id.partition("/")[2],
        "label": exhibit_heading(one.id),
        "title": one.title,
        "shows": one.shows,
        "basis": describe_basis(one, scale),
        "panels": number_figures(made.panels, specs),
        "wide": number_figures(made.wide, specs),
        "images": made.images,
        "notes": made.notes,
        "table": None if table is None else {"columns": column_headings(table), "rows": table_rows(table)},
        "pairs": made.pairs,
        "export": len(exports) - 1,
        "assumed": one.assumed,
        "errata": exhibit_errata(one.id),
        "claims": one.claims,
        "stands_in": bool(one.classes) and scale == "smoke",
    }


def column_headings(table: ComparisonTable) -> list[dict[str, str]]:
    return [{"name": column, "unit": table.unit(column)} for column in table.columns]


def exhibit_heading(exhibit_id: str) -> str:
    """Table 3 of table3, Fig. 2abcd of fig2abcd."""
    name = exhibit_id.partition("/")[2]
    found = re.fullmatch(r"(table|fig)(\d+)([a-z]*)", name)
    if found is None:
        return name.capitalize()
    return f"{'Table' if found[1] == 'table' else 'Fig.'} {found[2]}{found[3]}"


def describe_completeness(view: ExhibitResults) -> str:
    """What of an exhibit is there, unless it is all."""
    offered = {role: [part for part in parts if not isinstance(part, Absent)] for role, parts in view.offered.items()}
    whole = sum(bool(parts) and all(part in view.results for part in parts) for parts in offered.values())
    begun = sum(any(part in view.results for part in parts) for parts in offered.values())
    if whole == len(offered):
        return ""
    part = f", {begun - whole} in part" if begun > whole else ""
    return f"Of {len(offered)} rows {whole} {'is' if whole == 1 else 'are'} there{part}."


def describe_basis(one: Exhibit, scale: str) -> str:
    """The networks behind an exhibit at this scale."""
    recipes = [recipe for parts in one(scale).values() for recipe in parts if not isinstance(recipe, Absent)]
    given_away = len(released(recipes))
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
    """What a scale measures on fewer images than the paper, or with a shorter attack."""
    found: dict[str, None] = {}
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
