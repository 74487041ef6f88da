"""The tables of Tian et al."""

from collections.abc import Callable
from functools import partial

import numpy as np

from leastwise.data.classes import CIFAR10, CIFAR10_GROUPS, STL10, STL10_GROUPS
from leastwise.papers.claims.base import Same, gap
from leastwise.papers.drawing import values
from leastwise.papers.drawing.drawn import Drawn
from leastwise.papers.drawing.given import Given, Ours, Triple, Value, tried
from leastwise.papers.drawing.values import (
    CLASS_WISE,
    accuracy_difference,
    asked,
    beside,
    class_accuracy,
    cv,
    difference,
    mcd,
    one,
    overall,
    subset,
    taken_for,
    variance,
)
from leastwise.papers.results import Audited, Missing
from leastwise.papers.tian2021.exhibits import CAT, DEFENCES, shown_classes
from leastwise.statistics.paired import compare_paired

NAN = float("nan")
Statistic = Callable[[Same], Triple]
TITLES = {
    "mnist": "MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "stl10": "STL-10",
    "imagenet": "ImageNet",
}
ATTACKS = {"FGSM": "fgsm", "CW∞": "cwinf", "PGD": "pgd", "transfer": "transfer", "NAttack": "nattack"}
FEWER = ("CW∞", "NAttack")  # on 200 images of each class


def row_of(given: Given, audited: Callable[[], Same], k: int) -> dict[str, Value]:
    """Total, classes, CV, MCD, and CV without the noise of sampling."""
    statistics: dict[str, Statistic] = {"Tot": overall}
    statistics |= {str(given.paper.number(c)): class_accuracy(c) for c in range(k)}
    statistics |= CLASS_WISE
    try:
        same = audited()
    except Missing as missing:
        return dict.fromkeys(statistics, str(missing))
    return {name: tried(partial(of, same)) for name, of in statistics.items()}


def table1(given: Given) -> Drawn:
    ours: Ours = {}
    for attack, begin in ATTACKS.items():
        for name in DEFENCES:
            role = f"{name}, 2000 images" if attack in FEWER else name

            def audited(role: str = role, begin: str = begin) -> Same:
                return one(given.audit(role, begin))

            ours |= {(f"{name} {attack}", column): v for column, v in row_of(given, audited, len(CIFAR10)).items()}
    return Drawn(ours=ours)


def table2(given: Given) -> Drawn:
    """Ours are the superclasses that audits here use."""
    ours: Ours = {}
    for title, names, groups in (("CIFAR-10", CIFAR10, CIFAR10_GROUPS), ("STL-10", STL10, STL10_GROUPS)):
        for number, (_, classes) in enumerate(groups):
            ours |= {(title, str(given.paper.number(c))): (float(number), NAN, NAN) for c in classes}
        assert len(names) == sum(len(classes) for _, classes in groups)
    note = "0 is transportation, 1 animals; ours are the superclasses that reports group these data by."
    return Drawn(ours=ours, notes=(note,))


def inverse_temperatures(audited: Audited) -> dict[str, int]:
    """Members of the grid by their 1/T."""
    evidence, name = audited
    return {member.rpartition("= ")[2]: number for number, member in enumerate(evidence.members(name))}


def with_changes(given: Given, base: Same, attacked: Same, k: int) -> dict[str, Value]:
    made = row_of(given, lambda: attacked, k)
    pair = beside(base, attacked)
    made["Tot minus PGD"] = accuracy_difference(pair)
    for c in range(k):
        made[f"{given.paper.number(c)} minus PGD"] = accuracy_difference(pair, c)
    made["CV minus PGD"] = difference(pair, variance, 1e4)
    made["MCD minus PGD"] = difference(pair, gap)
    return made


BLANK = "TRADES"  # its 1/T is not printed


