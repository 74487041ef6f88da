"""The exhibits of Benz et al."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from leastwise.insight.confusion import confusion, in_flow, rates
from leastwise.papers.benz2021.exhibits import CAT, CORRUPTIONS, DATA_SETS, PROTOCOL_SETS
from leastwise.papers.claims.base import shared
from leastwise.papers.drawing import values
from leastwise.papers.drawing.drawn import Drawn, together
from leastwise.papers.drawing.figures import (
    SHARES,
    accuracy_panel,
    alike,
    block,
    confusion_figure,
    cosine_figure,
    deviation_panel,
    deviations_of,
    epochs_of,
    logit_similarity,
    profile,
    under,
)
from leastwise.papers.drawing.given import Given, Ours, Triple, available, tried
from leastwise.papers.drawing.values import (
    accuracy_difference,
    asked,
    class_accuracy,
    overall,
    pair_cosine,
    sd,
    sd_without_noise,
    worst_deviation,
)
from leastwise.papers.results import Audited, Missing
from leastwise.statistics.accuracies import worst_accuracy, worst_class

NAN = float("nan")
BOTH = (("accuracy", "clean"), ("robustness", "pgd"))


def two_by_two(given: Given, role: str) -> Drawn:
    """Accuracy and robustness, as they are and minus their mean."""
    made = []
    for what, begin in BOTH:
        audits, notes = available(given, [role], begin)
        panels = [
            panel(given, one, f"{what}{more}")
            for one in audits.values()
            for panel, more in ((accuracy_panel, ""), (deviation_panel, " minus its mean"))
        ]
        made.append(Drawn(panels=tuple(panels), notes=notes))
    return together(made)


def cosine_of(given: Given, roles: Sequence[str], least: bool = True) -> Ours:
    audits, _ = available(given, roles)
    if len(audits) < 2:
        reasons = dict.fromkeys(given.why(role, ("clean",)) for role in roles if role not in audits)
        return {("", "cosine"): f"{len(audits)} of {len(roles)} networks ({'; '.join(reasons)})"}
    return {("", "cosine"): tried(lambda: pair_cosine(tuple(audits.values()), least))}


SMALLEST = "All pairs: the smallest cosine of two of the networks that are there."


def beginning(given: Given, word: str) -> list[str]:
    return [role for role in given.roles if role.startswith(f"{word} ")]


def named(row: str, found: Ours) -> Ours:
    return {(row, column): value for (_, column), value in found.items()}


def fig3(given: Given) -> Drawn:
    mnist, svhn = beginning(given, "mnist"), beginning(given, "svhn")
    ours = named("MNIST ConvNet-LeNet", cosine_of(given, mnist))
    ours |= named("SVHN mean of pairs", cosine_of(given, svhn, least=False))
    return alike(given, mnist, "MNIST") + alike(given, svhn, "SVHN") + Drawn(ours=ours)


def fig4(given: Given) -> Drawn:
    made = []
    for data, title in (("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")):
        roles = beginning(given, data)
        made.append(alike(given, roles, title) + Drawn(ours=named(f"{title} all pairs", cosine_of(given, roles))))
    return together(made) + Drawn(notes=(SMALLEST,))


def fig5(given: Given) -> Drawn:
    tiny, full = beginning(given, "tiny-imagenet"), beginning(given, "standard")
    two = [role for role in full if "wide-resnet50" in role or "resnext50" in role]
    ours = named("ImageNet all pairs", cosine_of(given, full))
    ours |= named("ImageNet Wide-ResNet-ResNeXt", cosine_of(given, two))
    return alike(given, tiny, "Tiny-ImageNet") + alike(given, full, "ImageNet") + Drawn(ours=ours, notes=(SMALLEST,))


def fig6(given: Given) -> Drawn:
    ours = named("all pairs", cosine_of(given, given.roles))
    return alike(given, given.roles, "CIFAR-10") + Drawn(ours=ours, notes=(SMALLEST,))


def over_epochs(given: Given, titles: Mapping[str, str], begin: str = "clean") -> Drawn:
    """Class accuracy on the test images after each epoch."""
    return together([epochs_of(given, role, title, begin) for role, title in titles.items()])


def fig7(given: Given) -> Drawn:
    def late() -> Triple:
        """The number of the class that is worst after the last epoch."""
        evidence, name = given.audit("mnist")
        each = given.found("mnist").each
        tally = each[-1][name] if each else evidence.tally(name)
        return float(given.paper.number(worst_class(tally.accuracy.numpy()))), NAN, NAN

    ours: Ours = {("MNIST late epochs", "most vulnerable class"): tried(late)}
    return over_epochs(given, {"mnist": "MNIST", "svhn": "SVHN"}) + Drawn(ours=ours)


def fig8(given: Given) -> Drawn:
    return over_epochs(given, {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"})


def fig12(given: Given) -> Drawn:
    audits, notes = available(given, ["standard"])
    panels = tuple(confusion_figure(given, one, "Confusions, images", counts=True) for one in audits.values())
    return Drawn(wide=panels, notes=notes)


def fig13(given: Given) -> Drawn:
    """All classes by superclass; people among themselves; people taken for reptiles."""
    audits, notes = available(given, ["standard"])
    if not audits:
        return Drawn(notes=notes)
    audited = audits["standard"]
    evidence, name = given.shown(audited)
    share = 100 * rates(confusion(evidence, name))
    whole = confusion_figure(given, audited, "All classes", diagonal=False, by_groups=True)
    groups = dict(evidence.groups)
    if not {"people", "reptiles"} <= set(groups):
        # Another data set stands in for CIFAR-100: its first and its last superclass.
        if len(groups) < 2:
            return Drawn(wide=(whole,), notes=(*notes, "The images have no superclasses to zoom to."))
        first, *_, last = groups
        notes = (*notes, f"Zoomed to {first} and to {last}: these images have no people and reptiles.")
    else:
        first, last = "people", "reptiles"
    a, b = list(groups[first]), list(groups[last])
    told = f"% of the true class, {under(name)}"
    zooms = (
        block(evidence.names, share, a, a, first, f"{told}, diagonal empty", SHARES, diagonal=False),
        block(evidence.names, share, a, b, f"{first} taken for {last}", told, SHARES),
    )
    return Drawn(wide=(whole, *zooms), notes=notes)


CONSTRUCTIONS = {"matched": "images made by matching features", "targeted_set": "images made by targeted attacks"}
FEATURES = "NRF: images made with a standard network, of non-robust features; RF: with an adversarially trained one."


def fig14(given: Given) -> Drawn:
    made = []
    for construction, title in CONSTRUCTIONS.items():
        roles = {role: role.partition(",")[0] for role in given.roles if role.endswith(construction)}
        made.append(alike(given, list(roles), title, called=roles))
    return together(made) + Drawn(notes=(FEATURES,))


FAIR_PANELS = (
    ("Standard training", "standard", "clean"),
    ("Adversarial training", "adversarial", "clean"),
    ("Adversarial training under attack", "adversarial", "pgd"),
)


def with_and_without(given: Given, title: str, role: str, begin: str) -> Drawn:
    """Deviations of a training and of the same with fair weights."""
    called = {role: "equal weights", f"{role} fair": "fair weights"}
    audits, notes = available(given, called, begin)
    if not audits:
        return Drawn(notes=notes)
    named = {called[one]: audited for one, audited in audits.items()}
    totals = [f"{100 * evidence.tally(name).overall:.1f} % {word}" for word, (evidence, name) in named.items()]
    told = f"overall {', '.join(totals)}; {under(next(iter(audits.values()))[1])}"
    return Drawn((replace(deviations_of(given, named, title), title=title, caption=told),), notes=notes)


def fig15(given: Given) -> Drawn:
    rows = {
        "standard": ("standard", "clean"),
        "standard fair": ("standard fair", "clean"),
        "adversarial clean": ("adversarial", "clean"),
        "adversarial fair clean": ("adversarial fair", "clean"),
        "adversarial robust": ("adversarial", "pgd"),
        "adversarial fair robust": ("adversarial fair", "pgd"),
    }
    cat = given.cls(CAT)
    ours: Ours = {}
    for row, (role, begin) in rows.items():
        for column, of in (
            ("overall", overall),
            ("worst deviation", worst_deviation),
            ("class SD", sd),
            ("class SD without noise", sd_without_noise),
        ):
            ours[row, column] = asked(given, of, role, begin)
    made = [with_and_without(given, *panel) for panel in FAIR_PANELS]

    def gain() -> Triple:
        pair = shared(given.audit("adversarial", "pgd"), given.audit("adversarial fair", "pgd"))
        return accuracy_difference(pair, cat)

    ours["adversarial robust", "gain of class 4 by fair weighting"] = tried(gain)
    return together(made) + Drawn(ours=ours)


def table1(given: Given) -> Drawn:
    cat = given.cls(CAT)
    ours: Ours = {}
    for weight in given.roles:
        ours[f"weight {weight}", "class 4"] = asked(given, class_accuracy(cat), weight)
        ours[f"weight {weight}", "overall"] = asked(given, overall, weight)
    return Drawn(ours=ours)


UNALIGNED = "of which condition is not known"


def conditions_of(given: Given, role: str) -> dict[str, Audited]:
    return {name: (evidence, name) for evidence, name in given.view.audits(role)}


def by_condition(given: Given, role: str, title: str) -> Drawn:
    """Deviations and cosines of one network under several conditions."""
    audits = conditions_of(given, role)
    if not audits:
        return Drawn(notes=(f"Not shown: {title} ({given.why(role)}).",))
    accuracy = np.stack([profile(one) for one in audits.values()])
    return Drawn(wide=(deviations_of(given, audits, title, "condition"), cosine_figure(list(audits), accuracy, title)))


def fig16(given: Given) -> Drawn:
    audits = conditions_of(given, "standard")
    ours: Ours = {("number 1 (clean)", "mean accuracy"): asked(given, overall, "standard")}
    ours |= {(f"number {n}", "mean accuracy"): UNALIGNED for n in range(2, 9)}

    def weakest(names: Sequence[str]) -> Triple:
        """The class that is lowest under most of the conditions; one where several classes are lowest says nothing."""
        if not names:
            raise Missing(given.why("standard"))
        found = [profile(audits[name]) for name in names]
        lowest = [worst_class(one) for one in found if (one == worst_accuracy(one)).sum() == 1]
        if not lowest:
            raise Missing("several classes share the lowest accuracy")
        return float(given.paper.number(int(np.bincount(lowest).argmax()))), NAN, NAN

    def attracts() -> Triple:
        evidence, name = given.audit("standard", "gaussian_noise")
        return float(given.paper.number(int(np.nanargmax(in_flow(confusion(evidence, name)))))), NAN, NAN

    ours["adversarial", "most vulnerable class"] = tried(lambda: weakest([n for n in audits if n.startswith("pgd")]))
    ours["most corruptions", "most vulnerable class"] = tried(lambda: weakest([n for n in audits if n in CORRUPTIONS]))
    ours["Gaussian noise", "class that attracts predictions"] = tried(attracts)
    for name, audited in audits.items():
        ours[name, "mean accuracy"] = overall(values.one(audited))
        ours[name, "most vulnerable class"] = tried(partial(weakest, [name]))
    return by_condition(given, "standard", "by condition") + Drawn(ours=ours)


TITLES = {
    "mnist": "MNIST",
    "svhn": "SVHN",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny-imagenet": "Tiny-ImageNet",
    "imagenet": "ImageNet",
}


def protocol(given: Given) -> Drawn:
    made = [Drawn(pairs=True)]
    for data in PROTOCOL_SETS:
        roles = {f"{data} {kind}": f"{TITLES[data]} {kind}" for kind in ("standard", "adversarial")}
        for what, begin in BOTH:
            made.append(alike(given, list(roles), f"{TITLES[data]}, {what}", begin, matrix=begin == "clean"))
            if data in DATA_SETS:  # others trained the networks of ImageNet
                made.append(over_epochs(given, {role: f"{title}, {what}" for role, title in roles.items()}, begin))
    made.append(two_by_two(given, "important class, adversarial"))
    made.append(by_condition(given, "corruptions, adversarial", "adversarially trained, by condition"))
    return together(made)


def extras(given: Given) -> Drawn:
    made = [Drawn(pairs=True)]
    for role in given.roles:
        for what, begin in BOTH:
            audits, notes = available(given, [role], begin)
            panels = tuple(accuracy_panel(given, one, f"{role}: {what}") for one in audits.values())
            made.append(Drawn(panels=panels, notes=notes))
    clean, _ = available(given, given.roles)
    wide = tuple(logit_similarity(given, one, f"Cosines of mean logits, {role}") for role, one in clean.items())
    return together(made) + Drawn(wide=wide)


DRAWINGS = {
    "benz2021/fig1": lambda given: two_by_two(given, "standard"),
    "benz2021/fig2": lambda given: two_by_two(given, "adversarial"),
    "benz2021/fig3": fig3,
    "benz2021/fig4": fig4,
    "benz2021/fig5": fig5,
    "benz2021/fig6": fig6,
    "benz2021/fig7": fig7,
    "benz2021/fig8": fig8,
    "benz2021/fig9": lambda given: alike(given, given.roles, "ImageNet"),
    "benz2021/fig10": lambda given: alike(given, given.roles, "ImageNet", matrix=False),
    "benz2021/fig11": lambda given: (
        alike(given, given.roles, "ImageNet", bars=False)
        + Drawn(ours=named("all pairs", cosine_of(given, given.roles)), notes=(SMALLEST,))
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
