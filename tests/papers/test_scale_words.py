"""What a page says of its scale: the recipe, the assumptions that were made there, and what is missing."""

import html
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leastwise.data.classes import CIFAR10
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import TrainJob
from leastwise.papers.drawing.inputs import DrawingInput, describe_completeness, list_missing
from leastwise.papers.drawing.tables import make_table, put_first
from leastwise.papers.exhibit import PaperSetting, count_complete, is_complete, list_assumptions
from leastwise.papers.jobs import make_job
from leastwise.papers.page import draw_exhibit, write_page
from leastwise.papers.printed import read_errata
from leastwise.papers.recipes import Measured, PaperThreat, Recipe, Trained, trainings
from leastwise.papers.registry import EXHIBITS, PAPERS, list_recipes
from leastwise.papers.results import ExhibitResults, RecipeResult
from leastwise.papers.scales import describe_recipe, format_radius
from leastwise.training.averaging import FAWA
from tests.insight.evidence_of_logits import evidence_of, predicting
from tests.papers.results_made_up import found


def given(exhibit: str, results: dict[Recipe, RecipeResult], scale: str = "lite") -> DrawingInput:
    paper = PAPERS[exhibit.partition("/")[0]]
    return DrawingInput(paper, ExhibitResults(EXHIBITS[exhibit], scale, results, EXHIBITS), {})


def page_text(paper: str, scale: str, folder: Path) -> str:
    """The page of a whole paper without any result."""
    write_page(PAPERS[paper], PAPERS[paper].exhibits, scale, results={}, failed={}, folder=folder)
    text = (folder / "index.html").read_text()
    return html.unescape(re.sub(r"<(script|style)[^>]*>.*?</\1>", " ", text, flags=re.S))


def test_the_recipe_in_words() -> None:
    usual = Trained(ImageSet("cifar10"), "small", "pgd-at", threat=PaperThreat(8 / 255, 2 / 255, 5), epochs=8, rate=0.2)
    digits = replace(usual, data=ImageSet("mnist"), epochs=4, threat=PaperThreat(0.3, 0.075, 5))
    plain = replace(usual, method="standard", threat=None, optimiser="adam", rate=0.001)
    said = describe_recipe([usual, replace(usual, seed=1), digits, plain])
    assert "epochs: 8 (4: mnist)" in said and "network: small" in said and "batches of: 128" in said
    assert "attack in training: PGD-5 with steps of 2/255 at 8/255 (PGD-5 with steps of 0.075 at 0.3: mnist)" in said
    assert "rate: sgd in steps with rate 0.2 (adam in steps with rate 0.001: standard)" in said
    assert describe_recipe([]) == ()
    assert [format_radius(one) for one in (0.5 / 255, 8 / 255, 0.031, 0.5)] == ["0.5/255", "8/255", "0.031", "0.5"]


@pytest.mark.parametrize("paper", PAPERS)
def test_a_lite_page_says_its_recipe_and_no_setting_of_scale_full(paper: str, tmp_path: Path) -> None:
    lite, full = page_text(paper, "lite", tmp_path / "lite"), page_text(paper, "full", tmp_path / "full")
    recipes, _ = list_recipes(PAPERS[paper].exhibits, "lite")
    for phrase in describe_recipe(trainings(recipes)):
        assert phrase[1:] in lite
    assert "Network: small" in lite and "PGD-5 with steps of 2/255 at 8/255" in lite and "Epochs: 8" in lite
    everything = [one for exhibit in PAPERS[paper].exhibits for one in exhibit.assumed]
    settings = [one for one in everything if isinstance(one, PaperSetting)]
    assert settings
    for one in settings:
        assert f"Assumed: {one.full}." in full and f"Assumed: {one.full}." not in lite
        assert not one.lite or (f"Assumed: {one.lite}." in lite and f"Assumed: {one.lite}." not in full)
    for erratum in read_errata(paper):
        assert f"Here: {erratum.resolution}." in full
        if erratum.lite:
            assert f"Here: {erratum.lite}." in lite and f"{erratum.what} Here: {erratum.resolution}." not in lite
    for wrong in ("200 epochs", "Here: 34-10", "ten steps of 2/255"):
        assert wrong not in lite


