"""The end of a page: what the paper claims, what was found, and what that decides."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from leastwise.papers.claims import CLAIMS, Finding
from leastwise.papers.declare import Exhibit
from leastwise.papers.pages.given import Given
from leastwise.papers.pages.sheets import signs
from leastwise.papers.verdicts import Judged
from leastwise.papers.verdicts.view import Missing
from leastwise.report.export import csv_text

SMOKE = "smoke: shows only that everything runs"
HEADER = (
    "claim",
    "statement",
    "exhibit",
    "measured on",
    "scale",
    "what",
    "value",
    "low",
    "high",
    "p",
    "this number",
    "verdict",
    "why not",
)


@dataclass(frozen=True)
class Row:
    """One number that speaks to a claim, or why there is none."""

    claim: str
    statement: str
    exhibit: str
    on: str
    scale: str
    finding: Finding | None
    verdict: str  # of all numbers of this case together
    missing: str = ""

    @property
    def own(self) -> str:
        """What this number alone says."""
        return "" if self.scale == "smoke" or self.finding is None else self.finding.verdict

    @property
    def number(self) -> str:
        if self.finding is None:
            return ""
        one = self.finding
        return f"{short(one.value)} [{short(one.low)}, {short(one.high)}]"


def short(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}".replace("-", "−")


def rows(judged: Sequence[Judged], exhibits: Sequence[Exhibit], scale: str, given: dict[str, Given]) -> tuple[Row, ...]:
    """In the order of the claims; only of the exhibits that are on the page."""
    shown = {one.id for one in exhibits}
    found = []
    for one in sorted(judged, key=lambda one: int(one.claim[1:])):
        if one.exhibit not in shown:
            continue
        said = CLAIMS[one.claim].statement
        verdict = SMOKE if scale == "smoke" else one.verdict
        if not one.findings:
            why = reason(given[one.exhibit], one)
            found.append(Row(one.claim, said, one.exhibit, one.on, scale, None, verdict, why))
        for number in one.findings:
            found.append(Row(one.claim, said, one.exhibit, one.on, scale, number, verdict))
    return tuple(found)


def reason(given: Given, judged: Judged) -> str:
    """What is missing, and why: of the roles that the case names, or else of all of the exhibit."""
    named = [role for role in given.roles if role in judged.on.split(", ") or role == judged.on]
    whys = []
    for role in named or given.roles:
        try:
            given.found(role)
        except Missing as missing:
            whys.append(str(missing))
    distinct = list(dict.fromkeys(whys))
    return f"{judged.missing}{': ' if distinct else ''}{'; '.join(distinct[:3])}"


def as_csv(found: Sequence[Row]) -> str:
    lines = [list(HEADER)]
    for row in found:
        one = row.finding
        values = ["", "", "", "", ""]
        if one is not None:
            p = "" if one.p is None else f"{one.p:.3g}"
            values = [one.what, *(f"{v:.6g}" for v in (one.value, one.low, one.high)), p]
        lines.append(
            [row.claim, row.statement, row.exhibit, row.on, row.scale, *values, row.own, row.verdict, row.missing]
        )
    return csv_text(lines)


def as_latex(found: Sequence[Row]) -> str:
    body = "".join(
        " & ".join(
            signs(cell)
            for cell in (
                row.claim,
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
        f"% needs \\usepackage{{booktabs}}; scale {scales}; 95 % intervals over images or classes, not over trainings\n"
        "\\begin{tabular}{lllll}\n\\toprule\nclaim & measured on & what & value & verdict \\\\\n\\midrule\n"
        f"{body}\\bottomrule\n\\end{{tabular}}\n"
    )
