"""A rectangle of numbers as a Vega-Lite specification: confusions in percent or counts, cosines."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import altair as alt

from leastwise.report.charts.bars import Spec, finish_chart

NUMBERED = 12  # rows up to which every cell shows its number
NAMED = 45  # rows up to which they have names; of more, pointing at a cell gives them


@dataclass(frozen=True)
class HeatmapStyle:
    """What the cells of a map are and how they are written."""

    across: str = "predicted class"
    unit: str = "% of the class"
    down: str = "true class"
    digits: int = 0
    signed: bool = False  # cosines: negative cells have the other colour
    least_top: float = 10.0  # the value that has the full colour is the largest one, or at least this


def row_height(size: int) -> int:
    """Pixels of a row."""
    return 34 if size <= NUMBERED else 20 if size <= 24 else 15 if size <= NAMED else max(2, 600 // size)


def format_cell(value: float, digits: int) -> str:
    """With a true minus sign, and none before a zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def heatmap(
    cells: Sequence[tuple[str, str, float]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    style: HeatmapStyle,
    about: str,
    firsts: Sequence[str] = (),
    groups: Mapping[str, str] = MappingProxyType({}),
) -> Spec:
    """Cells from row to column; `firsts` begin a superclass and get a line before them.

    Of more rows than can have names, `groups` are the superclasses, each by the class beside which its name stands.
    Missing cells stay empty, and of shares and counts those of 0 too; a cosine of 0 is a number like any other.
    """
    size, step = max(len(rows), len(columns)), row_height(len(rows))
    top = max([*(abs(v) for a, b, v in cells if a != b and v == v), style.least_top])
    tip = [
        alt.Tooltip("name:N", title=style.down),
        alt.Tooltip("to:N", title=style.across),
        alt.Tooltip("value:Q", title=style.unit, format=f".{style.digits + 1}f" if style.digits < 2 else ".3f"),
    ]
    base = alt.Chart().encode(**name_axes(rows, columns, style, groups=groups))
    strength = "abs(datum.value)" if style.signed else "datum.value"
    shade = alt.Opacity("strength:Q", scale=alt.Scale(domain=[0, top], range=[0.04, 1], clamp=True), legend=None)
    square = list(rows) == list(columns)
    calm = "datum.value > 0" if style.signed else "datum.name === datum.to" if square else "false"
    fill = alt.when(calm).then(alt.value("var(--calm)")).otherwise(alt.value("var(--weak)"))
    layers = [
        base.transform_calculate(strength=strength)
        .mark_rect(stroke="var(--paper)", strokeWidth=1 if step > 8 else 0)
        .encode(fill=fill, fillOpacity=shade, tooltip=tip)
    ]
    if size <= NUMBERED:
        dark = f"{strength} > {0.55 * top}"
        ink = alt.when(dark).then(alt.value("var(--on-weak)")).otherwise(alt.value("var(--ink)"))
        layers.append(base.mark_text(fontSize=12).encode(text="text:N", color=ink, tooltip=tip))
    if 0 < len(firsts) <= size // 3:
        lines = alt.Chart(alt.InlineData(values=[{"name": name} for name in firsts]))
        rule = lines.mark_rule(color="var(--muted)", strokeWidth=1 if step > 8 else 0.5)
        layers.append(rule.encode(y=alt.Y("name:N", sort=list(rows), bandPosition=0, title=style.down or None)))
        layers.append(rule.encode(x=alt.X("name:N", sort=list(columns), bandPosition=0, title=style.across)))
    return finish_chart(layers, cell_values(cells, style), height=step * len(rows), about=about)


def cell_values(cells: Sequence[tuple[str, str, float]], style: HeatmapStyle) -> list[Spec]:
    """What the chart knows of each cell that is shown."""
    smallest = 0.5 * 10**-style.digits
    return [
        {
            "name": a,
            "to": b,
            "value": float(f"{v:.4g}"),
            "text": format_cell(v, style.digits) if abs(v) >= smallest or style.signed else "",
        }
        for a, b, v in cells
        if v == v and (v != 0 or style.signed)
    ]


def name_axes(
    rows: Sequence[str], columns: Sequence[str], style: HeatmapStyle, *, groups: Mapping[str, str]
) -> dict[str, Any]:
    """Both axes, with names where they can be read: of the classes, or else of their superclasses."""
    size = max(len(rows), len(columns))
    shared: dict[str, Any] = {
        "grid": False,
        "labels": size <= NAMED or bool(groups),
        "labelOverlap": False,
        "labelFontSize": 12 if size <= NUMBERED else 10,
    }
    if size > NAMED and groups:
        shared |= {"values": list(groups), "labelExpr": f"{json.dumps(dict(groups))}[datum.label]"}
    angle = -90 if len(columns) > 4 else 0
    across = alt.Axis(title=style.across, orient="top", labelAngle=angle, labelLimit=180, **shared)
    down = alt.Axis(title=style.down or None, labelLimit=180, **shared)
    return {
        "x": alt.X("to:N", sort=list(columns), scale=alt.Scale(domain=list(columns)), axis=across),
        "y": alt.Y("name:N", sort=list(rows), scale=alt.Scale(domain=list(rows)), axis=down),
    }
