"""Pages of a paper and of an explanation in a real Chromium: drawn in silence, nothing fetched, nothing cut off."""

from pathlib import Path
from typing import Any

import pytest

from leastwise.papers.page import write_page
from leastwise.papers.registry import EXHIBITS, PAPERS, list_recipes
from leastwise.report.explain.facts import collect_facts
from leastwise.report.explain.page import explain_page
from tests.papers.results_made_up import found
from tests.report.evidence_made_up import evidence
from tests.report.page.opened import Opened

pytestmark = pytest.mark.medium
# One exhibit of each kind: bars, deviations and cosines, epochs, matrices and zooms, bars of several defences, pairs of
# bars, pictures, planes, rankings, tables.
KINDS = {
    "benz2021": ("fig1", "fig6", "fig8", "fig13"),
    "tian2021": ("fig3a", "fig3bcd", "fig6", "table4"),
    "tradeoff2022": ("fig3",),
    "ahn": ("fig4", "fig3"),
}
BEYOND = """() => [...document.querySelectorAll("figure svg")].filter(svg => {
    const frame = svg.closest(".chart").getBoundingClientRect(), box = svg.getBoundingClientRect();
    return box.right > frame.right + 1 || box.left < frame.left - 1;
}).length"""


def silent(browser: Any, file: Path, width: int, least: int) -> None:
    opened = Opened(browser, file, width)
    assert opened.complaints == [] and [url for url in opened.requests if not url.startswith("data:")] == [
        file.as_uri()
    ]
    marks = opened.tab.eval_on_selector_all(
        "[data-spec]", "places => places.map(p => p.querySelectorAll('svg path, svg text').length)"
    )
    assert len(marks) >= least and min(marks) > 5
    assert opened.tab.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.tab.evaluate(BEYOND) == 0
    opened.context.close()


@pytest.mark.parametrize("paper", KINDS)
def test_a_paper_is_drawn_in_silence(chromium: Any, tmp_path: Path, paper: str) -> None:
    exhibits = tuple(EXHIBITS[f"{paper}/{name}"] for name in KINDS[paper])
    recipes, _ = list_recipes(exhibits, "full")
    write_page(
        PAPERS[paper],
        exhibits,
        "full",
        results={recipe: found(recipe) for recipe in recipes},
        failed={},
        folder=tmp_path,
    )
    silent(chromium, tmp_path / "index.html", 1440, len(exhibits) - 2)


def test_an_explanation_is_drawn_in_silence(chromium: Any, tmp_path: Path) -> None:
    first, second = collect_facts(evidence(10, 40)), collect_facts(evidence(10, 40, 0.3))
    assert first is not None and second is not None
    file = tmp_path / "explain.html"
    file.write_text(explain_page({"one": first, "two": second}), encoding="utf-8")
    silent(chromium, file, 390, 8)


SEEN = """names => [...document.querySelectorAll("table.reported")].map(table => {
    const heads = [...table.tHead.rows[0].cells];
    return names.every(name => {
        const head = heads.find(one => one.firstChild && one.firstChild.textContent.trim() === name);
        return head && head.getBoundingClientRect().right <= table.parentElement.getBoundingClientRect().right;
    });
})"""


def test_total_cv_and_mcd_are_seen_at_1280_pixels_without_scrolling(chromium: Any, tmp_path: Path) -> None:
    exhibits = tuple(EXHIBITS[f"tian2021/{name}"] for name in ("table1", "table3"))
    recipes, _ = list_recipes(exhibits, "lite")
    results = {recipe: found(recipe) for recipe in recipes}
    write_page(PAPERS["tian2021"], exhibits, "lite", results=results, failed={}, folder=tmp_path)
    opened = Opened(chromium, tmp_path / "index.html", 1280)
    assert opened.tab.evaluate(SEEN, ["Tot", "CV", "MCD", "CV without noise"]) == [True, True]
    opened.context.close()
