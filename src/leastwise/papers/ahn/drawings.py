"""The exhibits of Ahn."""

from collections.abc import Mapping, Sequence

from leastwise.core.counts import Tally
from leastwise.insight.confusion import rank_groups
from leastwise.papers.ahn.exhibits import CHAIR, FOX, GRID, SWEEP_ROLES
from leastwise.papers.claims.base import SharedImages, share_images
from leastwise.papers.drawing import values
from leastwise.papers.drawing.figures import describe_condition, group_ranking_figure
from leastwise.papers.drawing.inputs import (
    CellValue,
    DrawingInput,
    Drawings,
    Estimate,
    ExhibitDrawing,
    OurCells,
    explain_missing,
    find_audits,
    value_or_reason,
)
from leastwise.papers.drawing.values import (
    CellStatistic,
    accuracy_difference,
    best,
    class_accuracy,
    compute_cell,
    of_class,
    overall,
    sd,
    sd_without_noise,
    worst,
)
from leastwise.papers.results import MissingResult
from leastwise.report.charts.lines import Axes, Series, SeriesStyle, line_chart, usual_style
from leastwise.report.figures import Figure
from leastwise.statistics.spread import class_deviation

NAN = float("nan")
BOTH = (("clean", "clean"), ("robust", "pgd"))
MAIN = ("PGD", "TRADES")
EPS = "eps of training, in 1/255"


