"""The figures of Tian et al."""

from dataclasses import replace

import numpy as np

from leastwise.insight.homing import homing, homing_gain
from leastwise.insight.outputs import cvc
from leastwise.papers.build import dataset
from leastwise.papers.drawing.drawn import Drawn, Image, png, together
from leastwise.papers.drawing.figures import COUNTS, block, by_class, confusion_figure, epochs_of
from leastwise.papers.drawing.given import Given, Ours, Value, available, not_shown
from leastwise.papers.drawing.values import asked, class_accuracy, mcd, overall, taken_for
from leastwise.papers.recipes import Measured
from leastwise.papers.results import Missing, Picture
from leastwise.papers.scales import scale
from leastwise.papers.tian2021.exhibits import ALL_SIX, BETAS_OF_DOG, CAT, DOG, shown_classes
from leastwise.papers.tian2021.tables import TITLES, on_few, table1, table2, table3, table4, table5
from leastwise.report.charts.lines import Axes, Series, grouped_bars
from leastwise.report.figures import Figure

NAN = float("nan")
GAPS = ("largest gap, lower end", "largest gap, upper end")


def fig1(given: Given) -> Drawn:
    made: list[Drawn] = []
    ours: Ours = {}
    for role, title in TITLES.items():
        found = asked(given, on_few(mcd), role, "pgd")
        columns = ("largest gap",) if role in ("mnist", "imagenet") else GAPS
        ours |= {(title, column): found for column in columns}
        ours[title, "overall robustness"] = asked(given, overall, role, "pgd")
        made.append(epochs_of(given, role, title, "pgd", shown_classes, band=True))
    return together(made) + Drawn(ours=ours)


def fig2(given: Given) -> Drawn:
    audits, notes = available(given, ALL_SIX, "pgd")
    panels = tuple(confusion_figure(given, one, TITLES[role], by_groups=True) for role, one in audits.items())
    return Drawn(panels=panels, notes=notes)


def fig3a(given: Given) -> Drawn:
    audits, notes = available(given, given.roles)
    rows = {"smallest CVC": 0, "second smallest CVC": 1}
    if not audits:
        return Drawn(ours={(row, "class"): given.why(given.roles[0]) for row in rows}, notes=notes)
    found = {role: cvc(evidence, name) for role, (evidence, name) in audits.items()}
    names = next(iter(audits.values()))[0].names
    series = [Series(role, tuple(row.tolist())) for role, row in found.items()]
    about = "Class-wise variance of confidence of each defence."
    spec = grouped_bars(series, given.labels(names), Axes("class", "CVC", lowest=0.0, digits=4), about, 280)
    most = (len(names) - 1) / len(names) ** 2
    figure = Figure("Variance of confidence, clean images", f"at most {most:.3g}", spec, least=520)
    order = np.argsort(np.nanmean(np.stack(list(found.values())), axis=0), kind="stable")
    ours: Ours = {
        (row, "class"): (float(given.paper.number(int(order[place]))), NAN, NAN) for row, place in rows.items()
    }
    return Drawn(
        wide=(figure,), ours=ours, notes=(*notes, "Smallest and second smallest are of the mean over defences.")
    )


def pictured(given: Given, role: str) -> tuple[Picture, ...]:
    """Those that the exhibit names; all, where other images stand in for them."""
    found = given.found(role).pictures
    if not found:
        raise Missing("its single images were not kept")
    return tuple(one for one in found if one.id in given.view.exhibit.images) or found


def softmax(logits: "np.ndarray") -> "np.ndarray":
    p = np.exp(logits - logits.max())
    return np.asarray(p / p.sum())


def fig3bcd(given: Given) -> Drawn:
    """Pairs of bars by the number of steps: PGD and Temperature-PGD with 1/T = 5."""
    try:
        evidence, _ = given.audit("MART", "pgd", "tpgd")
        pictures = pictured(given, "MART")
    except Missing as missing:
        return Drawn(notes=(f"Not shown: {missing}.",))
    labels = given.labels(evidence.names)
    panels = []
    for picture in pictures:
        steps = [name.removeprefix("pgd") for name in picture.logits if name.startswith("pgd")]
        for step in steps:
            pair = {"PGD": f"pgd{step}", "Temperature-PGD, 1/T = 5": f"tpgd{step}@5"}
            series = [
                Series(name, tuple(softmax(picture.logits[condition]).tolist()))
                for name, condition in pair.items()
                if condition in picture.logits
            ]
            title = f"Image {picture.id} after {step} step{'s' if step != '1' else ''}"
            axes = Axes("class", "confidence", 0.0, 1.0, digits=3)
            panels.append(Figure(title, "", grouped_bars(series, labels, axes, f"{title}: confidence in each class.")))
    return Drawn(panels=tuple(panels))


CATS_AND_DOGS = "Row 3, column 5 of the table: cats that are taken for dogs."


def fig4a(given: Given) -> Drawn:
    cat, dog = given.cls(CAT), given.cls(DOG)
    audits, notes = available(given, ["full"], "pgd")
    panels = tuple(
        confusion_figure(given, one, "Misclassified, images", counts=True, diagonal=False) for one in audits.values()
    )
    ours: Ours = {("3", "5"): taken_for(given, "full", "pgd", cat, dog)}
    return Drawn(wide=panels, ours=ours, notes=(*notes, CATS_AND_DOGS))


