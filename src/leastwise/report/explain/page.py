"""explain.json -> the sentences, figures and table of a page."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leastwise.report.charts.heatmap import HeatmapStyle, heatmap
from leastwise.report.charts.lines import TICKS, Axes, Point, Series, grouped_bars, lines, scatter
from leastwise.report.explain.reasons import filled
from leastwise.report.figures import CELL, LABELS, Figure
from leastwise.report.html import number_figures
from leastwise.report.text import percent

TOP = 12  # classes in a ranking
ROWS = 40  # rows of the table
MOST = 200  # classes up to which lines over all of them are drawn: their names alone would double the page
LARGEST = 30  # classes up to which matrices are drawn
Made = Mapping[str, Any]
COSINES = HeatmapStyle("", "cosine", "", digits=2, signed=True, least_top=1.0)


def part(made: Made, specs: list[Any]) -> dict[str, Any]:
    """What the template shows of one model."""
    columns, rows = table(made)
    k = sum(1 for n in made["images"] if n)
    notes = [
        "Hints, not causes: several candidates were looked at, and one may be high by chance. Candidates from the same "
        "images are measured on one half of them, accuracy under attack on the other. Intervals of rank correlations "
        "are over classes."
    ]
    if k > ROWS:
        notes.append(f"The table has the {ROWS} weakest of {k:,} classes; explain.json has all.")
    if made["features"] is None:
        notes.append("Similarity and variance of features need the network itself: `leastwise explain MODEL`.")
    return {
        "sentences": sentences(made),
        "figures": number_figures(figures(made), specs),
        "wide": number_figures(maps(made), specs),
        "columns": columns,
        "rows": rows,
        "sheets": [made["sheet"]] if made.get("sheet") else [],
        "notes": notes,
    }


def sentences(made: Made) -> list[str]:
    condition, names = made["condition"], made["classes"]
    said = []
    if made["attractor"] is not None:
        said.append(attracted(made))
    mutual = made["symmetry"]
    if mutual["score"] is not None:
        score, meaning = signed(mutual["score"]), "1 if i is taken for j as often as j for i"
        if mutual["p"] is None:
            said.append(f"The symmetry of confusions is {score}, {meaning}; with so many classes it was not tested.")
        else:
            word = "is" if mutual["p"] <= 0.05 else "was not shown to be"
            said.append(f"Confusion {word} mutual: its symmetry is {score} (p = {mutual['p']:.2g}), {meaning}.")
    if made["inside"] is not None and made["inside"]["share"] is not None:
        inside = made["inside"]
        share, chance = percent(inside["share"]), percent(inside["expected"])
        said.append(f"{share} % of the mistakes stay inside a superclass; {chance} % would by chance.")
    if made["communities"] is not None and made["communities"]["agreement"] is not None:
        agreement = made["communities"]["agreement"]
        said.append(
            f"Classes that are confused with each other agree with the superclasses by {signed(agreement)} (adjusted "
            "Rand index: 1 the same, 0 as by chance)."
        )
        if len(names) <= LARGEST:
            parts = "; ".join(", ".join(part) for part in made["communities"]["found"] if len(part) > 1)
            said.append(f"They are: {parts}." if parts else "No two classes belong together more than others.")
    for name, r in made["predicts"].items():
        if r["rho"] is not None:
            interval = f"[{signed(r['low'])}, {signed(r['high'])}]"
            said.append(
                f"Classes by {name} and by accuracy under {condition}: rank correlation {signed(r['rho'])} {interval}."
            )
    if top := made["drop_top"]:
        span = f"[{percent(top['low'])}, {percent(top['high'])}]"
        fall = f"the fall from {made['clean']} to {condition}"
        said.append(f"{' and '.join(top['classes'])} carry {percent(top['value'])} % {span} of {fall}.")
    if made["homing"] is not None and made["homing"]["share"] is not None:
        said.append(homing_sentence(made["homing"]))
    if made["overfitting"] is not None:
        over = made["overfitting"]
        lost = filled(over["lost"])
        if not np.isnan(lost).all():
            worst = int(np.nanargmax(lost))
            kind = "Robust overfitting" if over["kind"] == "robust" else "Overfitting without attack"
            said.append(
                f"{kind} ({over['images']} images): from epoch {over['best_epoch']} to the last, "
                f"{names[worst]} lost most, {percent(float(lost[worst]))} points; the mean class lost "
                f"{percent(float(np.nanmean(lost)))}."
            )
    return said


def attracted(made: Made) -> str:
    """Where most mistakes end, and who shares that place."""
    share = max(v for v in made["in_flow"] if v is not None)
    first = [name for name, v in zip(made["classes"], made["in_flow"], strict=True) if v == share]
    if len(first) == 1:
        return f"More mistakes under {made['condition']} end in {first[0]} than in any other class: {percent(share)} %."
    some = f"{', '.join(first[:-1])} and {first[-1]}" if len(first) <= 3 else f"each of {len(first)} classes"
    return f"Mistakes under {made['condition']} end most often in {some}: {percent(share)} % in each."


def homing_sentence(homing: Made) -> str:
    gain = homing["gain"]
    more = ""
    if gain["value"] is not None:
        span = f"[{100 * gain['low']:+.1f}, {100 * gain['high']:+.1f}]"
        more = f", {100 * gain['value']:+.1f} points {span} more than without another class".replace("-", "−")
    home = percent(homing["share"])
    return f"Of the misclassified images {home} % come home when the class they are taken for is removed{more}."


def signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def present(made: Made) -> list[int]:
    """Classes with images, weakest under attack first."""
    accuracy = made["accuracy"][made["condition"]]
    return sorted((c for c, a in enumerate(accuracy) if a is not None), key=lambda c: accuracy[c])


def figures(made: Made) -> list[Figure]:
    names, order = made["classes"], present(made)
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
        told = (
            ""
            if rho.get("rho") is None
            else f"rank correlation {signed(rho['rho'])} [{signed(rho['low'])}, {signed(rho['high'])}]"
        )
        axes = Axes(f"accuracy under {base}, %", f"accuracy under {condition}, %")
        about = f"Each class: accuracy under {base} and under {condition}."
        found.append(Figure("Clean difficulty and robustness", told, scatter(dots, axes, about, 260, 50)))
    found.append(ranking(made, made["in_flow"], "Where mistakes end", f"share of all mistakes under {condition}, %"))
    if made["drop_share"] is not None:
        title = f"Share of the fall from {base} to {condition}"
        found.append(ranking(made, made["drop_share"], title, "share of the fall, %"))
    both = tuple(dict.fromkeys((base, condition)))
    found.append(by_class(made, {name: made["entropy"][name] for name in both}, "Entropy of the outputs", "nats", 3))
    found.append(by_class(made, {name: made["cvc"][name] for name in both}, "Variance of confidence (CVC)", "CVC", 4))
    if made["features"] is not None:
        own = made["features"]
        title = f"Similarity of features ({own['dimensions']} dimensions)"
        found.append(by_class(made, {"largest cosine with another class": own["similarity"]}, title, "cosine", 3))
        two = {"mean over dimensions": own["variance"], "pooled": own["variance_pooled"]}
        found.append(by_class(made, two, "Variance of features", "variance", 4))
    if made["overfitting"] is not None:
        over = made["overfitting"]
        series = {
            "since the best epoch": scaled(over["lost"]),
            "train minus other images, at the end": scaled(over["gap"]),
        }
        found.append(by_class(made, series, f"Robust overfitting, {over['images']} images", "points", 1))
    return [one for one in found if one is not None]


def scaled(values: Sequence[float | None]) -> list[float | None]:
    return [None if v is None else 100 * v for v in values]


def ranking(made: Made, values: Sequence[float | None], title: str, up: str) -> Figure | None:
    """The classes with the largest shares."""
    known = [c for c, v in enumerate(values) if v is not None]
    order = sorted(known, key=lambda c: -(values[c] or 0.0))[:TOP]
    if not order:
        return None
    names = [made["classes"][c] for c in order]
    series = Series("share", tuple(100 * (values[c] or 0.0) for c in order))
    told = f"the {len(order)} largest of {len(known):,}" if len(known) > len(order) else "largest first"
    return Figure(title, told, grouped_bars([series], names, Axes("class", up), f"{title}, largest first."))


def by_class(
    made: Made, series: Mapping[str, Sequence[float | None]], title: str, up: str, digits: int
) -> Figure | None:
    """Lines over the classes, weakest under attack first."""
    order = present(made)
    drawn = [Series(name, tuple(values[c] for c in order)) for name, values in series.items()]
    if len(order) > MOST or not any(v is not None for one in drawn for v in one.y):
        return None
    names = [made["classes"][c] for c in order]
    across = "classes, weakest under attack first" if len(order) > TICKS else "class, weakest under attack first"
    return Figure(title, "", lines(drawn, Axes(across, up, digits=digits), f"{title}, class by class.", names))


def maps(made: Made) -> list[Figure]:
    names, order = made["classes"], present(made)
    found = []
    if made["plane"] is not None and len(order) <= TICKS:
        dots = [Point(x, y, names[int(c)]) for x, y, c in made["plane"]]
        title = "Features in the plane where the class means lie farthest apart"
        axes = Axes("first direction", "second direction")
        found.append(Figure(title, "some images of each class", scatter(dots, axes, f"{title}.", 360, 16)))
    if made["logit_similarity"] is not None and len(order) <= LARGEST:
        matrix = np.array([filled(row) for row in made["logit_similarity"]])
        if not np.isnan(matrix).all():
            title = f"Similarity of mean logits under {made['condition']}"
            found.append(square([names[c] for c in order], matrix[np.ix_(order, order)], title, COSINES))
    if made["homing"] is not None and len(order) <= LARGEST:
        matrix = np.array([filled(row) for row in made["homing"]["homed"]])
        title = "Homing: images that come right when the column’s class is removed"
        look = HeatmapStyle("removed class", "images", digits=0)
        found.append(square([names[c] for c in order], matrix[np.ix_(order, order)], title, look))
    return found


def square(names: Sequence[str], matrix: "np.ndarray", title: str, look: HeatmapStyle) -> Figure:
    cells = [(a, b, float(matrix[i, j])) for i, a in enumerate(names) for j, b in enumerate(names)]
    least = 130 + 40 * len(names) if len(names) <= 12 else LABELS + CELL * len(names)
    return Figure(title, "", heatmap(cells, names, names, style=look, about=title), least=least)


def table(made: Made) -> tuple[list[str], list[list[str]]]:
    """Class by class, weakest first."""
    condition, base, own = made["condition"], made["clean"], made["features"]
    columns = [
        "class",
        f"{condition}, %",
        f"{base}, %",
        "mistakes that end here, %",
        "share of the fall, %",
        "entropy",
        "CVC",
    ]
    columns += ["most similar class", "cosine", "variance"] if own else []
    rows = []
    for c in present(made)[:ROWS]:
        row = [made["classes"][c]]
        row += [shown(made["accuracy"][name][c], 100.0, 1) for name in (condition, base)]
        row.append(shown(made["in_flow"][c], 100.0, 1))
        row.append(shown(made["drop_share"][c] if made["drop_share"] is not None else None, 100.0, 1))
        row += [shown(made["entropy"][base][c], 1.0, 3), shown(made["cvc"][base][c], 1.0, 4)]
        if own:
            row += [own["most_similar"][c], shown(own["similarity"][c], 1.0, 3), shown(own["variance"][c], 1.0, 4)]
        rows.append(row)
    return columns, rows


def shown(value: float | None, times: float, digits: int) -> str:
    return "–" if value is None else f"{times * value:.{digits}f}".replace("-", "−")
