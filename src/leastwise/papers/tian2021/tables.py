"""The tables of Tian et al."""

from collections.abc import Callable
from functools import partial

import numpy as np

from leastwise.data.classes import CIFAR10, CIFAR10_GROUPS, STL10, STL10_GROUPS
from leastwise.papers.claims.base import SharedImages, gap, share_images
from leastwise.papers.drawing import values
from leastwise.papers.drawing.inputs import CellValue, DrawingInput, Estimate, ExhibitDrawing, OurCells, value_or_reason
from leastwise.papers.drawing.values import (
    SPREAD_STATISTICS,
    SPREAD_UNITS,
    CellStatistic,
    accuracy_difference,
    class_accuracy,
    compute_cell,
    count_taken_for,
    cv,
    keep_classes,
    mcd,
    overall,
    pair_alone,
    pair_hits,
    statistic_difference,
    variance,
)
from leastwise.papers.results import AuditedCondition, MissingResult
from leastwise.papers.tian2021.exhibits import CAT, DEFENCES, OTHER_MASKS, shown_classes
from leastwise.statistics.accuracy import compare_paired

NAN = float("nan")
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


def compute_row(inputs: DrawingInput, audited: Callable[[], SharedImages], k: int) -> dict[str, CellValue]:
    """Total, classes, CV, MCD, and CV without the noise of sampling."""
    statistics: dict[str, CellStatistic] = {"Tot": overall}
    statistics |= {str(inputs.paper.number(c)): class_accuracy(c) for c in range(k)}
    statistics |= SPREAD_STATISTICS
    try:
        same = audited()
    except MissingResult as missing:
        return dict.fromkeys(statistics, str(missing))
    return {name: value_or_reason(partial(of, same)) for name, of in statistics.items()}


LEAD = ("Tot", "CV", "MCD")  # columns that are read first
SAME = {"Tot minus PGD": "points", "CV minus PGD": "%²"}


def table1(inputs: DrawingInput) -> ExhibitDrawing:
    """Each defence under each attack, and what the attack leaves less than PGD of the images that both saw."""
    ours: OurCells = {}
    for attack, begin in ATTACKS.items():
        for name in DEFENCES:
            role = f"{name}, 2000 images" if attack in FEWER else name
            if attack != "PGD":
                changes = compare_with_pgd(inputs, name, role, begin=begin)
                ours |= {(f"{name} {attack}", column): value for column, value in changes.items()}

            def audited(role: str = role, begin: str = begin) -> SharedImages:
                return pair_alone(inputs.audit(role, begin))

            ours |= {
                (f"{name} {attack}", column): v for column, v in compute_row(inputs, audited, len(CIFAR10)).items()
            }
    return ExhibitDrawing(ours=ours, notes=describe_images(inputs), units=SPREAD_UNITS | SAME, lead=LEAD)


def compare_with_pgd(inputs: DrawingInput, name: str, role: str, *, begin: str) -> dict[str, CellValue]:
    """An attack minus PGD, of the same network on the images that both saw."""

    def pair() -> SharedImages:
        return share_images(inputs.audit(name, "pgd"), inputs.audit(role, begin))

    return {
        "Tot minus PGD": value_or_reason(lambda: accuracy_difference(pair())),
        "CV minus PGD": value_or_reason(lambda: statistic_difference(pair(), variance, 1e4)),
    }


def describe_images(inputs: DrawingInput) -> tuple[str, ...]:
    """Which attacks saw fewer images than PGD, and that they are compared with it on those."""
    seen: dict[str, int] = {}
    for attack, begin in ATTACKS.items():
        for name in DEFENCES:
            try:
                evidence, _ = inputs.audit(f"{name}, 2000 images" if attack in FEWER else name, begin)
            except MissingResult:
                continue
            seen[attack] = max(seen.get(attack, 0), len(evidence.ids))
    fewer = [f"{attack} saw {n:,} images" for attack, n in seen.items() if n < seen.get("PGD", 0)]
    if not fewer:
        return ()
    return (
        f"{', '.join(fewer)}, PGD {seen['PGD']:,}: rows of different images are not to be compared with each other. "
        "`Tot minus PGD` and `CV minus PGD` are on the images that both saw.",
    )


