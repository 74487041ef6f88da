"""What a gate looks at, read from what an audit left, and its verdicts as sentences. Nothing here needs torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from leastwise.audit.evidence import SUMMARY_FILE, Evidence, load_evidence, locate_evidence
from leastwise.core.text import escape_unprintable
from leastwise.report.text import percent, span
from leastwise.statistics.gate.decide import GateOutcome, GateVerdict, Result, SingleImages


def read_result(path: Path) -> Result:
    """Read the evidence of a folder, or else the counts of a summary."""
    if locate_evidence(path).is_file():
        return from_evidence(load_evidence(path))
    file = path / SUMMARY_FILE if path.is_dir() else path
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
    """Counts and single images of an audit."""
    hits = {name: found.correct(name) for name in found.conditions}
    n = np.bincount(found.labels, minlength=found.k)
    counts = {name: (np.bincount(found.labels[hit], minlength=found.k), n) for name, hit in hits.items()}
    return Result(found.names, counts, SingleImages(found.ids, found.labels, hits), found.attacks)


def from_summary(content: Mapping[str, Any]) -> Result:
    """Counts of a summary.json, which knows no single images."""
    names = tuple(escape_unprintable(str(name)) for name in content["classes"])
    counts = {}
    for name, row in content["conditions"].items():
        correct, n = (np.array([int(v) for v in row[part]], dtype=np.int64) for part in ("correct", "n"))
        if len(correct) != len(names) or len(n) != len(names) or (correct < 0).any() or (correct > n).any():
            raise ValueError("counts that cannot be")
        counts[name] = (correct, n)
    recipe = content.get("provenance", {}).get("recipe", {})
    return Result(names, counts, attacks=dict(recipe.get("conditions", ())))


def verdict_sentence(verdict: GateVerdict) -> str:
    """The verdict on one demand, what was seen, and how many images would decide it if it is open."""
    if verdict.term.measure == "cv":
        seen = f"{verdict.estimate:.5f} [{verdict.low:.5f}, {verdict.high:.5f}]"
    else:
        unit = "points" if verdict.term.measure in ("drop", "gap") else "%"
        seen = f"{percent(verdict.estimate)} {unit} {span(verdict.low, verdict.high)}"
    said = f"{verdict.outcome.value:12}  {verdict.term.text}: {seen}"
    said += f" ({verdict.detail})" if verdict.detail else ""
    if verdict.images_needed is not None:
        said += f"; about {verdict.images_needed:,} images in the largest class would decide"
    elif verdict.outcome is GateOutcome.INCONCLUSIVE:
        said += "; it is too close to the limit for any number of images"
    return said
