"""Pages of the papers: every exhibit has a drawing, and cells are what one computes by hand."""

import csv
import html
import io
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from leastwise.core.counts import ClassFrame
from leastwise.data.classes import CIFAR10, CIFAR10_GROUPS
from leastwise.papers.claims.base import NO_UNIT, PERCENT, PERCENT_SQUARED, POINTS, ClaimFinding
from leastwise.papers.drawing.claims import SMOKE, ClaimRow
from leastwise.papers.drawing.inputs import NOT_RUN, CellValue, DrawingInput, NotShown
from leastwise.papers.drawing.tables import UNCOMPARED, UNDEFINED, make_table, table_csv, table_latex, table_rows
from leastwise.papers.exhibit import Exhibit, list_assumptions
from leastwise.papers.page import (
    describe_basis,
    describe_reductions,
    draw_exhibit,
    exhibit_heading,
    figure_csv,
    write_notes,
    write_page,
)
from leastwise.papers.printed import printed_table
from leastwise.papers.recipes import Measured, Recipe, list_replicas
from leastwise.papers.registry import EXHIBITS, PAPERS, keep_roles, list_recipes, load_drawings
from leastwise.papers.results import ExhibitResults, RecipeResult, Results
from leastwise.papers.scales import scale
from leastwise.statistics.accuracy import wilson_interval
from leastwise.statistics.spread import measure_spread
from tests.insight.evidence_of_logits import evidence_of, predicting
from tests.papers.results_made_up import found, with_recipe


def given(
    exhibit: str, results: Results, scale_name: str = "full", failed: Mapping[Recipe, str] | None = None
) -> DrawingInput:
    paper = PAPERS[exhibit.partition("/")[0]]
    return DrawingInput(paper, ExhibitResults(EXHIBITS[exhibit], scale_name, results, EXHIBITS), failed or {})


@cache
def results_of(exhibit: str, scale_name: str) -> Results:
    recipes, _ = list_recipes((EXHIBITS[exhibit],), scale_name)
    return {recipe: found(recipe) for recipe in recipes}


def ours(exhibit: str, results: Results, scale_name: str = "full") -> dict[tuple[str, str], CellValue]:
    return draw_exhibit(given(exhibit, results, scale_name)).ours


def of_predictions(recipe: Recipe, right: Mapping[str, np.ndarray], each: int = 100) -> RecipeResult:
    """An audit of CIFAR-10 in which, of `each` images of a class, the first so many are right; others are taken for dog
    (or, of dogs, for cat)."""
    assert isinstance(recipe, Measured)
    labels = np.repeat(np.arange(10), each)
    place = np.tile(np.arange(each), 10)
    logits = {
        name: predicting(np.where(place < right[name][labels], labels, np.where(labels == 5, 3, 5)), 10)
        for name in recipe.conditions
    }
    return RecipeResult(with_recipe(evidence_of(logits, labels, names=CIFAR10, groups=CIFAR10_GROUPS)))


def test_every_exhibit_has_a_drawing_and_nothing_else_does() -> None:
    assert [name for paper in PAPERS.values() for name in load_drawings(paper)] == list(EXHIBITS)
    assert exhibit_heading("table3") == "Table 3" and exhibit_heading("fig2abcd") == "Fig. 2abcd"
    assert exhibit_heading("protocol") == "Protocol"


@pytest.mark.parametrize("exhibit", EXHIBITS.values(), ids=lambda one: one.id)
def test_without_results_every_printed_number_says_why_ours_is_missing(exhibit: Exhibit) -> None:
    made = draw_exhibit(given(exhibit.id, {}))
    assert not made.panels and not made.wide
    printed = [(row, column) for row, cells in printed_table(exhibit.id).items() for column in cells]
    for place in printed:
        value = made.ours[place]
        if exhibit.needs:
            assert isinstance(value, str) and value
    if exhibit.needs and not printed:
        assert made.notes or made.ours


