"""`lw.report`: one page, one picture or one table of audits."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leastwise.front.words import in_python_words

if TYPE_CHECKING:
    from leastwise.report.results import AuditedModel


@in_python_words
def report(
    results: Any,
    out: str | Path = "report.html",
    *,
    names: Sequence[str] = (),
    title: str = "Class-wise robustness audit",
) -> Path:
    """Write a page (.html), a picture (.pdf, .svg, .png), a table (.md, .tex) or all rows (.csv, .parquet).

    `results` are audits, or folders of audits; a page or picture of several compares them. The path of the file is
    returned.

    >>> import leastwise as lw
    >>> lw.report([], "page.html")
    Traceback (most recent call last):
    ValueError: a report needs at least one audit, but saw none: give what lw.audit returned, or its folder
    """
    from leastwise.report.page.page import write_report

    models = take_models(list_results(results), names)
    if not models:
        raise ValueError("a report needs at least one audit, but saw none: give what lw.audit returned, or its folder")
    write_report(models, Path(out), title)
    return Path(out)


def list_results(results: Any) -> list[Any]:
    """Several results, or a single one, as a list."""
    from leastwise.audit.evidence import Evidence

    return [results] if isinstance(results, str | Path | Evidence) else list(results)


def take_models(results: Sequence[Any], names: Sequence[str] = ()) -> tuple["AuditedModel", ...]:
    """Results with names to show, each its own: as they were given, or numbered where two have the same."""
    from leastwise.front.results import open_audit

    found = [open_audit(one).as_model() for one in results]
    if names and len(names) != len(found):
        raise ValueError(f"{len(found)} results need {len(found)} names, but saw {len(names)}: give one for each")
    wanted = list(names) or [one.name for one in found]
    seen: dict[str, int] = {}
    made = []
    for name, one in zip(wanted, found, strict=True):
        seen[name] = seen.get(name, 0) + 1
        made.append(replace(one, name=name if wanted.count(name) == 1 or names else f"{name} {seen[name]}"))
    return tuple(made)
