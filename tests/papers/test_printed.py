"""G1–G4, G7: what the papers print follows from our own metric code; the files hold every table whole."""

import csv

import numpy as np
import pytest
import torch

from leastwise.core.counts import ClassFrame, Tally
from leastwise.data.classes import CIFAR10_GROUPS, STL10_GROUPS
from leastwise.papers.printed import (
    FOLDER,
    PrintedCell,
    compare_with_printed,
    exhibit_errata,
    paper_errata,
    printed_table,
    read_errata,
    read_printed,
)
from leastwise.papers.registry import PAPERS

CLASSES = [str(c) for c in range(10)]
CAT, CAR = 3, 1

Row = dict[str, PrintedCell]
TABLE_1, TABLE_3, TABLE_4 = (printed_table(f"tian2021/{name}") for name in ("table1", "table3", "table4"))


def frame_of(row: Row) -> ClassFrame:
    """A printed accuracy has one decimal, so it is exactly a count out of 1,000 images."""
    correct = torch.tensor([round(10 * row[c].value) for c in CLASSES])
    return ClassFrame.of({"row": Tally(torch.full((10,), 1000), correct)}, tuple(CLASSES))


@pytest.mark.parametrize("name", [*TABLE_1, *TABLE_3])
def test_g1_cv_mcd_and_total_of_every_row(name: str) -> None:
    row = (TABLE_1 | TABLE_3)[name]
    frame = frame_of(row)
    assert abs(1e4 * float(frame.variance) - row["CV"].value) <= 0.25
    assert abs(100 * float(frame.gap) - row["MCD"].value) <= 0.11
    assert abs(100 * float(frame.overall) - row["Tot"].value) <= 0.1


def test_g1_sample_variance_would_not_reproduce_the_table() -> None:
    """The tolerance is tight enough to tell 1/C from 1/(C - 1)."""
    for row in (TABLE_1 | TABLE_3).values():
        sample = np.var([row[c].value for c in CLASSES], ddof=1)
        assert abs(sample - row["CV"].value) > 0.25


@pytest.mark.parametrize("name", TABLE_3)
def test_g2_table_3_differences_are_table_3_minus_the_pgd_rows_of_table_1(name: str) -> None:
    row, pgd = TABLE_3[name], TABLE_1[f"{name.split()[0]} PGD"]
    ours = 100 * (frame_of(row).accuracy - frame_of(pgd).accuracy)
    for c in CLASSES:
        assert float(ours[0, int(c)]) == pytest.approx(row[f"{c} minus PGD"].value, abs=1e-9)
    for column in ("Tot", "CV", "MCD"):
        assert row[column].value - pgd[column].value == pytest.approx(row[f"{column} minus PGD"].value, abs=1e-9)


def test_g3_table_4_rows_sum_to_the_thousand_test_cats() -> None:
    assert [sum(row[c].value for c in CLASSES) for row in TABLE_4.values()] == [1000] * 6


def test_g3_table_4_printed_differences_reproduce() -> None:
    lines = list(TABLE_4.values())
    for number in (1, 2, 4, 5):
        row, original = lines[number], lines[0 if number < 3 else 3]
        assert [row[c].value - original[c].value for c in CLASSES] == [
            row[f"{c} minus original"].value for c in CLASSES
        ]


@pytest.mark.parametrize("name", TABLE_1)
def test_g4_cat_is_worst_and_car_is_best_in_every_row_of_table_1(name: str) -> None:
    frame = frame_of(TABLE_1[name])
    assert (int(frame.worst), int(frame.best)) == (CAT, CAR)


def test_g4_the_tables_are_whole() -> None:
    assert (len(TABLE_1), len(TABLE_3), len(TABLE_4)) == (20, 5, 6)
    assert {len(row) for row in TABLE_1.values()} == {13} and {len(row) for row in TABLE_3.values()} == {26}
    sizes = {"table1": (6, 2), "table2": (8, 4), "table3": (4, 4), "table4": (7, 4), "table5": (8, 2)}
    for name, (rows, columns) in sizes.items():
        found = printed_table(f"tradeoff2022/{name}")
        assert len(found) == rows and {len([c for c in row if "gain" not in c]) for row in found.values()} == {columns}
    ahn, benz, five = printed_table("ahn/table1"), printed_table("benz2021/table1"), printed_table("tian2021/table5")
    assert (len(ahn), len(benz), len(five)) == (9, 5, 6)
    assert all(len(row) == 8 for row in ahn.values()) and all(len(row) == 2 for row in benz.values())


@pytest.mark.parametrize("name", ["ST", "PGD-AT", "TRADES"])
@pytest.mark.parametrize("measure", ["natural", "AA"])
def test_g7_gains_by_label_smoothing_are_differences_of_the_columns(name: str, measure: str) -> None:
    rows = printed_table("tradeoff2022/table1")
    gain = rows[f"{name}+LS"][measure].value - rows[name][measure].value
    assert gain == pytest.approx(rows[name][f"{measure}, gain by LS"].value, abs=1e-9)


