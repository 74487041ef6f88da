"""Evidence -> the figures of the page: which classes to show, in which order, with which words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from leastwise.audit.evidence import Evidence, count_confusions
from leastwise.data.classes import Groups
from leastwise.report.charts.bars import (
    Bar,
    DifferenceBar,
    Line,
    Spec,
    bar_chart,
    curve_chart,
    deviation_chart,
    difference_chart,
    rank_chart,
)
from leastwise.report.charts.heatmap import HeatmapStyle, heatmap
from leastwise.report.charts.ranks import RankBar, rank_interval_chart
from leastwise.report.class_changes import ClassChange
from leastwise.report.condition_stats import ConditionStats, Curve, clean_conditions, radius_text
from leastwise.report.ends import find_ends
from leastwise.statistics.accuracy import wilson_interval

RANKED = 20  # more classes than this get a chart of how sure their ranks are
MANY = 40  # more classes than this are shortened to both ends
END = 20  # classes shown at each end
LARGEST = 30  # rows of a heat map that can still be read
PAIRS = 10  # confusions named in words
LABELS, CELL = 110, 15  # pixels of the labels and of a cell of a heat map

ShareMatrix = Float[np.ndarray, "k k"]


@dataclass(frozen=True, eq=False)
class Figure:
    """A chart with the words around it; `key` holds what the labels of lines mean, if the chart has any."""

    title: str
    caption: str
    spec: Spec
    key: tuple[tuple[str, str], ...] = ()
    least: int = 0  # pixels below which it cannot be read, so that a narrow screen scrolls


@dataclass(frozen=True)
class ConfusedPair:
    """How many images of one class end as another."""

    true: str
    predicted: str
    count: int
    n: int


def weakest_first(evidence: Evidence, condition: str) -> list[int]:
    """Classes that have images, by accuracy, equals in the order of the classes."""
    accuracy = evidence.tally(condition).accuracy.tolist()
    return sorted((c for c, a in enumerate(accuracy) if a == a), key=lambda c: accuracy[c])


def class_bars(evidence: Evidence, condition: str, order: Sequence[int]) -> list[Bar]:
    """A bar per class, in percent, the lowest one marked."""
    tally = evidence.tally(condition)
    n, correct = tally.n.numpy(), tally.correct.numpy()
    low, high = wilson_interval(correct, n)
    lowest = min((correct[c] / n[c] for c in order), default=0.0)
    return [
        Bar(
            evidence.names[c],
            100 * float(correct[c] / n[c]),
            100 * float(low[c]),
            100 * float(high[c]),
            int(n[c]),
            bool(correct[c] / n[c] == lowest),
        )
        for c in order
    ]


def shorten_bars(rows: list[Bar]) -> list[Bar]:
    """Both ends of a long list, with a row that says what is left out."""
    if len(rows) <= MANY:
        return rows
    return [*rows[:END], Bar(f"… {len(rows) - 2 * END:,} more …", None), *rows[-END:]]


def accuracy_figures(evidence: Evidence, order: Sequence[int]) -> list[Figure]:
    """A panel per condition, all with the classes in one order."""
    made = []
    for condition in evidence.conditions:
        rows, overall = class_bars(evidence, condition, order), 100 * evidence.tally(condition).overall
        about = f"Accuracy of each class under {condition} with 95 % intervals; overall {overall:.1f} %."
        made.append(Figure(condition, f"{overall:.1f} % overall", bar_chart(shorten_bars(rows), overall, about)))
    return made


def rank_figures(evidence: Evidence) -> list[Figure]:
    """All classes in one line, for data with too many classes for bars."""
    made = []
    for condition in evidence.conditions:
        rows = class_bars(evidence, condition, weakest_first(evidence, condition))
        overall = 100 * evidence.tally(condition).overall
        below = sum(1 for row in rows if (row.value or 0.0) < 50)
        about = f"Accuracy of all {len(rows):,} classes under {condition}, weakest first."
        told = f"{below:,} of {len(rows):,} classes are below 50 %"
        made.append(Figure(condition, told, rank_chart(rows, overall, about)))
    return made


def order_figures(found: Mapping[str, ConditionStats], condition: str) -> list[Figure]:
    """The rank of every class with its interval, where there are too many classes to know all ranks."""
    one = found[condition]
    there = np.flatnonzero(one.n > 0)
    if len(there) <= RANKED:
        return []
    ranks = one.ranks
    order = there[np.argsort(ranks.mean[there], kind="stable")]
    rows = [RankBar(one.names[c], float(ranks.mean[c]), int(ranks.low[c]), int(ranks.high[c])) for c in order]
    width = float(np.median(ranks.high[there] - ranks.low[there] + 1))
    about = f"Rank of all {len(rows):,} classes under {condition} with 95 % intervals, 1 for the worst class."
    told = f"the interval of a class holds {width:.0f} of {len(rows):,} ranks (median)"
    return [Figure(f"Ranks under {condition}", told, rank_interval_chart(rows, about))]


def group_figures(evidence: Evidence, condition: str) -> list[Figure]:
    """The images of each superclass together, weakest superclass under `condition` first."""
    made = []
    ranked = sorted(group_bars(evidence, condition), key=lambda row: row.value or 0.0)
    place = {row.name: i for i, row in enumerate(ranked)}
    for name in evidence.conditions:
        rows = sorted(group_bars(evidence, name), key=lambda row: place[row.name])
        overall = 100 * evidence.tally(name).overall
        about = f"Accuracy of each superclass under {name} with 95 % intervals."
        made.append(Figure(name, f"{overall:.1f} % overall", bar_chart(shorten_bars(rows), overall, about)))
    return made


def group_bars(evidence: Evidence, condition: str) -> list[Bar]:
    """A bar per superclass that has images, the lowest one marked."""
    tally = evidence.tally(condition)
    counted = [(name, int(tally.n[list(c)].sum()), int(tally.correct[list(c)].sum())) for name, c in evidence.groups]
    counted = [row for row in counted if row[1]]
    n, correct = np.array([row[1] for row in counted]), np.array([row[2] for row in counted])
    low, high = wilson_interval(correct, n)
    lowest = (correct / n).min(initial=1.0)
    return [
        Bar(name, 100 * right / count, 100 * float(lo), 100 * float(hi), count, bool(right / count == lowest))
        for (name, count, right), lo, hi in zip(counted, low, high, strict=True)
    ]


def deviation_figures(evidence: Evidence, conditions: Sequence[str], order: Sequence[int]) -> list[Figure]:
    """How far each class lies from the overall accuracy, a panel per condition."""
    frame = evidence.frame()
    made = []
    for condition in conditions:
        deviation = (100 * frame.deviation[frame.row(condition)]).tolist()
        rows = [Bar(evidence.names[c], deviation[c]) for c in order]
        about = f"Class accuracy minus overall accuracy under {condition}, in points."
        told = f"from {min(deviation[c] for c in order):+.1f} to {max(deviation[c] for c in order):+.1f} points"
        made.append(Figure(condition, told.replace("-", "−"), deviation_chart(shorten_bars(rows), about)))
    return made


def top_pairs(evidence: Evidence, condition: str) -> list[ConfusedPair]:
    """The most frequent mistakes, as shares of the true class."""
    counts = count_confusions(evidence, condition)
    n = counts.sum(1)
    wrong = counts / np.maximum(n, 1)[:, None]
    np.fill_diagonal(wrong, 0.0)
    best = np.argsort(-wrong, axis=None, kind="stable")[:PAIRS]
    found = [divmod(int(i), evidence.k) for i in best]
    return [
        ConfusedPair(evidence.names[a], evidence.names[b], int(counts[a, b]), int(n[a]))
        for a, b in found
        if wrong[a, b] > 0
    ]


def confusion_figure(evidence: Evidence, condition: str) -> Figure:
    """What each class is predicted as under one condition."""
    counts = count_confusions(evidence, condition)
    share = 100 * counts / np.maximum(counts.sum(1), 1)[:, None]
    present = np.flatnonzero(counts.sum(1) + counts.sum(0))
    about = f"Share of each true class that is predicted as each class under {condition}, in percent."
    return matrix_figure(
        evidence, share, present, title=f"Predictions under {condition}", across="predicted class", about=about
    )


def reachability_figures(evidence: Evidence) -> list[Figure]:
    """One for every condition that tried to turn each class into each other."""
    made = []
    for condition in evidence.conditions:
        share = evidence.reach(condition)
        if share is not None:
            about = f"Share of each true class that {condition} can turn into each other class, in percent."
            present, told = np.flatnonzero(~np.isnan(share).all(1)), f"Reachable classes under {condition}"
            every = 100 * np.nan_to_num(share)
            made.append(matrix_figure(evidence, every, present, title=told, across="target class", about=about))
    return made


def matrix_figure(
    evidence: Evidence, share: ShareMatrix, present: "np.ndarray", *, title: str, across: str, about: str
) -> Figure:
    """All classes, or the ones with the largest shares off the diagonal when there are too many to read."""
    wrong = share.copy()
    np.fill_diagonal(wrong, 0.0)
    told = f"{len(present)} classes"
    if len(present) > LARGEST:
        busiest = sorted(present.tolist(), key=lambda c: -max(wrong[c].max(), wrong[:, c].max()))[:LARGEST]
        told = f"the {LARGEST} of {len(present):,} classes with the largest shares off the diagonal"
        present = np.array(sorted(busiest))
    order, firsts = order_by_group(present.tolist(), evidence.groups)
    names = [evidence.names[c] for c in order]
    cells = [(evidence.names[a], evidence.names[b], float(share[a, b])) for a in order for b in order]
    if firsts:
        told += ", superclasses together"
    spec = heatmap(
        cells, names, names, style=HeatmapStyle(across), about=about, firsts=[evidence.names[c] for c in firsts]
    )
    return Figure(title, told, spec, least=LABELS + CELL * len(names))


def order_by_group(classes: Sequence[int], groups: Groups) -> tuple[list[int], list[int]]:
    """Classes with those of a superclass beside each other, and the first of every superclass but the first."""
    if not groups:
        return list(classes), []
    parts = [[c for c in members if c in set(classes)] for _, members in groups]
    grouped = {c for part in parts for c in part}
    parts = [part for part in [*parts, [c for c in classes if c not in grouped]] if part]
    # A class may be in two superclasses; it is shown with the first.
    order = list(dict.fromkeys(c for part in parts for c in part))
    return order, [part[0] for part in parts[1:]]


def curve_figure(evidence: Evidence, curve: Curve) -> Figure:
    """The ends of the ranking at the eps where the classes differ most, and the mean of all classes."""
    start = [evidence.tally(name).accuracy.numpy() for name in clean_conditions(evidence)[:1]]
    eps = (*(0.0 for _ in start), *curve.radii)
    table = 100 * np.stack([*start, *curve.accuracy])
    present = [c for c in range(evidence.k) if not np.isnan(table[:, c]).any()]
    at = int(np.argmax(table[:, present].std(1)))
    order = sorted(present, key=lambda c: table[at, c])
    ends = find_ends({c: float(table[at, c]) for c in present})
    kinds = ends.kinds
    drawn = order if len(order) <= MANY else [*order[:END], *order[-END:]]
    lines = [Line(evidence.names[c], eps, tuple(table[:, c].tolist()), kinds.get(c, "other")) for c in drawn]
    lines.append(Line("mean of all classes", eps, tuple(table[:, present].mean(1).tolist()), "overall"))
    about = f"Accuracy of each class under {curve.attack} as its radius grows."
    key = (
        ("● weakest", ends.describe_weakest(evidence.names)),
        ("◆ dashed", "mean of all classes"),
        ("■ strongest", ends.describe_strongest(evidence.names)),
    )
    others = "all other classes" if len(order) <= MANY else f"the {END} weakest and {END} strongest classes"
    told = f"named at eps = {radius_text(eps[at], curve.norm)}, where the classes differ most; thin lines are {others}"
    return Figure(f"Security curves of {curve.attack}", told, curve_chart(lines, curve.norm, about), key)


def change_figure(changes: Sequence[ClassChange], condition: str, names: tuple[str, str]) -> Figure:
    """Largest fall first."""
    rows = [
        DifferenceBar(
            change.name,
            100 * change.paired.difference,
            100 * change.paired.low,
            100 * change.paired.high,
            change.significant,
            change.p,
        )
        for change in sorted(changes, key=lambda change: change.paired.difference)
    ]
    up = sum(1 for row in rows if row.significant and (row.value or 0.0) > 0)
    down = sum(1 for row in rows if row.significant and (row.value or 0.0) < 0)
    if len(rows) > MANY:
        rows = [*rows[:END], DifferenceBar(f"… {len(rows) - 2 * END:,} more …", None), *rows[-END:]]
    about = f"Change in accuracy of each class under {condition} from {names[0]} to {names[1]}, with 95 % intervals."
    told = f"significantly better: {up:,}; significantly worse: {down:,}; undecided: {len(changes) - up - down:,}"
    return Figure(condition, told, difference_chart(rows, about))