def sweep_statistic(
    inputs: DrawingInput, name: str, begin: str, *, statistic: CellStatistic
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """A statistic over the radii that are there."""
    found = {}
    for eps in GRID:
        audits, _ = find_audits(inputs, [SWEEP_ROLES[name, eps]], begin)
        for audited in audits.values():
            found[float(eps)] = statistic(values.pair_alone(audited))[0]
    return tuple(found), tuple(found.values())


def sweep_figure(
    inputs: DrawingInput, statistic: CellStatistic, title: str, *, up: str, kinds: Sequence[tuple[str, str]]
) -> Figure:
    """A statistic over the radius of training: a line for each method and kind of accuracy."""
    series = []
    for name in MAIN:
        for what, begin in kinds:
            x, y = sweep_statistic(inputs, name, begin, statistic=statistic)
            colour, dash = MAIN.index(name), BOTH.index((what, begin)) if len(kinds) > 1 else 0
            style = SeriesStyle(colour, dash, colour + 2 * dash)
            series.append(Series(f"{name}, {what}" if len(kinds) > 1 else name, y, x, style))
    series = [one for one in series if one.x]
    return Figure(title, "", line_chart(series, Axes(EPS, up, lowest=0.0), f"{title} over the radius of training."))


def fig1(inputs: DrawingInput) -> ExhibitDrawing:
    """Accuracy, robustness and spread over the radius of training, and where robustness stops rising."""
    audits, notes = find_audits(inputs, inputs.roles, "pgd")
    if not audits:
        return ExhibitDrawing(ours={("PGD and TRADES", STOPS): inputs.why(inputs.roles[0])}, notes=notes)
    panels = (
        sweep_figure(inputs, overall, "Overall clean accuracy", up="accuracy in %", kinds=BOTH[:1]),
        sweep_figure(inputs, overall, "Overall robust accuracy", up="accuracy in %", kinds=BOTH[1:]),
        sweep_figure(inputs, plain_sd, "Standard deviation over classes", up="points", kinds=BOTH),
        sweep_figure(inputs, sd_without_noise, "The same without sampling noise", up="points", kinds=BOTH),
    )
    ours: OurCells = {
        ("PGD and TRADES", STOPS): value_or_reason(
            lambda: max(find_saturation(inputs, name, overall) for name in MAIN)
        ),
        ("PGD", STOPS): value_or_reason(lambda: find_saturation(inputs, "PGD", overall)),
        ("TRADES", STOPS): value_or_reason(lambda: find_saturation(inputs, "TRADES", overall)),
    }
    return ExhibitDrawing(panels=panels, ours=ours, notes=notes)


def plain_sd(same: SharedImages) -> Estimate:
    """A curve needs no interval, and a bootstrap of a hundred classes takes its time."""
    return 100 * float(class_deviation(same.accuracies()[0])), NAN, NAN


STOPS = "eps where robustness stops rising"
FLAT = 1.0  # a gain of less than a point is none


def find_saturation(inputs: DrawingInput, name: str, statistic: CellStatistic) -> Estimate:
    """The smallest radius from which no larger one gains a point; from point values, without an interval."""
    x, y = sweep_statistic(inputs, name, "pgd", statistic=statistic)
    if len(x) < len(GRID):
        raise MissingResult("some radii are missing")
    return next(eps for eps, value in zip(x, y, strict=True) if max(y) - value < FLAT), NAN, NAN


def class_sweep(inputs: DrawingInput, c: int) -> tuple[Figure, ...]:
    """Clean and robust test accuracy of a class, with the clean network as a line."""
    made = []
    for what, begin in BOTH:
        series = [
            Series(name, y, x)
            for name in MAIN
            for x, y in [sweep_statistic(inputs, name, begin, statistic=class_accuracy(c))]
            if x
        ]
        if not series:
            continue
        audits, _ = find_audits(inputs, ["clean"], begin)
        level = [of_class(values.pair_alone(one), c)[0] for one in audits.values()]
        rule = (level[0], f"clean network, {what}") if level else None
        names = next(iter(find_audits(inputs, inputs.roles, begin)[0].values()))[0].names
        title = f"{names[c]}, {what} test accuracy"
        told = "" if rule is None else f"dashed: the clean network, {level[0]:.1f} %"
        axes = Axes(EPS, "accuracy in %", 0.0, 100.0, rule)
        made.append(Figure(title, told, line_chart(series, axes, f"{title} over the radius of training.")))
    return tuple(made)


def draw_over_radius(inputs: DrawingInput) -> ExhibitDrawing:
    """Clean and robust accuracy of the classes of an exhibit over the radius of training."""
    _, notes = find_audits(inputs, inputs.roles, "pgd")
    classes = dict.fromkeys(inputs.cls(c) for c in inputs.view.exhibit.classes)
    return ExhibitDrawing(
        panels=tuple(figure for c in classes for figure in class_sweep(inputs, c)), notes=notes, pairs=True
    )


def fig2abcd(inputs: DrawingInput) -> ExhibitDrawing:
    """Chair and fox over the radius of training, with the numbers that the text gives."""
    chair, fox = inputs.cls(CHAIR), inputs.cls(FOX)
    last = max(GRID)

    def apart() -> Estimate:
        """Clean minus robust of chair at the largest radius, PGD."""
        clean, robust = (inputs.audit(SWEEP_ROLES["PGD", last], begin) for begin in ("pgd", "clean"))
        return accuracy_difference(share_images(clean, robust), chair)

    def highest() -> Estimate:
        """The largest robust accuracy of fox over the radii and both methods."""
        every = [
            of_class(values.pair_alone(inputs.audit(role, "pgd")), fox) for role in inputs.roles if role != "clean"
        ]
        return max(every)

    ours: OurCells = {
        ("chair", STOPS): value_or_reason(lambda: find_saturation(inputs, "PGD", class_accuracy(chair))),
        ("chair", "clean minus robust, largest eps"): value_or_reason(apart),
        ("fox PGD", "clean, large eps"): compute_cell(inputs, class_accuracy(fox), SWEEP_ROLES["PGD", last]),
        ("fox", "robust, every eps"): value_or_reason(highest),
    }
    return draw_over_radius(inputs) + ExhibitDrawing(ours=ours)


def recorded_tallies(inputs: DrawingInput, role: str, what: str) -> list[Tally]:
    """Class accuracy of a training on its own images, epoch by epoch."""
    found = inputs.result(role)
    return list(found.epochs if what == "clean" else found.robust_epochs)


def draw_while_training(inputs: DrawingInput, kinds: Sequence[str]) -> ExhibitDrawing:
    """A panel for each class and kind, a line for each training."""
    roles = [role for role in inputs.roles if not role.endswith("images")]
    missing: dict[str, list[str]] = {}
    curves: dict[tuple[str, str], list[Tally]] = {}
    for role in roles:
        for what in kinds:
            try:
                tallies = recorded_tallies(inputs, role, what)
                if not tallies and not (role == "clean" and what == "robust"):
                    raise MissingResult(f"its {what} accuracies were not recorded")
                curves[role, what] = tallies
            except MissingResult as reason:
                missing.setdefault(str(reason), []).append(role)
    notes = explain_missing({why: dict.fromkeys(some) for why, some in missing.items()})
    panels = []
    for c in dict.fromkeys(inputs.cls(c) for c in inputs.view.exhibit.classes):
        for what in kinds:
            series = [
                Series(
                    role,
                    class_curve(tallies, c),
                    tuple(float(e) for e in range(1, len(tallies) + 1)),
                    line_style(role) or usual_style(roles.index(role)),
                )
                for (role, kind), tallies in curves.items()
                if kind == what  # of a training without attack a robust line is empty, and keeps the others' colours
            ]
            if any(one.x for one in series):
                title = f"{class_name(inputs, c)}, {what} training accuracy"
                axes = Axes("epoch", "accuracy in %", 0.0, 100.0)
                told = STYLES if any(line_style(one.name) for one in series) else ""
                panels.append(Figure(title, told, line_chart(series, axes, f"{title} over the epochs.", height=280)))
    return ExhibitDrawing(panels=tuple(panels), notes=notes, pairs=len(kinds) > 1)


STYLES = "a colour and shape for each eps; PGD solid, TRADES dashed"


def line_style(role: str) -> SeriesStyle | None:
    """In a sweep the colour and shape say the radius and the dashes the method."""
    if role == "clean":
        return SeriesStyle(len(GRID), 2, len(GRID))
    places = {SWEEP_ROLES[name, eps]: (GRID.index(eps), MAIN.index(name)) for name, eps in SWEEP_ROLES}
    radius, method = places.get(role, (None, None))
    return None if radius is None or method is None else SeriesStyle(radius, method, radius)


def class_curve(tallies: Sequence[Tally], c: int) -> tuple[float | None, ...]:
    """The accuracy of a class over the epochs, in percent."""
    return tuple(100 * float(tally.accuracy[c]) for tally in tallies)


def class_name(inputs: DrawingInput, c: int) -> str:
    """From any audit of the same data; a record of a training has no names."""
    for exhibit in ("ahn/table1", "ahn/fig1"):
        other = inputs.of(exhibit)
        audits, _ = find_audits(other, other.roles)
        for evidence, _ in audits.values():
            return evidence.names[c]
    from leastwise.data.classes import CIFAR100

    return CIFAR100[c] if inputs.view.scale != "smoke" else f"class {c}"


def fig2efgh(inputs: DrawingInput) -> ExhibitDrawing:
    """Chair and fox while training, with the numbers of the smallest radius."""
    fox = inputs.cls(FOX)
    row = "fox PGD eps 1/255"

    def at(split: str, radius: str) -> CellValue:
        role = f"PGD, eps 1/255, {split} images"
        return compute_cell(inputs, class_accuracy(fox), role, "pgd", end=f"[{radius}/255]")

    ours: OurCells = {
        (row, "final training robust accuracy"): at("train", "1"),
        (row, "test robust accuracy"): at("test", "8"),
        (row, "training images at 8/255"): at("train", "8"),
        (row, "test images at 1/255"): at("test", "1"),
    }
    units = {"training images at 8/255": "%", "test images at 1/255": "%"}
    return draw_while_training(inputs, ("clean", "robust")) + ExhibitDrawing(ours=ours, units=units)


COLUMNS: Mapping[str, CellStatistic] = {
    "average": overall,
    "worst class": worst,
    "best class": best,
    "class SD": sd,
    "class SD without noise": sd_without_noise,
}


def table1(inputs: DrawingInput) -> ExhibitDrawing:
    """Average, worst class, best class and spread of each training, clean and robust."""
    ours: OurCells = {}
    for role in inputs.roles:
        for column_name, statistic in COLUMNS.items():
            for what, begin in BOTH:
                ours[role, f"{column_name}, {what}"] = compute_cell(inputs, statistic, role, begin)
    return ExhibitDrawing(ours=ours, units={f"class SD without noise, {what}": "points" for what, _ in BOTH})


def fig4(inputs: DrawingInput) -> ExhibitDrawing:
    """The mean of all methods; the text has a bound for the superclass at each side of a gap in the list."""
    audits, notes = find_audits(inputs, inputs.roles, "pgd")
    cut = {"down to medium-sized mammals": "fox", "from non-insect invertebrates on": "crab"}  # one of their classes
    if not audits:
        return ExhibitDrawing(ours={(row, "robust accuracy"): inputs.why(inputs.roles[0]) for row in cut}, notes=notes)
    first = next(iter(audits.values()))[0]
    tallies = [evidence.tally(name) for evidence, name in audits.values()]
    accuracy = {one.name: 100 * one.accuracy for one in rank_groups(tallies, first.groups)}
    # By a class of theirs: copies of CIFAR-100 spell the names of superclasses differently.
    home = {first.names[c]: name for name, classes in first.groups for c in classes}
    other = "these images have no such superclass"
    ours: OurCells = {
        (row, "robust accuracy"): (accuracy[home[one]], NAN, NAN) if one in home else other for row, one in cut.items()
    }
    if not first.groups:
        return ExhibitDrawing(ours=ours, notes=(*notes, "The images have no superclasses."))
    whole = len(audits) == len(inputs.roles)
    title = f"Superclasses, mean of {'all' if whole else 'the'} methods{'' if whole else ' that are there'}"
    told = f"{len(audits)} of {len(inputs.roles)} methods: {', '.join(audits)}"
    figure = group_ranking_figure(tallies, first, title, told=told)
    return ExhibitDrawing(wide=(figure,), ours=ours, notes=notes)


def draw_rankings(inputs: DrawingInput) -> ExhibitDrawing:
    """The superclasses of each method by robustness."""
    audits, notes = find_audits(inputs, inputs.roles, "pgd")
    made = []
    for role, (evidence, name) in audits.items():
        if evidence.groups:
            tally = evidence.tally(name)
            made.append(
                group_ranking_figure(
                    [tally],
                    evidence,
                    role,
                    told=f"{100 * tally.overall:.1f} % overall (dashed), {describe_condition(name)}",
                )
            )
        else:
            notes = (*notes, f"The images of {role} have no superclasses.")
    return ExhibitDrawing(panels=tuple(made), notes=notes)


def draw_both_kinds(inputs: DrawingInput) -> ExhibitDrawing:
    """Clean and robust training accuracy of the classes of an exhibit over the epochs."""
    return draw_while_training(inputs, ("clean", "robust"))


DRAWINGS: Drawings = {
    "ahn/fig1": fig1,
    "ahn/fig2abcd": fig2abcd,
    "ahn/fig2efgh": fig2efgh,
    "ahn/table1": table1,
    "ahn/fig3": lambda inputs: draw_while_training(inputs, ("clean",)),
    "ahn/fig4": fig4,
    "ahn/fig5": draw_over_radius,
    "ahn/fig6": draw_over_radius,
    "ahn/fig7": draw_both_kinds,
    "ahn/fig8": draw_both_kinds,
    "ahn/fig9": draw_both_kinds,
    "ahn/fig10": draw_both_kinds,
    "ahn/fig11": draw_rankings,
    "ahn/fig12": draw_rankings,
}
