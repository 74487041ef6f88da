"""The claim of a folder: which work its results are of, and whether that is the work that is asked for now.

Two claims are of the same work if their models answer alike, which is looked at first, and if their keys and the
digests of what they read are equal. A claim from before answers were kept is believed, unless the evidence beside it
has the same images without attack and other margins.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from leastwise import __version__
from leastwise.audit.evidence import EVIDENCE_FILE, load_evidence
from leastwise.core.files import parse_json, sha256
from leastwise.core.text import escape_unprintable, name_some, one_line
from leastwise.models.answers import Answers, Likeness, NamedAnswers, compare_answers, compare_margins, read_answers

CLAIM = "recipe.json"
ANSWERS = "answers"  # what the models of the work answer
VERSION = "leastwise"  # that did it
NOT_COMPARED = (ANSWERS, VERSION, "recipe")  # as text: the key stands for the recipe
MOST_SHOWN = 80  # characters of what a stranger's claim says
REPLACE = "choose another folder, or replace it with --fresh"

FolderClaim = dict[str, Any]  # the recipe of a folder with the digests of what it reads


def read_claim(folder: Path) -> FolderClaim | None:
    """The claim of a folder, or None if it has none that can be read."""
    try:
        claim = parse_json((folder / CLAIM).read_text())
        return claim if {"kind", "key"} <= claim.keys() else None
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def job_key(claim: FolderClaim) -> str:
    """The key of the job that a claim is for. A training's claim is its job's; an audit's also says what was found."""
    return str(claim.get("job", claim["key"]))


def is_same_major(version: str) -> bool:
    return version.partition(".")[0] == __version__.partition(".")[0]


def tell_answers(answers: NamedAnswers) -> dict[str, Any]:
    """What a claim says of the models; nothing where none was asked."""
    return {ANSWERS: {name: one.to_json() for name, one in answers.items()}} if answers else {}


def digest_answers(folder: Path) -> str:
    """A digest of what the models of a folder's work answered, for what is made from it; empty if nobody wrote it."""
    held = (read_claim(folder) or {}).get(ANSWERS)
    return sha256(json.dumps(held, sort_keys=True).encode()) if held else ""


def describe_other(folder: Path, claim: FolderClaim) -> str:
    """Why the results in a folder are of other work than a claim, as the end of "FOLDER holds …"; empty if not so."""
    old = read_claim(folder)
    if old is None:
        return ""
    kind = claim["kind"]
    if old["kind"] != kind:
        return f"the results of another kind, {escape_unprintable(one_line(old['kind']))[:MOST_SHOWN]}"
    for name, likeness in compare_models(folder, old, claim).items():
        if not likeness.same:
            return f"the {kind} of another {name}: it is asked for the same images, and {likeness.words}"
    if any(old.get(part) != value for part, value in claim.items() if part not in NOT_COMPARED):
        return f"another {kind}{describe_work(old)}"
    return ""


def is_stale(folder: Path, claim: FolderClaim) -> bool:
    """Whether a folder holds other work than a claim, or the same by another version."""
    old = read_claim(folder)
    return old is not None and (old.get(VERSION) != claim.get(VERSION) or bool(describe_other(folder, claim)))


def is_result_of(folder: Path, claim: FolderClaim) -> bool:
    """Whether results in a folder, if it has any, are those of a claim. Versions of one major number agree."""
    old = read_claim(folder)
    return old is not None and is_same_major(str(old.get(VERSION, ""))) and not describe_other(folder, claim)


def describe_likeness(folder: Path, claim: FolderClaim) -> str:
    """What it was seen from that results are of the model that a claim is for, where that is less than usual."""
    old = read_claim(folder)
    seen = {} if old is None else compare_models(folder, old, claim)
    if old is not None and ANSWERS not in old and ANSWERS in claim:
        since = "it is from before answers were kept, so the model was compared by its digest"
        return "; ".join([since, *(one.words for one in seen.values())])
    return "; ".join(one.words for one in seen.values() if not one.usual)


def compare_models(folder: Path, old: FolderClaim, new: FolderClaim) -> dict[str, Likeness]:
    """How the models of two claims answer, by whose answers they are; nothing where the images are others."""
    if digest_of_data(old) != digest_of_data(new):
        return {}
    held, asked = (read_all_answers(claim) for claim in (old, new))
    if held or "model" not in asked:
        return {name: compare_answers(held[name], one) for name, one in asked.items() if name in held}
    found = compare_with_evidence(folder, old, asked["model"])
    return {} if found is None else {"model": found}


def read_all_answers(claim: FolderClaim) -> dict[str, Answers]:
    """What the models of a claim answer, as far as it says so."""
    held = claim.get(ANSWERS)
    found = {name: read_answers(one) for name, one in held.items()} if isinstance(held, dict) else {}
    return {name: one for name, one in found.items() if one is not None}


def compare_with_evidence(folder: Path, old: FolderClaim, asked: Answers) -> Likeness | None:
    """The same from evidence: without attack it has the margin of every image. None if there is none to compare."""
    names = [name for name, attack in list_conditions(old) if attack == "Clean"]
    if not names or not (folder / EVIDENCE_FILE).is_file():
        return None
    try:
        evidence = load_evidence(folder)
    except (ValueError, OSError):
        return None  # whoever reads it says what is wrong
    _, rows, places = np.intersect1d(evidence.ids, asked.ids, return_indices=True)
    if names[0] not in evidence.conditions or evidence.k != asked.logits.shape[1]:
        return None
    margins = evidence.conditions[names[0]].margin[rows]
    return compare_margins(asked, places, labels=evidence.labels[rows], margins=margins)


def describe_work(claim: FolderClaim) -> str:
    """What a claim is of, in brackets and in few words."""
    names = [name for name, _ in list_conditions(claim)]
    return f" ({name_some([one_line(name)[:MOST_SHOWN] for name in names])})" if names else ""


def list_conditions(claim: FolderClaim) -> list[tuple[str, str]]:
    """The names of the conditions of an audit or a race, and of the types of their attacks."""
    held = recipe_of_audit(claim).get("conditions")
    pairs = [one for one in held if isinstance(one, list) and len(one) == 2] if isinstance(held, list) else []
    return [(str(name), str(attack.get("type")) if isinstance(attack, dict) else "") for name, attack in pairs]


def digest_of_data(claim: FolderClaim) -> object:
    """The digest of the images that models are asked for."""
    return claim.get("data", recipe_of_audit(claim).get("data"))


def recipe_of_audit(claim: FolderClaim) -> Mapping[str, Any]:
    """The recipe of an audit, or of the audit that a race would be."""
    recipe = claim.get("recipe")
    recipe = recipe.get("audit", recipe) if isinstance(recipe, dict) else {}
    return recipe if isinstance(recipe, dict) else {}
