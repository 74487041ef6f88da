"""The page in a real Chromium: drawn, sortable, copyable, silent."""

from pathlib import Path
from typing import Any

import pytest

from leastwise.report.export import table_csv, table_latex, table_markdown
from leastwise.report.page.page import make_page
from leastwise.report.results import AuditedModel
from tests.report.evidence_made_up import audited, evidence
from tests.report.page.made_up_pages import page_of
from tests.report.page.opened import Opened

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for k in (10, 100, 1000):
        (folder / f"{k}.html").write_text(page_of(k), encoding="utf-8")
    return {k: folder / f"{k}.html" for k in (10, 100, 1000)}


@pytest.mark.parametrize("k", [10, 100, 1000])
def test_charts_are_drawn_in_silence_and_nothing_is_cut_off(chromium: Any, files: dict[int, Path], k: int) -> None:
    for width, theme in ((1440, "light"), (390, "dark")):
        opened = Opened(chromium, files[k], width, theme)
        assert opened.complaints == [] and opened.requests == [files[k].as_uri()]
        marks = opened.tab.eval_on_selector_all(
            "[data-spec]", "places => places.map(p => p.querySelectorAll('svg path, svg text').length)"
        )
        assert len(marks) >= 2 * 8 and min(marks) > 10
        # The page itself never scrolls sideways: wide tables and maps do so inside their own frames.
        assert opened.tab.evaluate("document.documentElement.scrollWidth") <= width
        beyond = opened.tab.evaluate(
            """() => [...document.querySelectorAll("figure svg")].filter(svg => {
                const frame = svg.closest(".chart").getBoundingClientRect(), box = svg.getBoundingClientRect();
                return box.right > frame.right + 1 || box.left < frame.left - 1;
            }).length"""
        )
        assert beyond == 0
        opened.context.close()


@pytest.mark.parametrize("k", [10, 100, 1000])
def test_the_table_sorts_by_mouse_and_keyboard(chromium: Any, files: dict[int, Path], k: int) -> None:
    opened = Opened(chromium, files[k])
    last = 5  # class, superclass, images, clean, pgd20, autoattack, …
    values = [float(cell.split()[0]) for cell in opened.column(last)]
    assert values == sorted(values) and len(values) == min(k, 40)
    heads = opened.tab.locator("#t1 thead th")
    heads.nth(last).locator("button").click()
    values = [float(cell.split()[0]) for cell in opened.column(last)]
    assert values == sorted(values, reverse=True)
    assert heads.nth(last).get_attribute("aria-sort") == "descending"
    heads.nth(0).locator("button").focus()
    opened.tab.keyboard.press("Enter")
    assert (
        heads.nth(0).get_attribute("aria-sort") == "ascending" and heads.nth(last).get_attribute("aria-sort") == "none"
    )
    if k == 10:
        assert opened.column(0) == sorted(opened.column(0))
    else:
        button = opened.tab.locator('[data-table="t1"] .all')
        assert button.inner_text() == f"Show all {k:,} classes" and button.get_attribute("aria-expanded") == "false"
        button.click()
        assert len(opened.column(0)) == k and button.get_attribute("aria-expanded") == "true"
        button.click()
        assert len(opened.column(0)) == 40
    opened.tab.locator('[data-table="t1"] .find').fill(opened.column(0)[3].upper())
    assert len(opened.column(0)) >= 1 and len(opened.column(0)) < 10
    assert opened.complaints == []
    opened.context.close()


@pytest.mark.parametrize("k", [10, 100, 1000])
def test_copy_buttons_copy_the_exported_tables(chromium: Any, files: dict[int, Path], k: int) -> None:
    opened = Opened(chromium, files[k])
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    makers = {"csv": table_csv, "latex": table_latex, "markdown": table_markdown}
    for number, model in enumerate(audited(k)):
        for kind, make in makers.items():
            button = opened.tab.locator(f'[data-copy="{kind}"][data-model="{number}"]')
            button.click()
            said = opened.tab.locator(f'[data-table="t{number + 1}"] .said')
            wanted = {"csv": "CSV", "latex": "LaTeX", "markdown": "Markdown"}[kind]
            opened.tab.wait_for_function(
                "([place, text]) => document.querySelector(place).textContent === text",
                arg=[f'[data-table="t{number + 1}"] .said', f"{wanted} copied"],
            )
            assert said.inner_text() == f"{wanted} copied"
            assert opened.tab.evaluate("navigator.clipboard.readText()") == make(model.evidence)
    assert opened.complaints == []
    opened.context.close()


def test_without_a_clipboard_the_text_is_shown_and_selected(chromium: Any, files: dict[int, Path]) -> None:
    opened = Opened(chromium, files[10])
    opened.tab.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
    opened.tab.locator('[data-copy="csv"][data-model="0"]').click()
    field = opened.tab.wait_for_selector("textarea.copied")
    assert field.input_value() == table_csv(audited(10)[0].evidence)
    assert opened.tab.evaluate("document.activeElement.className") == "copied"
    opened.context.close()


def test_the_theme_follows_the_system_and_the_button(chromium: Any, files: dict[int, Path]) -> None:
    def background(opened: Opened) -> str:
        return str(opened.tab.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = Opened(chromium, files[10]), Opened(chromium, files[10], theme="dark")
    assert background(light) == "rgb(255, 255, 255)" and background(dark) == "rgb(21, 24, 28)"
    colour = "getComputedStyle(document.querySelector('svg .mark-text text')).fill"
    before = light.tab.evaluate(colour)
    light.tab.locator("#theme").click()
    assert background(light) == background(dark)
    assert light.tab.evaluate(colour) == dark.tab.evaluate(colour) != before
    dark.tab.emulate_media(media="print")
    assert background(dark) == "rgb(255, 255, 255)"
    light.context.close()
    dark.context.close()


def test_the_first_tab_stop_skips_to_the_result(chromium: Any, files: dict[int, Path]) -> None:
    opened = Opened(chromium, files[10])
    opened.tab.keyboard.press("Tab")
    assert opened.tab.evaluate("document.activeElement.textContent") == "Skip to the result"
    opened.tab.keyboard.press("Enter")
    assert opened.tab.evaluate("document.activeElement.id") == "main"
    opened.context.close()


def test_hostile_names_do_nothing(chromium: Any, tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    names = (evil, '"><img src=x onerror=alert(1)>', "{{7*7}}", "a&b", "${alert(1)}", "<!--", "'", "\\", "ok", "b")
    found = evidence(10, 40, names=names, more=True)
    file = tmp_path / "evil.html"
    file.write_text(make_page([AuditedModel(evil, found, {evil: evil})], evil), encoding="utf-8")
    opened = Opened(chromium, file)
    for place in opened.tab.locator("svg .mark-rect path, svg .mark-rule line").all()[:40]:
        place.hover(force=True)
    assert opened.complaints == [] and opened.requests == [file.as_uri()]
    assert sorted(opened.column(0)) == sorted(names) and opened.tab.locator("img").count() == 0
    opened.context.close()
