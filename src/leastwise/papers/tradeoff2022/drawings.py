"""The figures of the paper on the tradeoff."""

from collections.abc import Mapping

import numpy as np

from leastwise.audit.evidence import Evidence, entropy
from leastwise.insight.agreement import drop_shares, joint_share
from leastwise.insight.features import cosines, inter_class_similarity
from leastwise.papers.claims.base import SharedImages, share_images
from leastwise.papers.drawing.figures import class_accuracies, class_line_figure
from leastwise.papers.drawing.inputs import (
    DrawingInput,
    Drawings,
    Estimate,
    ExhibitDrawing,
    Note,
    NotShown,
    OurCells,
    explain_missing,
    find_audits,
    join_drawings,
    value_or_reason,
)
from leastwise.papers.drawing.values import class_accuracy, compute_cell, overall
from leastwise.papers.results import AuditedCondition, MissingResult
from leastwise.papers.tradeoff2022.exhibits import BIRD, CAR, CAT, OTHERS
from leastwise.papers.tradeoff2022.shapes import draw_shapes
from leastwise.papers.tradeoff2022.tables import draw_averages, table1, table4, table5
from leastwise.report.charts.bars import Bar, deviation_chart
from leastwise.report.charts.lines import Axes, Point, Series, SeriesStyle, line_chart, plane_chart
from leastwise.report.figures import Figure

NAN = float("nan")
PER_CLASS = 60  # points of a class in a plane
DOG = 5


NO_FALL = "accuracy did not fall on the whole, so there is nothing to share"


def error_figure(inputs: DrawingInput, audits: Mapping[str, AuditedCondition], title: str) -> Figure:
    """The error of each class, a line for each audit; panels side by side have the same axes."""
    names = next(iter(audits.values()))[0].names
    series = {role: 100 * (1 - class_accuracies(one)) for role, one in audits.items()}
    return class_line_figure(inputs, names, series, title=title, up="error in %", ends=(0.0, 100.0))


def fig1ab(inputs: DrawingInput) -> ExhibitDrawing:
    """A panel for each training, with both errors in it."""
    made = []
    for role, title in (("ST", "Standard training"), ("PGD-AT", "Adversarial training")):
        both, notes = find_both_audits(inputs, role)
        made.append(
            ExhibitDrawing((error_figure(inputs, both, f"{title}: class errors"),) if both else (), notes=notes)
        )
    return join_drawings(made)


def find_both_audits(inputs: DrawingInput, role: str) -> tuple[dict[str, AuditedCondition], tuple[Note, ...]]:
    """Both audits of a network, or none and why."""
    natural, notes = find_audits(inputs, [role])
    attacked, more = find_audits(inputs, [role], "pgd")
    both = {"natural error": natural[role], "PGD error": attacked[role]} if natural and attacked else {}
    return both, tuple(dict.fromkeys((*notes, *more)))


def fig1c(inputs: DrawingInput) -> ExhibitDrawing:
    """The share of each class in the fall of accuracy, and that of bird and cat together."""
    classes = inputs.cls(BIRD), inputs.cls(CAT)

    def share() -> Estimate:
        same = share_images(inputs.audit("ST"), inputs.audit("PGD-AT"))
        before, after = same.hits
        found = joint_share(before, after, same.labels, k=same.k, classes=classes)
        if found.value != found.value:
            raise MissingResult(NO_FALL)
        return 100 * found.value, 100 * found.low, 100 * found.high

    ours: OurCells = {("bird and cat", "share of the accuracy drop"): value_or_reason(share)}
    audits, notes = find_audits(inputs, ["ST", "PGD-AT"])
    if len(audits) < 2:
        return ExhibitDrawing(ours=ours, notes=notes)
    found = 100 * drop_shares(class_accuracies(audits["ST"]), class_accuracies(audits["PGD-AT"]))
    labels = inputs.labels(audits["ST"][0].names)
    rows = [Bar(labels[c], float(found[c])) for c in range(len(labels)) if found[c] == found[c]]
    if not rows:
        return ExhibitDrawing(ours=ours, notes=(*notes, f"Not shown: {NO_FALL}."))
    title = "Share of each class in the fall of natural accuracy"
    spec = deviation_chart(rows, f"{title}, in percent.", "share in %")
    return ExhibitDrawing((Figure(title, "from ST to PGD-AT; shares add up to 100 %", spec),), ours=ours, notes=notes)


def plane_figure(inputs: DrawingInput, role: str, title: str) -> Figure:
    """Features in two dimensions; of each class as many points as can be told apart."""
    found = inputs.result(role)
    if found.plane is None or found.evidence is None:
        raise MissingResult("its features in two dimensions were not kept")
    labels = inputs.labels(found.evidence.names)
    rows = np.concatenate([np.flatnonzero(found.evidence.labels == c)[:PER_CLASS] for c in range(found.evidence.k)])
    drawn = [
        Point(float(found.plane[i, 0]), float(found.plane[i, 1]), labels[int(found.evidence.labels[i])]) for i in rows
    ]
    told = f"at most {PER_CLASS} test images of a class; rays go from the origin to the means of the classes"
    spec = plane_chart(drawn, Axes("first feature", "second feature"), f"{title}: features of the test images.")
    return Figure(title, told, spec)


