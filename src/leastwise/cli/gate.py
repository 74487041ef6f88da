"""`leastwise gate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from leastwise.report.terminal.screen import Screen

FAILED, INCONCLUSIVE = 1, 3


@dataclass(frozen=True)
class Gate:
    """Does a result meet its demands? Exit code 0: all pass; 1: one fails; 3: undecided; 2: bad input.

    A demand is like 'worst(pgd20) >= 0.25', 'accuracy(cat, pgd20) >= 20%', 'overall(autoattack) > 0.4',
    'macro(pgd20) >= 0.5', 'gap(autoattack) <= 0.45', 'cv(pgd20) <= 0.03' or 'drop(pgd20, BASE) <= 0.03', where BASE is
    another result: the largest fall of any class. Verdicts rest on exact simultaneous bounds, not on estimates.
    """

    result: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RESULT")]
    """a folder that `leastwise audit` wrote, or its summary.json"""
    demands: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="DEMAND")]
    """what must hold, each in quotes"""
    confidence: float = 0.95
    """of all verdicts together"""

    def run(self) -> int:
        from leastwise.report.results import measured
        from leastwise.report.terminal.screen import say
        from leastwise.report.text import percent, span
        from leastwise.statistics.gate.decide import Outcome, decide
        from leastwise.statistics.gate.language import parse

        if not self.demands:
            raise ValueError("a gate needs a demand, such as 'worst(pgd20) >= 0.25'")
        if not 0 < self.confidence < 1:
            raise ValueError(f"the confidence must lie between 0 and 1, but saw {self.confidence:g}")
        terms = [parse(text) for text in self.demands]
        result = measured(self.result)
        bases = {term.name: measured(Path(term.name)) for term in terms if term.measure == "drop"}
        verdicts = decide(terms, result, bases, self.confidence)
        console = Screen()
        for verdict in verdicts:
            if verdict.term.measure == "cv":
                seen = f"{verdict.estimate:.5f} [{verdict.low:.5f}, {verdict.high:.5f}]"
            else:
                unit = "points" if verdict.term.measure in ("drop", "gap") else "%"
                seen = f"{percent(verdict.estimate)} {unit} {span(verdict.low, verdict.high)}"
            said = f"{verdict.outcome.value:12}  {verdict.term.text}: {seen}"
            said += f" ({verdict.detail})" if verdict.detail else ""
            if verdict.images_needed is not None:
                said += f"; about {verdict.images_needed:,} images in the largest class would decide"
            elif verdict.outcome is Outcome.INCONCLUSIVE:
                said += "; it is too close to the limit for any number of images"
            say(console, said)
        outcomes = {verdict.outcome for verdict in verdicts}
        return FAILED if Outcome.FAIL in outcomes else INCONCLUSIVE if Outcome.INCONCLUSIVE in outcomes else 0
