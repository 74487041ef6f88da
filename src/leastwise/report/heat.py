"""A square of percentages as a Vega-Lite specification."""

from collections.abc import Sequence

import altair as alt

from leastwise.report.charts import Spec, finished, rounded


def heat(
    cells: Sequence[tuple[str, str, float]], order: Sequence[str], firsts: Sequence[str], across: str, about: str
) -> Spec:
    """A square of percentages, row to column; `firsts` begin a superclass and get a line before them."""
    size = len(order)
    numbers, step = size <= 12, 34 if size <= 12 else 20 if size <= 24 else 15
    values = [
        {"name": a, "to": b, "value": rounded(v), "text": f"{v:.0f}" if v >= 0.5 else ""} for a, b, v in cells if v > 0
    ]
    off = [v for a, b, v in cells if a != b]
    top = max([*off, 10.0])
    x = alt.X(
        "to:N",
        sort=list(order),
        scale=alt.Scale(domain=list(order)),
        axis=alt.Axis(
            title=across,
            orient="top",
            labelAngle=-90 if size > 6 else 0,
            labelLimit=90,
            labelOverlap=False,
            labelFontSize=12 if numbers else 10,
        ),
    )
    y = alt.Y(
        "name:N",
        sort=list(order),
        scale=alt.Scale(domain=list(order)),
        axis=alt.Axis(title=None, labelLimit=110, labelOverlap=False, labelFontSize=12 if numbers else 10),
    )
    tip = [
        alt.Tooltip("name:N", title="true class"),
        alt.Tooltip("to:N", title=across),
        alt.Tooltip("value:Q", title="% of the class", format=".1f"),
    ]
    base = alt.Chart().encode(x=x, y=y)
    shade = alt.Opacity("value:Q", scale=alt.Scale(domain=[0, top], range=[0.04, 1], clamp=True), legend=None)
    fill = alt.when("datum.name === datum.to").then(alt.value("var(--calm)")).otherwise(alt.value("var(--weak)"))
    layers = [base.mark_rect(stroke="var(--paper)", strokeWidth=1).encode(fill=fill, fillOpacity=shade, tooltip=tip)]
    if numbers:
        ink = (
            alt.when(f"datum.value > {0.55 * top}").then(alt.value("var(--on-weak)")).otherwise(alt.value("var(--ink)"))
        )
        layers.append(base.mark_text(fontSize=12).encode(text="text:N", color=ink, tooltip=tip))
    if 0 < len(firsts) <= size // 3:
        lines = alt.Chart(alt.InlineData(values=[{"name": name} for name in firsts]))
        layers.append(lines.mark_rule(color="var(--muted)").encode(y=alt.Y("name:N", sort=list(order), bandPosition=0)))
        layers.append(
            lines.mark_rule(color="var(--muted)").encode(
                x=alt.X("name:N", sort=list(order), bandPosition=0, title=across)
            )
        )
    return finished(layers, values, step * size, about)
