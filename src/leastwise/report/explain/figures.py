"""The figures: explain.json -> charts of one model, class by class and as maps."""

from collections.abc import Mapping, Sequence

import numpy as np

from leastwise.report.charts.heatmap import HeatmapStyle, heatmap
from leastwise.report.charts.lines import TICKS, Axes, Point, Series, grouped_bar_chart, line_chart, scatter_chart
from leastwise.report.explain.facts import ExplainFacts, with_nans
from leastwise.report.explain.sentences import format_signed
from leastwise.report.figures import CELL, LABELS, Figure

TOP = 12  # classes in a ranking
MOST = 200  # classes up to which lines over all of them are drawn: their names alone would double the page
LARGEST = 30  # classes up to which matrices are drawn
COSINES = HeatmapStyle("", "cosine", "", digits=2, signed=True, least_top=1.0)


def weakest_classes(made: ExplainFacts) -> list[int]:
    """Classes with images, weakest under attack first."""
    accuracy = made["accuracy"][made["condition"]]
    return sorted((c for c, a in enumerate(accuracy) if a is not None), key=lambda c: accuracy[c])


def class_figures(made: ExplainFacts) -> list[Figure]:
    """Charts over the classes: clean against robust accuracy, shares, outputs, features and overfitting."""
    names, order = made["classes"], weakest_classes(made)
    condition, base = made["condition"], made["clean"]
    found: list[Figure | None] = []
    if condition != base:
        robust, clean = made["accuracy"][condition], made["accuracy"][base]
        small = len(order) <= 14
        dots = [
            Point(100 * clean[c], 100 * robust[c], "classes", names[c] if small else "")
            for c in order
            if clean[c] is not None
        ]
        rho = made["predicts"].get("clean accuracy", {})
        told = ""
        if rho.get("rho") is not None:
            value, low, high = (format_signed(rho[part]) for part in ("rho", "low", "high"))
            told = f"rank correlation {value} [{low}, {high}]"
        axes = Axes(f"accuracy under {base}, %", f"accuracy under {condition}, %")
        about = f"Each class: accuracy under {base} and under {condition}."
        found.append(
            Figure("Clean difficulty and robustness", told, scatter_chart(dots, axes, about, height=260, size=50))
        )
    found.append(
        ranking_figure(made, made["in_flow"], "Where mistakes end", up=f"share of all mistakes under {condition}, %")
    )
    if made["drop_share"] is not None:
        title = f"Share of the fall from {base} to {condition}"
        found.append(ranking_figure(made, made["drop_share"], title, up="share of the fall, %"))
    both = tuple(dict.fromkeys((base, condition)))
    entropies, variances = ({name: made[what][name] for name in both} for what in ("entropy", "cvc"))
    found.append(class_lines_figure(made, entropies, "Entropy of the outputs", up="nats", digits=3))
    found.append(class_lines_figure(made, variances, "Variance of confidence (CVC)", up="CVC", digits=4))
    if made["features"] is not None:
        own = made["features"]
        title, one = f"Similarity of features ({own['dimensions']} dimensions)", own["similarity"]
        found.append(class_lines_figure(made, {"largest cosine with another class": one}, title, up="cosine", digits=3))
        two = {"mean over dimensions": own["variance"], "pooled": own["variance_pooled"]}
        found.append(class_lines_figure(made, two, "Variance of features", up="variance", digits=4))
    if made["overfitting"] is not None:
        over = made["overfitting"]
        series = {
            "since the best epoch": in_percent(over["lost"]),
            "train minus other images, at the end": in_percent(over["gap"]),
        }
        title = f"Robust overfitting, {over['images']} images"
        found.append(class_lines_figure(made, series, title, up="points", digits=1))
    return [one for one in found if one is not None]


def in_percent(values: Sequence[float | None]) -> list[float | None]:
    """Fractions in percent; what is missing stays missing."""
    return [None if v is None else 100 * v for v in values]


def ranking_figure(made: ExplainFacts, values: Sequence[float | None], title: str, *, up: str) -> Figure | None:
    """The classes with the largest shares."""
    known = [c for c, v in enumerate(values) if v is not None]
    order = sorted(known, key=lambda c: -(values[c] or 0.0))[:TOP]
    if not order:
        return None
    names = [made["classes"][c] for c in order]
    series = Series("share", tuple(100 * (values[c] or 0.0) for c in order))
    told = f"the {len(order)} largest of {len(known):,}" if len(known) > len(order) else "largest first"
    return Figure(title, told, grouped_bar_chart([series], names, Axes("class", up), about=f"{title}, largest first."))


def class_lines_figure(
    made: ExplainFacts, series: Mapping[str, Sequence[float | None]], title: str, *, up: str, digits: int
) -> Figure | None:
    """Lines over the classes, weakest under attack first."""
    order = weakest_classes(made)
    drawn = [Series(name, tuple(values[c] for c in order)) for name, values in series.items()]
    if len(order) > MOST or not any(v is not None for one in drawn for v in one.y):
        return None
    names = [made["classes"][c] for c in order]
    across = "classes, weakest under attack first" if len(order) > TICKS else "class, weakest under attack first"
    return Figure(
        title, "", line_chart(drawn, Axes(across, up, digits=digits), f"{title}, class by class.", categories=names)
    )


def map_figures(made: ExplainFacts) -> list[Figure]:
    """The plane of features, and the matrices of logits and of homing, if there are not too many classes."""
    names, order = made["classes"], weakest_classes(made)
    found = []
    if made["plane"] is not None and len(order) <= TICKS:
        dots = [Point(x, y, names[int(c)]) for x, y, c in made["plane"]]
        title = "Features in the plane where the class means lie farthest apart"
        axes = Axes("first direction", "second direction")
        found.append(
            Figure(title, "some images of each class", scatter_chart(dots, axes, f"{title}.", height=360, size=16))
        )
    if made["logit_similarity"] is not None and len(order) <= LARGEST:
        matrix = np.array([with_nans(row) for row in made["logit_similarity"]])
        if not np.isnan(matrix).all():
            title = f"Similarity of mean logits under {made['condition']}"
            found.append(square_figure([names[c] for c in order], matrix[np.ix_(order, order)], title, style=COSINES))
    if made["homing"] is not None and len(order) <= LARGEST:
        matrix = np.array([with_nans(row) for row in made["homing"]["homed"]])
        title = "Homing: images that come right when the column’s class is removed"
        style = HeatmapStyle("removed class", "images", digits=0)
        found.append(square_figure([names[c] for c in order], matrix[np.ix_(order, order)], title, style=style))
    return found


def square_figure(names: Sequence[str], matrix: "np.ndarray", title: str, *, style: HeatmapStyle) -> Figure:
    """A matrix of all classes as a heatmap."""
    cells = [(a, b, float(matrix[i, j])) for i, a in enumerate(names) for j, b in enumerate(names)]
    least = 130 + 40 * len(names) if len(names) <= 12 else LABELS + CELL * len(names)
    return Figure(title, "", heatmap(cells, names, names, style=style, about=title), least=least)
