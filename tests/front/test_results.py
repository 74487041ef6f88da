"""What `lw.audit` returns: a few lines, a table, frames and charts, all of the same numbers."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastwise as lw
from leastwise.report.charts.paper import COLOURS, COLUMN
from leastwise.report.notebook import END
from leastwise.report.summary import summarise
from tests.report.evidence_made_up import evidence


def result(k: int = 10, per_class: int = 40, **settings: Any) -> lw.AuditResult:
    return lw.AuditResult.of(evidence(k, per_class, **settings), name="trades.pt")


def test_a_repr_has_at_most_ten_lines_however_much_there_is() -> None:
    shown = repr(result())
    assert shown.splitlines()[0].startswith("Audit of trades.pt: 400 images, 10 classes, key ")
    assert re.search(r"^  pgd20 +[\d.]+ % overall, worst class \w+ [\d.]+ % \[[\d.]+, [\d.]+\]$", shown, re.M)
    for found in (result(1000, 3), result(10, 20, more=True)):
        assert len(repr(found).splitlines()) <= 10 and len(repr(found)) < 2000
        assert len(repr(found.summary()).splitlines()) <= 10
    assert len(repr(evidence(1000, 3)).splitlines()) == 1


def test_the_worst_class_is_the_one_of_the_summary() -> None:
    found = result()
    for condition, told in summarise(found)["conditions"].items():
        worst, block = found.worst(condition), told["worst"]
        assert (worst.name, worst.accuracy, worst.low, worst.high) == tuple(
            block[key] for key in ("class", "corrected", "low", "high")
        )
        assert worst.measured == block["naive"]["accuracy"] and worst.overall == told["overall"]
    assert found.worst() == found.worst("autoattack")
    with pytest.raises(ValueError, match="no condition 'pgd-20': did you mean pgd20"):
        found.worst("pgd-20")


def test_classes_that_share_the_last_place_are_not_named_one_for_all() -> None:
    found = result(2, 1)
    assert "any of 2 classes" in str(lw.AuditResult.of(evidence(2, 1, shift=9)).worst("clean")) or found.worst().ties


def test_the_frame_of_classes_is_tidy_and_has_the_numbers_of_the_summary() -> None:
    pytest.importorskip("pandas")
    found = result()
    frame, told = found.to_pandas(), summarise(found)["conditions"]
    assert frame.columns.tolist() == ["condition", "class", "n", "correct", "accuracy", "low", "high"]
    assert len(frame) == 30
    for condition, rows in frame.groupby("condition"):
        for column in ("n", "correct", "accuracy", "low", "high"):
            assert rows[column].tolist() == told[str(condition)][column], (condition, column)


def test_the_frame_of_images_has_a_row_for_each_under_each_condition() -> None:
    pytest.importorskip("pandas")
    found = result()
    frame = found.to_pandas("example")
    assert len(frame) == 3 * len(found.ids)
    counted = frame.groupby(["condition", "class"])["correct"].sum()
    whole = found.to_pandas().set_index(["condition", "class"])["correct"]
    assert (counted.sort_index() == whole.sort_index()).all()


def test_without_pandas_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'leastwise\[pandas\]'"):
        result().to_pandas()


def cells(html: str) -> list[list[str]]:
    """The texts of a table, row by row."""
    table = ET.fromstring(re.search(r"<table.*</table>", html, re.S)[0])  # type: ignore[index]
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


def test_the_table_of_a_notebook_marks_the_worst_class_of_every_condition() -> None:
    found = result()
    shown = cells(found._repr_html_())
    assert shown[0] == ["class", *found.conditions] and shown[-1][0] == "overall"
    by_name = {row[0]: row[1:] for row in shown[1:-1]}
    assert list(by_name) == list(found.names)
    for place, condition in enumerate(found.conditions):
        marked = [name for name, row in by_name.items() if row[place].endswith("◂")]
        assert marked == [found.worst(condition).name]
    assert found._repr_html_().count('class="worst"') == len(found.conditions)


def test_the_table_needs_neither_a_light_nor_a_dark_page() -> None:
    style = re.search(r"<style>(.*?)</style>", result()._repr_html_())[1]  # type: ignore[index]
    assert "color:inherit" in style
    assert set(re.findall(r"(?:background|color):([^;}]+)", style)) <= {"none", "inherit", "rgba(222,90,20,.22)"}


def test_of_very_many_classes_both_ends_are_shown() -> None:
    shown = cells(result(1000, 3)._repr_html_())
    assert len(shown) == 1 + END + 1 + END + 1 and shown[1 + END] == [f"… {1000 - 2 * END:,} more …"]


def test_names_of_strangers_are_text() -> None:
    found = result(names=("<script>alert(1)</script>", *"bcdefghij"))
    assert "<script" not in found._repr_html_() and "&lt;script&gt;" in found._repr_html_()


KINDS = {"classes": 10, "confusion": 10, "deviation": 10, "ranks": 25, "curve": 10}


@pytest.mark.parametrize("kind", KINDS)
def test_every_plot_is_valid_and_in_plain_colours(kind: Any) -> None:
    chart = result(KINDS[kind], 20, more=True).plot(kind=kind)
    made = chart.to_dict()  # altair checks it against the schema
    assert "var(--" not in str(made) and made["width"] == COLUMN


def test_a_plot_may_be_asked_for_by_its_condition_or_by_its_kind() -> None:
    found = result()
    assert found.plot("pgd20").to_dict() != found.plot("clean").to_dict()
    assert found.plot("confusion").to_dict() == found.plot(kind="confusion").to_dict()
    with pytest.raises(ValueError, match="no plot 'clases': did you mean classes"):
        found.plot("clases")
    with pytest.raises(ValueError, match=r"audit with eps=\(2/255, 4/255, 8/255\)"):
        found.plot("curve")
    with pytest.raises(ValueError, match="more than 20 classes"):
        found.plot("ranks")


def test_a_plot_is_saved_in_the_width_of_a_column(tmp_path: Path) -> None:
    chart = result().plot("pgd20")
    for name in ("a.pdf", "a.svg", "a.png", "a.html"):
        chart.save(tmp_path / name)
    box = re.search(rb"MediaBox ?\[0 0 ([\d.]+) ([\d.]+)\]", (tmp_path / "a.pdf").read_bytes())
    assert box is not None and float(box[1]) == COLUMN
    drawing = ET.parse(tmp_path / "a.svg").getroot()
    assert float(drawing.get("width", "0")) == COLUMN
    sizes = {float(one) for one in re.findall(r'font-size="([\d.]+)px"', (tmp_path / "a.svg").read_text())}
    assert min(sizes) >= 7 and max(sizes) <= 9
    shown = ["".join(text.itertext()) for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert {"cat", "truck", "accuracy in %"} <= set(shown) and sum(text.endswith("‹") for text in shown) == 1


def test_the_colours_of_paper_are_the_light_ones_of_the_page() -> None:
    css = (Path(lw.__file__).parent / "report" / "assets" / "page.css").read_text("utf-8")
    light = dict(re.findall(r"--([\w-]+): light-dark\((#\w+),", css))
    assert light == COLOURS


@pytest.mark.parametrize("many", [False, True])
def test_a_report_may_be_a_picture(many: bool, tmp_path: Path) -> None:
    models = [result(), lw.AuditResult.of(evidence(10, 40, shift=0.3), name="fair.pt", folder=None)]
    lw.report(models if many else models[:1], tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert ("fair.pt − trades.pt, autoattack" in text) == many and ("pgd20" in text) != many


def test_accuracies_of_the_chart_are_those_of_the_table() -> None:
    found = result()
    rows = next(iter(found.plot("pgd20").to_dict()["datasets"].values()))
    tally = found.tally("pgd20")
    known = dict(zip(found.names, 100 * tally.accuracy.numpy(), strict=True))
    drawn = {row["name"]: row["value"] for row in rows if "name" in row}
    assert drawn.keys() == known.keys() and np.allclose([*drawn.values()], [known[name] for name in drawn], atol=0.01)
