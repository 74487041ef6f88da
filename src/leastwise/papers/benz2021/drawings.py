"""The exhibits of Benz et al."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from leastwise.audit.evidence import count_confusions
from leastwise.insight.confusion import confusion_rates, in_flow
from leastwise.papers.benz2021.conditions import find_soft_attack, mean_profiles
from leastwise.papers.benz2021.exhibits import CAT, CORRUPTIONS, DATA_SETS, PROTOCOL_SETS
from leastwise.papers.benz2021.similarity import SMALLEST, compute_cosine, fig3, fig4, fig5, fig6, label_row
from leastwise.papers.claims.base import share_images
from leastwise.papers.drawing import values
from leastwise.papers.drawing.epochs import draw_epochs
from leastwise.papers.drawing.figures import (
    SHARES,
    accuracy_panel,
    class_accuracies,
    confusion_figure,
    cosine_figure,
    describe_condition,
    deviation_figure,
    deviation_panel,
    draw_similarity,
    logit_similarity_figure,
    matrix_figure,
)
from leastwise.papers.drawing.inputs import (
    DrawingInput,
    Drawings,
    Estimate,
    ExhibitDrawing,
    NotShown,
    OurCells,
    find_audits,
    join_drawings,
    value_or_reason,
)
from leastwise.papers.drawing.values import (
    accuracy_difference,
    class_accuracy,
    compute_cell,
    overall,
    sd,
    sd_without_noise,
    worst_deviation,
)
from leastwise.papers.results import AuditedCondition, MissingResult
from leastwise.statistics.spread import worst_accuracy, worst_class

NAN = float("nan")
BOTH = (("accuracy", "clean"), ("robustness", "pgd"))


def draw_two_by_two(inputs: DrawingInput, role: str) -> ExhibitDrawing:
    """Accuracy and robustness, as they are and minus their mean; under a soft attack where several radii were tried."""
    made = []
    for what, begin in BOTH:
        audits, notes = find_audits(inputs, [role], begin)
        if audits and begin == "pgd":
            audits = {role: find_soft_attack(inputs.view.audits(role))}
        panels = [
            panel(inputs, one, f"{what}{more}")
            for one in audits.values()
            for panel, more in ((accuracy_panel, ""), (deviation_panel, " minus its mean"))
        ]
        made.append(ExhibitDrawing(panels=tuple(panels), notes=notes))
    return join_drawings(made)


def draw_over_epochs(inputs: DrawingInput, titles: Mapping[str, str], begin: str = "clean") -> ExhibitDrawing:
    """Class accuracy on the test images after each epoch."""
    return join_drawings([draw_epochs(inputs, role, title, begin=begin) for role, title in titles.items()])


def fig7(inputs: DrawingInput) -> ExhibitDrawing:
    """Classes of MNIST and SVHN over the epochs, and the class that is weakest late."""

    def late() -> Estimate:
        """The number of the class that is worst after the last epoch."""
        evidence, name = inputs.audit("mnist")
        each = inputs.result("mnist").each
        tally = each[-1][name] if each else evidence.tally(name)
        return float(inputs.paper.number(worst_class(tally.accuracy.numpy()))), NAN, NAN

    ours: OurCells = {("MNIST late epochs", "most vulnerable class"): value_or_reason(late)}
    return draw_over_epochs(inputs, {"mnist": "MNIST", "svhn": "SVHN"}) + ExhibitDrawing(ours=ours)


def fig8(inputs: DrawingInput) -> ExhibitDrawing:
    """Classes of CIFAR-10 and CIFAR-100 over the epochs."""
    return draw_over_epochs(inputs, {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"})


def fig12(inputs: DrawingInput) -> ExhibitDrawing:
    """The confusions of a standard network on CIFAR-10."""
    audits, notes = find_audits(inputs, ["standard"])
    panels = tuple(confusion_figure(inputs, one, "Confusions, images", counts=True) for one in audits.values())
    return ExhibitDrawing(wide=panels, notes=notes)


def fig13(inputs: DrawingInput) -> ExhibitDrawing:
    """All classes by superclass; people among themselves; people taken for reptiles."""
    audits, notes = find_audits(inputs, ["standard"])
    if not audits:
        return ExhibitDrawing(notes=notes)
    audited = audits["standard"]
    evidence, name = inputs.label_classes(audited)
    share = 100 * confusion_rates(count_confusions(evidence, name))
    whole = confusion_figure(inputs, audited, "All classes", diagonal=False, by_groups=True)
    groups = dict(evidence.groups)
    if not {"people", "reptiles"} <= set(groups):
        # Another data set stands in for CIFAR-100: its first and its last superclass.
        if len(groups) < 2:
            return ExhibitDrawing(wide=(whole,), notes=(*notes, "The images have no superclasses to zoom to."))
        first, *_, last = groups
        notes = (*notes, f"Zoomed to {first} and to {last}: these images have no people and reptiles.")
    else:
        first, last = "people", "reptiles"
    a, b = list(groups[first]), list(groups[last])
    told = f"% of the true class, {describe_condition(name)}"
    zooms = (
        matrix_figure(
            evidence.names, share, a, across=a, title=first, told=f"{told}, diagonal empty", look=SHARES, diagonal=False
        ),
        matrix_figure(evidence.names, share, a, across=b, title=f"{first} taken for {last}", told=told, look=SHARES),
    )
    return ExhibitDrawing(wide=(whole, *zooms), notes=notes)


CONSTRUCTIONS = {"matched": "images made by matching features", "targeted_set": "images made by targeted attacks"}
FEATURES = "NRF: images made with a standard network, of non-robust features; RF: with an adversarially trained one."


def fig14(inputs: DrawingInput) -> ExhibitDrawing:
    """How alike networks of robust and of non-robust features are, for each way to make the images."""
    made = []
    for construction, title in CONSTRUCTIONS.items():
        roles = {role: role.partition(",")[0] for role in inputs.roles if role.endswith(construction)}
        made.append(draw_similarity(inputs, list(roles), title, called=roles))
    return join_drawings(made) + ExhibitDrawing(notes=(FEATURES,))


FAIR_PANELS = (
    ("Standard training", "standard", "clean"),
    ("Adversarial training", "adversarial", "clean"),
    ("Adversarial training under attack", "adversarial", "pgd"),
)


def draw_fair_weights(inputs: DrawingInput, title: str, role: str, *, begin: str) -> ExhibitDrawing:
    """Deviations of a training and of the same with fair weights."""
    called = {role: "equal weights", f"{role} fair": "fair weights"}
    audits, notes = find_audits(inputs, called, begin)
    if not audits:
        return ExhibitDrawing(notes=notes)
    named = {called[one]: audited for one, audited in audits.items()}
    totals = [f"{100 * evidence.tally(name).overall:.1f} % {word}" for word, (evidence, name) in named.items()]
    told = f"overall {', '.join(totals)}; {describe_condition(next(iter(audits.values()))[1])}"
    return ExhibitDrawing((replace(deviation_figure(inputs, named, title), title=title, caption=told),), notes=notes)


def fig15(inputs: DrawingInput) -> ExhibitDrawing:
    """Deviations with equal and with fair weights."""
    rows = {
        "standard": ("standard", "clean"),
        "standard fair": ("standard fair", "clean"),
        "adversarial clean": ("adversarial", "clean"),
        "adversarial fair clean": ("adversarial fair", "clean"),
        "adversarial robust": ("adversarial", "pgd"),
        "adversarial fair robust": ("adversarial fair", "pgd"),
    }
    cat = inputs.cls(CAT)
    ours: OurCells = {}
    for row, (role, begin) in rows.items():
        for column, of in (
            ("overall", overall),
            ("worst deviation", worst_deviation),
            ("class SD", sd),
            ("class SD without noise", sd_without_noise),
        ):
            ours[row, column] = compute_cell(inputs, of, role, begin)
    made = [draw_fair_weights(inputs, title, role, begin=begin) for title, role, begin in FAIR_PANELS]

    def gain() -> Estimate:
        pair = share_images(inputs.audit("adversarial", "pgd"), inputs.audit("adversarial fair", "pgd"))
        return accuracy_difference(pair, cat)

    ours["adversarial robust", "gain of class 4 by fair weighting"] = value_or_reason(gain)
    return join_drawings(made) + ExhibitDrawing(
        ours=ours, units={"class SD": "points", "class SD without noise": "points"}
    )


def table1(inputs: DrawingInput) -> ExhibitDrawing:
    """Cat and the overall accuracy for each weight of cat."""
    cat = inputs.cls(CAT)
    ours: OurCells = {}
    for weight in inputs.roles:
        ours[f"weight {weight}", "class 4"] = compute_cell(inputs, class_accuracy(cat), weight)
        ours[f"weight {weight}", "overall"] = compute_cell(inputs, overall, weight)
    return ExhibitDrawing(ours=ours)


UNALIGNED = "of which condition is not known"


def list_conditions(inputs: DrawingInput, role: str) -> dict[str, AuditedCondition]:
    """The audits of a role by the names of their conditions."""
    return {name: (evidence, name) for evidence, name in inputs.view.audits(role)}


def draw_conditions(
    inputs: DrawingInput, role: str, title: str, *, shown: Mapping[str, AuditedCondition] | None = None
) -> ExhibitDrawing:
    """Deviations and cosines of one network under several conditions: all, or some that are shown."""
    audits = list_conditions(inputs, role) if shown is None else dict(shown)
    if not audits:
        return ExhibitDrawing(notes=(NotShown((title,), inputs.why(role)),))
    accuracy = np.stack([class_accuracies(one) for one in audits.values()])
    return ExhibitDrawing(
        wide=(deviation_figure(inputs, audits, title, what="condition"), cosine_figure(list(audits), accuracy, title))
    )


def fig16(inputs: DrawingInput) -> ExhibitDrawing:
    """One network under corruptions and under attack: which class is weakest under each."""
    audits = list_conditions(inputs, "standard")
    soft = find_soft_attack(audits.values())[1] if audits else ""
    means = mean_profiles(next(iter(audits.values()))[0]) if audits else {}
    ours: OurCells = {("number 1 (clean)", "mean accuracy"): compute_cell(inputs, overall, "standard")}
    ours |= {(f"number {n}", "mean accuracy"): UNALIGNED for n in range(2, 9)}

    def weakest(names: Sequence[str]) -> Estimate:
        """The class that is lowest under most of the conditions; one where several classes are lowest says nothing."""
        if not names:
            raise MissingResult(inputs.why("standard"))
        found = [means[name] if name in means else class_accuracies(audits[name]) for name in names]
        lowest = [worst_class(one) for one in found if (one == worst_accuracy(one)).sum() == 1]
        if not lowest:
            raise MissingResult("several classes share the lowest accuracy")
        return float(inputs.paper.number(int(np.bincount(lowest).argmax()))), NAN, NAN

    def attracts() -> Estimate:
        evidence, name = inputs.audit("standard", "gaussian_noise")
        return float(inputs.paper.number(int(np.nanargmax(in_flow(count_confusions(evidence, name)))))), NAN, NAN

    ours["adversarial", "most vulnerable class"] = value_or_reason(lambda: weakest([soft] if soft else []))
    ours["most corruptions", "most vulnerable class"] = value_or_reason(lambda: weakest(list(means)))
    ours["Gaussian noise", "class that attracts predictions"] = value_or_reason(attracts)
    for name, profile in means.items():
        row = f"{name}, mean over severities"
        ours[row, "mean accuracy"] = 100 * float(np.nanmean(profile)), NAN, NAN
        ours[row, "most vulnerable class"] = value_or_reason(partial(weakest, [name]))
    for name, audited in audits.items():
        ours[name, "mean accuracy"] = overall(values.pair_alone(audited))
        ours[name, "most vulnerable class"] = value_or_reason(partial(weakest, [name]))
    shown = {name: one for name, one in audits.items() if name in ("clean", soft, *CORRUPTIONS)}
    return draw_conditions(inputs, "standard", "by condition", shown=shown) + ExhibitDrawing(ours=ours)


TITLES = {
    "mnist": "MNIST",
    "svhn": "SVHN",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny-imagenet": "Tiny-ImageNet",
    "imagenet": "ImageNet",
}


def protocol(inputs: DrawingInput) -> ExhibitDrawing:
    """Everything that was pre-registered, data set by data set."""
    made = [ExhibitDrawing(pairs=True)]
    for data in PROTOCOL_SETS:
        roles = {f"{data} {kind}": f"{TITLES[data]} {kind}" for kind in ("standard", "adversarial")}
        for what, begin in BOTH:
            made.append(draw_similarity(inputs, list(roles), f"{TITLES[data]}, {what}", begin, matrix=begin == "clean"))
            if data in DATA_SETS:  # others trained the networks of ImageNet
                made.append(
                    draw_over_epochs(inputs, {role: f"{title}, {what}" for role, title in roles.items()}, begin)
                )
    made.append(draw_two_by_two(inputs, "important class, adversarial"))
    made.append(draw_conditions(inputs, "corruptions, adversarial", "adversarially trained, by condition"))
    return join_drawings(made)


def extras(inputs: DrawingInput) -> ExhibitDrawing:
    """Class accuracy and robustness of regularised and of targeted trainings, and cosines of mean logits."""
    made = [ExhibitDrawing(pairs=True)]
    for role in inputs.roles:
        for what, begin in BOTH:
            audits, notes = find_audits(inputs, [role], begin)
            panels = tuple(accuracy_panel(inputs, one, f"{role}: {what}") for one in audits.values())
            made.append(ExhibitDrawing(panels=panels, notes=notes))
    clean, _ = find_audits(inputs, inputs.roles)
    wide = tuple(logit_similarity_figure(inputs, one, f"Cosines of mean logits, {role}") for role, one in clean.items())
    return join_drawings(made) + ExhibitDrawing(wide=wide)


DRAWINGS: Drawings = {
    "benz2021/fig1": lambda inputs: draw_two_by_two(inputs, "standard"),
    "benz2021/fig2": lambda inputs: draw_two_by_two(inputs, "adversarial"),
    "benz2021/fig3": fig3,
    "benz2021/fig4": fig4,
    "benz2021/fig5": fig5,
    "benz2021/fig6": fig6,
    "benz2021/fig7": fig7,
    "benz2021/fig8": fig8,
    "benz2021/fig9": lambda inputs: draw_similarity(inputs, inputs.roles, "ImageNet"),
    "benz2021/fig10": lambda inputs: draw_similarity(inputs, inputs.roles, "ImageNet", matrix=False),
    "benz2021/fig11": lambda inputs: (
        draw_similarity(inputs, inputs.roles, "ImageNet", bars=False)
        + ExhibitDrawing(ours=label_row("all pairs", compute_cosine(inputs, inputs.roles)), notes=(SMALLEST,))
    ),
    "benz2021/fig12": fig12,
    "benz2021/fig13": fig13,
    "benz2021/fig14": fig14,
    "benz2021/fig15": fig15,
    "benz2021/table1": table1,
    "benz2021/fig16": fig16,
    "benz2021/protocol": protocol,
    "benz2021/extras": extras,
}
