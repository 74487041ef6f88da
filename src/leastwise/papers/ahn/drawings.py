"""The exhibits of Ahn."""

from collections.abc import Callable, Mapping, Sequence

import torch

from leastwise.core.counts import Tally
from leastwise.core.types import Counts
from leastwise.insight.superclasses import group_ranking
from leastwise.papers.ahn.exhibits import CHAIR, FOX, GRID
from leastwise.papers.claims.base import Same, shared
from leastwise.papers.drawing import values
from leastwise.papers.drawing.drawn import Drawn
from leastwise.papers.drawing.figures import ranked_groups, under
from leastwise.papers.drawing.given import Given, Ours, Triple, Value, available, tried
from leastwise.papers.drawing.values import (
    accuracy_difference,
    asked,
    best,
    class_accuracy,
    of_class,
    overall,
    sd,
    sd_without_noise,
    worst,
)
from leastwise.papers.results import Missing
from leastwise.report.charts.lines import Axes, Series, lines
from leastwise.report.figures import Figure
from leastwise.statistics.accuracies import class_deviation

NAN = float("nan")
BOTH = (("clean", "clean"), ("robust", "pgd"))
MAIN = ("PGD", "TRADES")
EPS = "eps of training, in 1/255"
Statistic = Callable[[Same], Triple]


def swept(given: Given, name: str, begin: str, statistic: Statistic) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """A statistic over the radii that are there."""
    found = {}
    for eps in GRID:
        audits, _ = available(given, [f"{name}, eps {eps}/255"], begin)
        for audited in audits.values():
            found[float(eps)] = statistic(values.one(audited))[0]
    return tuple(found), tuple(found.values())


def sweep_figure(given: Given, statistic: Statistic, title: str, up: str, kinds: Sequence[tuple[str, str]]) -> Figure:
    series = []
    for name in MAIN:
        for what, begin in kinds:
            x, y = swept(given, name, begin, statistic)
            series.append(Series(f"{name}, {what}" if len(kinds) > 1 else name, y, x))
    series = [one for one in series if one.x]
    return Figure(title, "", lines(series, Axes(EPS, up, lowest=0.0), f"{title} over the radius of training."))


def fig1(given: Given) -> Drawn:
    audits, notes = available(given, given.roles, "pgd")
    if not audits:
        return Drawn(ours={("PGD and TRADES", STOPS): given.why(given.roles[0])}, notes=notes)
    panels = (
        sweep_figure(given, overall, "Overall clean accuracy", "accuracy in %", BOTH[:1]),
        sweep_figure(given, overall, "Overall robust accuracy", "accuracy in %", BOTH[1:]),
        sweep_figure(given, plain_sd, "Standard deviation over classes", "points", BOTH),
        sweep_figure(given, sd_without_noise, "The same without sampling noise", "points", BOTH),
    )
    ours: Ours = {
        ("PGD and TRADES", STOPS): tried(lambda: max(stops(given, name, overall) for name in MAIN)),
        ("PGD", STOPS): tried(lambda: stops(given, "PGD", overall)),
        ("TRADES", STOPS): tried(lambda: stops(given, "TRADES", overall)),
    }
    return Drawn(panels=panels, ours=ours, notes=notes)


def plain_sd(same: Same) -> Triple:
    """A curve needs no interval, and a bootstrap of a hundred classes takes its time."""
    return 100 * float(class_deviation(same.accuracies()[0])), NAN, NAN


STOPS = "eps where robustness stops rising"
FLAT = 1.0  # a gain of less than a point is none


def stops(given: Given, name: str, statistic: Statistic) -> Triple:
    """The smallest radius from which no larger one gains a point; from point values, without an interval."""
    x, y = swept(given, name, "pgd", statistic)
    if len(x) < len(GRID):
        raise Missing("some radii are missing")
    return next(eps for eps, value in zip(x, y, strict=True) if max(y) - value < FLAT), NAN, NAN


def class_sweep(given: Given, c: int) -> tuple[Figure, ...]:
    """Clean and robust test accuracy of a class, with the clean network as a line."""
    made = []
    for what, begin in BOTH:
        series = [Series(name, y, x) for name in MAIN for x, y in [swept(given, name, begin, class_accuracy(c))] if x]
        if not series:
            continue
        audits, _ = available(given, ["clean"], begin)
        level = [of_class(values.one(one), c)[0] for one in audits.values()]
        rule = (level[0], f"clean network, {what}") if level else None
        names = next(iter(available(given, given.roles, begin)[0].values()))[0].names
        title = f"{names[c]}, {what} test accuracy"
        told = "" if rule is None else f"dashed: the clean network, {level[0]:.1f} %"
        axes = Axes(EPS, "accuracy in %", 0.0, 100.0, rule)
        made.append(Figure(title, told, lines(series, axes, f"{title} over the radius of training.")))
    return tuple(made)


