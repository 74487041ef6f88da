"""The folders that audits write -> what is in them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leastwise.audit.evidence import Evidence, file_in, load
from leastwise.core.text import escape_unprintable
from leastwise.jobs.folder import MANIFEST, RUN, SUMMARY
from leastwise.report.explain.reasons import beside
from leastwise.report.page.page import Audited
from leastwise.statistics.gate.decide import Result, SingleImages


def opened(folder: Path) -> Audited:
    """One audit, under the name of its model as it was typed, or else of its folder."""
    run = facts(folder)
    found = load(folder)
    return Audited(str(run.get("model") or folder.resolve().name), found, run, beside(folder, found))


def opened_all(folders: Sequence[Path], names: Sequence[str] = ()) -> tuple[Audited, ...]:
    """Several audits, each with a name of its own."""
    found = [opened(folder) for folder in folders]
    if names and len(names) != len(found):
        raise ValueError(f"{len(found)} results need {len(found)} names, but saw {len(names)}: separate them by commas")
    choices = (
        list(names),
        told_apart([one.name for one in found]),
        [f.resolve().name for f in folders],
        list(map(str, folders)),
    )
    chosen = next((c for c in choices if c and len(set(c)) == len(found)), None)
    if chosen is None:
        raise ValueError("the same result was given twice: give each folder once")
    return tuple(replace(one, name=name) for name, one in zip(chosen, found, strict=True))


def told_apart(names: Sequence[str]) -> list[str]:
    """Paths without the folders and the ending that all of them share; a single one, and other names, stay."""
    parts = [Path(name).parts for name in names]
    most = min(map(len, parts)) - 1  # one word of each stays
    front = shared(parts, most)
    back = shared([part[::-1] for part in parts], most - front)
    short = ["/".join(part[front : len(part) - back]) for part in parts]
    return short if len(set(short)) == len(names) > 1 else list(names)


def shared(parts: Sequence[Sequence[str]], most: int) -> int:
    """How many words all of them begin with."""
    return next((at for at in range(most) if len({part[at] for part in parts}) > 1), max(0, most))


def facts(folder: Path) -> dict[str, Any]:
    """What a run wrote beside its evidence; nothing where it cannot be read."""
    known: dict[str, Any] = {}
    for name in (MANIFEST, RUN):
        try:
            content = json.loads((folder / name).read_text())
        except (OSError, ValueError):
            continue
        known |= content if isinstance(content, dict) else {}
    return known


def measured(path: Path) -> Result:
    """What a gate looks at: the evidence of a folder, or the counts of a summary."""
    if file_in(path).is_file():
        return from_evidence(load(path))
    file = path / SUMMARY if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"there is no result at {path}: give a folder that `leastwise audit` wrote, or a summary.json")
    try:
        content = json.loads(file.read_text())
        return from_summary(content)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f"{file} is not a summary: give a folder that `leastwise audit` wrote, or its summary.json"
        ) from None


def from_evidence(found: Evidence) -> Result:
    counts = {name: found.tally(name) for name in found.conditions}
    hits = {name: found.correct(name) for name in found.conditions}
    images = SingleImages(found.ids, found.labels, hits)
    tallies = {name: (t.correct.numpy(), t.n.numpy()) for name, t in counts.items()}
    return Result(found.names, tallies, images, found.attacks)


def from_summary(content: Mapping[str, Any]) -> Result:
    names = tuple(escape_unprintable(str(name)) for name in content["classes"])
    counts = {}
    for name, row in content["conditions"].items():
        correct, n = (np.array([int(v) for v in row[part]], dtype=np.int64) for part in ("correct", "n"))
        if len(correct) != len(names) or len(n) != len(names) or (correct < 0).any() or (correct > n).any():
            raise ValueError("counts that cannot be")
        counts[name] = (correct, n)
    recipe = content.get("provenance", {}).get("recipe", {})
    return Result(names, counts, attacks=dict(recipe.get("conditions", ())))
