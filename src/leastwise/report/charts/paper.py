"""Charts of the page as pictures for a paper: real sizes in points, letters of 8 points, colours on white."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt

from leastwise.core.files import write_atomic
from leastwise.report.charts.bars import CONFIG, MARK, Spec

COLUMN, BOTH = 240, 504  # points: the width of a column, and of the page, of usual two-column papers
SMALLER = 8 / 12  # letters of the page have 12 pixels
FONT = "Helvetica, Arial, Liberation Sans, sans-serif"
DPI = 300  # of a .png
GAP, ROOM = 8, 32  # points between charts, and for the numbers beside one
LETTER, MOST_NAME = 4.2, 145.0  # points of a letter of a class name, on average, and of a whole name

PLAIN_MARK = " ‹"  # which every font has: without the other sign a renderer takes another font for the whole text

# The light half of the style sheet's colours.
COLOURS = {
    "paper": "#ffffff",
    "raised": "#f6f7f9",
    "ink": "#1b1f24",
    "muted": "#59626e",
    "line": "#e4e7eb",
    "line-strong": "#b6bec8",
    "bar": "#2f6fa8",
    "calm": "#2f6fa8",
    "weak": "#c04f00",
    "on-weak": "#ffffff",
    "warn": "#fff4e5",
    "s1": "#2f6fa8",
    "s2": "#c04f00",
    "s3": "#00806a",
    "s4": "#a14d8c",
    "s5": "#8a6d00",
    "s6": "#4b4b9f",
    "s7": "#6b7280",
    "s8": "#b3243f",
    "s9": "#1d8fb5",
    "s10": "#4d7a1f",
}
LENGTHS = (
    *("fontSize", "labelFontSize", "titleFontSize", "labelPadding", "titlePadding", "labelLimit", "offset", "dx", "dy"),
    *("strokeWidth", "strokeDash", "thickness", "height", "cornerRadiusEnd", "left", "right", "top", "bottom"),
)


def make_picture(specs: Sequence[tuple[str, Spec]], *, width: int = COLUMN, columns: int = 1) -> alt.TopLevelMixin:
    """A chart whose `save` writes .svg, .pdf, .png or .html: specifications of the page, each with a title."""
    config = shrink_lengths(paint(CONFIG)) | {"background": COLOURS["paper"], "font": FONT}
    if len(specs) == 1:
        title, spec = specs[0]
        made = fit_chart(shrink_lengths(paint(spec)), width) | ({"title": make_title(title)} if title else {})
    else:
        made = {"concat": beside_each_other(specs, width, columns), "columns": columns, "spacing": GAP, "padding": 2}
        made["datasets"] = {name: rows for _, spec in specs for name, rows in spec.get("datasets", {}).items()}
    kind = alt.ConcatChart if "concat" in made else alt.LayerChart if "layer" in made else alt.Chart
    chart: alt.TopLevelMixin = kind.from_dict(made | {"config": config}, validate=False)
    return chart


def write_picture(chart: alt.TopLevelMixin, file: Path) -> None:
    """Write a chart by the ending of the file, whole or not at all."""
    import vl_convert

    spec = chart.to_dict(validate=False)
    kind = file.suffix.lower()
    if kind == ".svg":
        content = vl_convert.vegalite_to_svg(spec).encode()
    elif kind == ".pdf":
        content = vl_convert.vegalite_to_pdf(spec)
    else:
        content = vl_convert.vegalite_to_png(spec, scale=1, ppi=DPI)
    write_atomic(file, content)


def fit_chart(spec: Spec, width: int) -> Spec:
    """A chart that is so wide with its labels and with the numbers that stand at its right."""
    padding = {"left": 2, "right": ROOM if has_margin_numbers(spec) else 6, "top": 2, "bottom": 2}
    return spec | {"width": width, "autosize": {"type": "fit-x", "contains": "padding"}, "padding": padding}


def beside_each_other(specs: Sequence[tuple[str, Spec]], width: int, columns: int) -> list[Spec]:
    """Charts of one list of classes in rows: only the first of a row has the names of the classes."""
    charts = [shrink_lengths(paint(spec)) for _, spec in specs]
    names = min(MOST_NAME, LETTER * max((len(name) for spec in charts for name in class_names(spec)), default=8) + 4)
    room = ROOM if any(map(has_margin_numbers, charts)) else 6
    each = (width - names - columns * room - GAP * (columns - 1)) // columns
    made = []
    for number, ((title, _), spec) in enumerate(zip(specs, charts, strict=True)):
        plain = {name: value for name, value in spec.items() if name not in ("autosize", "padding", "datasets")}
        named = plain if number % columns == 0 else without_names(plain)
        made.append(named | {"width": each, "title": make_title(title)})
    return made


def make_title(text: str) -> Spec:
    """The title of a chart."""
    return {"text": text, "anchor": "start", "fontSize": 8.5, "color": COLOURS["ink"], "offset": 4}


def class_names(spec: Spec) -> list[str]:
    """The names at the left of a chart."""
    rows = (layer.get("encoding", {}).get("y", {}).get("scale", {}).get("domain", ()) for layer in spec["layer"])
    return [str(name) for name in max(rows, key=len)]


def without_names(spec: Spec) -> Spec:
    """The same chart without the names at its left."""

    def bare(layer: Spec) -> Spec:
        encoding = layer.get("encoding", {})
        y = encoding.get("y")
        return layer if not y else layer | {"encoding": encoding | {"y": y | {"axis": None}}}

    return spec | {"layer": [bare(layer) for layer in spec["layer"]]}


def has_margin_numbers(spec: Spec) -> bool:
    """Whether a layer writes to the right of the chart."""
    return any(layer.get("encoding", {}).get("x", {}).get("value") == "width" for layer in spec.get("layer", ()))


def paint(part: Any) -> Any:
    """The same with colours in the place of the style sheet's names for them, and a plain sign for what is marked."""
    if isinstance(part, Mapping):
        return {name: paint(value) for name, value in part.items()}
    if isinstance(part, list):
        return [paint(value) for value in part]
    if isinstance(part, str):
        part = part.replace(MARK, PLAIN_MARK)
    return re.sub(r"var\(--([\w-]+)\)", lambda found: COLOURS[found[1]], part) if isinstance(part, str) else part


def shrink_lengths(part: Any, kind: str = "") -> Any:
    """The same with every length smaller; data and encodings of numbers stay as they are."""
    if isinstance(part, list):
        return [shrink_lengths(value, kind) for value in part]
    if not isinstance(part, Mapping):
        return part
    kind, made = str(part.get("type", kind)), {}
    for name, value in part.items():
        if name in ("data", "datasets"):
            made[name] = value
        elif name in LENGTHS and isinstance(value, int | float | list):
            made[name] = [SMALLER * one for one in value] if isinstance(value, list) else round(SMALLER * value, 2)
        elif name == "size" and isinstance(value, int | float):
            made[name] = round((SMALLER if kind == "tick" else SMALLER**2) * value, 2)
        else:
            made[name] = shrink_lengths(value, kind)
    return made
