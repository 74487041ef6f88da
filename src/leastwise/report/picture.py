"""Evidence and comparisons as single charts that go into a paper."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leastwise.audit.evidence import Evidence
from leastwise.core.counts import Tally
from leastwise.report.charts.bars import Bar, bar_chart
from leastwise.report.charts.lines import Axes, Series, line_chart
from leastwise.report.charts.paper import BOTH, COLUMN, make_picture, write_picture
from leastwise.report.class_changes import different_attacks, list_changes, same_images
from leastwise.report.condition_stats import compute_stats, find_attackers_pick, make_curves
from leastwise.report.figures import (
    MANY,
    Figure,
    accuracy_figures,
    change_figure,
    confusion_figure,
    curve_figure,
    deviation_figures,
    order_figures,
    rank_figures,
    shorten_bars,
    weakest_first,
)
from leastwise.report.results import AuditedModel
from leastwise.statistics.accuracy import wilson_interval

if TYPE_CHECKING:
    import altair as alt


def draw_audit(evidence: Evidence, condition: str, kind: str) -> "alt.TopLevelMixin":
    """One chart of one condition, in the width of a column."""
    return make_picture([("", pick_figure(evidence, condition, kind).spec)], width=COLUMN)


def pick_figure(evidence: Evidence, condition: str, kind: str) -> Figure:
    """The figure of the page that is of this kind and condition."""
    order = weakest_first(evidence, condition)
    if kind == "classes":
        drawn = rank_figures(evidence) if len(order) > MANY else accuracy_figures(evidence, order)
        return drawn[list(evidence.conditions).index(condition)]
    if kind == "confusion":
        return confusion_figure(evidence, condition)
    if kind == "deviation":
        return deviation_figures(evidence, [condition], order)[0]
    if kind == "ranks":
        found = order_figures({condition: compute_stats(evidence, condition)}, condition)
        if not found:
            raise ValueError("ranks are drawn of more than 20 classes: plot the classes, which shows all of them")
        return found[0]
    curves = make_curves(evidence)
    if not curves:
        raise ValueError("a curve needs one attack at several radii: audit with eps=(2/255, 4/255, 8/255)")
    chosen = [one for one in curves if condition in one.conditions] or list(curves)
    return curve_figure(evidence, chosen[0])


def draw_report(models: Sequence[AuditedModel]) -> "alt.TopLevelMixin":
    """One audit: its classes under every condition. Several: the change of each class from the first to the others."""
    first = models[0].evidence
    if len(models) == 1:
        order = weakest_first(first, find_attackers_pick(first).condition)
        drawn = rank_figures(first) if len(order) > MANY else accuracy_figures(first, order)
    else:
        return draw_changes(models, "")
    return place_figures(drawn)


def draw_change(first: AuditedModel, other: AuditedModel, condition: str = "") -> Figure:
    """What changes from one audit to another, under the condition where the first one's worst class is lowest."""
    if not same_images(first.evidence, other.evidence):
        raise ValueError(f"{first.name} and {other.name} saw other images, so no change can be drawn: audit both alike")
    apart = different_attacks(first.evidence, other.evidence)
    common = [name for name in first.evidence.conditions if name in other.evidence.conditions and name not in apart]
    if not common:
        raise ValueError(f"{first.name} and {other.name} share no condition: audit both under the same attacks")
    usual = find_attackers_pick(first.evidence).condition
    name = condition or (usual if usual in common else common[-1])
    if name not in common:
        raise ValueError(f"not both have {name!r} under the same attack: choose {', '.join(common)}")
    names = (first.name, other.name)
    figure = change_figure(list_changes(first.evidence, other.evidence, name), name, names)
    return Figure(f"{other.name} − {first.name}, {name}", figure.caption, figure.spec)


def draw_changes(models: Sequence[AuditedModel], condition: str) -> "alt.TopLevelMixin":
    """The change of each class from the first of several models to the others, under one condition."""
    drawn = [draw_change(models[0], other, condition) for other in models[1:]]
    return place_figures(drawn)


def place_figures(drawn: Sequence[Figure]) -> "alt.TopLevelMixin":
    """One figure in the width of a column, or several side by side in that of both."""
    columns = min(len(drawn), 2)
    width = COLUMN if columns == 1 else BOTH
    return make_picture([(figure.title, figure.spec) for figure in drawn], width=width, columns=columns)


def write_picture_of(models: Sequence[AuditedModel], file: Path) -> None:
    """The picture of one audit or of several, by the ending of the file."""
    write_picture(draw_report(models), file)


def draw_race(rows: Sequence[Mapping[str, Any]], condition: str) -> "alt.TopLevelMixin":
    """What survived of the attacked images of each class in a race."""
    seen = [row for row in rows if row["attacked"]]
    if not seen:
        raise ValueError("no image was attacked in this race, so there is nothing to draw")
    survived, attacked = (np.array([row[part] for row in seen]) for part in ("survived", "attacked"))
    low, high = wilson_interval(survived, attacked)
    bars = [
        Bar(
            row["class"],
            100 * row["survived"] / row["attacked"],
            100 * float(lo),
            100 * float(hi),
            row["attacked"],
            row["state"] in ("worst", "open"),
        )
        for row, lo, hi in zip(seen, low, high, strict=True)
    ]
    bars.sort(key=lambda bar: bar.value or 0.0)
    total = 100 * sum(row["survived"] for row in seen) / sum(row["attacked"] for row in seen)
    about = f"What survived {condition} of the attacked images of each class."
    return make_picture([("", bar_chart(shorten_bars(bars), total, about))], width=COLUMN)


FEW = 9  # classes that all have a line of their own; of more, the weakest at the end


def draw_classes(names: Sequence[str], tally: Tally, what: str) -> "alt.TopLevelMixin":
    """The accuracy of every class with its interval, the weakest first."""
    low, high = wilson_interval(tally.correct.numpy(), tally.n.numpy())
    accuracy = tally.accuracy.tolist()
    order = sorted((i for i in range(len(names)) if accuracy[i] == accuracy[i]), key=lambda i: accuracy[i])
    rows = [
        Bar(
            names[i], 100 * accuracy[i], 100 * low[i], 100 * high[i], int(tally.n[i]), accuracy[i] == accuracy[order[0]]
        )
        for i in order
    ]
    spec = bar_chart(shorten_bars(rows), 100 * tally.overall, f"Accuracy of each class: {what}.")
    return make_picture([(what, spec)], width=COLUMN)


def draw_epochs(names: Sequence[str], seen: Mapping[int, Tally], what: str) -> "alt.TopLevelMixin":
    """Accuracy over epochs: a line for each class, of many for the weakest at the end, and one for the average."""
    last = seen[max(seen)].accuracy.nan_to_num(nan=2.0).tolist()
    chosen = sorted(range(len(names)), key=lambda i: last[i])[:FEW]
    accuracy = {epoch: (100 * tally.accuracy).tolist() for epoch, tally in seen.items()}
    epochs = tuple(float(epoch) for epoch in seen)
    lines = [Series("average", tuple(100 * tally.overall for tally in seen.values()), epochs)]
    lines += [Series(names[i], tuple(one[i] for one in accuracy.values()), epochs) for i in sorted(chosen)]
    of = "" if len(names) <= FEW else f", the {FEW} weakest of {len(names):,} classes"
    spec = line_chart(lines, Axes("epoch", "accuracy in %"), f"Accuracy over epochs: {what}{of}.")
    return make_picture([(f"{what}{of}", spec)], width=COLUMN)
