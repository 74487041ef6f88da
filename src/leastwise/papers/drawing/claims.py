"""The end of a page: what the paper claims, what was found, and what that decides."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from leastwise.core.text import csv_text
from leastwise.papers.claims.base import ClaimFinding
from leastwise.papers.drawing.inputs import DrawingInput
from leastwise.papers.drawing.tables import UNDEFINED, escape_symbols, format_number
from leastwise.papers.judge import ClaimVerdict
from leastwise.papers.results import MissingResult
from leastwise.report.charts.heatmap import format_cell

SMOKE = "smoke: shows only that everything runs"
NOT_MEASURED = "not measured"
SMALLEST_P = 0.0001
TINY = 1e-9  # what rounding errors leave of 0
HEADER = (
    "claim",
    "statement",
    "part",
    "exhibit",
    "measured on",
    "scale",
    "what",
    "value",
    "low",
    "high",
    "unit",
    "p",
    "this number",
    "verdict",
    "why not",
)


@dataclass(frozen=True)
class ClaimRow:
    """One number that speaks to a claim, or why there is none."""

    claim: str
    statement: str
    part: str
    exhibit: str
    on: str
    scale: str
    finding: ClaimFinding | None
    verdict: str  # of all numbers of this case together
    missing: str = ""

    @property
    def own(self) -> str:
        """What this number alone says."""
        return "" if self.scale == "smoke" or self.finding is None else self.finding.verdict

    @property
    def why_not(self) -> str:
        return self.missing or (UNDEFINED if self.number == UNDEFINED else "")

    @property
    def number(self) -> str:
        if self.finding is None:
            return ""
        value, low, high = scale_to_unit(self.finding)
        if math.isnan(value):
            return UNDEFINED
        unit = f" {self.finding.unit.name}" if self.finding.unit.name else ""
        first, *ends = format_alike(value, low, high)
        return f"{first}{unit}{'' if math.isnan(low) else f' [{ends[0]}, {ends[1]}]'}"

    @property
    def chance(self) -> str:
        """The p-value; far tails of approximate distributions are not worth their digits."""
        p = self.finding.p if self.finding else None
        if p is None or math.isnan(p):
            return ""
        return f"p < {SMALLEST_P:g}" if p < SMALLEST_P else f"p = {p:.2g}"


@dataclass(frozen=True)
class ClaimSummary:
    """What all cases of a claim say together."""

    claim: str
    statement: str
    said: str


def summarise_claims(found: Sequence[ClaimRow]) -> tuple[ClaimSummary, ...]:
    """How many cases decide each part of each claim, and how."""
    verdicts: dict[str, dict[str, dict[tuple[str, str], str]]] = {}
    statements = {row.claim: row.statement for row in found}
    for row in found:
        verdicts.setdefault(row.claim, {}).setdefault(row.part, {})[row.exhibit, row.on] = row.verdict
    return tuple(
        ClaimSummary(
            claim,
            statements[claim],
            "; ".join(
                f"{part}: {count_verdicts(tuple(of.values()))}" if part else count_verdicts(tuple(of.values()))
                for part, of in parts.items()
            ),
        )
        for claim, parts in verdicts.items()
    )


def count_verdicts(verdicts: Sequence[str]) -> str:
    """Such as: holds in 2 of 3 cases, undecided in 1."""
    order = ("holds", "does not hold", "undecided", NOT_MEASURED)
    counts = [(one, verdicts.count(one)) for one in order if one in verdicts]
    (first, n), *rest = counts
    cases = "case" if len(verdicts) == 1 else "cases"
    return ", ".join((f"{first} in {n} of {len(verdicts)} {cases}", *(f"{one} in {n}" for one, n in rest)))


def scale_to_unit(one: ClaimFinding) -> tuple[float, float, float]:
    """In the unit of the finding."""
    times = one.unit.times
    return times * one.value, times * one.low, times * one.high


def format_alike(*values: float) -> tuple[str, ...]:
    """With the same decimals, three digits or four of the largest."""
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    digits = 0 if largest >= 1000 or largest < TINY else 1 if largest >= 10 else 2 - math.floor(math.log10(largest))
    return tuple("–" if math.isnan(v) else format_cell(v, digits) for v in values)


def list_claim_rows(
    verdicts: Sequence[ClaimVerdict], scale: str, inputs: Mapping[str, DrawingInput]
) -> tuple[ClaimRow, ...]:
    """A row for each number that speaks to a claim, in the order of the claims; `inputs` by exhibit."""
    found = []
    for one in sorted(verdicts, key=lambda one: one.claim.number):
        make = partial(ClaimRow, one.claim.id, one.claim.statement, one.part, one.exhibit, one.on, scale)
        verdict = SMOKE if scale == "smoke" else one.verdict
        if not one.findings:
            lacking = SMOKE if scale == "smoke" else NOT_MEASURED
            found.append(make(None, lacking, explain_missing_case(inputs[one.exhibit], one)))
        found += [make(number, verdict) for number in one.findings]
    return tuple(found)


def explain_missing_case(inputs: DrawingInput, judged: ClaimVerdict) -> str:
    """What is missing, and why: of the roles that the case names, or else of all of the exhibit."""
    named = [role for role in inputs.roles if role in judged.measured_on]
    whys = []
    for role in named or inputs.roles:
        try:
            inputs.result(role)
        except MissingResult as missing:
            whys.append(str(missing))
    distinct = list(dict.fromkeys(whys))
    return f"{judged.missing}{': ' if distinct else ''}{'; '.join(distinct[:3])}"


def claims_csv(found: Sequence[ClaimRow]) -> str:
    """A line for each number that speaks to a claim."""
    lines = [list(HEADER)]
    for row in found:
        one = row.finding
        values = [""] * 6
        if one is not None:
            p = "" if one.p is None else f"{one.p:.3g}"
            values = [one.what, *map(format_number, scale_to_unit(one)), one.unit.name, p]
        lines.append(
            [
                *(row.claim, row.statement, row.part, row.exhibit, row.on, row.scale),
                *(*values, row.own, row.verdict, row.why_not),
            ]
        )
    return csv_text(lines)


def claims_latex(found: Sequence[ClaimRow]) -> str:
    """The same as a table for the booktabs package."""
    body = "".join(
        " & ".join(
            escape_symbols(cell)
            for cell in (
                f"{row.claim} {row.part}".strip(),
                f"{row.exhibit} {row.on}".strip(),
                row.finding.what if row.finding else row.missing,
                row.number,
                row.verdict,
            )
        )
        + " \\\\\n"
        for row in found
    )
    scales = ", ".join(sorted({row.scale for row in found}))
    return (
        f"% needs \\usepackage{{booktabs}}; scale {scales}; 95 % intervals; what is sampled is in docs/decisions/0021\n"
        "\\begin{tabular}{lllll}\n\\toprule\nclaim & measured on & what & value & verdict \\\\\n\\midrule\n"
        f"{body}\\bottomrule\n\\end{{tabular}}\n"
    )
