"""What a study found, ranked, as a table and as a page."""

import pytest

from leastwise.jobs.study import StudyCell, StudyPlan
from leastwise.report.study import StudyRow, hardest_condition, make_study_page, rank_methods, study_csv


def row(method: str, seed: int, worst: float, condition: str = "pgd20", overall: float = 0.5) -> StudyRow:
    return StudyRow(StudyCell("small", method, "0.1", seed), condition, 100, overall, worst, "<cat>", 0.3, "audit-1")


ROWS = [row("a", 0, 0.1), row("b", 0, 0.3), row("a", 1, 0.2), row("b", 1, 0.1), row("a", 0, 0.9, "clean", 0.95)]


def test_the_highest_worst_class_comes_first_over_the_mean_of_seeds() -> None:
    assert hardest_condition(ROWS) == "pgd20"
    places = rank_methods(ROWS, "pgd20")
    assert [place.method for place in places] == ["b", "a"]
    assert places[0].mean("worst") == pytest.approx(0.2) and places[0].spread("worst") == pytest.approx(0.02**0.5)


def test_the_page_and_the_table_escape_what_is_not_ours() -> None:
    made = make_study_page(StudyPlan(title="<script>x</script>", eps=("0.1",), seeds=(0, 1)), ROWS)
    assert "<script" not in made and "&lt;script&gt;" in made and "&lt;cat&gt;" in made and "http://" not in made
    hostile = [row("=cmd()", 0, 0.1)]
    assert "'=cmd()" in study_csv(hostile) and study_csv(ROWS).splitlines()[0].startswith(
        "model,method,eps,seed,condition"
    )
    assert study_csv(ROWS).splitlines()[1] == "small,a,0.1,0,pgd20,100,0.500000,0.100000,<cat>,0.300000,audit-1"