def fig4b(given: Given) -> Drawn:
    cat, dog = given.cls(CAT), given.cls(DOG)
    try:
        full, name = given.audit("full", "pgd")
    except Missing as missing:
        return Drawn(ours={("3", "5"): str(missing)}, notes=(f"Not shown: {missing}.",))
    retrained = [role for role in given.roles if role != "full"]
    audits, notes = available(given, retrained, "pgd")
    without = {int(role.split()[1]): evidence for role, (evidence, _) in audits.items()}
    if not without:
        return Drawn(ours={("3", "5"): given.why(retrained[0])}, notes=notes)
    found = homing(full, without, name)
    labels = given.labels(full.names)
    every = list(range(full.k))
    told = f"of the misclassified {100 * found.share:.1f} % come home"
    gain = homing_gain(full, without, name)
    if gain.value == gain.value:
        told += (
            f"; {100 * gain.value:+.1f} points [{100 * gain.low:.1f}, {100 * gain.high:.1f}] more than come right "
            "without another class"
        ).replace("-", "−")
    title = "Homing, images"
    look = replace(COUNTS, across="removed class")
    figure = block(labels, found.homed, every, every, title, told, look, diagonal=False)
    home = found.homed[cat, dog]
    count: Value = (float(home), NAN, NAN) if home == home else given.why(f"without {DOG}", ("pgd",))
    return Drawn(wide=(figure,), ours={("3", "5"): count}, notes=(*notes, CATS_AND_DOGS))


def fig4c(given: Given) -> Drawn:
    cat, dog = given.cls(CAT), given.cls(DOG)
    audits, notes = available(given, given.roles, "tpgd")
    ours: Ours = {}
    for beta in BETAS_OF_DOG:
        row = f"beta of class 5 = {beta:g}"
        for column, c in (("3", cat), ("5", dog)):
            ours[row, column] = asked(given, class_accuracy(c), f"{beta:g}", "tpgd")
    if not audits:
        return Drawn(ours=ours, notes=notes)
    names = next(iter(audits.values()))[0].names
    series = {f"beta {role}": 100 * evidence.tally(name).accuracy.numpy() for role, (evidence, name) in audits.items()}
    title = "Class robustness under Temperature-PGD (worst of the grid), by the beta of dog"
    return Drawn(wide=(by_class(given, names, series, title, "accuracy in %"),), ours=ours, notes=notes)


def fig5(given: Given) -> Drawn:
    made = [samples(given)]
    for role in given.roles:
        for what, begin in (("without attack", "clean"), ("under attack", "pgd")):
            audits, notes = available(given, [role], begin)
            panels = tuple(
                confusion_figure(given, one, f"{role} training, {what}", by_groups=True) for one in audits.values()
            )
            made.append(Drawn(panels=panels, notes=notes))
    return together(made)


def samples(given: Given) -> Drawn:
    """One test image of each class, as it was changed."""
    recipe = scale(given.view.scale)(given.view.exhibit.needs["adversarial"])[0]
    if not isinstance(recipe, Measured):
        return Drawn()
    try:
        data = dataset(recipe.data).take(1)
        shown = {int(y): x for x, y in zip(data.batch(np.arange(len(data))).x.numpy(), data.labels, strict=True)}
    except (ValueError, OSError) as error:
        return Drawn(notes=(f"No samples are shown: {error}.",))
    return Drawn(images=tuple(Image(given.label(data.names, c), (), png(shown[c])) for c in sorted(shown)))


def fig6(given: Given) -> Drawn:
    """By image: before and after whitening, each without and with attack."""
    images: dict[int, list[Image]] = {}
    missing: dict[str, list[str]] = {}
    for role in given.roles:
        try:
            names = given.audit(role, "clean", "tpgd")[0].names
            for picture in pictured(given, role):
                for condition, pixels in picture.pixels.items():
                    p = softmax(picture.logits[condition])
                    top = np.argsort(-p)[:2]
                    said = tuple(f"{given.label(names, int(c))} {100 * p[c]:.0f} %" for c in top)
                    how = "natural" if condition == "clean" else f"under {condition}"
                    images.setdefault(picture.id, []).append(Image(f"{picture.id}, {role}, {how}", said, png(pixels)))
        except Missing as reason:
            missing.setdefault(str(reason), []).append(role)
    return Drawn(images=tuple(one for some in images.values() for one in some), notes=not_shown(missing))


DRAWINGS = {
    "tian2021/fig1": fig1,
    "tian2021/fig2": fig2,
    "tian2021/table1": table1,
    "tian2021/table2": table2,
    "tian2021/fig3a": fig3a,
    "tian2021/fig3bcd": fig3bcd,
    "tian2021/table3": table3,
    "tian2021/fig4a": fig4a,
    "tian2021/fig4b": fig4b,
    "tian2021/fig4c": fig4c,
    "tian2021/fig5": fig5,
    "tian2021/fig6": fig6,
    "tian2021/table4": table4,
    "tian2021/table5": table5,
}
