"""Several series side by side: lines and grouped bars over classes, epochs or radii, and points in a plane.

A series is told from the others by colour, by the dashes of its line and by the shape of its points.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import altair as alt

from leastwise.report.charts.bars import NUMBERS, Spec, finish_chart, whole_ticks

COLOURS = [f"var(--s{n})" for n in range(1, 11)]
SHAPES = ["circle", "square", "diamond", "triangle-up", "cross", "triangle-down"]
DASHES: list[list[int]] = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]]
FEW = 8  # places on an axis that all get a tick
TICKS = 24  # more categories than this are numbered instead of named


class SeriesStyle(NamedTuple):
    """The numbers of a series' colour, dashes and shape."""

    colour: int
    dash: int
    shape: int


@dataclass(frozen=True)
class Series:
    """`x` are numbers, or nothing where the chart has categories; a missing value is None."""

    name: str
    y: tuple[float | None, ...]
    x: tuple[float, ...] = ()
    style: SeriesStyle | None = None  # where it means something, or has to be the same in several charts


@dataclass(frozen=True)
class Axes:
    """What the axes of a chart are, and how its numbers are written."""

    across: str  # title of the x-axis
    up: str  # title of the y-axis
    lowest: float | None = None  # of the y-axis; the data decide if it is None
    highest: float | None = None
    rule: tuple[float, str] | None = None  # a dashed line at a value, and what it is
    digits: int = 1


def four_digits(value: float | None) -> float | None:
    """Four digits are more than any chart shows; NaN is missing."""
    return None if value is None or value != value else float(f"{value:.4g}")


def legend(names: Sequence[str]) -> alt.Legend | None:
    """One legend below the chart, in as many columns as its names leave room for; none of a single series."""
    if len(names) < 2:
        return None
    longest = max(map(len, names))
    columns = 4 if longest < 10 else 3 if longest < 16 else 2 if longest < 26 else 1
    if columns > 2 and len(names) % columns == 1 and len(names) % (columns - 1) == 0:
        columns -= 1  # two rows of two instead of three and one
    # Without an outline: dashes around a symbol would blur its shape.
    return alt.Legend(title=None, orient="bottom", columns=columns, labelLimit=320, symbolSize=70, symbolStrokeWidth=0)


