"""The folder of a job: who may write into it, and its claim, which says whose work the results in it are.

Two claims are of the same work if their models answer alike, which is looked at first, and if their keys and the
digests of what they read are equal. A claim from before answers were kept is believed, unless the evidence beside it
has the same images without attack and other margins.
"""

import contextlib
import ctypes
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leastwise import __version__
from leastwise.audit.evidence import EVIDENCE_FILE, EXPLAIN_FILE, PACKED_FILE, SUMMARY_FILE, Evidence, load_evidence
from leastwise.core.files import check_writable, lock_folder, parse_json, sha256, write_json
from leastwise.core.text import escape_unprintable, name_some, one_line
from leastwise.models.answers import Answers, Likeness, NamedAnswers, compare_answers, compare_margins, read_answers
from leastwise.training.resume import FILES as TRAINING_FILES

CLAIM = "recipe.json"
ANSWERS = "answers"  # what the models of the work answer
VERSION = "leastwise"  # that did it
NOT_COMPARED = (ANSWERS, VERSION, "recipe")  # as text: the key stands for the recipe
MOST_SHOWN = 80  # characters of what a stranger's claim says
REPLACE = "choose another folder, or replace it with --fresh"
FolderClaim = dict[str, Any]  # the recipe of a folder with the digests of what it reads

RUN = "run.json"
MANIFEST = "manifest.json"  # choices that are not part of the recipe, made once and used again on resuming
SHARDS = "shards"  # of an audit that has not attacked everything yet
IMAGES = "adversarial"  # attacked images, if they were asked for
RACE = "race.json"
TWO_PHASE = "two_phase.json"
SECOND = "second"  # the folder of the second phase
OUTPUTS = (*TRAINING_FILES, EVIDENCE_FILE, PACKED_FILE, RACE, TWO_PHASE, SUMMARY_FILE, RUN, MANIFEST)


@dataclass(frozen=True)
class Clock:
    """Where time comes from. No result depends on it: it says how long things took and what fits into a budget."""

    seconds: Callable[[], float] = time.monotonic  # differences count
    date: Callable[[], float] = time.time


CLOCK = Clock()


@contextmanager
def claim_folder(folder: Path, claim: FolderClaim, *, fresh: bool) -> Iterator[None]:
    """Hold the folder for one process and one claim while work is done in it."""
    check_writable(folder)
    with lock_folder(folder):
        make_room(folder, claim, fresh)
        yield


def make_room(folder: Path, claim: FolderClaim, fresh: bool) -> None:
    """Claim the folder. Files of others are never touched, and no result is lost, or mixed with another, by accident.

    What the same work left is kept; of an audit or a race, unless another version did it.
    """
    old, held = read_claim(folder), [name for name in OUTPUTS if (folder / name).exists()]
    if old is None and held:
        raise ValueError(f"{folder} holds {', '.join(held)} of unknown origin: choose another folder")
    other = describe_other(folder, claim)
    if old is not None and old["kind"] != claim["kind"]:
        raise ValueError(f"{folder} holds {other}: choose another folder")
    aged = old is not None and old.get(VERSION) != claim.get(VERSION)
    if aged and not other and claim["kind"] == "training":
        other = "a training that another version began"
    if other and not fresh:
        raise ValueError(f"{folder} holds {other}: {REPLACE}")
    remove_leftovers(folder)
    if fresh or old is None or other or aged:
        for name in OUTPUTS if old is None else (*OUTPUTS, EXPLAIN_FILE):
            (folder / name).unlink(missing_ok=True)
        for name in (SHARDS, IMAGES, SECOND):
            shutil.rmtree(folder / name, ignore_errors=True)
        write_json(folder / CLAIM, claim)


def remove_leftovers(folder: Path) -> None:
    """Remove what a run that was killed while it wrote left of our own files."""
    for name in (*OUTPUTS, CLAIM):
        for left in folder.glob(f".{name}.*"):
            with suppress(OSError):
                left.unlink()


def write_run_facts(
    folder: Path, seconds: float, *, clock: Clock, device: str, about: Mapping[str, Any], notes: Sequence[str] = ()
) -> None:
    """Write down what the recipe does not determine: it stays out of every hash. `notes` are to be repeated with it."""
    facts = {
        "seconds": round(seconds, 1),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock.date())),
        "device": device,
        "threads": torch.get_num_threads(),
        "leastwise": __version__,
        "torch": torch.__version__,
    }
    told = {"notes": list(notes)} if notes else {}
    write_json(folder / RUN, facts | told | dict(about))


def read_run_facts(folder: Path) -> dict[str, Any]:
    """What a run wrote beside its evidence; nothing where it cannot be read."""
    known: dict[str, Any] = {}
    for name in (MANIFEST, RUN):
        try:
            content = parse_json((folder / name).read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        known |= content if isinstance(content, dict) else {}
    return known


# Whose work it is.


def read_claim(folder: Path) -> FolderClaim | None:
    """The claim of a folder, or None if it has none that can be read."""
    try:
        claim = parse_json((folder / CLAIM).read_text("utf-8"))
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
    """The same from evidence. None if there is none to compare."""
    if not any(attack == "Clean" for _, attack in list_conditions(old)) or not (folder / EVIDENCE_FILE).is_file():
        return None
    try:
        return compare_with_clean(load_evidence(folder), asked)
    except (ValueError, OSError):
        return None  # whoever reads it says what is wrong


def compare_with_clean(evidence: Evidence, asked: Answers) -> Likeness | None:
    """Whether a model answers as it did without attack, where evidence has the margin of every image."""
    names = [name for name, attack in evidence.attacks.items() if attack["type"] == "Clean"]
    if not names or names[0] not in evidence.conditions or evidence.k != asked.logits.shape[1]:
        return None
    _, rows, places = np.intersect1d(evidence.ids, asked.ids, return_indices=True)
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


# What the allocator of the C library does with the memory of long work.

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def steady_memory() -> None:
    """Let the allocator keep what operations of attacks free, for the next operation.

    glibc gives blocks beyond a limit back to the system at once, and the system clears every page that is asked for
    anew: of AutoAttack on a small network that was more than half of the time. 32 MB is the largest limit that it
    takes, which batches stay below (`leastwise.models.preflight.find_batch_sizes`); set at the start it also stops
    glibc from moving it. What is kept is given back after every piece of work (`give_back_memory`).
    """
    with contextlib.suppress(OSError, AttributeError):  # other systems have no such call
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 32 << 20)
        libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)


class Returned:
    """When memory was given back last; the system clears what is asked for anew, so not after every short piece."""

    EVERY = 20.0  # seconds
    last = -math.inf


def give_back_memory() -> None:
    """Let the allocator return what is free, now and then."""
    now = time.monotonic()
    if now - Returned.last < Returned.EVERY:
        return
    Returned.last = now
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
