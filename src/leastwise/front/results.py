"""What an audit found, as notebooks and programs use it: evidence that shows itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from leastwise.audit.evidence import Evidence
from leastwise.core.text import did_you_mean, percent, span

if TYPE_CHECKING:
    import altair as alt

    from leastwise.audit.auditor import Conditions
    from leastwise.report.results import AuditedModel

LINES = 10  # of a repr, at most
PlotKind = Literal["classes", "confusion", "deviation", "ranks", "curve"]
KINDS = ("classes", "confusion", "deviation", "ranks", "curve")


@dataclass(frozen=True)
class WeakestClass:
    """The class an attacker would pick under a condition. `accuracy` is without the luck of being picked as the lowest
    of many, and `low` to `high` covers the lowest true accuracy, whichever class has it; fractions."""

    name: str
    condition: str
    accuracy: float
    low: float
    high: float
    measured: float
    overall: float
    ties: int = 1

    def __str__(self) -> str:
        who = self.name if self.ties == 1 else f"any of {self.ties} classes"
        return f"{who} {percent(self.accuracy)} % {span(self.low, self.high)}"

    def __repr__(self) -> str:
        return f"{self} under {self.condition}, against {percent(self.overall)} % overall"


@dataclass(frozen=True, eq=False, repr=False)
class AuditResult(Evidence):
    """What an audit found of every image under every condition, and what it says of the classes.

    Printed it is a few lines, in a notebook the class table. Arithmetic of it is in `leastwise.statistics`.
    """

    name: str = "model"  # of the model
    folder: Path | None = None  # where it lies, if anywhere
    run: Mapping[str, Any] = field(default_factory=dict)  # seconds, device, versions
    asked: "Conditions" = ()  # the attacks as values, where they are known

    @classmethod
    def of(cls, found: Evidence, **known: Any) -> "AuditResult":
        """The same evidence with what else is known."""
        return cls(**{one.name: getattr(found, one.name) for one in fields(Evidence)}, **known)

    def worst(self, condition: str | None = None) -> WeakestClass:
        """The worst class under a condition; under the one where it is lowest, unless given."""
        from leastwise.statistics.worst_class import estimate_worst

        frame = self.frame()
        name = self.weakest_condition if condition is None else self.check_condition(condition)
        row = frame.row(name)
        found = estimate_worst(frame.correct[row].numpy(), frame.n[row].numpy())
        lowest = frame.accuracy[row, frame.worst[row]]
        return WeakestClass(
            frame.names[int(frame.worst[row])],
            name,
            found.corrected,
            found.low,
            found.high,
            float(lowest),
            float(frame.overall[row]),
            int((frame.accuracy[row] == lowest).sum()),
        )

    @property
    def weakest_condition(self) -> str:
        """The condition under which the worst class is lowest."""
        from leastwise.report.condition_stats import find_attackers_pick

        return find_attackers_pick(self).condition

    def check_condition(self, condition: str) -> str:
        """The condition, or a sentence with those there are."""
        if condition not in self.conditions:
            raise ValueError(f"there is no condition {condition!r}: {did_you_mean(condition, self.conditions)}")
        return condition

    def to_pandas(self, per: Literal["class", "example"] = "class") -> Any:
        """A tidy frame: a row per condition and class, with counts, accuracy and its 95 % interval as fractions; or,
        `per="example"`, a row per condition and image with all that was recorded of it."""
        from leastwise.report.export import example_columns
        from leastwise.report.notebook import class_rows, make_frame

        if per not in ("class", "example"):
            raise ValueError(f"a frame has a row per class or per example, but saw per={per!r}: choose one of them")
        return make_frame(class_rows(self.frame()) if per == "class" else example_columns(self))

    def summary(self) -> "Summary":
        """Everything the statistics say, as in `summary.json`."""
        from leastwise.report.summary import summarise

        return Summary(summarise(self, dict(self.run)))

    def plot(self, condition: str | None = None, kind: PlotKind = "classes") -> "alt.TopLevelMixin":
        """A chart in the width of a column of a paper; `.save("x.pdf")` writes it (.svg, .png and .html, too).

        `kind` is classes (bars with intervals), confusion, deviation (from the overall accuracy), ranks, or curve (of
        several radii). Without a condition it is the one where the worst class is lowest.
        """
        from leastwise.report.picture import draw_audit

        if condition is not None and condition not in self.conditions:
            if condition not in KINDS:
                choices = [*self.conditions, *KINDS]
                raise ValueError(f"there is no plot {condition!r}: {did_you_mean(condition, choices)}")
            condition, kind = None, condition  # type: ignore[assignment]
        return draw_audit(self, self.weakest_condition if condition is None else self.check_condition(condition), kind)

    def as_model(self) -> "AuditedModel":
        """What reports and comparisons take."""
        from leastwise.report.explain.facts import read_facts
        from leastwise.report.results import AuditedModel

        facts = read_facts(self.folder, self) if self.folder is not None else None
        return AuditedModel(self.name, self, dict(self.run), facts)

    def __repr__(self) -> str:
        from leastwise.audit.masking import cautions

        k = len(self.conditions)
        lines = [f"Audit of {self.name}: {len(self.ids):,} images, {self.k:,} classes, key {self.key}"]
        width = max(map(len, self.conditions))
        for name in list(self.conditions)[: 6 if k > 6 else k]:
            found = self.worst(name)
            lines.append(f"  {name:{width}}  {percent(found.overall):>5} % overall, worst class {found}")
        lines += [f"  … {k - 6} more conditions"] if k > 6 else []
        warnings = cautions(self)
        lines += [f"  warning: {warnings[0][:200]}"] if warnings else []
        lines += [f"  … {len(warnings) - 1} more warnings"] if len(warnings) > 1 else []
        return "\n".join(lines[:LINES])

    def _repr_html_(self) -> str:
        from leastwise.audit.masking import cautions
        from leastwise.report.notebook import class_table_html
        from leastwise.report.terminal.view import headline

        said = f"{self.name}: accuracy in % [95 % interval] of {len(self.ids):,} images"
        notes = [headline(self), *(f"warning: {one}" for one in cautions(self))]
        return class_table_html(self.frame(), caption=said, notes=notes)


class Summary(dict[str, Any]):
    """A dictionary like summary.json that prints in a few lines."""

    def __repr__(self) -> str:
        lines = [f"Summary with {len(self)} keys: {', '.join(list(self)[:8])}, …"]
        for name, one in list(self.get("conditions", {}).items())[: LINES - 2]:
            worst = one["worst"]
            lines.append(
                f"  {name}: {percent(one['overall'])} % overall, worst class {worst['class']} "
                f"{percent(worst['corrected'])} % {span(worst['low'], worst['high'])}, CV {one['cv']:.1f}"
            )
        return "\n".join(lines)


def open_audit(folder: "str | Path | Evidence") -> AuditResult:
    """What an audit wrote into its folder, ready to be looked at.

    >>> import leastwise as lw
    >>> lw.open_audit("no-such-folder")
    Traceback (most recent call last):
    ValueError: there is no evidence at no-such-folder: give the folder that `leastwise audit` wrote
    """
    from leastwise.report.results import open_result

    if isinstance(folder, AuditResult):
        return folder
    if isinstance(folder, Evidence):
        return AuditResult.of(folder)
    opened = open_result(Path(folder))
    return AuditResult.of(opened.evidence, name=opened.name, folder=Path(folder), run=opened.run)
