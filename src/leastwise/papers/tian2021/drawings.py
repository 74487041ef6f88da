"""The figures of Tian et al."""

from dataclasses import replace

import numpy as np

from leastwise.audit.evidence import cvc
from leastwise.insight.homing import estimate_homing_gain, measure_homing
from leastwise.jobs.images import Picture, read_images
from leastwise.papers.drawing.epochs import draw_epochs
from leastwise.papers.drawing.figures import COUNTS, class_line_figure, confusion_figure, matrix_figure
from leastwise.papers.drawing.inputs import (
    CaptionedImage,
    CellValue,
    DrawingInput,
    Drawings,
    ExhibitDrawing,
    OurCells,
    encode_png,
    explain_missing,
    find_audits,
    join_drawings,
)
from leastwise.papers.drawing.values import class_accuracy, compute_cell, count_taken_for, mcd, overall
from leastwise.papers.recipes import Measured
from leastwise.papers.results import MissingResult
from leastwise.papers.scales import scale
from leastwise.papers.tian2021.exhibits import ALL_SIX, BETAS_OF_DOG, CAT, DOG, WITHOUT_CLASS, shown_classes
from leastwise.papers.tian2021.tables import TITLES, of_few_classes, table1, table2, table3, table4, table5
from leastwise.report.charts.heatmap import NAMED
from leastwise.report.charts.lines import Axes, Series, grouped_bar_chart
from leastwise.report.figures import Figure

NAN = float("nan")
GAPS = ("largest gap, lower end", "largest gap, upper end")


def fig1(inputs: DrawingInput) -> ExhibitDrawing:
    """Classes under attack over the epochs, and their largest gap at the end."""
    made: list[ExhibitDrawing] = []
    ours: OurCells = {}
    for role, title in TITLES.items():
        found = compute_cell(inputs, of_few_classes(mcd), role, "pgd")
        columns = ("largest gap",) if role in ("mnist", "imagenet") else GAPS
        ours |= {(title, column): found for column in columns}
        ours[title, "overall robustness"] = compute_cell(inputs, overall, role, "pgd")
        made.append(draw_epochs(inputs, role, title, begin="pgd", classes=shown_classes, band=True))
    return join_drawings(made) + ExhibitDrawing(ours=ours)


def fig2(inputs: DrawingInput) -> ExhibitDrawing:
    """Confusions under attack on each data set."""
    audits, notes = find_audits(inputs, ALL_SIX, "pgd")
    made = {role: confusion_figure(inputs, one, TITLES[role], by_groups=True) for role, one in audits.items()}
    large = {role for role, (evidence, _) in audits.items() if evidence.k > NAMED}  # need a row of their own
    return ExhibitDrawing(
        tuple(figure for role, figure in made.items() if role not in large),
        tuple(figure for role, figure in made.items() if role in large),
        notes=notes,
    )


def fig3a(inputs: DrawingInput) -> ExhibitDrawing:
    """The variance of confidence of each class, and the two smoothest classes."""
    audits, notes = find_audits(inputs, inputs.roles)
    rows = {"smallest CVC": 0, "second smallest CVC": 1}
    if not audits:
        return ExhibitDrawing(ours={(row, "class"): inputs.why(inputs.roles[0]) for row in rows}, notes=notes)
    found = {role: cvc(evidence, name) for role, (evidence, name) in audits.items()}
    names = next(iter(audits.values()))[0].names
    series = [Series(role, tuple(row.tolist())) for role, row in found.items()]
    about = "Class-wise variance of confidence of each defence."
    spec = grouped_bar_chart(
        series, inputs.labels(names), Axes("class", "CVC", lowest=0.0, digits=4), about=about, height=280
    )
    most = (len(names) - 1) / len(names) ** 2
    figure = Figure("Variance of confidence, clean images", f"at most {most:.3g}", spec, least=520)
    order = np.argsort(np.nanmean(np.stack(list(found.values())), axis=0), kind="stable")
    ours: OurCells = {
        (row, "class"): (float(inputs.paper.number(int(order[place]))), NAN, NAN) for row, place in rows.items()
    }
    return ExhibitDrawing(
        wide=(figure,), ours=ours, notes=(*notes, "Smallest and second smallest are of the mean over defences.")
    )


def find_pictures(inputs: DrawingInput, role: str) -> tuple[Picture, ...]:
    """Those that the exhibit names; all, where other images stand in for them."""
    found = inputs.result(role).pictures
    if not found:
        raise MissingResult("its single images were not kept")
    return tuple(one for one in found if one.id in inputs.view.exhibit.images) or found


def softmax(logits: "np.ndarray") -> "np.ndarray":
    """Confidences of one image."""
    p = np.exp(logits - logits.max())
    return np.asarray(p / p.sum())


def fig3bcd(inputs: DrawingInput) -> ExhibitDrawing:
    """Pairs of bars by the number of steps: PGD and Temperature-PGD with 1/T = 5."""
    try:
        evidence, _ = inputs.audit("MART", "pgd", "tpgd")
        pictures = find_pictures(inputs, "MART")
    except MissingResult as missing:
        return ExhibitDrawing(notes=(f"Not shown: {missing}.",))
    labels = inputs.labels(evidence.names)
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
            panels.append(
                Figure(title, "", grouped_bar_chart(series, labels, axes, about=f"{title}: confidence in each class."))
            )
    return ExhibitDrawing(panels=tuple(panels))


CATS_AND_DOGS = "Row 3, column 5 of the table: cats that are taken for dogs."