def table3(given: Given) -> Drawn:
    """Every 1/T of the grid, and the worst of them image by image; the blank 1/T of TRADES is the strongest."""
    ours: Ours = {}
    notes: list[str] = []
    printed = {"Madry": ("2",), "TRADES": (), "MART": ("5",), "HE": ("5", "50")}
    for name, temperatures in printed.items():
        try:
            audited = given.audit(name, "tpgd")
            base = one(given.audit(name, "pgd"))
        except Missing as missing:
            rows = [f"{name} 1/T={t}" for t in temperatures] or [name]
            ours |= {(row, column): str(missing) for row in rows for column in (*COLUMNS, *CHANGES)}
            continue
        k = audited[0].k
        members = {t: values.member(audited, number) for t, number in inverse_temperatures(audited).items()}
        if name == BLANK:
            best = min(members, key=lambda t: int(members[t].hits[0].sum()))
            ours |= {(name, column): v for column, v in with_changes(given, base, members[best], k).items()}
            notes.append(f"1/T of TRADES is blank in the paper: the strongest here on the whole is {best}.")
        rows_of = {f"{name} 1/T={t}": same for t, same in members.items()}
        rows_of[f"{name} worst of the grid"] = one(audited)
        for row, same in rows_of.items():
            ours |= {(row, column): v for column, v in with_changes(given, base, same, k).items()}
    return Drawn(ours=ours, notes=tuple(notes))


COLUMNS = ("Tot", *map(str, range(len(CIFAR10))), "CV", "MCD")
CHANGES = tuple(f"{column} minus PGD" for column in COLUMNS)


LINES = {
    # line of Table 4: role, condition
    "1 original, natural": ("original", "clean"),
    "2 white background, natural": ("white", "clean"),
    "3 + training adjustment, natural": ("white, adjusted", "clean"),
    "4 original, adversarial": ("original", "tpgd"),
    "5 white background, adversarial": ("white", "tpgd"),
    "6 + training adjustment, adversarial": ("white, adjusted", "tpgd"),
}


def more_taken(given: Given, role: str, begin: str, true: int, predicted: int) -> Triple:
    """Images taken for a class, minus those of the original images; paired where both have the same ids."""
    (first, name), (second, other) = given.audit("original", begin), given.audit(role, begin)
    ids, at, there = np.intersect1d(first.ids, second.ids, return_indices=True)
    rows = first.labels[at] == true
    before, after = (
        evidence.conditions[condition].predicted[place][rows] == predicted
        for evidence, condition, place in ((first, name, at), (second, other, there))
    )
    found, n = compare_paired(before, after), int(rows.sum())
    if not len(ids) or not n:
        raise Missing("no images")
    return n * found.difference, n * found.low, n * found.high


def table4(given: Given) -> Drawn:
    cat = given.cls(CAT)
    ours: Ours = {}
    for row, (role, begin) in LINES.items():
        for c in range(len(CIFAR10)):
            number = str(given.paper.number(c))
            ours[row, number] = taken_for(given, role, begin, cat, c)
            if role != "original":
                ours[row, f"{number} minus original"] = tried(partial(more_taken, given, role, begin, cat, c))
    return Drawn(ours=ours)


def table5(given: Given) -> Drawn:
    """All classes; where there are very many also twelve of them, which the printed numbers seem to be of."""
    ours: Ours = {}
    for data, title in TITLES.items():
        sides: dict[str, tuple[str, str]] = {
            "standard": (f"{data}, standard", "clean"),
            "adversarial": (f"{data}, adversarial", "pgd"),
        }
        many = data in ("cifar100", "imagenet")
        for kind, (role, begin) in sides.items():
            for name, of in CLASS_WISE.items():
                ours[title, f"{kind} {name}"] = asked(given, of, role, begin)
                if many:
                    ours[f"{title}, twelve classes", f"{kind} {name}"] = asked(given, on_few(of), role, begin)
    for name, of in (("CV", cv), ("MCD", mcd)):
        ours["CIFAR-10", f"adversarial {name} over standard {name}"] = tried(partial(times, given, of))
    return Drawn(ours=ours)


def times(given: Given, of: Statistic) -> Triple:
    """How many times as large with adversarial training; CIFAR-10."""
    audits = given.audit("cifar10, standard"), given.audit("cifar10, adversarial", "pgd")
    before, after = (of(one(audited))[0] for audited in audits)
    return (after / before if before else NAN), NAN, NAN


def on_few(of: Statistic) -> Statistic:
    return lambda same: of(few(same))


def few(same: Same) -> Same:
    """The twelve classes that stand for very many."""
    return subset(same, shown_classes(same.k))