def over_radius(given: Given) -> Drawn:
    _, notes = available(given, given.roles, "pgd")
    classes = dict.fromkeys(given.cls(c) for c in given.view.exhibit.classes)
    return Drawn(panels=tuple(figure for c in classes for figure in class_sweep(given, c)), notes=notes, pairs=True)


def fig2abcd(given: Given) -> Drawn:
    chair, fox = given.cls(CHAIR), given.cls(FOX)
    last = max(GRID)

    def apart() -> Triple:
        """Clean minus robust of chair at the largest radius, PGD."""
        clean, robust = (given.audit(f"PGD, eps {last}/255", begin) for begin in ("pgd", "clean"))
        return accuracy_difference(shared(clean, robust), chair)

    def highest() -> Triple:
        """The largest robust accuracy of fox over the radii and both methods."""
        every = [of_class(values.one(given.audit(role, "pgd")), fox) for role in given.roles if role != "clean"]
        return max(every)

    ours: Ours = {
        ("chair", STOPS): tried(lambda: stops(given, "PGD", class_accuracy(chair))),
        ("chair", "clean minus robust, largest eps"): tried(apart),
        ("fox PGD", "clean, large eps"): asked(given, class_accuracy(fox), f"PGD, eps {last}/255"),
        ("fox", "robust, every eps"): tried(highest),
    }
    return over_radius(given) + Drawn(ours=ours)


def recorded(given: Given, role: str, what: str) -> list[Tally]:
    """Class accuracy of a training on its own images, epoch by epoch."""
    found = given.found(role)
    if what == "clean":
        return list(found.epochs)
    parts = [line["robust"] for line in found.dynamics]
    made = [Tally(counted(part["n"]), counted(part["correct"])) for part in parts]
    return [tally for tally in made if int(tally.n.sum())]


def counted(numbers: Sequence[int]) -> Counts:
    return torch.tensor(numbers, dtype=torch.int64)


def while_training(given: Given, kinds: Sequence[str]) -> Drawn:
    """A panel for each class and kind, a line for each training."""
    roles = [role for role in given.roles if not role.endswith("images")]
    missing: dict[str, list[str]] = {}
    curves: dict[tuple[str, str], list[Tally]] = {}
    for role in roles:
        for what in kinds:
            try:
                tallies = recorded(given, role, what)
                if not tallies and not (role == "clean" and what == "robust"):
                    raise Missing(f"its {what} accuracies were not recorded")
                curves[role, what] = tallies
            except Missing as reason:
                missing.setdefault(str(reason), []).append(role)
    notes = tuple(f"Not shown: {', '.join(dict.fromkeys(some))} ({why})." for why, some in missing.items())
    panels = []
    for c in dict.fromkeys(given.cls(c) for c in given.view.exhibit.classes):
        for what in kinds:
            series = [
                Series(role, column(tallies, c), tuple(float(e) for e in range(1, len(tallies) + 1)), style(role))
                for (role, kind), tallies in curves.items()
                if kind == what  # of a training without attack a robust line is empty, and keeps the others' colours
            ]
            if any(one.x for one in series):
                title = f"{class_name(given, c)}, {what} training accuracy"
                axes = Axes("epoch", "accuracy in %", 0.0, 100.0)
                told = STYLES if any(one.style for one in series) else ""
                panels.append(Figure(title, told, lines(series, axes, f"{title} over the epochs.", height=280)))
    return Drawn(panels=tuple(panels), notes=notes, pairs=len(kinds) > 1)


STYLES = "a colour and shape for each eps; PGD solid, TRADES dashed"


def style(role: str) -> tuple[int, int] | None:
    """In a sweep the colour says the radius and the dashes the method."""
    name, _, eps = role.partition(", eps ")
    if role == "clean":
        return len(GRID), 2
    return (GRID.index(int(eps.removesuffix("/255"))), MAIN.index(name)) if eps else None


def column(tallies: Sequence[Tally], c: int) -> tuple[float | None, ...]:
    return tuple(100 * float(tally.accuracy[c]) for tally in tallies)


