"""What an exhibit is given to be drawn from: audits by role, or the reason why there are none."""

import base64
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from leastwise.audit.evidence import Evidence
from leastwise.insight.features import Moments
from leastwise.papers.exhibit import Paper
from leastwise.papers.recipes import Absent, Measured, Recipe, networks
from leastwise.papers.results import AuditedCondition, ExhibitResults, MissingResult, RecipeResult
from leastwise.papers.scales import scale
from leastwise.report.figures import Figure

Estimate = tuple[float, float, float]  # value, low, high
CellValue = Estimate | str  # or why there is none
OurCells = dict[tuple[str, str], CellValue]  # by row and column of a table

NOT_RUN = "not run"


class NotShown(NamedTuple):
    """A note on what an exhibit lacks, and why."""

    what: tuple[str, ...]
    why: str


Note = str | NotShown  # a sentence, or what becomes one when all notes of an exhibit are known


@dataclass(frozen=True, eq=False)
class DrawingInput:
    """What an exhibit is drawn from: its results, its paper for the numbers of classes, and what failed."""

    paper: Paper
    view: ExhibitResults
    failed: Mapping[Recipe, str]

    @property
    def roles(self) -> tuple[str, ...]:
        return self.view.roles

    def of(self, exhibit: str) -> "DrawingInput":
        return replace(self, view=self.view.of(exhibit))

    def audit(self, role: str, *begin: str, end: str = "") -> AuditedCondition:
        """The condition whose name begins (and ends) so; scales change the rest of it."""
        wanted = begin or ("clean",)
        for evidence, name in self.view.audits(role):
            if name.startswith(wanted) and name.endswith(end):
                return evidence, name
        raise MissingResult(self.why(role, wanted))

    def result(self, role: str) -> RecipeResult:
        """What its only recipe gave."""
        for _, one in self.view.parts(role):
            return one
        raise MissingResult(self.why(role))

    def moments(self, role: str) -> Moments:
        for _, one in self.view.parts(role):
            if one.moments is not None:
                return one.moments
        raise MissingResult(self.why(role, nothing="its features were not kept"))

    def why(self, role: str, begin: tuple[str, ...] = (), nothing: str = "not measured at this scale") -> str:
        """Why a role, or a condition of it, has no result."""
        parts = scale(self.view.scale)(self.view.exhibit.needs[role])
        asked = [
            one for one in parts if not (isinstance(one, Measured) and begin) or any_begins_with(one.conditions, begin)
        ]
        for part in asked or parts:
            if isinstance(part, Absent):
                return part.reason
            for recipe in (part, *networks(part)):
                if recipe in self.failed:
                    return f"failed: {self.failed[recipe]}"
            if part not in self.view.results:
                return NOT_RUN
        return nothing

    def label_classes(self, audited: AuditedCondition) -> AuditedCondition:
        """The same audit with the paper's numbers before the names of the classes."""
        evidence, name = audited
        return replace(evidence, names=self.labels(evidence.names)), name

    def labels(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.label(names, c) for c in range(len(names)))

    def label(self, names: tuple[str, ...], c: int) -> str:
        """Ahn names classes only; digits are their own names where the paper counts from 0."""
        number = str(self.paper.number(c))
        return names[c] if self.paper.id == "ahn" or names[c] == number else f"{number}: {names[c]}"

    def cls(self, c: int) -> int:
        return self.view.cls(c)


def any_begins_with(conditions: Iterable[str], begin: tuple[str, ...]) -> bool:
    """Whether one of the conditions begins so."""
    return any(name.startswith(begin) for name in conditions)


def value_or_reason(make: Callable[[], Estimate]) -> CellValue:
    """A value, or the reason why there is none."""
    try:
        return make()
    except MissingResult as missing:
        return str(missing)


def find_audits(
    inputs: DrawingInput, roles: Iterable[str], *begin: str, end: str = ""
) -> tuple[dict[str, AuditedCondition], tuple[Note, ...]]:
    """The audits that are there, and sentences on those that are not; roles with one reason share a sentence."""
    found: dict[str, AuditedCondition] = {}
    missing: dict[str, list[str]] = {}
    for role in roles:
        try:
            found[role] = inputs.audit(role, *begin, end=end)
        except MissingResult as reason:
            missing.setdefault(str(reason), []).append(role)
    return found, explain_missing(missing)


