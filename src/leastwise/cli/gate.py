"""`leastwise gate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from leastwise.core.text import Screen, say

FAILED, INCONCLUSIVE = 1, 3


@dataclass(frozen=True)
class Gate:
    """Does a result meet its demands? Exit code 0: all pass; 1: one fails; 3: undecided; 2: bad input.

    A demand is like 'worst(pgd20) >= 0.25', 'accuracy(cat, pgd20) >= 20%', 'overall(autoattack) > 0.4',
    'macro(pgd20) >= 0.5', 'gap(autoattack) <= 0.45', 'cv(pgd20) <= 0.03' or 'drop(pgd20, BASE) <= 0.03', where BASE is
    another result: the largest fall of any class. Verdicts rest on simultaneous bounds, not on estimates; where the
    checks of the audit found an attack to have failed there is none.
    """

    result: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RESULT")]
    """a folder that `leastwise audit` wrote, or its summary.json"""
    demands: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="DEMAND")]
    """what must hold, each in quotes"""
    confidence: float = 0.95
    """of all verdicts together"""
    anytime: bool = False
    """with bounds that hold for every look together: ask again as often as you like while images are added"""
    keep: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """write which images are right to a small .json file, a base that later drops can be paired with"""

    def run(self) -> int:
        from leastwise.report.gate import read_result, refuse_sampled, remember_look, verdict_sentence
        from leastwise.report.kept_images import keep_images
        from leastwise.statistics.gate.decide import GateOutcome, decide
        from leastwise.statistics.gate.language import parse_term

        if self.keep and Path(self.keep).suffix != ".json":
            raise ValueError(f"--keep writes a .json file, but saw {self.keep}: give it that ending")
        if not self.demands and not self.keep:
            raise ValueError("a gate needs a demand, such as 'worst(pgd20) >= 0.25'")
        if not 0 < self.confidence < 1:
            raise ValueError(f"the confidence must lie between 0 and 1, but saw {self.confidence:g}")
        terms = [parse_term(text) for text in self.demands]
        refuse_sampled(self.result, {term.condition for term in terms})
        result = read_result(self.result)
        bases = {term.name: read_result(Path(term.name)) for term in terms if term.measure == "drop"}
        verdicts = decide(terms, result, bases, confidence=self.confidence, anytime=self.anytime)
        console = Screen()
        if self.keep:
            keep_images(Path(self.keep), result)
            say(console, f"Images that are right: {self.keep}")
        if terms and not self.anytime and (warned := remember_look(self.result, result)):
            say(console, f"careful: {warned}")
        for warned in (*result.warnings, *(f"{name}: {one}" for name, base in bases.items() for one in base.warnings)):
            say(console, f"careful: {warned}")
        for verdict in verdicts:
            say(console, verdict_sentence(verdict))
        outcomes = {verdict.outcome for verdict in verdicts}
        return FAILED if GateOutcome.FAIL in outcomes else INCONCLUSIVE if GateOutcome.INCONCLUSIVE in outcomes else 0
