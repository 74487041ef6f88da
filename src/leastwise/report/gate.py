"""What a gate looks at, read from what an audit left, and its verdicts as sentences. Nothing here needs torch."""

import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from leastwise.audit.evidence import SUMMARY_FILE, Evidence, load_evidence, locate_evidence
from leastwise.core.files import parse_json, write_json
from leastwise.core.text import escape_unprintable, percent, span
from leastwise.report.kept_images import KIND, from_kept
from leastwise.statistics.gate.decide import GateOutcome, GateVerdict, Result, SingleImages

MOST_IMAGES = 10**12  # of a class: counts add up far below what 64 bits hold


def read_result(path: Path) -> Result:
    """Read the evidence of a folder, or else the counts of a summary."""
    if locate_evidence(path).is_file():
        return from_evidence(load_evidence(path), path)
    file = path / SUMMARY_FILE if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"there is no result at {path}: give a folder that `leastwise audit` wrote, or a summary.json")
    try:
        content = parse_json(file.read_text("utf-8"))
        return from_kept(content) if content.get("kind") == KIND else from_summary(content)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ValueError(
            f"{file} is not a summary: give a folder that `leastwise audit` wrote, or its summary.json"
        ) from None


def refuse_sampled(path: Path, conditions: Collection[str]) -> None:
    """Raise ValueError if a demand is about an attack that was tried on a sample of images only."""
    file = path / "two_phase.json"
    try:
        told = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    except ValueError:
        return
    if told.get("condition") in conditions:
        raise ValueError(
            f"{told['condition']} was tried on a sample of survivors in {path}, and a gate needs every image: audit "
            f"without --two-phase, or demand something of {told['first']}"
        )


def from_evidence(found: Evidence, path: Path | None = None) -> Result:
    """Counts and single images of an audit, with what the summary beside it warns of, if it has a place."""
    hits = {name: found.correct(name) for name in found.conditions}
    n = np.bincount(found.labels, minlength=found.k)
    counts = {name: (np.bincount(found.labels[hit], minlength=found.k), n) for name, hit in hits.items()}
    model = str(json.loads(found.recipe).get("model", ""))
    warnings, doubted = read_doubts(found, path)
    images = SingleImages(found.ids, found.labels, hits)
    return Result(found.names, counts, images, found.attacks, model, found.data, warnings, doubted)


def read_doubts(found: Evidence, path: Path | None) -> tuple[tuple[str, ...], frozenset[str]]:
    """What has to be known of an audit, and the conditions that seem to have failed: from the summary beside it.

    Without one everything is looked for again, which takes the seconds that torch needs.
    """
    try:
        folder = Path(os.devnull) if path is None else path if path.is_dir() else path.parent
        content = parse_json((folder / SUMMARY_FILE).read_text("utf-8"))
        if content["key"] == found.key and "doubted" in content:
            told = warnings_of(content)
            fired = [check for check in found.checks if check.fires]  # a summary can be edited
            said = tuple(check.sentence(found.names) for check in fired)
            names = {name for check in fired for name in check.conditions}
            return tuple(dict.fromkeys((*said, *told[0], *found.cautions()))), told[1] | names
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    from leastwise.audit.masking import cautions, doubted_conditions

    return cautions(found), doubted_conditions(found)


def warnings_of(content: Mapping[str, Any]) -> tuple[tuple[str, ...], frozenset[str]]:
    """The same of a summary; where it is from before conditions were named, an unreliable one doubts all attacks."""
    told = tuple(escape_unprintable(str(one)) for one in content.get("warnings", ()))
    every = [name for name in content["conditions"] if name != "clean"] if content.get("unreliable") else []
    return told, frozenset(escape_unprintable(str(name)) for name in content.get("doubted", every))


def from_summary(content: Mapping[str, Any]) -> Result:
    """Counts of a summary.json, which knows no single images."""
    names = tuple(escape_unprintable(str(name)) for name in content["classes"])
    counts = {}
    for name, row in content["conditions"].items():
        if not all(type(v) is int and 0 <= v <= MOST_IMAGES for part in ("correct", "n") for v in row[part]):
            raise ValueError("counts that cannot be")
        correct, n = (np.array(row[part], dtype=np.int64) for part in ("correct", "n"))
        if len(correct) != len(names) or len(n) != len(names) or (correct > n).any():
            raise ValueError("counts that cannot be")
        counts[escape_unprintable(str(name))] = (correct, n)
    recipe = content.get("provenance", {}).get("recipe", {})
    model, data = (str(recipe.get(part, "")) for part in ("model", "data"))
    return Result(names, counts, None, dict(recipe.get("conditions", ())), model, data, *warnings_of(content))


LOOKS_FILE = "gate.json"  # beside the evidence: at how many images a gate for one look was asked


def remember_look(path: Path, result: Result) -> str:
    """Write down that a gate for one look was asked; a warning if it was asked before on fewer images."""
    file = (path if path.is_dir() else path.parent) / LOOKS_FILE
    try:
        content = parse_json(file.read_text("utf-8"))
        looks = [
            look for look in content["looks"] if isinstance(look["images"], int) and isinstance(look["model"], str)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        looks = []
    images = max((int(n.sum()) for _, n in result.counts.values()), default=0)
    now = {"model": result.model, "images": images}
    earlier = sorted({look["images"] for look in looks if look["model"] == result.model and look["images"] < images})
    if now not in looks:
        with suppress(OSError):  # a result that may only be read is still judged
            write_json(file, {"looks": [*looks, now]})
    if not earlier:
        return ""
    seen = ", ".join(f"{n:,}" for n in earlier)
    return (
        f"this gate was asked before on {seen} of the {images:,} images: asked again and again as images are added, it "
        f"errs 9 % a side instead of 2.5; decide on a number of images beforehand, or ask with --anytime"
    )


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
        said += f"; about {verdict.images_needed:,} images in the largest class would decide in 80 % of cases"
    elif verdict.doubted:
        said += (
            f"; {verdict.term.condition} seems to have failed, so accuracies are too high and no number of images "
            "decides: demand something of square or autoattack"
        )
    elif verdict.outcome is GateOutcome.INCONCLUSIVE:
        said += "; it is too close to the limit for any number of images"
    if verdict.visible is not None:
        said += (
            f". Unpaired: a class must fall about {percent(verdict.visible)} points to be seen; "
            f"keep the images of BASE that are right (`leastwise gate BASE --keep FILE`) and give FILE as the base"
        )
    return said