def table2(inputs: DrawingInput) -> ExhibitDrawing:
    """Ours are the superclasses that audits here use."""
    ours: OurCells = {}
    for title, names, groups in (("CIFAR-10", CIFAR10, CIFAR10_GROUPS), ("STL-10", STL10, STL10_GROUPS)):
        for number, (_, classes) in enumerate(groups):
            ours |= {(title, str(inputs.paper.number(c))): (float(number), NAN, NAN) for c in classes}
        assert len(names) == sum(len(classes) for _, classes in groups)
    note = "0 is transportation, 1 animals; ours are the superclasses that reports group these data by."
    return ExhibitDrawing(ours=ours, notes=(note,))


def grid_temperatures(audited: AuditedCondition) -> dict[str, int]:
    """Members of the grid by their 1/T."""
    evidence, name = audited
    return {member.rpartition("= ")[2]: number for number, member in enumerate(evidence.members(name))}


def compute_row_with_changes(
    inputs: DrawingInput, base: SharedImages, attacked: SharedImages, *, k: int
) -> dict[str, CellValue]:
    """A row of a table, and how it differs from the same row under PGD."""
    made = compute_row(inputs, lambda: attacked, k)
    pair = pair_hits(base, attacked)
    made["Tot minus PGD"] = accuracy_difference(pair)
    for c in range(k):
        made[f"{inputs.paper.number(c)} minus PGD"] = accuracy_difference(pair, c)
    made["CV minus PGD"] = statistic_difference(pair, variance, 1e4)
    made["MCD minus PGD"] = statistic_difference(pair, gap)
    return made


BLANK = "TRADES"  # its 1/T is not printed


def table3(inputs: DrawingInput) -> ExhibitDrawing:
    """Every 1/T of the grid, and the worst of them image by image; the blank 1/T of TRADES is the strongest."""
    ours: OurCells = {}
    notes: list[str] = []
    printed = {"Madry": ("2",), "TRADES": (), "MART": ("5",), "HE": ("5", "50")}
    for name, temperatures in printed.items():
        try:
            audited = inputs.audit(name, "tpgd")
            base = pair_alone(inputs.audit(name, "pgd"))
        except MissingResult as missing:
            rows = [f"{name} 1/T={t}" for t in temperatures] or [name]
            ours |= {(row, column): str(missing) for row in rows for column in (*COLUMNS, *CHANGES)}
            continue
        k = audited[0].k
        members = {t: values.grid_member(audited, number) for t, number in grid_temperatures(audited).items()}
        if name == BLANK:
            best = min(members, key=lambda t: int(members[t].hits[0].sum()))
            ours |= {
                (name, column): v for column, v in compute_row_with_changes(inputs, base, members[best], k=k).items()
            }
            notes.append(f"1/T of TRADES is blank in the paper: the strongest here on the whole is {best}.")
        rows_of = {f"{name} 1/T={t}": same for t, same in members.items()}
        rows_of[f"{name} worst of the grid"] = pair_alone(audited)
        for row, same in rows_of.items():
            ours |= {(row, column): v for column, v in compute_row_with_changes(inputs, base, same, k=k).items()}
    return ExhibitDrawing(ours=ours, notes=tuple(notes), units=SPREAD_UNITS, lead=LEAD)


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


FURTHER_LINES = {
    f"{line} ({role.removeprefix('white, ')})": (role, begin)
    for role in OTHER_MASKS
    for line, begin in (("2 white background, natural", "clean"), ("5 white background, adversarial", "tpgd"))
}
MORE_THAN_BACKGROUND = 0.05  # a fall of natural accuracy from which more than the background was changed


def count_more_taken(inputs: DrawingInput, role: str, begin: str, *, true: int, predicted: int) -> Estimate:
    """Images taken for a class, minus those of the original images; paired where both have the same ids."""
    (first, name), (second, other) = inputs.audit("original", begin), inputs.audit(role, begin)
    ids, at, there = np.intersect1d(first.ids, second.ids, return_indices=True)
    rows = first.labels[at] == true
    before, after = (
        evidence.conditions[condition].predicted[place][rows] == predicted
        for evidence, condition, place in ((first, name, at), (second, other, there))
    )
    found, n = compare_paired(before, after), int(rows.sum())
    if not len(ids) or not n:
        raise MissingResult("no images")
    return n * found.difference, n * found.low, n * found.high


