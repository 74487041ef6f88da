"""Tables and evidence in the formats of other programs, read back by those programs' readers."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leastwise.core.text import escape_latex, escape_markdown
from leastwise.report.export import (
    example_columns,
    table_csv,
    table_latex,
    table_markdown,
    write_csv,
    write_parquet,
)
from leastwise.statistics.accuracy import wilson_interval
from tests.report.evidence_made_up import CIFAR10, evidence

AWKWARD = ("a,b", 'say "x"', "50 % & more_$#", "a|b*c*", "=1+1", "[x]", "~^\\{}", "<b>", "-3", "ok")


def test_csv_gives_counts_and_fractions_back() -> None:
    found = evidence(10, 30)
    rows = list(csv.DictReader(io.StringIO(table_csv(found))))
    assert [row["class"] for row in rows] == list(CIFAR10)
    for condition in found.conditions:
        tally = found.tally(condition)
        low, high = wilson_interval(tally.correct.numpy(), tally.n.numpy())
        assert [int(row[f"{condition}.n"]) for row in rows] == tally.n.tolist()
        assert [int(row[f"{condition}.correct"]) for row in rows] == tally.correct.tolist()
        for part, expected in (("accuracy", tally.accuracy.numpy()), ("low", low), ("high", high)):
            assert [float(row[f"{condition}.{part}"]) for row in rows] == pytest.approx(expected.tolist(), abs=1e-6)


def test_csv_quotes_names_and_disarms_formulas() -> None:
    rows = list(csv.DictReader(io.StringIO(table_csv(evidence(10, 5, names=AWKWARD)))))
    assert [row["class"] for row in rows] == ["'=1+1" if name == "=1+1" else name for name in AWKWARD]


def test_a_class_without_images_has_empty_cells() -> None:
    found = evidence(10, 5)
    labels = np.where(found.labels == 3, 4, found.labels).astype(np.int32)
    found = replace(found, labels=labels)
    row = list(csv.DictReader(io.StringIO(table_csv(found))))[3]
    assert (row["clean.n"], row["clean.accuracy"], row["clean.low"]) == ("0", "", "")
    assert table_markdown(found).splitlines()[5] == "| cat |  |  |  |"


def test_markdown_table_is_exact() -> None:
    lines = table_markdown(evidence(10, 1000)).splitlines()
    assert lines[0] == "| class | clean | pgd20 | autoattack |" and lines[1] == "| --- | ---: | ---: | ---: |"
    assert lines[5] == "| cat | 63.7 [60.7, 66.6] | 21.0 [18.6, 23.6] | 18.1 [15.8, 20.6] |"
    assert lines[-1].startswith("| overall | ") and len(lines) == 13
    awkward = table_markdown(evidence(10, 5, names=AWKWARD)).splitlines()
    assert all(line.replace("\\|", "").count("|") == 5 for line in awkward)
    assert escape_markdown("<b>|*") == "&lt;b&gt;\\|\\*"


def test_latex_table_is_exact() -> None:
    made = table_latex(evidence(10, 1000))
    lines = made.splitlines()
    assert lines[1] == r"\begin{tabular}{lrrr}" and lines[-1] == r"\end{tabular}" and lines[2] == r"\toprule"
    assert r"cat & \textbf{63.7 [60.7, 66.6]} & \textbf{21.0 [18.6, 23.6]} & \textbf{18.1 [15.8, 20.6]} \\" in lines
    assert escape_latex("50 % & a_b") == r"50 \% \& a\_b" and escape_latex("[x]") == "{}[x]"
    assert escape_latex("\\{") == r"\textbackslash{}\{"


def test_evidence_as_csv_has_a_row_per_image_and_condition(tmp_path: Path) -> None:
    found = evidence(10, 4)
    write_csv(found, tmp_path / "e.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "e.csv").read_text())))
    assert len(rows) == 40 * 3 and rows[0]["condition"] == "clean" and rows[-1]["condition"] == "autoattack"
    pgd = [row for row in rows if row["condition"] == "pgd20"]
    assert [int(row["id"]) for row in pgd] == found.ids.tolist()
    assert [int(row["predicted"]) for row in pgd] == found.conditions["pgd20"].predicted.tolist()
    assert [row["correct"] == "True" for row in pgd] == found.correct("pgd20").tolist()
    assert np.array([row["p_true"] for row in pgd], np.float32).tolist() == found.conditions["pgd20"].p_true.tolist()


def test_evidence_as_parquet_is_the_same_columns(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    found = evidence(10, 4)
    write_parquet(found, tmp_path / "e.parquet")
    table = parquet.read_table(tmp_path / "e.parquet")
    expected = example_columns(found)
    assert table.column_names == list(expected)
    for name, column in expected.items():
        assert table[name].to_pylist() == column.tolist()
    about = table.schema.metadata
    assert about[b"leastwise.key"].decode() == found.key
    assert json.loads(about[b"leastwise.recipe"]) == json.loads(found.recipe)