def test_numbers_in_assumptions_of_lite_are_those_of_its_recipes() -> None:
    """The sentences are written by hand: the steps, rates and images they name are looked up in the declarations."""

    def nets(exhibit: str) -> tuple[Trained, ...]:
        return EXHIBITS[exhibit].trainings("lite")

    steps = {(t.threat.steps, format_radius(t.threat.step)) for t in nets("benz2021/fig2") if t.threat}
    assert steps == {(5, "2/255")} and "five steps of 2/255 in training" in said_at_lite("benz2021/fig2")
    rates = {(t.optimiser, t.schedule): t.rate for t in nets("benz2021/fig6")}
    assert rates["adam", "one-cycle"] == 0.001 and rates["sgd", "cyclic"] == 0.2
    assert "0.001, and two triangles between 0 and 0.2" in said_at_lite("benz2021/fig6")
    coloured = {(t.threat.steps, t.threat.step) for t in nets("tian2021/fig5") if t.threat}
    assert coloured == {(5, 0.125)} and "five of 0.125 in training" in said_at_lite("tian2021/fig5")
    digits = {
        (t.threat.steps, round(t.threat.step, 6)) for t in nets("tian2021/fig1") if t.threat and t.data.name == "mnist"
    }
    assert digits == {(5, 0.075)} and "five of 0.075 in training" in said_at_lite("benz2021/protocol")
    (frl,) = [t for t in nets("ahn/table1") if t.schedule == "frl"]
    assert (frl.epochs, frl.rate) == (8, 0.001) and "at 0.001 with beta 1.5, but for 8 epochs" in said_at_lite(
        "ahn/table1"
    )
    parts = [part for parts in EXHIBITS["tian2021/table1"]("lite").values() for part in parts]
    seen = {name: part.data.per_class for part in parts for name in part.conditions}  # type: ignore[union-attr]
    assert (seen["nattack:50"], seen["cwinf:100"]) == (20, 200)
    assert "for NAttack 20" in said_at_lite("tian2021/table1") and "not given: 50" in said_at_lite("tian2021/table1")


def said_at_lite(exhibit: str) -> str:
    return "; ".join(list_assumptions(EXHIBITS[exhibit].assumed, "lite"))


def test_what_is_missing_and_why() -> None:
    recipes, _ = list_recipes((EXHIBITS["tian2021/table1"],), "lite")
    heavy = [one for one in recipes if "nattack:50" in one.conditions]  # type: ignore[union-attr]
    results = {one: found(one) for one in recipes if one != heavy[0]}
    inputs = given("tian2021/table1", results)
    assert describe_completeness(inputs) == "Incomplete: of 8 rows 7 are there, 1 in part."
    assert list_missing(inputs) == ((("Madry, 2000 images under nattack:50",), "not run"),)
    failed = replace(inputs, failed={heavy[0]: "no memory"})
    assert list_missing(failed)[0].why == "failed: no memory"
    assert describe_completeness(given("tian2021/fig1", {})) == "Incomplete: of 6 rows none is there."
    reasons = {one.what[0]: one.why for one in list_missing(given("tian2021/fig1", {}))}
    assert reasons["imagenet"] == "imagenet is too large for two cores" and reasons["cifar10"] == "not run"
    assert describe_completeness(given("tian2021/table2", {})) == ""


def test_complete_exhibits_are_counted() -> None:
    some = (EXHIBITS["tian2021/table2"], EXHIBITS["tian2021/fig4a"], EXHIBITS["tian2021/fig1"])
    there = set(list_recipes(some, "lite")[0])
    assert count_complete(some, "lite", there.__contains__) == "2 of 3 exhibits complete"  # ImageNet is out of reach
    assert count_complete(some[:1], "lite", set().__contains__) == "1 of 1 exhibit complete"
    assert not is_complete(some[1], "lite", set().__contains__)


def test_summary_columns_lead_and_take_theirs_along() -> None:
    columns = ("Tot", "0", "1", "CV", "CV without noise", "MCD", "Tot minus PGD", "0 minus PGD")
    lead = put_first(columns, ("Tot", "CV", "MCD"))
    assert lead == ("Tot", "Tot minus PGD", "CV", "CV without noise", "MCD", "0", "1", "0 minus PGD")
    assert put_first(columns, ()) == columns
    made = draw_exhibit(given("tian2021/table3", {}))
    table = make_table("tian2021/table3", "lite", made.ours, units=made.units, lead=made.lead)
    assert table is not None and [c for c in table.columns if "minus" not in c][:3] == ["Tot", "CV", "MCD"]