def test_numbers_printed_twice_agree() -> None:
    first, second, third, fourth = (printed_table(f"tradeoff2022/table{n}") for n in range(1, 5))
    assert first["TRADES"]["natural"].value == second["TRADES λ=6"]["natural"].value
    assert first["PGD-AT"]["AA"].value == third["PGD-AT"]["AA"].value
    assert all(fourth[name]["AA"].value < second[name]["AA"].value for name in fourth if name in second)
    cats = TABLE_4["4 original, adversarial"]["3"].value / 10
    assert cats == TABLE_3["TRADES"]["3"].value == printed_table("tian2021/fig4c")["beta of class 5 = 6"]["3"].value


def test_table_2_is_the_grouping_in_use() -> None:
    for name, groups in (("CIFAR-10", CIFAR10_GROUPS), ("STL-10", STL10_GROUPS)):
        row = printed_table("tian2021/table2")[name]
        for number, (_, classes) in enumerate(groups):
            assert {int(c) for c, cell in row.items() if cell.value == number} == set(classes)


def test_the_ratio_of_table_5_is_not_the_28_of_the_text() -> None:
    row = printed_table("tian2021/table5")["CIFAR-10"]
    assert row["adversarial CV"].value / row["standard CV"].value == pytest.approx(26.5, abs=0.05)
    assert row["adversarial CV over standard CV"].value == 28


def test_every_file_has_the_one_layout() -> None:
    for path in FOLDER.rglob("*.csv"):
        with path.open(newline="") as file:
            header = next(csv.reader(file))
        named = "id paper exhibits severity what resolution lite" if path.stem == "errata" else None
        assert header == (named or "paper exhibit row column relation value unit").split()
    for paper in (*PAPERS, "outside"):
        found = read_printed(paper)
        places = [(c.exhibit, c.row, c.column) for c in found]
        assert len(set(places)) == len(places) and all(c.paper == paper for c in found)
        assert {c.relation for c in found} <= {"=", ">", "<", "about"}
        units = {"", "%", "%²", "points", "images", "times", "nats", "1/255", "class", "class from 1"}
        assert {c.unit for c in found if not c.unit.startswith("superclass")} <= units
        assert all(np.isfinite(c.value) for c in found)


def test_errata_touch_exhibits_by_their_names() -> None:
    assert [len(read_errata(paper)) for paper in PAPERS] == [12, 20, 10, 14]
    assert "tian2021-6" in {one.id for one in exhibit_errata("tian2021/table3")}
    assert exhibit_errata("tian2021/table2") == ()
    assert "across-1" in {one.id for one in exhibit_errata("ahn/table1")} and len(read_errata("across")) == 5
    assert [one.id for one in paper_errata("tian2021")] == ["tian2021-16"] and paper_errata("ahn") == ()
    ids = [one.id for paper in PAPERS for one in read_errata(paper)]
    assert len(set(ids)) == len(ids) and all(one.what and one.resolution for p in PAPERS for one in read_errata(p))


def test_agreement_with_an_interval() -> None:
    def cell(printed: str, relation: str = "=") -> PrintedCell:
        return PrintedCell("p", "e", "r", "c", relation, printed, "%")

    assert cell("50.8").last_place == pytest.approx(0.1) and cell("50").last_place == 1
    assert cell("50.8").agrees(50.88, 52.0) and not cell("50.8").agrees(50.92, 52.0)
    assert cell("50.80").agrees(50.0, 50.795) and not cell("50.80").agrees(50.82, 52.0)
    assert cell("0.93", ">").agrees(0.9, 0.94) and not cell("0.93", ">").agrees(0.8, 0.92)
    assert cell("13", "<").agrees(10.0, 20.0) and not cell("13", "<").agrees(14.0, 20.0)
    assert cell("-30", "about").agrees(-28.0, -27.5) and not cell("-30", "about").agrees(-26.0, -20.0)


def test_printed_numbers_beside_ours() -> None:
    ours = {("Madry PGD", "Tot"): (51.0, 50.0, 52.05), ("Madry PGD", "3"): (20.0, 18.0, 22.0)}
    found = {(one.cell.row, one.cell.column): one for one in compare_with_printed("tian2021/table1", ours)}
    assert len(found) == 260 and found["Madry PGD", "Tot"].agrees is True and found["Madry PGD", "3"].agrees is False
    assert found["HE PGD", "3"].agrees is None and found["HE PGD", "3"].ours is None
    nan = float("nan")
    missing = compare_with_printed("tian2021/table1", {("Madry PGD", "Tot"): (nan, nan, nan)})
    assert {one.agrees for one in missing} == {None}


def test_an_unknown_paper_is_refused() -> None:
    with pytest.raises(ValueError, match="choose ahn, benz2021, tian2021, tradeoff2022"):
        read_printed("madry2018")
