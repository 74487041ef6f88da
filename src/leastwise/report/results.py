"""The folders that audits write -> what is in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from leastwise.audit.evidence import Evidence, load_evidence
from leastwise.jobs.folder import read_run_facts
from leastwise.report.explain.facts import read_facts


@dataclass(frozen=True, eq=False)
class AuditedModel:
    """A model under audit: a name to show, what was found, and what else is known of the run."""

    name: str
    evidence: Evidence
    run: Mapping[str, Any] = field(default_factory=dict)  # run.json, manifest.json: plain JSON values
    explained: Mapping[str, Any] | None = None  # explain.json; what the evidence alone gives unless it is there


def open_result(folder: Path) -> AuditedModel:
    """One audit, under the name of its model as it was typed, or else of its folder."""
    run = read_run_facts(folder)
    found = load_evidence(folder)
    return AuditedModel(str(run.get("model") or folder.resolve().name), found, run, read_facts(folder, found))


def open_results(folders: Sequence[Path], names: Sequence[str] = ()) -> tuple[AuditedModel, ...]:
    """Several audits, each with a name of its own."""
    found = [open_result(folder) for folder in folders]
    if names and len(names) != len(found):
        raise ValueError(f"{len(found)} results need {len(found)} names, but saw {len(names)}: separate them by commas")
    choices = (
        list(names),
        shorten_names([one.name for one in found]),
        [f.resolve().name for f in folders],
        list(map(str, folders)),
    )
    chosen = next((c for c in choices if c and len(set(c)) == len(found)), None)
    if chosen is None:
        raise ValueError("the same result was given twice: give each folder once")
    return tuple(replace(one, name=name) for name, one in zip(chosen, found, strict=True))


def shorten_names(names: Sequence[str]) -> list[str]:
    """Paths without the folders and the ending that all of them share; a single one, and other names, stay."""
    parts = [Path(name).parts for name in names]
    most = min(map(len, parts)) - 1  # one word of each stays
    front = shared_prefix(parts, most)
    back = shared_prefix([part[::-1] for part in parts], most - front)
    short = ["/".join(part[front : len(part) - back]) for part in parts]
    return short if len(set(short)) == len(names) > 1 else list(names)


def shared_prefix(parts: Sequence[Sequence[str]], most: int) -> int:
    """How many words all of them begin with."""
    return next((at for at in range(most) if len({part[at] for part in parts}) > 1), max(0, most))
