"""The kinds of figures that the papers have, from audits to charts; accuracies in percent."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from leastwise.audit.evidence import Evidence, count_confusions
from leastwise.core.counts import Tally
from leastwise.insight.agreement import compare_profiles
from leastwise.insight.confusion import classes_by_group, confusion_rates, keep_mistakes, measure_symmetry, rank_groups
from leastwise.insight.features import cosines, mean_logits
from leastwise.papers.drawing.inputs import DrawingInput, ExhibitDrawing, class_names, find_audits
from leastwise.papers.recipes import Measured
from leastwise.papers.results import AuditedCondition
from leastwise.report.charts import bars as charts
from leastwise.report.charts.bars import Bar, deviation_chart
from leastwise.report.charts.heatmap import NAMED, HeatmapStyle, heatmap
from leastwise.report.charts.lines import TICKS, Axes, Series, SeriesStyle, grouped_bar_chart, line_chart
from leastwise.report.figures import CELL, LABELS, LARGEST, MANY, Figure, class_bars, order_by_group, shorten_bars

BARS = 4  # of each class, beside each other
NAN = float("nan")
DEVIATIONS = HeatmapStyle("class", "points from the class mean", "", digits=0, signed=True)
COSINES = HeatmapStyle("", "cosine", "", digits=2, signed=True, least_top=1.0)
SHARES = HeatmapStyle()
COUNTS = HeatmapStyle(unit="images")


def plural(n: int, one: str, more: str = "") -> str:
    """Such as 1 class or 3 classes."""
    return f"{n} {one}" if n == 1 else f"{n} {more or f'{one}s'}"


def describe_condition(condition: str) -> str:
    """A condition inside a sentence: clean, or under an attack."""
    return condition if condition == "clean" else f"under {condition}"


def accuracy_panel(inputs: DrawingInput, audited: AuditedCondition, title: str) -> Figure:
    """Bars of the accuracy of each class, with intervals."""
    evidence, name = inputs.label_classes(audited)
    order = classes_with_images(evidence, name)
    total = 100 * evidence.tally(name).overall
    about = f"Accuracy of each class: {title}, with 95 % intervals."
    rows = shorten_bars(class_bars(evidence, name, order))
    return Figure(
        title, f"{total:.1f} % overall (dashed), {describe_condition(name)}", charts.bar_chart(rows, total, about)
    )


def deviation_panel(inputs: DrawingInput, audited: AuditedCondition, title: str) -> Figure:
    """Bars of the accuracy of each class minus the overall accuracy."""
    evidence, name = inputs.label_classes(audited)
    tally = evidence.tally(name)
    deviation = (100 * (tally.accuracy - tally.overall)).tolist()
    rows = [Bar(evidence.names[c], deviation[c]) for c in classes_with_images(evidence, name)]
    about = f"Class accuracy minus overall accuracy: {title}, in points."
    told = f"minus {100 * tally.overall:.1f} % overall, {describe_condition(name)}"
    return Figure(title, told, deviation_chart(shorten_bars(rows), about))


def classes_with_images(evidence: Evidence, name: str) -> list[int]:
    """Classes with images, in the order of their numbers; of very many, by accuracy, so that the ends can be shown."""
    accuracy = evidence.tally(name).accuracy.tolist()
    found = [c for c, a in enumerate(accuracy) if a == a]
    return found if len(found) <= MANY else sorted(found, key=lambda c: accuracy[c])


def class_accuracies(audited: AuditedCondition) -> "np.ndarray":
    """The accuracy of each class as a fraction."""
    evidence, name = audited
    return np.asarray(evidence.tally(name).accuracy.numpy())


def deviation_figure(
    inputs: DrawingInput, audits: Mapping[str, AuditedCondition], title: str, *, what: str = "model"
) -> Figure:
    """Deviations of several models in one figure: bars, or lines where there are many classes."""
    names = inputs.labels(class_names(audits))
    accuracy = 100 * np.stack([class_accuracies(one) for one in audits.values()])
    keep = np.flatnonzero(~np.isnan(accuracy).any(0))
    away = accuracy[:, keep] - accuracy[:, keep].mean(1, keepdims=True)
    if len(keep) > TICKS:
        order = np.argsort(away.mean(0), kind="stable")
        keep, away = keep[order], away[:, order]
    series = [Series(role, tuple(row.tolist())) for role, row in zip(audits, away, strict=True)]
    labels = [names[c] for c in keep]
    axes = Axes("class" if len(keep) <= TICKS else "classes, weakest on average first", "points from the class mean")
    about = f"Class accuracy minus the mean of the classes, {title}."
    few = len(keep) <= TICKS
    if few and len(series) > BARS:
        return deviation_map(series, labels, title, what=what)
    spec = (
        grouped_bar_chart(series, labels, axes, about=about, height=280)
        if few
        else line_chart(series, axes, about, categories=labels, height=280)
    )
    return Figure(
        f"Deviations, {title}", f"{plural(len(series), what)}, {plural(len(keep), 'class', 'classes')}", spec, least=520
    )


def deviation_map(series: Sequence[Series], labels: Sequence[str], title: str, *, what: str) -> Figure:
    """More models or conditions than bars can be told apart: a row each, with the number in every cell."""
    cells = [
        (one.name, label, NAN if value is None else value)
        for one in series
        for label, value in zip(labels, one.y, strict=True)
    ]
    about = f"Class accuracy minus the mean of the classes, {title}."
    told = f"points from the class mean; {plural(len(series), what)}, {plural(len(labels), 'class', 'classes')}"
    measured = [{label: v for v, label in zip(one.y, labels, strict=True) if v is not None} for one in series]
    lows = [sorted(row, key=row.__getitem__)[:2] for row in measured]
    weakest = [low[0] for row, low in zip(measured, lows, strict=True) if low and row[low[0]] < row[low[-1]]]
    if weakest:
        most, times = Counter(weakest).most_common(1)[0]
        told = f"{told}; {most} is weakest in {times} of {len(series)}"
    rows = [one.name for one in series]
    spec = heatmap(cells, rows, labels, style=replace(DEVIATIONS, down=what), about=about)
    return Figure(f"Deviations, {title}", told, spec, least=130 + 40 * len(labels))


def cosine_figure(names: Sequence[str], accuracy: Float[np.ndarray, "m k"], title: str) -> Figure:
    """Model × model (or condition × condition): cosines of the deviations, with the largest p-value of a pair."""
    found = compare_profiles(accuracy)
    upper = np.triu_indices(len(names), 1)
    known = ~np.isnan(found.cosine[upper])
    cosine, p = found.cosine[upper][known], found.p[upper][known]
    told = []
    if len(cosine):
        pairs = f"mean of {len(cosine)} pairs" if len(cosine) > 1 else "cosine of the pair"
        told = [
            f"{pairs} {cosine.mean():.2f}".replace("-", "−"),
            f"against classes in any order {describe_largest_p(p)}",
        ]
    alike = [name for name, own in zip(names, found.cosine.diagonal(), strict=True) if np.isnan(own)]
    told += [f"all classes alike, so without direction: {', '.join(alike)}"] if alike else []
    return square_heatmap(names, found.cosine, f"Cosines of deviations, {title}", told="; ".join(told), look=COSINES)


def describe_largest_p(p: "np.ndarray") -> str:
    """The largest p-value of several pairs, or that of the only one."""
    return f"every pair has p ≤ {p.max():.2g}" if len(p) > 1 else f"p = {p[0]:.2g}"


def square_heatmap(names: Sequence[str], matrix: "np.ndarray", title: str, *, told: str, look: HeatmapStyle) -> Figure:
    """A heatmap whose rows and columns have the same names."""
    cells = [(a, b, float(matrix[i, j])) for i, a in enumerate(names) for j, b in enumerate(names)]
    longest = max(map(len, names), default=0)
    least = min(130, 7 * longest) + 40 * len(names) if len(names) <= 12 else LABELS + CELL * len(names)
    return Figure(title, told, heatmap(cells, names, names, style=look, about=title), least=least)


def draw_similarity(
    inputs: DrawingInput,
    roles: Sequence[str],
    title: str,
    *begin: str,
    bars: bool = True,
    matrix: bool = True,
    called: Mapping[str, str] = MappingProxyType({}),
) -> ExhibitDrawing:
    """Deviations and cosines of some roles under one condition; some may be called by another name."""
    audits, notes = find_audits(inputs, roles, *begin)
    if not audits:
        return ExhibitDrawing(notes=notes)
    notes = (*notes, *note_stand_ins(inputs, audits))
    shorter = zip(audits, without_shared_word(audits), strict=True)
    audits = {called.get(role, short): audits[role] for role, short in shorter}
    wide = [deviation_figure(inputs, audits, title)] if bars else []
    if matrix and len(audits) > 1:
        accuracy = np.stack([class_accuracies(one) for one in audits.values()])
        wide.append(cosine_figure(list(audits), accuracy, title))
    return ExhibitDrawing(wide=tuple(wide), notes=notes)


def note_stand_ins(inputs: DrawingInput, roles: Iterable[str]) -> tuple[str, ...]:
    """Where a scale trains one architecture in the place of several, likeness says nothing about architectures."""
    wanted: dict[str, list[str]] = {}
    for role in roles:
        need = inputs.view.exhibit.needs[role]
        for recipe, _ in inputs.view.parts(role):
            if isinstance(need, Measured) and isinstance(recipe, Measured) and recipe.model.arch != need.model.arch:
                wanted.setdefault(recipe.model.arch, []).append(need.model.arch)
    several = {arch: list(dict.fromkeys(named)) for arch, named in wanted.items()}
    return tuple(
        f"At this scale {arch} stands for {', '.join(named)}: trainings that differ in their seed only."
        for arch, named in several.items()
        if len(named) > 1
    )


def without_shared_word(roles: Iterable[str]) -> list[str]:
    """The first word of all, such as the data set, is in the title already."""
    parts = [role.partition(" ") for role in roles]
    shared = len({first for first, _, _ in parts}) == 1 and all(rest for _, _, rest in parts) and len(parts) > 1
    return [rest if shared else "".join((first, space, rest)) for first, space, rest in parts]


def confusion_figure(
    inputs: DrawingInput,
    audited: AuditedCondition,
    title: str,
    *,
    counts: bool = False,
    diagonal: bool = True,
    by_groups: bool = False,
) -> Figure:
    """Who is taken for whom, in percent of the true class or in images; of very many classes the most confused."""
    evidence, name = inputs.label_classes(audited)
    matrix = count_confusions(evidence, name)
    mutual = measure_symmetry(matrix, shuffles=199 if evidence.k > 50 else 1999)
    values = matrix.astype(np.float64) if counts else 100 * confusion_rates(matrix)
    score = f"{mutual.score:.2f}".replace("-", "−")
    told = f"{'number of images' if counts else '% of the true class'}, {describe_condition(name)}"
    if mutual.score == mutual.score:
        told += f"; symmetry {score} (p = {mutual.p:.2g})"
    wrong = keep_mistakes(matrix)
    order = [int(c) for c in classes_by_group(evidence.groups, evidence.k)] if by_groups else list(range(evidence.k))
    order = [c for c in order if matrix[c].sum() or matrix[:, c].sum()]
    if len(order) > 120:
        busiest = sorted(order, key=lambda c: -int(wrong[c].sum()))[:LARGEST]
        order, told = [c for c in order if c in set(busiest)], f"{told}; the {LARGEST} classes with most mistakes"
    firsts = order_by_group(order, evidence.groups)[1] if by_groups else []
    groups = name_groups(order, evidence) if by_groups else {}
    return matrix_figure(
        evidence.names,
        values,
        order,
        across=order,
        title=title,
        told=told,
        look=COUNTS if counts else SHARES,
        firsts=firsts,
        groups=groups,
        diagonal=diagonal,
    )


def name_groups(order: Sequence[int], evidence: Evidence) -> dict[str, str]:
    """The name of each superclass by the class in its middle, where classes are in the order of their superclasses."""
    place = {c: i for i, c in enumerate(order)}
    members = {
        name: sorted((c for c in classes if c in place), key=place.__getitem__) for name, classes in evidence.groups
    }
    return {evidence.names[some[len(some) // 2]]: name for name, some in members.items() if some}


def matrix_figure(
    names: Sequence[str],
    values: "np.ndarray",
    down: Sequence[int],
    *,
    across: Sequence[int],
    title: str,
    told: str,
    look: HeatmapStyle,
    firsts: Sequence[int] = (),
    groups: Mapping[str, str] = MappingProxyType({}),
    diagonal: bool = True,
) -> Figure:
    """Some rows and columns of a matrix; of very many classes the superclasses have names."""
    cells = [(names[a], names[b], float(values[a, b])) for a in down for b in across if diagonal or a != b]
    if not any(value == value and value for _, _, value in cells):
        told = f"{told}; every cell is 0"
    rows, columns = [names[c] for c in down], [names[c] for c in across]
    least = 130 + 34 * len(across) if len(across) <= 12 else LABELS + CELL * len(across)
    if len(across) > NAMED:
        told, least = f"{told}; point at a cell for its classes", 640 if groups else 560
    starts = [names[c] for c in firsts]
    spec = heatmap(cells, rows, columns, style=look, about=title, firsts=starts, groups=groups)
    return Figure(title, told, spec, least=least)


def class_line_figure(
    inputs: DrawingInput,
    names: tuple[str, ...],
    series: Mapping[str, "np.ndarray"],
    *,
    title: str,
    up: str,
    ends: tuple[float | None, float | None] = (None, None),
    styles: Mapping[str, SeriesStyle] = MappingProxyType({}),
    digits: int = 1,
) -> Figure:
    """A line per model over the classes; panels that are compared share the ends of their axes and their styles."""
    made = [Series(role, tuple(values.tolist()), style=styles.get(role)) for role, values in series.items()]
    axes = Axes("class", up, *ends, digits=digits)
    return Figure(title, "", line_chart(made, axes, f"{title}, class by class.", categories=inputs.labels(names)))


def group_ranking_figure(tallies: Sequence[Tally], evidence: Evidence, title: str, *, told: str) -> Figure:
    """Superclasses by accuracy, best first; whiskers reach from the worst to the best class inside."""
    told = f"{told}; whiskers: from the worst to the best class inside"
    found = rank_groups(tallies, evidence.groups)
    rows = [
        Bar(
            one.name,
            100 * one.accuracy,
            100 * one.lowest,
            100 * one.highest,
            about=f"{100 * one.accuracy:.1f} %, its classes {100 * one.lowest:.1f} to {100 * one.highest:.1f} %",
        )
        for one in found
    ]
    total = 100 * float(np.mean([tally.overall for tally in tallies]))
    about = f"Superclasses by accuracy: {title}. Whiskers reach from the worst to the best class of each."
    return Figure(title, told, charts.bar_chart(rows, total, about))


def logit_similarity_figure(inputs: DrawingInput, audited: AuditedCondition, title: str) -> Figure:
    """Cosines of the mean logits of every two classes (Benz, §3.2)."""
    evidence, name = inputs.label_classes(audited)
    m = mean_logits(evidence, name)
    kept = np.flatnonzero(~np.isnan(m).any(1))
    centred = m - m.mean(1, keepdims=True)
    found = cosines(centred[kept])
    names = [evidence.names[c] for c in kept]
    return square_heatmap(
        names, found, title, told=f"mean logits, {describe_condition(name)}, each freed of its mean", look=COSINES
    )
