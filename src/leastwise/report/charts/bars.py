"""Charts as Vega-Lite specifications: plain values in, a dictionary out.

Colours are the style sheet's variables, so that dark, light and print need no second drawing. Nothing is told by
colour alone: what is marked also has a sign, a shape or a place. Accuracies are in percent here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt

Spec = dict[str, Any]

ROW = 22  # pixels of a bar and the space below it
FINE = 16  # the same in long lists
MARK = " ◂"
NUMBERS = ".4~g"  # of ticks: without digits of its own, d3 writes 0.12 as 0.1 beside steps of 0.02

CONFIG: Spec = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--ink)",
        "titleColor": "var(--muted)",
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "domain": False,
        "ticks": False,
        "gridColor": "var(--line)",
        "labelPadding": 6,
    },
    "text": {"color": "var(--ink)", "fontSize": 11.5},
    "legend": {"labelColor": "var(--ink)", "titleColor": "var(--muted)", "labelFontSize": 12},
}


@dataclass(frozen=True)
class Bar:
    """A class (or superclass) with its interval; without numbers it is a gap in a shortened list."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    marked: bool = False
    about: str = ""  # said when pointing at it; the interval and the number of images unless given


def round_value(value: float | None) -> float | None:
    """Two digits are more than any chart shows, and keep the page small; NaN is missing."""
    return None if value is None or value != value else round(value, 2)


def finish_chart(
    layers: Sequence[alt.Chart], values: Sequence[Spec], *, height: int, about: str, right: int = 8
) -> Spec:
    """The layers over one set of values; a layer may bring its own."""
    data = alt.InlineData(values=list(values))
    chart = alt.LayerChart(data=data, layer=list(layers)).properties(
        width="container",
        height=height,
        description=about,
        padding={"left": 4, "right": right, "top": 6, "bottom": 4},
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
    )
    # Checking against the schema takes seconds a page; a test does it. The schema's address and altair's own theme
    # would only repeat what the page says once.
    made = chart.to_dict(validate=False)
    return {name: value for name, value in made.items() if name not in ("$schema", "config")}


def class_axis(names: Sequence[str], step: int) -> alt.Y:
    """The rows of a list, in the order given; the gap of a shortened list keeps its place."""
    axis = alt.Axis(title=None, labelLimit=215, labelFontSize=11 if step < ROW else 12, labelOverlap=False, grid=False)
    return alt.Y("name:N", sort=list(names), scale=alt.Scale(domain=list(names)), axis=axis)


def row_height(rows: Sequence[Any]) -> int:
    """Pixels of a row: less in long lists."""
    return ROW if len(rows) <= 24 else FINE


def points_axis(title: str) -> alt.Axis:
    """An axis of differences in points, with a sign on both sides of 0."""
    signed = "datum.value > 0 ? '+' + datum.label : datum.label"
    return alt.Axis(title=title, format="d", labelExpr=signed, tickCount=5, labelFlush=False)


def bar_tooltip(row: Bar) -> str:
    """What is said when pointing at a bar: accuracy, interval and number of images."""
    return "" if row.value is None else f"{row.value:.1f} % [{row.low:.1f}, {row.high:.1f}], {row.n:,} images"


def bar_chart(rows: Sequence[Bar], overall: float, about: str) -> Spec:
    """Horizontal bars with intervals, the number at the right edge, and a dashed line at the overall accuracy."""
    step = row_height(rows)
    values = [
        {
            "name": row.name,
            "value": round_value(row.value),
            "low": round_value(row.low),
            "high": round_value(row.high),
            "marked": row.marked,
            "text": "" if row.value is None else f"{row.value:.1f}{MARK if row.marked else ''}",
            "about": row.about or bar_tooltip(row),
        }
        for row in rows
    ]
    x = alt.X(
        "value:Q",
        scale=alt.Scale(domain=[0, 100]),
        axis=alt.Axis(title="accuracy in %", values=[0, 25, 50, 75, 100], labelFlush=False),
    )
    base = alt.Chart().encode(y=class_axis([row.name for row in rows], step))
    tip = [alt.Tooltip("name:N", title="class"), alt.Tooltip("about:N", title="accuracy")]
    fill = alt.when("datum.marked").then(alt.value("var(--weak)")).otherwise(alt.value("var(--bar)"))
    layers = [
        base.mark_bar(height=step - 7, cornerRadiusEnd=2).encode(x=x, color=fill, tooltip=tip),
        base.mark_rule(color="var(--ink)", strokeWidth=1.2).encode(
            x=alt.X("low:Q", title="accuracy in %"), x2="high:Q", tooltip=tip
        ),
        base.mark_tick(color="var(--ink)", thickness=1.2, size=6).encode(x="low:Q"),
        base.mark_tick(color="var(--ink)", thickness=1.2, size=6).encode(x="high:Q"),
        base.mark_text(align="left", dx=8, fontSize=11 if step < ROW else 12).encode(
            x=alt.value("width"),
            text="text:N",
        ),
        alt.Chart(alt.InlineData(values=[{"overall": round_value(overall)}]))
        .mark_rule(color="var(--ink)", strokeDash=[4, 3], strokeWidth=1.2)
        .encode(x="overall:Q", tooltip=[alt.Tooltip("overall:Q", title="overall, %")]),
    ]
    return finish_chart(layers, values, height=step * len(rows), about=about)