@pytest.mark.parametrize(
    "scale_name", [pytest.param("smoke", marks=pytest.mark.medium), pytest.param("full", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("exhibit", EXHIBITS.values(), ids=lambda one: one.id)
def test_with_results_all_is_drawn_and_every_printed_number_has_ours(exhibit: Exhibit, scale_name: str) -> None:
    made = draw_exhibit(given(exhibit.id, results_of(exhibit.id, scale_name), scale_name))
    drawn = exhibit.id.partition("/")[2].startswith("table") or made.panels or made.wide or made.images
    assert drawn or "nothing to share" in str(made.notes)
    table_made = make_table(exhibit.id, scale_name, made.ours, units=made.units)
    for row, cells in printed_table(exhibit.id).items():
        for column in cells:
            assert table_made is not None
            value = made.ours[row, column]
            assert value != UNCOMPARED and value != NOT_RUN
            if not isinstance(value, str):
                assert not np.isnan(value[0])
    for figure in (*made.panels, *made.wide):
        assert figure.title and figure.spec["description"]
    lines = list(csv.DictReader(io.StringIO(figure_csv(made, scale_name))))
    # A map in which every cell is 0 has no numbers, and says so.
    drawn_marks = {figure.title for figure in (*made.panels, *made.wide) if "every cell is 0" not in figure.caption}
    assert {line["figure"] for line in lines} == drawn_marks
    assert {line["scale"] for line in lines} <= {scale_name}


def test_tian_table_1_is_computed_from_the_images() -> None:
    """Madry under PGD: accuracies 90, 81, …, 9 %; the mean is 49.5, CV 9²·(100 − 1)/12, MCD 81."""
    recipe = EXHIBITS["tian2021/table1"].needs["Madry"]
    assert isinstance(recipe, Measured)
    right = 90 - 9 * np.arange(10)
    made = ours("tian2021/table1", {recipe: of_predictions(recipe, dict.fromkeys(recipe.conditions, right))})
    for c in range(10):
        low, high = wilson_interval(np.array([right[c]]), np.array([100]))
        assert made["Madry PGD", str(c)] == pytest.approx((right[c], 100 * low[0], 100 * high[0]))
    total, cv, mcd = (made["Madry PGD", column] for column in ("Tot", "CV", "MCD"))
    assert not isinstance(total, str) and not isinstance(cv, str) and not isinstance(mcd, str)
    assert (total[0], cv[0], mcd[0]) == pytest.approx((49.5, 81 * 99 / 12, 81))
    assert cv[1] < cv[0] < cv[2] and mcd[1] < 81 < mcd[2]
    clean = made["Madry PGD", "CV without noise"]
    expected = 1e4 * measure_spread(right, np.full(10, 100)).debiased
    assert not isinstance(clean, str) and clean[0] == pytest.approx(expected) and clean[0] < cv[0]
    assert made["TRADES PGD", "Tot"] == NOT_RUN and made["Madry CW∞", "Tot"] == NOT_RUN


def test_printed_cells_of_tian_recompute_from_themselves() -> None:
    """Images that give the printed row give its CV and MCD within what printing cuts off."""
    cells = printed_table("tian2021/table1")["Madry PGD"]
    right = np.array([round(10 * cells[str(c)].value) for c in range(10)])
    recipe = EXHIBITS["tian2021/table1"].needs["Madry"]
    assert isinstance(recipe, Measured)
    results = {recipe: of_predictions(recipe, dict.fromkeys(recipe.conditions, right), each=1000)}
    drawing = draw_exhibit(given("tian2021/table1", results))
    made = make_table("tian2021/table1", "full", drawing.ours, units=drawing.units)
    assert made is not None
    entry = made.entries["Madry PGD", "CV"]
    assert not isinstance(entry.ours, str) and entry.ours[0] == pytest.approx(224.3, abs=0.25)
    assert all(made.entries["Madry PGD", column].agrees for column in ("Tot", "3", "CV", "MCD"))


def test_tian_table_3_has_each_temperature_and_its_change_from_pgd() -> None:
    recipe = EXHIBITS["tian2021/table3"].needs["Madry"]
    assert isinstance(recipe, Measured)
    right = {"clean": np.full(10, 90), "pgd20": np.full(10, 60), "tpgd20-grid": 60 - 2 * np.arange(10)}
    made = ours("tian2021/table3", {recipe: of_predictions(recipe, right)})
    for row in ("Madry 1/T=2", "Madry 1/T=50", "Madry worst of the grid"):
        total, change, cat = (made[row, column] for column in ("Tot", "Tot minus PGD", "3 minus PGD"))
        assert not isinstance(total, str) and not isinstance(change, str) and not isinstance(cat, str)
        assert (total[0], change[0], cat[0]) == pytest.approx((51, -9, -6))
        assert change[2] < 0


def test_benz_table_1_counts_cats_and_class_4_is_cat() -> None:
    recipe = EXHIBITS["benz2021/table1"].needs["10"]
    assert isinstance(recipe, Measured)
    right = {"clean": np.where(np.arange(10) == 3, 70, 90)}
    made = ours("benz2021/table1", {recipe: of_predictions(recipe, right)})
    cat, total = made["weight 10", "class 4"], made["weight 10", "overall"]
    assert not isinstance(cat, str) and not isinstance(total, str)
    assert (cat[0], total[0]) == pytest.approx((70, 88))
    one = given("benz2021/table1", {})
    assert one.label(CIFAR10, 3) == "4: cat" and given("tian2021/table1", {}).label(CIFAR10, 3) == "3: cat"
    assert given("ahn/table1", {}).label(("chair",), 0) == "chair"


def test_a_count_of_confusions_and_its_interval() -> None:
    recipe = EXHIBITS["tian2021/fig4a"].needs["full"]
    assert isinstance(recipe, Measured)
    right = dict.fromkeys(recipe.conditions, np.where(np.arange(10) == 3, 80, 100))
    value = ours("tian2021/fig4a", {recipe: of_predictions(recipe, right)})["3", "5"]
    low, high = wilson_interval(np.array([20]), np.array([100]))
    assert value == pytest.approx((20, 100 * low[0], 100 * high[0]))


def test_reasons_reach_the_cells() -> None:
    """Failed trainings, what a scale cannot offer, and what was not run."""
    exhibit = EXHIBITS["tian2021/table5"]
    standard = exhibit("full")["mnist, standard"][0]
    assert isinstance(standard, Measured)
    made = draw_exhibit(given(exhibit.id, {}, failed={standard.model: "the loss is nan at step 3"})).ours  # type: ignore[dict-item]
    assert made["MNIST", "standard CV"] == "failed: the loss is nan at step 3"
    assert made["MNIST", "adversarial CV"] == NOT_RUN
    lite = draw_exhibit(given(exhibit.id, {}, "lite"))
    assert lite.ours["ImageNet", "standard CV"] == "imagenet is too large for two cores"
    table_made = make_table(exhibit.id, "lite", lite.ours, units=lite.units)
    assert table_made is not None
    lines = list(csv.DictReader(io.StringIO(table_csv(table_made))))
    assert all(line["why not"] for line in lines) and {line["scale"] for line in lines} == {"lite"}
    assert table_made.why("ImageNet") == "imagenet is too large for two cores"
    assert table_latex(table_made).count(r"\\") == len(table_made.rows) + 1


def test_a_number_that_is_not_defined_says_so() -> None:
    made = make_table("tian2021/table5", "full", {("CIFAR-10", "standard CV"): (float("nan"),) * 3})
    assert made is not None and made.entries["CIFAR-10", "standard CV"].ours == UNDEFINED


def test_agreement_is_said_but_not_at_smoke_scale() -> None:
    cell = printed_table("tian2021/table5")["CIFAR-10"]["standard CV"]  # 10.75
    for value, said in (((10.7, 10.0, 11.0), "within"), ((20.0, 19.0, 21.0), "outside")):
        for name, shown in (("full", said), ("lite", said), ("smoke", "")):
            made = make_table("tian2021/table5", name, {("CIFAR-10", "standard CV"): value})
            assert made is not None and made.entries["CIFAR-10", "standard CV"].printed == cell
            row = next(row for row in table_rows(made) if row["name"] == "CIFAR-10")
            assert row["cells"][made.columns.index("standard CV")]["agrees"] == shown


def named(results: Results, names: tuple[str, ...]) -> Results:
    return {
        recipe: one._replace(evidence=replace(one.evidence, names=names)) if one.evidence is not None else one
        for recipe, one in results.items()
    }


def test_the_page_says_its_scale_and_gives_no_verdict_at_smoke(tmp_path: Path) -> None:
    exhibits = tuple(EXHIBITS[f"benz2021/{name}"] for name in ("fig1", "fig2", "table1"))
    recipes, _ = list_recipes(exhibits, "smoke")
    evil = ("</script><script>alert(1)</script>", '"><img src=x>', *map(str, range(8)))
    results = named({recipe: found(recipe) for recipe in recipes}, evil)
    files = write_page(PAPERS["benz2021"], exhibits, "smoke", results=results, failed={}, folder=tmp_path)
    assert {file.name for file in files} >= {"index.html", "table1.csv", "table1.tex", "fig1.figures.csv", "claims.csv"}
    assert all(file.is_file() for file in files)
    text = (tmp_path / "index.html").read_text()
    body = html.unescape(re.sub(r"<(script|style)[^>]*>.*?</\1>", " ", text, flags=re.S))
    assert evil[0] not in text and "<img src=x>" not in text
    assert "shows only that everything runs" in body and "not retraining" in body
    assert body.count("scale smoke") >= len(exhibits) and "Classes are numbered from 1" in body
    for exhibit in exhibits:
        assert all(assumed in body for assumed in list_assumptions(exhibit.assumed, "smoke"))
    assert "benz2021-1 (changes a number)" in body
    verdicts = [line["verdict"] for line in csv.DictReader(io.StringIO((tmp_path / "claims.csv").read_text()))]
    assert verdicts and set(verdicts) == {SMOKE}
    assert "holds" not in body.replace("A claim is decided", "")


def test_lite_is_never_called_a_reproduction_and_claims_name_what_they_were_measured_on(tmp_path: Path) -> None:
    exhibits = (EXHIBITS["tian2021/fig4c"], EXHIBITS["tian2021/fig1"])
    recipes = [scale("lite")(exhibits[0].needs[role])[0] for role in ("6", "0.5")]
    results = {
        one: found(one)
        for recipe in recipes
        if isinstance(recipe, Measured)
        for one in (recipe, *list_replicas(recipe))
    }
    write_page(PAPERS["tian2021"], exhibits, "lite", results=results, failed={}, folder=tmp_path)
    body = (tmp_path / "index.html").read_text()
    assert "Nothing on this page is a reproduction" in body and body.count("scale lite") >= 2
    rows = list(csv.DictReader(io.StringIO((tmp_path / "claims.csv").read_text())))
    lifted = [row for row in rows if row["claim"] == "C12"]
    assert [(row["exhibit"], row["measured on"], row["scale"]) for row in lifted] == [
        ("tian2021/fig4c", "6; 0.5", "lite")
    ]
    assert lifted[0]["verdict"] in ("holds", "does not hold", "undecided") and lifted[0]["low"]
    missing = {row["measured on"]: row["why not"] for row in rows if row["claim"] == "C1"}
    assert "imagenet is too large" in missing["imagenet; pgd"] and NOT_RUN in missing["cifar10; pgd"]


def test_a_page_of_part_of_a_paper_says_what_is_there(tmp_path: Path) -> None:
    names = ("ahn/table1", "ahn/fig3", "ahn/fig4", "ahn/fig11")
    exhibits = tuple(EXHIBITS[name] for name in names)
    recipes, _ = list_recipes(keep_roles(exhibits, ("PGD", "TRADES")), "lite")
    write_page(
        PAPERS["ahn"],
        exhibits,
        "lite",
        results={recipe: found(recipe) for recipe in recipes},
        failed={},
        folder=tmp_path,
    )
    body = html.unescape((tmp_path / "index.html").read_text())
    said = [f"Incomplete: of {n} there." for n in ("9 rows 2 are", "8 rows 2 are", "4 rows 1 is")]
    assert all(sentence in body for sentence in said) and "0 of 4 exhibits of this page are complete" in body
    assert "Not shown: Clean; PGD + IDBH; PGD + CFA; PGD + AVmixup; TRADES + IDBH;" in body
    assert "Superclasses, mean of the methods that are there" in body and "2 of 8 methods: PGD, TRADES" in body
    assert "Classes are named, as in the paper" in body
    assert "holds in 2 of 8 cases, not measured in 6" in body  # C16
    assert "Not measured: 17 cases" in body  # four of C15, six each of C16 and C31, one of C17
    for row in csv.DictReader(io.StringIO((tmp_path / "table1.csv").read_text())):
        assert row["why not"] == ("" if row["row"] in ("PGD", "TRADES") else NOT_RUN)


def test_a_page_says_which_networks_stand_for_others() -> None:
    rows = ("cifar10 resnet18", "cifar10 resnet50")
    recipes, _ = list_recipes(keep_roles((EXHIBITS["benz2021/fig4"],), rows), "lite")
    made = draw_exhibit(given("benz2021/fig4", {recipe: found(recipe) for recipe in recipes}, "lite"))
    assert "At this scale small stands for resnet18, resnet50: trainings that differ in their seed only." in made.notes
    one = draw_exhibit(given("benz2021/fig4", {recipes[0]: found(recipes[0])}, "lite"))
    assert one.ours["CIFAR-10 all pairs", "cosine"] == "1 of 10 networks (not run)"


def test_a_page_says_what_was_measured_on_fewer_images_or_with_a_shorter_attack() -> None:
    table1, table4 = EXHIBITS["tian2021/table1"], EXHIBITS["tradeoff2022/table4"]
    assert describe_basis(table1, "lite").endswith(
        "cwinf:100 (shortened); nattack:50 (shortened) on 20 images of each class"
    )
    assert describe_basis(table4, "lite").endswith("8 epochs; autoattack on 100 images of each class")
    assert "every epoch on 20 images of each class" in describe_basis(EXHIBITS["tian2021/fig1"], "lite")
    assert not any(describe_reductions(one, "full") for one in EXHIBITS.values())


def test_what_is_not_shown_for_one_reason_is_said_once() -> None:
    missing = (NotShown(("a", "b"), "not run"), NotShown(("c",), "too large"), NotShown(("d",), "not run"))
    notes = (missing[0], "A remark.", *missing[1:])
    assert write_notes(notes) == ("Not shown: a; b; d (not run).", "A remark.", "Not shown: c (too large).")
    assert write_notes((NotShown(("mnist",), "not run"), NotShown(("MNIST",), "not run"))) == (
        "Not shown: mnist (not run).",
    )


def test_conditions_that_leave_nothing_have_no_weakest_class_and_no_direction() -> None:
    """A standard network under PGD: every class is at zero."""
    recipe = EXHIBITS["benz2021/fig16"].needs["standard"]
    assert isinstance(recipe, Measured)
    attacked = [name for name in recipe.conditions if name.startswith("pgd")]
    right = {name: 90 - 5 * np.arange(10) for name in recipe.conditions}
    right |= {name: np.zeros(10, dtype=int) for name in attacked}
    made = draw_exhibit(given("benz2021/fig16", {recipe: of_predictions(recipe, right)}))
    shown = attacked[0]  # all radii are as far from 60 %: the smallest
    assert made.ours[shown, "most vulnerable class"] == "several classes share the lowest accuracy"
    assert made.ours["most corruptions", "most vulnerable class"][0] == 10
    (cosines,) = [figure for figure in made.wide if figure.title.startswith("Cosines")]
    assert cosines.caption.startswith("mean of 28 pairs 1.00") and cosines.caption.endswith(
        f"without direction: {shown}"
    )


def test_claims_are_written_in_the_units_of_the_page() -> None:
    finding = ClaimFinding("", 0.1234, -0.001, 0.25, "undecided", unit=POINTS)
    assert row_of(finding).number == "12.3 points [−0.1, 25.0]"
    assert row_of(replace(finding, unit=PERCENT_SQUARED)).number == "1234 %² [−10, 2500]"
    assert row_of(replace(finding, value=1e-17, unit=NO_UNIT)).number == "0.000 [−0.001, 0.250]"
    nan = float("nan")
    assert row_of(ClaimFinding("", 0.5, nan, nan, "undecided", unit=PERCENT)).number == "50.0 %"
    assert row_of(ClaimFinding("", 0.01083, 0.01049, 0.0112, "holds")).number == "0.0108 [0.0105, 0.0112]"
    assert row_of(ClaimFinding("", 0.0, 0.0, 0.0, "undecided")).number == "0 [0, 0]"


@pytest.mark.parametrize(("p", "said"), [(None, ""), (float("nan"), ""), (0.0321, "p = 0.032"), (0.0, "p < 0.0001")])
def test_chances_are_written_without_digits_that_nobody_knows(p: float | None, said: str) -> None:
    assert row_of(ClaimFinding("", 0.5, 0.1, 0.8, "holds", p)).chance == said


def test_a_claim_without_a_number_says_why() -> None:
    """As the rank correlation of changes that are the same for all classes."""
    nan = float("nan")
    row = row_of(ClaimFinding("correlation", nan, nan, nan, "undecided", nan))
    assert row.number == row.why_not == UNDEFINED
    assert row_of(ClaimFinding("correlation", 0.5, 0.1, 0.8, "holds")).why_not == ""


def row_of(finding: ClaimFinding) -> ClaimRow:
    return ClaimRow("C1", "", "", "", "", "lite", finding, finding.verdict)


def test_deviations_in_the_numbers_of_a_figure_are_those_of_the_evidence() -> None:
    recipe = EXHIBITS["benz2021/fig1"].needs["standard"]
    assert isinstance(recipe, Measured)
    right = {name: (100 if name == "clean" else 50) - 5 * np.arange(10) for name in recipe.conditions}
    one = of_predictions(recipe, right)
    made = draw_exhibit(given("benz2021/fig1", {recipe: one}))
    assert [figure.title for figure in made.panels] == [
        "accuracy",
        "accuracy minus its mean",
        "robustness",
        "robustness minus its mean",
    ]
    lines = list(csv.DictReader(io.StringIO(figure_csv(made, "full"))))
    shown = [float(line["value"]) for line in lines if line["figure"] == "robustness minus its mean"]
    assert one.evidence is not None
    frame: ClassFrame = one.evidence.frame()
    assert shown == pytest.approx((100 * frame.deviation[1]).tolist(), abs=0.01)
    assert [line["name"] for line in lines if line["figure"] == "accuracy"] == [
        f"{c + 1}: {n}" for c, n in enumerate(CIFAR10)
    ]