def draw_single_class(inputs: DrawingInput, role: str, title: str) -> ExhibitDrawing:
    """Class errors and the plane of a network in whose training one class was attacked."""
    both, notes = find_both_audits(inputs, role)
    panels = [error_figure(inputs, both, f"{title}: class errors")] if both else []
    try:
        panels.append(plane_figure(inputs, role, f"{title}: features"))
    except MissingResult as missing:
        notes += (NotShown((f"the plane of {role}",), str(missing)),) if both else ()
    return ExhibitDrawing(tuple(panels), notes=notes, pairs=True)


def fig3(inputs: DrawingInput) -> ExhibitDrawing:
    """Car and cat attacked alone: class errors, and features in two dimensions."""
    ours: OurCells = {}
    for role, c in (("cat", CAT), ("car", CAR)):
        for what, begin in (("natural", "clean"), ("PGD-10", "pgd")):
            accuracy = class_accuracy(inputs.cls(c))
            ours[f"single AT of {role}", f"{what} accuracy of {role}"] = compute_cell(inputs, accuracy, role, begin)
    parts = [draw_single_class(inputs, role, f"Only {role} is attacked") for role in inputs.roles]
    return join_drawings(parts) + ExhibitDrawing(ours=ours)


def fig4(inputs: DrawingInput) -> ExhibitDrawing:
    """Each class in the network where it alone was attacked, against standard training."""
    try:
        names = inputs.audit("ST")[0].names
        standard = inter_class_similarity(inputs.moments("ST").means)
    except MissingResult as missing:
        return ExhibitDrawing(notes=explain_missing({f"ST: {missing}": ("the lines",)}))
    alone = np.full(len(names), np.nan)
    missing_roles: dict[str, list[str]] = {}
    for c in range(len(names)):
        try:
            alone[c] = inter_class_similarity(inputs.moments(f"single {c}").means)[c]
        except MissingResult as reason:
            missing_roles.setdefault(str(reason), []).append(f"single {c}")
    series = {"ST": standard, "the class attacked alone": alone}
    title = "Similarity of each class, standard and where it alone is attacked"
    figure = class_line_figure(inputs, names, series, title=title, up="largest cosine with another class", digits=3)
    return ExhibitDrawing(wide=(figure,), notes=explain_missing(missing_roles))


def error(same: SharedImages) -> Estimate:
    """The share of wrong answers over all images."""
    value, low, high = overall(same)
    return 100 - value, 100 - high, 100 - low


def fig5(inputs: DrawingInput) -> ExhibitDrawing:
    """Cat against each other class: errors, sorted by similarity to cat."""
    cat = inputs.cls(CAT)
    ours: OurCells = {}
    for method in ("PGD-AT", "TRADES"):
        for other, c in (("car", CAR), ("dog", DOG)):
            for what, begin in (("natural error", "clean"), ("PGD-10 error", "pgd")):
                value = compute_cell(inputs, error, f"{method}, cat and {c}", begin)
                if method == "PGD-AT" or other == "dog":
                    ours[f"{method} cat-{other}", what] = value
    try:
        names = inputs.audit("ST")[0].names
        similar = cosines(inputs.moments("ST").means)[cat]
    except MissingResult as missing:
        return ExhibitDrawing(
            ours=ours, notes=explain_missing({f"ST, which sorts the classes: {missing}": ("the panels",)})
        )
    order = [c for c in np.argsort(np.nan_to_num(similar, nan=-2.0), kind="stable").tolist() if c != cat]
    labels = [inputs.label(names, c) for c in order]
    panels: list[Figure] = []
    notes: list[Note] = []
    for method in ("PGD-AT", "TRADES"):
        series = []
        for what, begin in (("natural error", "clean"), ("PGD error", "pgd")):
            audits, more = find_audits(inputs, [f"{method}, cat and {c}" for c in order], begin)
            notes += more
            found = [audits.get(f"{method}, cat and {c}") for c in order]
            y = tuple(None if one is None else 100 * (1 - one[0].tally(one[1]).overall) for one in found)
            series.append(Series(what, y))
        series = [one for one in series if any(value is not None for value in one.y)]
        if not series:
            continue
        series.append(Series("similarity to cat × 50", tuple(50 * float(similar[c]) for c in order)))
        title = f"{method}: errors of telling {inputs.label(names, cat)} from each other class"
        axes = Axes("other class, least similar to it first", "error in %", lowest=0.0)
        panels.append(Figure(title, "", line_chart(series, axes, f"{title}.", categories=labels)))
    return ExhibitDrawing(tuple(panels), ours=ours, notes=tuple(dict.fromkeys(notes)))


def fig6(inputs: DrawingInput) -> ExhibitDrawing:
    """Similarity and variance of features with smoothing and with entropy."""
    first = [role for role in inputs.roles if "TRADES" not in role]
    second = [role for role in inputs.roles if "TRADES" in role]
    return draw_shapes(inputs, first, ", PGD-AT") + draw_shapes(inputs, second, ", TRADES")