def deviation_chart(rows: Sequence[Bar], about: str, title: str = "points from overall accuracy") -> Spec:
    """Class accuracy minus overall accuracy (Benz): bars to the left are classes that are worse off."""
    step = row_height(rows)
    reach = max((abs(row.value) for row in rows if row.value is not None), default=1.0)
    reach = 5.0 * (reach // 5 + 1)
    values = [
        {
            "name": row.name,
            "value": round_value(row.value),
            "marked": row.value is not None and row.value < 0,
            "text": "" if row.value is None else f"{row.value:+.1f}".replace("-", "−"),
        }
        for row in rows
    ]
    base = alt.Chart().encode(y=class_axis([row.name for row in rows], step))
    x = alt.X(
        "value:Q",
        scale=alt.Scale(domain=[-reach, reach]),
        axis=points_axis(title),
    )
    fill = alt.when("datum.marked").then(alt.value("var(--weak)")).otherwise(alt.value("var(--bar)"))
    tip = [alt.Tooltip("name:N", title="class"), alt.Tooltip("text:N", title=title)]
    layers = [
        base.mark_bar(height=step - 7, cornerRadiusEnd=2).encode(x=x, color=fill, tooltip=tip),
        base.mark_text(align="left", dx=8, fontSize=11 if step < ROW else 12).encode(
            x=alt.value("width"),
            text="text:N",
        ),
        alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color="var(--ink)").encode(x="zero:Q"),
    ]
    return finish_chart(layers, values, height=step * len(rows), about=about)


def rank_chart(rows: Sequence[Bar], overall: float, about: str) -> Spec:
    """All classes from the weakest to the strongest in one line, with the interval as a band."""
    # One row of lists that the browser unfolds: a third of the bytes of a thousand rows.
    kept = [row for row in rows if row.value is not None]
    packed = {
        "name": [row.name for row in kept],
        "rank": list(range(1, len(kept) + 1)),
        "value": [round(row.value or 0.0, 1) for row in kept],
        "low": [round(row.low or 0.0, 1) for row in kept],
        "high": [round(row.high or 0.0, 1) for row in kept],
    }
    base = alt.Chart().transform_flatten(list(packed))
    x = alt.X(
        "rank:Q",
        scale=alt.Scale(domain=[1, max(2, len(kept))], nice=False),
        axis=alt.Axis(title="classes, weakest first", grid=False),
    )
    y = alt.Y(
        "value:Q", scale=alt.Scale(domain=[0, 100]), axis=alt.Axis(title="accuracy in %", values=[0, 25, 50, 75, 100])
    )
    tip = [
        alt.Tooltip("name:N", title="class"),
        alt.Tooltip("value:Q", title="accuracy, %"),
        alt.Tooltip("low:Q", title="from"),
        alt.Tooltip("high:Q", title="to"),
    ]
    layers = [
        base.mark_area(color="var(--bar)", opacity=0.25).encode(
            x=x, y=alt.Y("low:Q", title="accuracy in %"), y2="high:Q"
        ),
        base.mark_line(color="var(--bar)", strokeWidth=2).encode(x=x, y=y),
        base.mark_rule(opacity=0, strokeWidth=3).encode(x=x, tooltip=tip),
        alt.Chart(alt.InlineData(values=[{"overall": round_value(overall)}]))
        .mark_rule(color="var(--ink)", strokeDash=[4, 3], strokeWidth=1.2)
        .encode(y="overall:Q"),
    ]
    return finish_chart(layers, [packed], height=220, about=about, right=16)


@dataclass(frozen=True)
class Line:
    """Accuracy over eps, in percent; quiet lines have no label of their own."""

    name: str
    eps: tuple[float, ...]
    accuracy: tuple[float, ...]
    kind: str  # "weak", "strong", "overall" or "other"


def curve_chart(lines: Sequence[Line], norm: str, about: str) -> Spec:
    """Security curves: how accuracy falls as the attacker may change more."""
    pixels = norm == "Linf"
    scaled = [replace(line, eps=tuple(round(255 * e, 3) for e in line.eps)) if pixels else line for line in lines]
    title = "largest change of a pixel, in 1/255" if pixels else f"largest {norm} distance"
    return class_line_chart(scaled, title, "eps × 255" if pixels else "eps", about=about)


def whole_ticks(steps: Sequence[float], most: int = 8) -> list[int]:
    """Ticks at whole numbers from 1, such as epochs: every one, or every second, fifth, tenth …"""
    last = int(max(steps, default=1))
    apart = next(n for n in (1, 2, 5, 10, 20, 25, 50, 100, last) if last <= most * n)
    return list(range(apart, last + 1, apart))


