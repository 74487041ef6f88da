"""How sure the ranks of many classes are: a bar from the lowest to the highest likely rank of each."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from leastwise.report.charts.bars import Spec, finish_chart


@dataclass(frozen=True)
class RankBar:
    """A class with its mean rank and the interval of its rank; 1 is the worst class."""

    name: str
    mean: float
    low: int
    high: int


def rank_interval_chart(rows: Sequence[RankBar], about: str) -> Spec:
    """A thin bar for each class at its place, the worst class first, with a line through the mean ranks."""
    # One row of lists that the browser unfolds, as in `rank_chart`: a thousand classes stay small.
    packed = {
        "name": [row.name for row in rows],
        "place": list(range(1, len(rows) + 1)),
        "mean": [round(row.mean, 1) for row in rows],
        "low": [row.low for row in rows],
        "high": [row.high for row in rows],
    }
    base = alt.Chart().transform_flatten(list(packed))
    ends = [0.5, len(rows) + 0.5]
    x = alt.X(
        "place:Q",
        scale=alt.Scale(domain=ends, nice=False),
        axis=alt.Axis(title="classes by mean rank, worst first", grid=False, format="d"),
    )
    scale = alt.Scale(domain=ends, nice=False, reverse=True)
    axis = alt.Axis(title="rank (1 is the worst class)", format="d", tickCount=6)
    tip = [
        alt.Tooltip("name:N", title="class"),
        alt.Tooltip("mean:Q", title="mean rank"),
        alt.Tooltip("low:Q", title="from rank"),
        alt.Tooltip("high:Q", title="to rank"),
    ]
    thick = 3.0 if len(rows) <= 100 else 1.6 if len(rows) <= 300 else 0.8
    layers = [
        base.mark_rule(color="var(--bar)", strokeWidth=thick, opacity=0.55).encode(
            x=x, y=alt.Y("low:Q", scale=scale, axis=axis), y2="high:Q", tooltip=tip
        ),
        base.mark_line(color="var(--ink)", strokeWidth=1.6).encode(x=x, y=alt.Y("mean:Q", scale=scale, axis=axis)),
    ]
    return finish_chart(layers, [packed], height=280, about=about, right=16)