def class_name(given: Given, c: int) -> str:
    """From any audit of the same data; a record of a training has no names."""
    for exhibit in ("ahn/table1", "ahn/fig1"):
        other = given.of(exhibit)
        audits, _ = available(other, other.roles)
        for evidence, _ in audits.values():
            return evidence.names[c]
    from leastwise.data.classes import CIFAR100

    return CIFAR100[c] if given.view.scale != "smoke" else f"class {c}"


def fig2efgh(given: Given) -> Drawn:
    fox = given.cls(FOX)
    row = "fox PGD eps 1/255"

    def at(split: str, radius: str) -> Value:
        role = f"PGD, eps 1/255, {split} images"
        return asked(given, class_accuracy(fox), role, "pgd", end=f"[{radius}/255]")

    ours: Ours = {
        (row, "final training robust accuracy"): at("train", "1"),
        (row, "test robust accuracy"): at("test", "8"),
        (row, "training images at 8/255"): at("train", "8"),
        (row, "test images at 1/255"): at("test", "1"),
    }
    return while_training(given, ("clean", "robust")) + Drawn(ours=ours)


COLUMNS: Mapping[str, Statistic] = {
    "average": overall,
    "worst class": worst,
    "best class": best,
    "class SD": sd,
    "class SD without noise": sd_without_noise,
}


def table1(given: Given) -> Drawn:
    ours: Ours = {}
    for role in given.roles:
        for column_name, statistic in COLUMNS.items():
            for what, begin in BOTH:
                ours[role, f"{column_name}, {what}"] = asked(given, statistic, role, begin)
    return Drawn(ours=ours)


def fig4(given: Given) -> Drawn:
    """The mean of all methods; the text has a bound for the superclass at each side of a gap in the list."""
    audits, notes = available(given, given.roles, "pgd")
    cut = {"down to medium-sized mammals": "fox", "from non-insect invertebrates on": "crab"}  # one of their classes
    if not audits:
        return Drawn(ours={(row, "robust accuracy"): given.why(given.roles[0]) for row in cut}, notes=notes)
    first = next(iter(audits.values()))[0]
    tallies = [evidence.tally(name) for evidence, name in audits.values()]
    accuracy = {one.name: 100 * one.accuracy for one in group_ranking(tallies, first.groups)}
    # By a class of theirs: copies of CIFAR-100 spell the names of superclasses differently.
    home = {first.names[c]: name for name, classes in first.groups for c in classes}
    other = "these images have no such superclass"
    ours: Ours = {
        (row, "robust accuracy"): (accuracy[home[one]], NAN, NAN) if one in home else other for row, one in cut.items()
    }
    if not first.groups:
        return Drawn(ours=ours, notes=(*notes, "The images have no superclasses."))
    whole = len(audits) == len(given.roles)
    title = f"Superclasses, mean of {'all' if whole else 'the'} methods{'' if whole else ' that are there'}"
    told = f"{len(audits)} of {len(given.roles)} methods: {', '.join(audits)}"
    figure = ranked_groups(tallies, first, title, told)
    return Drawn(wide=(figure,), ours=ours, notes=notes)


def rankings(given: Given) -> Drawn:
    audits, notes = available(given, given.roles, "pgd")
    made = []
    for role, (evidence, name) in audits.items():
        if evidence.groups:
            tally = evidence.tally(name)
            made.append(
                ranked_groups([tally], evidence, role, f"{100 * tally.overall:.1f} % overall (dashed), {under(name)}")
            )
        else:
            notes = (*notes, f"The images of {role} have no superclasses.")
    return Drawn(panels=tuple(made), notes=notes)


def both_kinds(given: Given) -> Drawn:
    return while_training(given, ("clean", "robust"))


DRAWINGS = {
    "ahn/fig1": fig1,
    "ahn/fig2abcd": fig2abcd,
    "ahn/fig2efgh": fig2efgh,
    "ahn/table1": table1,
    "ahn/fig3": lambda given: while_training(given, ("clean",)),
    "ahn/fig4": fig4,
    "ahn/fig5": over_radius,
    "ahn/fig6": over_radius,
    "ahn/fig7": both_kinds,
    "ahn/fig8": both_kinds,
    "ahn/fig9": both_kinds,
    "ahn/fig10": both_kinds,
    "ahn/fig11": rankings,
    "ahn/fig12": rankings,
}