def class_line_chart(lines: Sequence[Line], title: str, short: str, *, about: str, band: bool = False) -> Spec:
    """Accuracy of classes over some number; `band` shades what lies between the best and the worst of them."""
    values = [
        {"name": line.name, "eps": e, "value": round_value(a), "kind": line.kind}
        for line in lines
        for e, a in zip(line.eps, line.accuracy, strict=True)
    ]
    kinds = ["weak", "overall", "strong", "other"]
    paint = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=["var(--weak)", "var(--ink)", "var(--bar)", "var(--line-strong)"]),
        legend=None,
    )
    dash = alt.StrokeDash("kind:N", scale=alt.Scale(domain=kinds, range=[[1, 0], [5, 3], [1, 0], [1, 0]]), legend=None)
    shape = alt.Shape(
        "kind:N", scale=alt.Scale(domain=kinds, range=["circle", "diamond", "square", "cross"]), legend=None
    )
    ticks: Spec = {"values": whole_ticks(lines[0].eps)} if short == "epoch" and lines else {"tickCount": 6}
    axis = alt.Axis(title=title, grid=False, format=NUMBERS, **ticks)
    x = alt.X("eps:Q", scale=alt.Scale(nice=False), axis=axis)
    y = alt.Y(
        "value:Q", scale=alt.Scale(domain=[0, 100]), axis=alt.Axis(title="accuracy in %", values=[0, 25, 50, 75, 100])
    )
    base = alt.Chart().encode(x=x, y=y, detail="name:N")
    tip = [
        alt.Tooltip("name:N", title="class"),
        alt.Tooltip("eps:Q", title=short),
        alt.Tooltip("value:Q", title="accuracy, %", format=".1f"),
    ]
    said = base.transform_filter("datum.kind !== 'other'")
    many = max((len(line.eps) for line in lines), default=0) > 20
    layers = [
        base.transform_filter("datum.kind === 'other'").mark_line(strokeWidth=1).encode(color=paint, tooltip=tip),
        said.mark_line(strokeWidth=2).encode(color=paint, strokeDash=dash),
        said.mark_point(filled=True, size=12 if many else 42, opacity=1).encode(color=paint, shape=shape, tooltip=tip),
    ]
    if band:
        ends = (
            alt.Chart()
            .transform_aggregate(least="min(value)", most="max(value)", groupby=["eps"])
            .mark_area(color="var(--bar)", opacity=0.12)
            .encode(x=x, y=alt.Y("least:Q", title="accuracy in %"), y2="most:Q")
        )
        layers = [ends, *layers]
    return finish_chart(layers, values, height=300, about=about, right=16)


@dataclass(frozen=True)
class DifferenceBar:
    """A change in points with its interval; significant ones are filled and have a star."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    significant: bool = False
    p: float = 1.0


def difference_chart(rows: Sequence[DifferenceBar], about: str) -> Spec:
    """Changes with their intervals around a line at 0; filled where chance does not explain them."""
    step = row_height(rows)
    values = [
        {
            "name": row.name,
            "value": round_value(row.value),
            "low": round_value(row.low),
            "high": round_value(row.high),
            "kind": "significant" if row.significant else "open",
            "text": "" if row.value is None else f"{row.value:+.1f}{' *' if row.significant else ''}".replace("-", "−"),
            "p": f"{row.p:.2g}",
        }
        for row in rows
    ]
    reach = max((abs(v) for row in rows for v in (row.low, row.high) if v is not None), default=1.0)
    reach = 5.0 * (reach // 5 + 1)
    x = alt.X(
        "value:Q",
        scale=alt.Scale(domain=[-reach, reach]),
        axis=points_axis("change in points"),
    )
    tip = [
        alt.Tooltip("name:N", title="class"),
        alt.Tooltip("text:N", title="points"),
        alt.Tooltip("low:Q", title="from", format="+.1f"),
        alt.Tooltip("high:Q", title="to", format="+.1f"),
        alt.Tooltip("p:N", title="p, corrected"),
    ]
    base = alt.Chart().encode(y=class_axis([row.name for row in rows], step))
    inside = alt.when("datum.kind === 'significant'").then(alt.value("var(--bar)")).otherwise(alt.value("var(--paper)"))
    layers = [
        alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color="var(--ink)").encode(x="zero:Q"),
        base.mark_rule(color="var(--bar)", strokeWidth=1.6).encode(
            x=alt.X("low:Q", title="change in points"), x2="high:Q", tooltip=tip
        ),
        base.mark_point(size=64, stroke="var(--bar)", strokeWidth=1.6, opacity=1).encode(x=x, fill=inside, tooltip=tip),
        base.mark_text(align="left", dx=8, fontSize=11 if step < ROW else 12).encode(
            x=alt.value("width"),
            text="text:N",
        ),
    ]
    return finish_chart(layers, values, height=step * len(rows), about=about)