def explain_missing(missing: Mapping[str, Iterable[str]]) -> tuple[NotShown, ...]:
    """A note for each reason, with all that is missing for it."""
    return tuple(NotShown(tuple(roles), reason) for reason, roles in missing.items())


def class_names(audits: Mapping[str, AuditedCondition]) -> tuple[str, ...]:
    """The names of the classes, from the first audit."""
    first: Evidence = next(iter(audits.values()))[0]
    return first.names


@dataclass(frozen=True)
class CaptionedImage:
    """A picture with the words below it."""

    title: str
    lines: tuple[str, ...]
    source: str  # a data URI


@dataclass(frozen=True, eq=False)
class ExhibitDrawing:
    """Everything that is shown of an exhibit. Drawings add up."""

    panels: tuple[Figure, ...] = ()  # side by side
    wide: tuple[Figure, ...] = ()  # alone
    ours: OurCells = field(default_factory=dict)
    images: tuple[CaptionedImage, ...] = ()
    notes: tuple[Note, ...] = ()
    pairs: bool = False  # panels belong together two by two
    units: Mapping[str, str] = field(default_factory=dict)  # of the columns of `ours` that the paper does not print
    lead: tuple[str, ...] = ()  # columns that stand before the others, so that nobody has to scroll to them

    def __add__(self, other: "ExhibitDrawing") -> "ExhibitDrawing":
        return ExhibitDrawing(
            self.panels + other.panels,
            self.wide + other.wide,
            {**self.ours, **other.ours},
            self.images + other.images,
            tuple(dict.fromkeys((*self.notes, *other.notes))),
            self.pairs or other.pairs,
            {**self.units, **other.units},
            tuple(dict.fromkeys((*self.lead, *other.lead))),
        )


Drawings = Mapping[str, Callable[[DrawingInput], ExhibitDrawing]]  # by the ids of the exhibits


def join_drawings(parts: Iterable[ExhibitDrawing]) -> ExhibitDrawing:
    """Several drawings as one, in their order."""
    made = ExhibitDrawing()
    for part in parts:
        made = made + part
    return made


def encode_png(pixels: Float[np.ndarray, "c h w"]) -> str:
    """An image as a data URI; one channel is grey."""
    from PIL import Image as Pictures

    levels = np.clip(np.rint(255 * pixels), 0, 255).astype(np.uint8).transpose(1, 2, 0)
    out = io.BytesIO()
    Pictures.fromarray(levels.squeeze(2) if levels.shape[2] == 1 else levels).save(out, "PNG")
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"


def list_marks(figure: Figure) -> list[dict[str, object]]:
    """The numbers behind a figure: exactly those that are drawn."""
    values: list[Mapping[str, object]] = figure.spec["datasets"][figure.spec["data"]["name"]]
    hidden = {"text", "marked", "about", "kind"}
    return [{name: value for name, value in row.items() if name not in hidden} for row in values]


def describe_completeness(inputs: DrawingInput) -> str:
    """How many rows of an exhibit are there, unless all are."""
    there = [[part in inputs.view.results for part in parts] for parts in inputs.view.recipes.values()]
    whole, begun = sum(map(all, there)), sum(any(parts) and not all(parts) for parts in there)
    if whole == len(there):
        return ""
    part = f", {begun} in part" if begun else ""
    rows = "row" if len(there) == 1 else "rows"
    return f"Incomplete: of {len(there)} {rows} {whole or 'none'} {'is' if whole < 2 else 'are'} there{part}."


def list_missing(inputs: DrawingInput) -> tuple[NotShown, ...]:
    """Every row, or part of a row, that is missing, and why."""
    found = []
    for role, parts in inputs.view.recipes.items():
        lacking = [part for part in parts if part not in inputs.view.results]
        for part in lacking:
            some = len(lacking) < len(parts) and isinstance(part, Measured)
            name = f"{role} under {', '.join(part.conditions)}" if some and isinstance(part, Measured) else role
            found.append(NotShown((name,), explain_missing_part(inputs, part)))
    return tuple(dict.fromkeys(found))


def explain_missing_part(inputs: DrawingInput, part: Recipe | Absent) -> str:
    """Why a part of a row has no result: out of reach at this scale, failed, or not run."""
    if isinstance(part, Absent):
        return part.reason
    for recipe in (part, *networks(part)):
        if recipe in inputs.failed:
            return f"failed: {inputs.failed[recipe]}"
    return NOT_RUN