def fig7(inputs: DrawingInput) -> ExhibitDrawing:
    """Test entropy over the epochs where it was recorded; in the table that of the network that was kept."""
    series: list[Series] = []
    ours: OurCells = {}
    notes: list[str] = []
    lacking: dict[str, list[str]] = {}
    most = NAN
    for role in inputs.roles:
        for what, begin in ENTROPY_KINDS.items():
            try:
                evidence, name = inputs.audit(role, begin)
            except MissingResult as missing:
                lacking.setdefault(str(missing), []).append(f"{role} {what}")
                ours[role, f"mean entropy, {what}"] = str(missing)
                continue
            most = float(np.log(evidence.k))
            ours[role, f"mean entropy, {what}"] = mean_entropy(evidence, name)
            each = [one[name] for one in inputs.result(role).entropies if name in one]
            if each:
                epochs = tuple(float(e + 1) for e in range(len(each)))
                series.append(Series(f"{role}, {what}", tuple(each), epochs, entropy_styles(inputs)[f"{role}, {what}"]))
            else:
                notes.append(f"Entropies of the epochs of {role} were not kept: those of the network are in the table.")
    ours["ten classes", "largest entropy"] = (most, NAN, NAN) if most == most else inputs.why(inputs.roles[0])
    panels: tuple[Figure, ...] = ()
    if series:
        axes = Axes("epoch", "entropy in nats", lowest=0.0, rule=(most, "ln k, the most there can be"), digits=3)
        told = f"line at ln k = {most:.3f}, the most there can be; dashed: under attack"
        panels = (Figure("Mean entropy on test images", told, line_chart(series, axes, "Entropy over the epochs.")),)
    classes = class_entropies(inputs)
    every: tuple[Note, ...] = tuple(dict.fromkeys((*explain_missing(lacking), *notes)))
    return ExhibitDrawing(panels + classes, ours=ours, notes=every, units=ENTROPY_UNITS)


ENTROPY_KINDS = {"clean": "clean", "adversarial": "pgd"}
ENTROPY_UNITS = {f"mean entropy, {what}": "nats" for what in ENTROPY_KINDS}


def entropy_styles(inputs: DrawingInput) -> dict[str, SeriesStyle]:
    """In both panels a colour for each training, and dashes under attack."""
    return {
        f"{role}, {what}": SeriesStyle(colour, dash, colour + 2 * dash)
        for colour, role in enumerate(inputs.roles)
        for dash, what in enumerate(ENTROPY_KINDS)
    }


def class_entropies(inputs: DrawingInput) -> tuple[Figure, ...]:
    """The mean entropy of each class, of the networks that were kept."""
    made = {}
    names: tuple[str, ...] = ()
    for role in inputs.roles:
        for what, begin in ENTROPY_KINDS.items():
            for evidence, name in find_audits(inputs, [role], begin)[0].values():
                made[f"{role}, {what}"] = entropy(evidence, name)
                names = evidence.names
    return (
        (
            class_line_figure(
                inputs,
                names,
                made,
                title="Mean entropy of each class, of the network that was kept",
                up="nats",
                styles=entropy_styles(inputs),
                digits=3,
            ),
        )
        if names
        else ()
    )


def mean_entropy(evidence: Evidence, name: str) -> Estimate:
    """The mean entropy over images with a normal interval, in nats."""
    found = evidence.conditions[name].entropy.astype(np.float64)
    half = 1.96 * float(found.std(ddof=1)) / np.sqrt(len(found)) if len(found) > 1 else NAN
    return float(found.mean()), float(found.mean() - half), float(found.mean() + half)


def fig8(inputs: DrawingInput) -> ExhibitDrawing:
    """Each other class attacked alone: class errors, and features in two dimensions."""
    parts = []
    for c in OTHERS:
        role = f"single {c}"
        audits, _ = find_audits(inputs, [role])
        name = inputs.label(audits[role][0].names, inputs.cls(c)) if audits else str(inputs.paper.number(c))
        parts.append(draw_single_class(inputs, role, f"Only {name} is attacked"))
    return join_drawings(parts)


DRAWINGS: Drawings = {
    "tradeoff2022/fig1ab": fig1ab,
    "tradeoff2022/fig1c": fig1c,
    "tradeoff2022/fig2": lambda inputs: draw_shapes(inputs, inputs.roles),
    "tradeoff2022/fig3": fig3,
    "tradeoff2022/fig4": fig4,
    "tradeoff2022/fig5": fig5,
    "tradeoff2022/fig6": fig6,
    "tradeoff2022/table1": table1,
    "tradeoff2022/fig7": fig7,
    "tradeoff2022/table2": draw_averages,
    "tradeoff2022/table3": draw_averages,
    "tradeoff2022/table4": table4,
    "tradeoff2022/table5": table5,
    "tradeoff2022/fig8": fig8,
    "tradeoff2022/fig9": lambda inputs: draw_shapes(inputs, inputs.roles),
}