def fig4a(inputs: DrawingInput) -> ExhibitDrawing:
    """Who is taken for whom under attack, in images."""
    cat, dog = inputs.cls(CAT), inputs.cls(DOG)
    audits, notes = find_audits(inputs, ["full"], "pgd")
    panels = tuple(
        confusion_figure(inputs, one, "Misclassified, images", counts=True, diagonal=False) for one in audits.values()
    )
    ours: OurCells = {("3", "5"): count_taken_for(inputs, "full", "pgd", true=cat, predicted=dog)}
    return ExhibitDrawing(wide=panels, ours=ours, notes=(*notes, CATS_AND_DOGS))


def fig4b(inputs: DrawingInput) -> ExhibitDrawing:
    """Who comes home when the confound class is removed, in images."""
    cat, dog = inputs.cls(CAT), inputs.cls(DOG)
    try:
        full, name = inputs.audit("full", "pgd")
    except MissingResult as missing:
        return ExhibitDrawing(ours={("3", "5"): str(missing)}, notes=(f"Not shown: {missing}.",))
    audits, notes = find_audits(inputs, WITHOUT_CLASS.values(), "pgd")
    without = {c: audits[role][0] for c, role in WITHOUT_CLASS.items() if role in audits}
    if not without:
        return ExhibitDrawing(ours={("3", "5"): inputs.why(WITHOUT_CLASS[0])}, notes=notes)
    found = measure_homing(full, without, name)
    labels = inputs.labels(full.names)
    every = list(range(full.k))
    told = f"of the misclassified {100 * found.share:.1f} % come home"
    gain = estimate_homing_gain(full, without, name)
    if gain.value == gain.value:
        told += (
            f"; {100 * gain.value:+.1f} points [{100 * gain.low:.1f}, {100 * gain.high:.1f}] more than come right "
            "without another class"
        ).replace("-", "−")
    title = "Homing, images"
    look = replace(COUNTS, across="removed class")
    figure = matrix_figure(labels, found.homed, every, across=every, title=title, told=told, look=look, diagonal=False)
    home = found.homed[cat, dog]
    count: CellValue = (float(home), NAN, NAN) if home == home else inputs.why(WITHOUT_CLASS[DOG], ("pgd",))
    return ExhibitDrawing(wide=(figure,), ours={("3", "5"): count}, notes=(*notes, CATS_AND_DOGS))


def fig4c(inputs: DrawingInput) -> ExhibitDrawing:
    """Classes under Temperature-PGD for each beta of dog."""
    cat, dog = inputs.cls(CAT), inputs.cls(DOG)
    audits, notes = find_audits(inputs, inputs.roles, "tpgd")
    ours: OurCells = {}
    for beta in BETAS_OF_DOG:
        row = f"beta of class 5 = {beta:g}"
        for column, c in (("3", cat), ("5", dog)):
            ours[row, column] = compute_cell(inputs, class_accuracy(c), f"{beta:g}", "tpgd")
    if not audits:
        return ExhibitDrawing(ours=ours, notes=notes)
    names = next(iter(audits.values()))[0].names
    series = {f"beta {role}": 100 * evidence.tally(name).accuracy.numpy() for role, (evidence, name) in audits.items()}
    title = "Class robustness under Temperature-PGD (worst of the grid), by the beta of dog"
    return ExhibitDrawing(
        wide=(class_line_figure(inputs, names, series, title=title, up="accuracy in %"),), ours=ours, notes=notes
    )


def fig5(inputs: DrawingInput) -> ExhibitDrawing:
    """Coloured digits: samples, and confusions without and with attack."""
    made = [draw_samples(inputs)]
    for role in inputs.roles:
        for what, begin in (("without attack", "clean"), ("under attack", "pgd")):
            audits, notes = find_audits(inputs, [role], begin)
            panels = tuple(
                confusion_figure(inputs, one, f"{role} training, {what}", by_groups=True) for one in audits.values()
            )
            made.append(ExhibitDrawing(panels=panels, notes=notes))
    return join_drawings(made)


def draw_samples(inputs: DrawingInput) -> ExhibitDrawing:
    """One test image of each class, as it was changed."""
    recipe = scale(inputs.view.scale)(inputs.view.exhibit.needs["adversarial"])[0]
    if not isinstance(recipe, Measured):
        return ExhibitDrawing()
    try:
        data = read_images(recipe.data).take(1)
        shown = {int(y): x for x, y in zip(data.batch(np.arange(len(data))).x.numpy(), data.labels, strict=True)}
    except (ValueError, OSError) as error:
        return ExhibitDrawing(notes=(f"No samples are shown: {error}.",))
    return ExhibitDrawing(
        images=tuple(CaptionedImage(inputs.label(data.names, c), (), encode_png(shown[c])) for c in sorted(shown))
    )


def fig6(inputs: DrawingInput) -> ExhibitDrawing:
    """By image: before and after whitening, each without and with attack."""
    images: dict[int, list[CaptionedImage]] = {}
    missing: dict[str, list[str]] = {}
    for role in inputs.roles:
        try:
            names = inputs.audit(role, "clean", "tpgd")[0].names
            for picture in find_pictures(inputs, role):
                for condition, pixels in picture.pixels.items():
                    p = softmax(picture.logits[condition])
                    top = np.argsort(-p)[:2]
                    said = tuple(f"{inputs.label(names, int(c))} {100 * p[c]:.0f} %" for c in top)
                    how = "natural" if condition == "clean" else f"under {condition}"
                    images.setdefault(picture.id, []).append(
                        CaptionedImage(f"{picture.id}, {role}, {how}", said, encode_png(pixels))
                    )
        except MissingResult as reason:
            missing.setdefault(str(reason), []).append(role)
    return ExhibitDrawing(images=tuple(one for some in images.values() for one in some), notes=explain_missing(missing))


DRAWINGS: Drawings = {
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
