"""A rectangle of numbers as a Vega-Lite specification: confusions in percent or counts, cosines."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from leastwise.report.charts.bars import Spec, finished

NUMBERED = 12  # rows up to which every cell shows its number
NAMED = 45  # rows up to which they have names; of more, pointing at a cell gives them


@dataclass(frozen=True)
class Look:
    """What the cells of a map are and how they are written."""

    across: str = "predicted class"
    unit: str = "% of the class"
    down: str = "true class"
    digits: int = 0
    signed: bool = False  # cosines: negative cells have the other colour
    least_top: float = 10.0  # the value that has the full colour is the largest one, or at least this


def step_of(size: int) -> int:
    """Pixels of a row."""
    return 34 if size <= NUMBERED else 20 if size <= 24 else 15 if size <= NAMED else max(2, 600 // size)


def written(value: float, digits: int) -> str:
    """With a true minus sign, and none before a zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def heat(
    cells: Sequence[tuple[str, str, float]],
    rows: Sequence[str],
    columns: Sequence[str],
    firsts: Sequence[str],
    look: Look,
    about: str,
) -> Spec:
    """Row to column; `firsts` begin a superclass and get a line before them.

    Missing cells stay empty, and of shares and counts those of 0 too; a cosine of 0 is a number like any other.
    """
    size = max(len(rows), len(columns))
    numbers, step = size <= NUMBERED, step_of(len(rows))
    named = size <= NAMED
    smallest = 0.5 * 10**-look.digits
    values = [
        {
            "name": a,
            "to": b,
            "value": float(f"{v:.4g}"),
            "text": written(v, look.digits) if abs(v) >= smallest or look.signed else "",
        }
        for a, b, v in cells
        if v == v and (v != 0 or look.signed)
    ]
    top = max([*(abs(v) for a, b, v in cells if a != b and v == v), look.least_top])
    square = rows is columns or list(rows) == list(columns)

    letters = 12 if numbers else 10
    x = alt.X(
        "to:N",
        sort=list(columns),
        scale=alt.Scale(domain=list(columns)),
        axis=alt.Axis(
            title=look.across,
            orient="top",
            grid=False,
            labels=named,
            labelAngle=-90 if len(columns) > 4 else 0,
            labelLimit=150,
            labelOverlap=False,
            labelFontSize=letters,
        ),
    )
    y = alt.Y(
        "name:N",
        sort=list(rows),
        scale=alt.Scale(domain=list(rows)),
        axis=alt.Axis(
            title=look.down or None, grid=False, labels=named, labelLimit=180, labelOverlap=False, labelFontSize=letters
        ),
    )
    tip = [
        alt.Tooltip("name:N", title=look.down),
        alt.Tooltip("to:N", title=look.across),
        alt.Tooltip("value:Q", title=look.unit, format=f".{look.digits + 1}f" if look.digits < 2 else ".3f"),
    ]
    base = alt.Chart().encode(x=x, y=y)
    strength = "abs(datum.value)" if look.signed else "datum.value"
    shade = alt.Opacity("strength:Q", scale=alt.Scale(domain=[0, top], range=[0.04, 1], clamp=True), legend=None)
    calm = "datum.value > 0" if look.signed else "datum.name === datum.to" if square else "false"
    fill = alt.when(calm).then(alt.value("var(--calm)")).otherwise(alt.value("var(--weak)"))
    gap = 1 if step > 8 else 0
    layers = [
        base.transform_calculate(strength=strength)
        .mark_rect(stroke="var(--paper)", strokeWidth=gap)
        .encode(fill=fill, fillOpacity=shade, tooltip=tip)
    ]
    if numbers:
        dark = f"{strength} > {0.55 * top}"
        ink = alt.when(dark).then(alt.value("var(--on-weak)")).otherwise(alt.value("var(--ink)"))
        layers.append(base.mark_text(fontSize=12).encode(text="text:N", color=ink, tooltip=tip))
    if 0 < len(firsts) <= size // 3:
        lines = alt.Chart(alt.InlineData(values=[{"name": name} for name in firsts]))
        rule = lines.mark_rule(color="var(--muted)", strokeWidth=1 if step > 8 else 0.5)
        layers.append(rule.encode(y=alt.Y("name:N", sort=list(rows), bandPosition=0, title=look.down or None)))
        layers.append(rule.encode(x=alt.X("name:N", sort=list(columns), bandPosition=0, title=look.across)))
    return finished(layers, values, step * len(rows), about)
