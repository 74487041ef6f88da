"""The tables of the paper on the tradeoff."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from leastwise.papers.claims.base import AccuracyStatistic, average, share_images
from leastwise.papers.claims.base import worst as worst_of
from leastwise.papers.drawing.inputs import (
    DrawingInput,
    Estimate,
    ExhibitDrawing,
    OurCells,
    find_audits,
    value_or_reason,
)
from leastwise.papers.drawing.values import (
    CellStatistic,
    accuracy_difference,
    compute_cell,
    overall,
    sd_without_noise,
    statistic_difference,
    worst,
)
from leastwise.papers.printed import printed_table
from leastwise.papers.results import STAND_INS

AA = STAND_INS["autoattack"]
BEYOND_PGD = "AA minus PGD-20"
CONDITIONS = {"natural": ("clean",), "PGD-20": ("pgd",), "C&W-20": ("cw2",), "AA": AA}


def table1(inputs: DrawingInput) -> ExhibitDrawing:
    """Natural accuracy and AutoAttack with and without label smoothing, and the gain."""
    ours: OurCells = {}
    for column, begin in (("natural", ("clean",)), ("AA", AA)):
        for role in inputs.roles:
            ours[role, column] = compute_cell(inputs, overall, role, *begin)
        for base in ("ST", "PGD-AT", "TRADES"):
            ours[base, f"{column}, gain by LS"] = value_or_reason(partial(gain_by_smoothing, inputs, base, begin))
    return ExhibitDrawing(ours=ours)


def gain_by_smoothing(inputs: DrawingInput, base: str, begin: tuple[str, ...]) -> Estimate:
    """What label smoothing gains, on the same images."""
    return accuracy_difference(share_images(inputs.audit(base, *begin), inputs.audit(f"{base}+LS", *begin)))


def compute_attacked_table(
    inputs: DrawingInput,
    statistic: CellStatistic,
    change: AccuracyStatistic,
    *,
    more: Mapping[str, CellStatistic],
) -> ExhibitDrawing:
    """A statistic of each role under each attack, and further ones in columns of their own.

    AutoAttack may have seen fewer images than PGD: its `change` from it is on those that both saw.
    """
    ours: OurCells = {}
    for role in inputs.roles:
        for column, begin in CONDITIONS.items():
            ours[role, column] = compute_cell(inputs, statistic, role, *begin)
        ours[role, BEYOND_PGD] = value_or_reason(partial(compare_with_pgd, inputs, role, change))
        for name, of in more.items():
            for column, begin in CONDITIONS.items():
                ours[role, f"{column}, {name}"] = compute_cell(inputs, of, role, *begin)
    return ExhibitDrawing(ours=ours, notes=describe_images(inputs), units={BEYOND_PGD: "points"})


def compare_with_pgd(inputs: DrawingInput, role: str, statistic: AccuracyStatistic) -> Estimate:
    """A statistic under AutoAttack minus that under PGD, of the images that both saw."""
    return statistic_difference(share_images(inputs.audit(role, "pgd"), inputs.audit(role, *AA)), statistic)


def describe_images(inputs: DrawingInput) -> tuple[str, ...]:
    """That AutoAttack saw fewer images than the other attacks, where it did."""
    seen: dict[str, list[int]] = {}
    for role in inputs.roles:
        for name, begin in (("AA", AA), ("PGD-20", ("pgd",))):
            for evidence, _ in find_audits(inputs, [role], *begin)[0].values():
                seen.setdefault(name, []).append(len(evidence.ids))
    few, many = max(seen.get("AA", [0])), max(seen.get("PGD-20", [0]))
    if not few or few >= many:
        return ()
    return (
        f"AA is of {few:,} images, the other columns of {many:,}: they are not to be compared as they stand. "
        f"`{BEYOND_PGD}` is on the images that both saw.",
    )


def table4(inputs: DrawingInput) -> ExhibitDrawing:
    """The lowest class of each condition, and the deviation over all classes without noise."""
    made = compute_attacked_table(inputs, worst, worst_of, more={"class SD without noise": sd_without_noise})
    units = {f"{column}, class SD without noise": "points" for column in CONDITIONS}
    return replace(made, units={**made.units, **units})


BY_OTHERS = "from others' reports: not trained here"


def table5(inputs: DrawingInput) -> ExhibitDrawing:
    """Ours beside what others report for the leaderboard."""
    ours: OurCells = {}
    for row in printed_table("tradeoff2022/table5"):
        for column, begin in (("natural", ("clean",)), ("AA", AA)):
            known = row in inputs.roles
            ours[row, column] = compute_cell(inputs, overall, row, *begin) if known else BY_OTHERS
    return ExhibitDrawing(ours=ours)


def draw_averages(inputs: DrawingInput) -> ExhibitDrawing:
    """The overall accuracy of each role under each attack."""
    return compute_attacked_table(inputs, overall, average, more={})