def test_attacks_on_fewer_images_are_compared_with_pgd_on_those() -> None:
    """NAttack saw the first 20 images of each class, of which PGD leaves 20 and it 10; PGD leaves 50 of all 100."""
    recipes = EXHIBITS["tian2021/table1"]("lite")

    def audit(names: tuple[str, ...], right: dict[str, int], each: int) -> RecipeResult:
        labels, place = np.repeat(np.arange(10), each), np.tile(np.arange(each), 10)
        ids = 100 * labels + place
        logits = {name: predicting(np.where(place < right[name], labels, (labels + 1) % 10), 10) for name in names}
        return RecipeResult(evidence_of(logits, labels, names=CIFAR10, ids=ids))

    (light,) = recipes["Madry"]
    heavy = next(one for one in recipes["Madry, 2000 images"] if "nattack:50" in one.conditions)  # type: ignore[union-attr]
    results: dict[Recipe, RecipeResult] = {
        light: audit(("fgsm-rs", "pgd20", "transfer"), {"fgsm-rs": 60, "pgd20": 50, "transfer": 80}, 100),  # type: ignore[dict-item]
        heavy: audit(("nattack:50",), {"nattack:50": 10}, 20),  # type: ignore[dict-item]
    }
    made = draw_exhibit(given("tian2021/table1", results))
    assert made.ours["Madry NAttack", "Tot"][0] == 50 and made.ours["Madry PGD", "Tot"][0] == 50
    assert made.ours["Madry NAttack", "Tot minus PGD"][0] == -50  # 100 % of its images stood against PGD
    assert made.ours["Madry FGSM", "Tot minus PGD"][0] == 10
    (note,) = [str(one) for one in made.notes if "the images that both saw" in str(one)]
    assert note.startswith("NAttack saw 200 images, PGD 1,000:")


def test_table_4_says_how_far_it_depends_on_the_masks_and_where_more_than_the_background_changed() -> None:
    """Of 100 cats 50 are right and 25 withstand; on white by usual, tight and wide masks 52, 40, 55, and 30, 20, 35."""
    right = {"original": (50, 25), "white": (52, 30), "white, tight masks": (40, 20), "white, wide masks": (55, 35)}
    results: dict[Recipe, RecipeResult] = {}
    for role, counts in right.items():
        (recipe,) = EXHIBITS["tian2021/table4"]("lite")[role]
        place = np.arange(100)
        logits = {
            name: predicting(np.where(place < count, 3, 5), 10)
            for name, count in zip(("clean", "tpgd20-grid"), counts, strict=True)
        }
        results[recipe] = RecipeResult(evidence_of(logits, np.full(100, 3), names=CIFAR10))  # type: ignore[index]
    notes = [str(one) for one in draw_exhibit(given("tian2021/table4", results)).notes]
    (depends,) = [one for one in notes if one.startswith("How results depend on the masks")]
    assert "white +2.0 and +5.0; white, tight masks −10.0 and −5.0; white, wide masks +5.0 and +10.0." in depends
    (more,) = [one for one in notes if "more than the background" in one]
    assert more.startswith("white, tight masks: natural accuracy changes by −10.0 points")


def test_an_average_remembers_the_same_share_of_a_shorter_training() -> None:
    """FAWA's 0.85 of 200 epochs is 0.85^25 of eight: an epoch of lite stands for 25; without it six of eight count."""
    (row,) = EXHIBITS["ahn/table1"]("lite")["PGD + CFA"]
    assert isinstance(row, Measured) and isinstance(row.model, Trained)
    decay = dict(row.model.settings)["fawa.decay"]
    assert decay == pytest.approx(0.85**25) == pytest.approx(0.0172, abs=1e-4)
    job = make_job(row.model)
    assert isinstance(job, TrainJob) and job.training.averaging == FAWA(decay=decay)
    assert "average of weights: fawa with decay 0.017" in describe_recipe([row.model])