def usual_style(place: int) -> SeriesStyle:
    """Of the series at a place among all."""
    return SeriesStyle(place, place // 2, place)


def series_channels(names: Sequence[str], styles: Sequence[SeriesStyle | None] = ()) -> dict[str, Any]:
    """Colour, dash and shape of each series; one legend for all three."""
    count, shown = len(names), legend(names)
    if shown is None:
        return {"color": alt.value(COLOURS[0]), "shape": alt.value(SHAPES[0]), "strokeDash": alt.value([1, 0])}
    domain = list(names)
    given = [style or usual_style(i) for i, style in enumerate(styles or [None] * count)]
    every: dict[str, list[Any]] = {
        "color": [COLOURS[one.colour % len(COLOURS)] for one in given],
        "shape": [SHAPES[one.shape % len(SHAPES)] for one in given],
        "strokeDash": [DASHES[one.dash % len(DASHES)] for one in given],
    }
    channels = {"color": alt.Color, "shape": alt.Shape, "strokeDash": alt.StrokeDash}
    return {
        name: channels[name]("series:N", sort=domain, scale=alt.Scale(domain=domain, range=values), legend=shown)
        for name, values in every.items()
    }


def y_axis(axes: Axes, field: str = "value:Q") -> alt.Y:
    """The upright axis; the data decide its ends where none are given."""
    scale: dict[str, Any] = {"zero": False, "nice": True}
    if axes.lowest is not None:
        scale["domainMin"] = axes.lowest
    if axes.highest is not None:
        scale["domainMax"] = axes.highest
    return alt.Y(field, scale=alt.Scale(**scale), axis=alt.Axis(title=axes.up, tickCount=5, format=NUMBERS))


def category_axis(categories: Sequence[str], title: str) -> alt.X:
    """Names where they can be read; of more categories only that they follow each other."""
    axis = alt.Axis(
        title=title,
        grid=False,
        labelAngle=-45 if len(categories) > 4 else 0,
        labelLimit=110,
        labelOverlap=False,
        labels=len(categories) <= TICKS,
    )
    return alt.X("at:N", sort=list(categories), scale=alt.Scale(domain=list(categories)), axis=axis)


def rule_layers(axes: Axes) -> list[alt.Chart]:
    """The dashed line of the axes as a layer, if there is one."""
    if axes.rule is None:
        return []
    value, what = axes.rule
    data = alt.InlineData(values=[{"rule": four_digits(value), "what": what}])
    tip = [alt.Tooltip("what:N", title="line"), alt.Tooltip("rule:Q", title="value")]
    rule = alt.Chart(data).mark_rule(color="var(--ink)", strokeDash=[4, 3], strokeWidth=1.2)
    return [rule.encode(y=alt.Y("rule:Q", title=axes.up), tooltip=tip)]


def series_rows(series: Sequence[Series], categories: Sequence[str]) -> list[Spec]:
    """The values of all series as rows of one table, without those that are missing."""
    made: list[Spec] = []
    for one in series:
        places: list[str | float | None] = [*categories] if categories else [four_digits(x) for x in one.x]
        made += [
            {"series": one.name, "at": at, "value": four_digits(value)}
            for at, value in zip(places, one.y, strict=True)
            if value is not None and value == value
        ]
    return made


def ticks_at(series: Sequence[Series]) -> dict[str, Any]:
    """Where there are points, if they are few; at whole numbers, if they are."""
    places = sorted({x for one in series for x in one.x})
    if 0 < len(places) <= FEW:
        return {"values": places}
    return {"values": whole_ticks(places)} if all(x == int(x) for x in places) else {}


def line_chart(
    series: Sequence[Series], axes: Axes, about: str, *, categories: Sequence[str] = (), height: int = 240
) -> Spec:
    """A line per series over numbers, or over categories."""
    if categories:
        x = category_axis(categories, axes.across)
    else:
        x = alt.X(
            "at:Q",
            scale=alt.Scale(nice=False, zero=False),
            axis=alt.Axis(title=axes.across, grid=False, format=NUMBERS, **ticks_at(series)),
        )
    apart = series_channels([one.name for one in series], [one.style for one in series])
    tip = [
        alt.Tooltip("series:N", title="series"),
        alt.Tooltip("at:N", title=axes.across),
        alt.Tooltip("value:Q", title=axes.up, format=f".{axes.digits}f"),
    ]
    base = alt.Chart().encode(x=x, y=y_axis(axes))
    many = len(categories) > TICKS or max((len(one.x) for one in series), default=0) > 40
    layers = [
        base.mark_line(strokeWidth=1.6).encode(color=apart["color"], strokeDash=apart["strokeDash"], detail="series:N"),
        base.mark_point(filled=True, size=14 if many else 45, opacity=1).encode(
            color=apart["color"], shape=apart["shape"], tooltip=tip
        ),
    ]
    return finish_chart(
        [*layers, *rule_layers(axes)], series_rows(series, categories), height=height, about=about, right=16
    )


def grouped_bar_chart(
    series: Sequence[Series], categories: Sequence[str], axes: Axes, *, about: str, height: int = 240
) -> Spec:
    """Bars of several series beside each other in each category."""
    names = [one.name for one in series]
    apart = series_channels(names)
    tip = [
        alt.Tooltip("series:N", title="series"),
        alt.Tooltip("at:N", title=axes.across),
        alt.Tooltip("value:Q", title=axes.up, format=f".{axes.digits}f"),
    ]
    base = alt.Chart().encode(
        x=category_axis(categories, axes.across), xOffset=alt.XOffset("series:N", sort=names), y=y_axis(axes)
    )
    layers = [base.mark_bar(cornerRadiusEnd=1).encode(color=apart["color"], tooltip=tip), *rule_layers(axes)]
    return finish_chart(layers, series_rows(series, categories), height=height, about=about)


@dataclass(frozen=True)
class Point:
    """A point in a plane and the group that colours it."""

    x: float
    y: float
    group: str
    label: str = ""  # written beside it


PLANE = 340  # pixels of each side of a plane


def plane_chart(given: Sequence[Point], axes: Axes, about: str, *, size: int = 14) -> Spec:
    """Points as directions: both axes alike, the origin drawn, and a ray from it to the mean of each group.

    A unit has as many pixels across as up, so that an angle on the screen is the angle of the features.
    """
    groups = list(dict.fromkeys(point.group for point in given))
    apart = series_channels(groups)
    values = [{"x": four_digits(p.x), "y": four_digits(p.y), "series": p.group} for p in given]
    lowest, highest = (
        min(0.0, *(v for p in given for v in (p.x, p.y))),
        max(0.0, *(v for p in given for v in (p.x, p.y))),
    )
    margin = 0.04 * (highest - lowest or 1.0)
    scale = alt.Scale(domain=[four_digits(lowest - margin), four_digits(highest + margin)], nice=False, zero=False)

    def axis(channel: Any, field: str, title: str) -> Any:
        return channel(field, scale=scale, axis=alt.Axis(title=title, grid=False, tickCount=5, format=NUMBERS))

    x, y = axis(alt.X, "x:Q", axes.across), axis(alt.Y, "y:Q", axes.up)
    cross = alt.Chart(alt.InlineData(values=[{"x": 0, "y": 0}]))
    axis_line = cross.mark_rule(color="var(--line-strong)", strokeWidth=1)
    means = alt.Chart().transform_aggregate(x="mean(x)", y="mean(y)", groupby=["series"]).transform_calculate(o="0")
    tip = [
        alt.Tooltip("series:N", title="class"),
        alt.Tooltip("x:Q", title=axes.across),
        alt.Tooltip("y:Q", title=axes.up),
    ]
    layers = [
        axis_line.encode(x=x),
        axis_line.encode(y=y),
        means.mark_rule(strokeWidth=1.4).encode(
            x=alt.X("o:Q", scale=scale), y=alt.Y("o:Q", scale=scale), x2="x:Q", y2="y:Q", color=apart["color"]
        ),
        alt.Chart()
        .mark_point(filled=True, size=size, opacity=0.75)
        .encode(x=x, y=y, color=apart["color"], shape=apart["shape"], tooltip=tip),
        cross.mark_point(shape="cross", filled=True, size=90, color="var(--ink)", opacity=1).encode(x=x, y=y),
    ]
    made = finish_chart(layers, values, height=PLANE, about=about)
    return made | {"width": PLANE, "autosize": {"type": "pad", "contains": "padding"}}


def scatter_chart(given: Sequence[Point], axes: Axes, about: str, *, height: int = 300, size: int = 14) -> Spec:
    """Points in a plane, coloured and shaped by their group."""
    groups = list(dict.fromkeys(point.group for point in given))
    apart = series_channels(groups)
    values = [{"x": four_digits(p.x), "y": four_digits(p.y), "series": p.group, "label": p.label} for p in given]
    tip = [
        alt.Tooltip("label:N" if any(p.label for p in given) else "series:N", title="class"),
        alt.Tooltip("x:Q", title=axes.across),
        alt.Tooltip("y:Q", title=axes.up),
    ]

    def axis(field: str, title: str, channel: Any) -> Any:
        scale = alt.Scale(zero=False, nice=True, padding=8)
        return channel(field, scale=scale, axis=alt.Axis(title=title, grid=False, tickCount=5, format=NUMBERS))

    base = alt.Chart().encode(x=axis("x:Q", axes.across, alt.X), y=axis("y:Q", axes.up, alt.Y))
    mark = base.mark_point(filled=True, size=size, opacity=0.75).encode(
        color=apart["color"], shape=apart["shape"], tooltip=tip
    )
    named = base.mark_text(align="left", dx=7, dy=-5).encode(text="label:N") if any(p.label for p in given) else None
    layers = [mark] if named is None else [mark, named]
    return finish_chart(layers, values, height=height, about=about, right=60 if named is not None else 16)
