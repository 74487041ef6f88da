"""G1–G4: what Tian et al. (KDD 2021) print in Tables 1, 3 and 4 follows from our own metric code."""

import csv
from pathlib import Path

import pytest
import torch

from leastwise.frame import ClassFrame, Tally

CLASSES = [str(c) for c in range(10)]
CAT, CAR = 3, 1


def printed(name: str) -> list[dict[str, str]]:
    with (Path(__file__).parent / "printed" / f"tian2021_{name}.csv").open() as file:
        return list(csv.DictReader(file))


def frame_of(row: dict[str, str]) -> ClassFrame:
    """A printed accuracy has one decimal, so it is exactly a count out of 1,000 images."""
    correct = torch.tensor([round(10 * float(row[c])) for c in CLASSES])
    return ClassFrame.of({"row": Tally(torch.full((10,), 1000), correct)}, tuple(CLASSES))


TABLE_1, TABLE_3, TABLE_4 = printed("table1"), printed("table3"), printed("table4")


def name_of(row: dict[str, str]) -> str:
    return f"{row['defence']}-{row.get('attack') or 'T-PGD' + row['1/T']}"


@pytest.mark.parametrize("row", TABLE_1 + TABLE_3, ids=name_of)
def test_g1_cv_mcd_and_total_of_every_row(row: dict[str, str]) -> None:
    frame = frame_of(row)
    assert abs(1e4 * float(frame.variance) - float(row["CV"])) <= 0.25
    assert abs(100 * float(frame.gap) - float(row["MCD"])) <= 0.11
    assert abs(100 * float(frame.overall) - float(row["Tot"])) <= 0.1


def test_g1_sample_variance_would_not_reproduce_the_table() -> None:
    """The tolerance is tight enough to tell 1/C from 1/(C - 1)."""
    for row in TABLE_1 + TABLE_3:
        sample = torch.tensor([float(row[c]) for c in CLASSES]).var(correction=1)
        assert abs(float(sample) - float(row["CV"])) > 0.25


@pytest.mark.parametrize("row", TABLE_3, ids=name_of)
def test_g2_table_3_differences_are_table_3_minus_the_pgd_rows_of_table_1(row: dict[str, str]) -> None:
    pgd = next(r for r in TABLE_1 if r["attack"] == "PGD" and r["defence"] == row["defence"])
    change = next(r for r in printed("table3_differences") if (r["defence"], r["1/T"]) == (row["defence"], row["1/T"]))
    ours = frame_of(row).accuracy - frame_of(pgd).accuracy
    for c in CLASSES:
        assert 100 * float(ours[0, int(c)]) == pytest.approx(float(change[c]), abs=1e-9)
    for column in ("Tot", "CV", "MCD"):
        assert float(row[column]) - float(pgd[column]) == pytest.approx(float(change[column]), abs=1e-9)


def test_g3_table_4_rows_sum_to_the_thousand_test_cats() -> None:
    assert [sum(int(row[c]) for c in CLASSES) for row in TABLE_4] == [1000] * 6


@pytest.mark.parametrize("change", printed("table4_differences"), ids=lambda row: f"line{row['line']}")
def test_g3_table_4_printed_differences_reproduce(change: dict[str, str]) -> None:
    line = int(change["line"])
    row, original = TABLE_4[line - 1], TABLE_4[0 if line <= 3 else 3]
    assert [int(row[c]) - int(original[c]) for c in CLASSES] == [int(change[c]) for c in CLASSES]


@pytest.mark.parametrize("row", TABLE_1, ids=name_of)
def test_g4_cat_is_worst_and_car_is_best_in_every_row_of_table_1(row: dict[str, str]) -> None:
    frame = frame_of(row)
    assert (int(frame.worst), int(frame.best)) == (CAT, CAR)


def test_g4_table_1_is_complete() -> None:
    assert len(TABLE_1) == 20 and len(TABLE_3) == 5
