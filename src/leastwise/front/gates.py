"""`lw.gate`: does a result meet its demands?"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leastwise.core.text import escape_html, escape_unprintable
from leastwise.front.words import in_python_words

if TYPE_CHECKING:
    from leastwise.statistics.gate.decide import GateVerdict, Result

LINES = 10  # of a repr, at most
CONFIDENCE = 0.95


@in_python_words
def gate(
    result: Any,
    *demands: str,
    confidence: float = CONFIDENCE,
    anytime: bool = False,
    bases: "Mapping[str, Any] | None" = None,
) -> "GateResult":
    """Decide demands such as "worst(pgd20) >= 20%" on confidence bounds, not on estimates.

    `result` is an audit, its folder, or a summary.json. All verdicts together are right with that confidence; one that
    the images do not decide is inconclusive, and says how many images would. `drop(pgd20, BASE) <= 3%` is the largest
    fall of any class against BASE: a path, or a name of `bases={"BASE": audit}`.

    >>> import leastwise as lw
    >>> data = lw.data("fashion-mini").take(5)
    >>> found = lw.audit(lw.build("small", data.shape, data.k), data, "clean", force=True, progress=False)
    >>> lw.gate(found, "overall(clean) <= 90%").passed
    True
    """
    from leastwise.report.gate import remember_look
    from leastwise.statistics.gate.decide import decide
    from leastwise.statistics.gate.language import parse_term

    if not demands:
        raise ValueError("a gate needs a demand, such as 'worst(pgd20) >= 0.25'")
    if not 0 < confidence < 1:
        raise ValueError(f"the confidence must lie between 0 and 1, but saw {confidence:g}: 95 % are 0.95")
    terms = [parse_term(text) for text in demands]
    given, folder = read_given(result, {term.condition for term in terms})
    named = {} if bases is None else dict(bases)
    against = {term.name: read_given(named.get(term.name, term.name))[0] for term in terms if term.measure == "drop"}
    verdicts = decide(terms, given, against, confidence=confidence, anytime=anytime)
    warned = remember_look(folder, given) if folder is not None and not anytime else ""
    return GateResult(verdicts, warned)


def read_given(result: Any, conditions: frozenset[str] | set[str] = frozenset()) -> "tuple[Result, Path | None]":
    """What a gate looks at, and where it lies."""
    from leastwise.audit.evidence import Evidence
    from leastwise.report.gate import from_evidence, read_result, refuse_sampled

    folder = getattr(result, "folder", None) if isinstance(result, Evidence) else Path(result)
    if folder is not None:
        refuse_sampled(folder, conditions)
    if isinstance(result, Evidence):
        return from_evidence(result), folder
    return read_result(Path(result)), folder


@dataclass(frozen=True, repr=False)
class GateResult:
    """The verdicts of a gate. It is true if all demands are met; `assert lw.gate(…)` says what was not."""

    verdicts: "tuple[GateVerdict, ...]"
    warning: str = ""

    @property
    def passed(self) -> bool:
        """Whether every demand is shown to be met."""
        return all(one.outcome.value == "pass" for one in self.verdicts)

    @property
    def failed(self) -> bool:
        """Whether any demand is shown not to be met."""
        return any(one.outcome.value == "fail" for one in self.verdicts)

    @property
    def inconclusive(self) -> bool:
        """Whether the images do not decide."""
        return not self.passed and not self.failed

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        from leastwise.report.gate import verdict_sentence

        lines = [escape_unprintable(verdict_sentence(one)) for one in self.verdicts]
        lines = lines if len(lines) < LINES else [*lines[: LINES - 2], f"… {len(lines) - LINES + 2} more verdicts"]
        return "\n".join([*lines, *([f"careful: {self.warning}"] if self.warning else [])])

    def rows(self) -> list[dict[str, Any]]:
        """A row per demand; numbers are fractions."""
        return [
            {
                "demand": one.term.text,
                "outcome": one.outcome.value,
                "estimate": one.estimate,
                "low": one.low,
                "high": one.high,
                "threshold": one.term.threshold,
                "images_needed": one.images_needed,
                "detail": one.detail,
            }
            for one in self.verdicts
        ]

    def to_pandas(self) -> Any:
        """A row per demand: outcome, estimate, interval, threshold, and the images that would decide it."""
        from leastwise.report.notebook import make_frame

        return make_frame(self.rows())

    def _repr_html_(self) -> str:
        from leastwise.report.gate import verdict_sentence
        from leastwise.report.notebook import table_html

        signs = {"pass": "✓ pass", "fail": "✗ fail", "inconclusive": "? inconclusive"}
        rows = [
            [
                (escape_html(one.term.text), False),
                (signs[one.outcome.value], one.outcome.value == "fail"),
                (escape_html(verdict_sentence(one).partition(f"{one.term.text}: ")[2]), False),
            ]
            for one in self.verdicts
        ]
        return table_html(
            ["demand", "verdict", "seen"], rows, notes=[f"careful: {self.warning}"] if self.warning else []
        )
