"""What charts of the papers promise: colours that stay, axes that can be compared, nobody named without a reason."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from leastwise.core.counts import Tally
from leastwise.data.classes import CIFAR100_GROUPS
from leastwise.papers.drawing.epochs import epoch_figure
from leastwise.papers.drawing.inputs import DrawingInput, ExhibitDrawing
from leastwise.papers.page import draw_exhibit
from leastwise.papers.recipes import Recipe
from leastwise.papers.registry import EXHIBITS, PAPERS, list_recipes
from leastwise.papers.results import ExhibitResults, RecipeResult
from leastwise.papers.tradeoff2022.shapes import round_ends
from leastwise.report.charts.lines import PLANE, Axes, Point, plane_chart
from leastwise.report.ends import find_ends
from leastwise.report.figures import Figure
from tests.papers.results_made_up import found


def draw(exhibit: str, without: Mapping[Recipe, str] | None = None, scale: str = "lite") -> ExhibitDrawing:
    recipes, _ = list_recipes((EXHIBITS[exhibit],), scale)
    results: dict[Recipe, RecipeResult] = {one: found(one) for one in recipes if one not in (without or {})}
    paper = PAPERS[exhibit.partition("/")[0]]
    return draw_exhibit(DrawingInput(paper, ExhibitResults(EXHIBITS[exhibit], scale, results, EXHIBITS), {}))


@cache
def drawn(exhibit: str) -> ExhibitDrawing:
    return draw(exhibit)


def layers_of(figure: Figure) -> list[dict[str, Any]]:
    return list(figure.spec["layer"])


def looks(figure: Figure) -> dict[str, tuple[str, ...]]:
    """Colour, shape and dashes of each series of a figure."""
    found_in: dict[str, dict[str, str]] = {}
    for layer in layers_of(figure):
        for channel in ("color", "shape", "strokeDash"):
            scale = layer["encoding"].get(channel, {}).get("scale", {})
            for name, look in zip(scale.get("domain", ()), scale.get("range", ()), strict=True):
                found_in.setdefault(name, {})[channel] = str(look)
    return {name: tuple(sorted(look.items())) for name, look in found_in.items()}


COMPARED = ("tradeoff2022/fig7", "tradeoff2022/fig2", "tradeoff2022/fig6", "tradeoff2022/fig9", "ahn/fig1", "ahn/fig9")


@pytest.mark.parametrize("exhibit", COMPARED)
def test_a_series_looks_the_same_in_every_panel_of_an_exhibit(exhibit: str) -> None:
    known: dict[str, tuple[str, ...]] = {}
    for figure in drawn(exhibit).panels:
        for name, look in looks(figure).items():
            assert known.setdefault(name, look) == look, (figure.title, name)
    assert known


@pytest.mark.parametrize("exhibit", ["tradeoff2022/fig7", "ahn/fig9"])
def test_no_other_series_of_adjacent_panels_looks_like_it(exhibit: str) -> None:
    known: dict[tuple[str, ...], str] = {}
    for figure in drawn(exhibit).panels:
        for name, look in looks(figure).items():
            assert known.setdefault(look, name) == name, (figure.title, name)


def test_a_training_whose_robust_record_is_missing_does_not_change_the_colours_of_the_others() -> None:
    """As in the stored results, where two of eight were trained before there was such a record."""
    recipes, _ = list_recipes((EXHIBITS["ahn/fig9"],), "lite")
    results = {one: found(one) for one in recipes}
    results[recipes[0]] = results[recipes[0]]._replace(robust_epochs=())
    view = ExhibitResults(EXHIBITS["ahn/fig9"], "lite", results, EXHIBITS)
    clean, robust, *_ = draw_exhibit(DrawingInput(PAPERS["ahn"], view, {})).panels
    assert set(looks(robust)) < set(looks(clean))
    assert all(looks(clean)[name] == look for name, look in looks(robust).items())


def test_panels_of_errors_have_the_same_axes() -> None:
    ends = [
        {layer["encoding"]["y"]["scale"].get(end) for layer in layers_of(figure) for end in ("domainMin", "domainMax")}
        for exhibit in ("tradeoff2022/fig1ab", "tradeoff2022/fig3")
        for figure in drawn(exhibit).panels
        if "errors" in figure.title
    ]
    assert len(ends) == 4 and all(one == {0.0, 100.0} for one in ends)


def test_rows_of_shapes_have_the_axes_of_each_other() -> None:
    panels = drawn("tradeoff2022/fig6").panels
    for first, second in zip(panels[:3], panels[3:], strict=True):
        a, b = (layers_of(figure)[0]["encoding"]["y"]["scale"] for figure in (first, second))
        assert a == b and a["domainMin"] < a["domainMax"]
        values = [row["value"] for one in (first, second) for row in rows_of(one)]
        assert a["domainMin"] <= min(values) and max(values) <= a["domainMax"]
    assert round_ends([np.array([0.012, 0.31])]) == pytest.approx((0.0, 0.35)) and round_ends([np.ones(3)]) == (
        None,
        None,
    )


def rows_of(figure: Figure) -> list[dict[str, Any]]:
    return list(figure.spec["datasets"][figure.spec["data"]["name"]])


def test_a_plane_has_equal_axes_its_origin_and_rays_from_it() -> None:
    made = plane_chart([Point(1.0, 2.0, "a"), Point(3.0, 4.0, "a"), Point(5.0, 0.5, "b")], Axes("x", "y"), "")
    scales = [
        layer["encoding"][channel]["scale"]
        for layer in made["layer"]
        for channel in ("x", "y")
        if "scale" in layer["encoding"].get(channel, {})
    ]
    low, high = scales[0]["domain"]
    assert all(scale["domain"] == [low, high] and not scale["nice"] for scale in scales) and low < 0 < 5 < high
    assert made["width"] == made["height"] == PLANE and made["autosize"]["type"] == "pad"
    marks = [layer["mark"]["type"] for layer in made["layer"]]
    assert marks.count("rule") == 3 and marks.count("point") == 2  # two axes and rays; points and the origin
    rays = made["layer"][2]
    assert rays["transform"][0]["groupby"] == ["series"] and {
        one["op"] for one in rays["transform"][0]["aggregate"]
    } == {"mean"}
    planes = [figure for figure in drawn("tradeoff2022/fig3").panels if "features" in figure.title]
    assert len(planes) == 2 and all(figure.spec["width"] == figure.spec["height"] for figure in planes)


def tally(*right: int, n: int = 20) -> Tally:
    return Tally(torch.full((len(right),), n), torch.tensor(right))


def test_of_classes_that_are_level_nobody_is_the_weakest() -> None:
    names = tuple("abcdefghi")
    even = epoch_figure(names, [tally(*range(9)), tally(*[0] * 9)], "t", told="")
    assert even.key[0] == ("● weakest at the end", "9 classes level at 0.0 %") and even.key[2][1] == even.key[0][1]
    assert {row["kind"] for row in rows_of(even)} == {"other", "overall"}
    some = epoch_figure(names, [tally(0, 0, 0, 0, 5, 9, 18, 19, 20)], "t", told="")
    assert some.key[0][1] == "4 classes level at 0.0 %" and some.key[2][1] == "i, h, g"
    assert find_ends({0: 1.0, 1: 2.0, 2: 2.0, 3: 2.0, 4: 2.0, 5: 3.0, 6: 4.0, 7: 5.0, 8: 6.0}).weakest == (0,)
    assert find_ends({0: 1.0, 1: 1.0, 2: 1.0, 3: 2.0, 4: 2.0, 5: 3.0, 6: 4.0, 7: 5.0, 8: 6.0}).weakest == (0, 1, 2)
    assert find_ends({4: 7.0}).kinds == {} and find_ends({4: 7.0, 5: 8.0}).kinds == {4: "weak", 5: "strong"}


def test_many_conditions_are_a_map_with_a_number_in_each_cell_and_not_nine_bars() -> None:
    made = drawn("benz2021/fig16").wide[0]
    assert [layer["mark"]["type"] for layer in layers_of(made)] == ["rect", "text"]
    cells = rows_of(made)
    assert len(cells) == 9 * 10 and "9 conditions, 10 classes" in made.caption
    clean = {row["to"]: row["value"] for row in cells if row["name"] == "clean"}
    assert sum(clean.values()) == pytest.approx(0, abs=0.1)
    few = drawn("benz2021/fig15").panels[0]
    assert layers_of(few)[0]["mark"]["type"] == "bar"


@pytest.mark.parametrize(("exhibit", "title"), [("benz2021/fig13", "All classes"), ("tian2021/fig2", "CIFAR-100")])
def test_a_matrix_of_a_hundred_classes_names_its_superclasses(exhibit: str, title: str) -> None:
    (made,) = (figure for figure in drawn(exhibit).wide if figure.title == title)
    axis = layers_of(made)[0]["encoding"]["y"]["axis"]
    assert axis["labels"] and len(axis["values"]) == 20
    assert all(name in axis["labelExpr"] for name, _ in CIFAR100_GROUPS)
    order = layers_of(made)[0]["encoding"]["y"]["sort"]
    assert [order.index(name) for name in axis["values"]] == [5 * n + 2 for n in range(20)]  # the third of five
