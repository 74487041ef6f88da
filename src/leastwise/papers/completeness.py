"""What of an exhibit is there at a scale, what is missing, and why."""

from collections.abc import Callable, Iterable

from leastwise.papers.drawing.inputs import NOT_RUN, DrawingInput, NotShown
from leastwise.papers.exhibit import Exhibit
from leastwise.papers.recipes import Absent, Measured, Recipe, networks


def is_complete(exhibit: Exhibit, scale_name: str, has: Callable[[Recipe], bool]) -> bool:
    """Whether every row of an exhibit is there in all its parts; what a scale cannot offer is missing."""
    return all(not isinstance(part, Absent) and has(part) for parts in exhibit(scale_name).values() for part in parts)


def count_complete(exhibits: Iterable[Exhibit], scale_name: str, has: Callable[[Recipe], bool]) -> str:
    """Such as: 41 of 62 exhibits are complete."""
    every = [is_complete(one, scale_name, has) for one in exhibits]
    return f"{sum(every)} of {len(every)} exhibit{'s' if len(every) != 1 else ''} complete"


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