def table4(inputs: DrawingInput) -> ExhibitDrawing:
    """What cats are taken for, and how that differs from the original images."""
    cat = inputs.cls(CAT)
    ours: OurCells = {}
    for row, (role, begin) in (LINES | FURTHER_LINES).items():
        for c in range(len(CIFAR10)):
            number = str(inputs.paper.number(c))
            ours[row, number] = count_taken_for(inputs, role, begin, true=cat, predicted=c)
            if role != "original":
                ours[row, f"{number} minus original"] = value_or_reason(
                    partial(count_more_taken, inputs, role, begin, true=cat, predicted=c)
                )
    return ExhibitDrawing(ours=ours, notes=describe_masks(inputs, cat))


def describe_masks(inputs: DrawingInput, cat: int) -> tuple[str, ...]:
    """How far results depend on the masks, and whether more than the background was changed; the paper's natural
    accuracy rises by 3.2 points."""
    changes: dict[str, dict[str, Estimate]] = {}
    for role in ("white", *OTHER_MASKS):
        try:
            n = int(inputs.audit("original", "clean")[0].tally("clean").n[cat])
            for what, begin in (("natural", "clean"), ("attacked", "tpgd")):
                low_to_high = count_more_taken(inputs, role, begin, true=cat, predicted=cat)
                value, low, high = (100 * count / n for count in low_to_high)
                changes.setdefault(role, {})[what] = value, low, high
        except MissingResult:
            continue
    notes = []
    if len(changes) > 1:
        each = [f"{role} {one['natural'][0]:+.1f} and {one['attacked'][0]:+.1f}" for role, one in changes.items()]
        told = "; ".join(each).replace("-", "−")
        notes.append(f"How results depend on the masks: right answers change, natural and attacked, in points: {told}.")
    for role, one in changes.items():
        if one["natural"][0] < -100 * MORE_THAN_BACKGROUND:
            told = "{:.1f} points [{:.1f}, {:.1f}]".format(*one["natural"]).replace("-", "−")
            notes.append(
                f"{role}: natural accuracy changes by {told}. The paper's rises, so that these masks change more than "
                "the background: what attacks do here is not about backgrounds alone."
            )
    return tuple(notes)


def table5(inputs: DrawingInput) -> ExhibitDrawing:
    """All classes; where there are very many also twelve of them, which the printed numbers seem to be of."""
    ours: OurCells = {}
    for data, title in TITLES.items():
        sides: dict[str, tuple[str, str]] = {
            "standard": (f"{data}, standard", "clean"),
            "adversarial": (f"{data}, adversarial", "pgd"),
        }
        many = data in ("cifar100", "imagenet")
        for kind, (role, begin) in sides.items():
            for name, of in SPREAD_STATISTICS.items():
                ours[title, f"{kind} {name}"] = compute_cell(inputs, of, role, begin)
                if many:
                    ours[f"{title}, twelve classes", f"{kind} {name}"] = compute_cell(
                        inputs, of_few_classes(of), role, begin
                    )
    for name, of in (("CV", cv), ("MCD", mcd)):
        ours["CIFAR-10", f"adversarial {name} over standard {name}"] = value_or_reason(
            partial(ratio_of_trainings, inputs, of)
        )
    units = {f"{kind} {name}": unit for kind in ("standard", "adversarial") for name, unit in SPREAD_UNITS.items()}
    return ExhibitDrawing(ours=ours, units=units)


def ratio_of_trainings(inputs: DrawingInput, of: CellStatistic) -> Estimate:
    """How many times as large with adversarial training; CIFAR-10."""
    audits = inputs.audit("cifar10, standard"), inputs.audit("cifar10, adversarial", "pgd")
    before, after = (of(pair_alone(audited))[0] for audited in audits)
    return (after / before if before else NAN), NAN, NAN


def of_few_classes(of: CellStatistic) -> CellStatistic:
    """The same statistic of twelve classes only."""
    return lambda same: of(keep_few_classes(same))


def keep_few_classes(same: SharedImages) -> SharedImages:
    """The twelve classes that stand for very many."""
    return keep_classes(same, shown_classes(same.k))
