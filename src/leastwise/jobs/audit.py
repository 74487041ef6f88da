"""Audits and races as tasks: pieces of work that are committed one by one, and put together at the end."""

import itertools
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from leastwise import __version__
from leastwise.audit import race as races
from leastwise.audit.auditor import Auditor, Meanwhile, Planned, Ready, Step, assembled, at_most, tallied
from leastwise.audit.evidence import Record
from leastwise.audit.evidence_file import EVIDENCE_FILE, parse_evidence
from leastwise.audit.race import RaceRecipe, Survived, check, lanes, race
from leastwise.core.counts import Tally
from leastwise.core.files import write_json
from leastwise.core.recipe import recipe_key, to_plain_json
from leastwise.data.dataset import Dataset
from leastwise.jobs.executor import Found, Hands, Lost, Piece, Work
from leastwise.jobs.folder import IMAGES, MANIFEST, RACE, SHARDS, Clock, Task, Watch
from leastwise.jobs.ledger import Ledger, opened
from leastwise.models.classifier import inference
from leastwise.models.fast.prepare import Form, Prepared

SHOWN = 3  # lost pieces that are named
MOST_THREADS = 4096  # more than any machine has: a manifest that says so was not written by us


def audit_task(
    auditor: Auditor,
    data: Dataset,
    folder: Path,
    form: Form | None = None,
    budget: float | None = None,
    about: Mapping[str, Any] | None = None,
) -> Task:
    """`form` is how attacks compute the model; without it, the one in the folder's manifest or the fastest.

    With a budget, in seconds, as many shards are attacked as fit into it, but at least one.
    """

    def work(watch: Watch, hands: Hands, clock: Clock) -> None:
        with opened(folder / SHARDS) as done, inference(auditor.model):
            todo = settled(auditor, data, folder, form, watch)
            most = at_most(todo.auditor, data, todo.crafted_on)
            watch(most)
            found = attack_shards(replace(todo, seconds=most.seconds), hands, done, budget, watch, clock)
            shards = auditor.shards(data)
            chosen = [shards[i] for i in found.shards]
            if not chosen:
                raise ValueError(f"no shard could be attacked: {described(found.lost)}")
            said = (*auditor.warnings, *left_out(data, shards, found))
            records = {
                name: assembled(pieces(done, auditor, found.shards, c), data, chosen)
                for c, (name, _) in enumerate(auditor.recipe.conditions)
            }
            whole = replace(todo.auditor, warnings=said).evidence(data.where(np.concatenate(chosen)), records)
            whole.save(folder / EVIDENCE_FILE)
        if len(chosen) == len(shards):
            shutil.rmtree(folder / SHARDS)

    facts = {"kind": "audit", "key": auditor.key, "leastwise": __version__, "recipe": to_plain_json(auditor.recipe)}
    return Task(
        folder, EVIDENCE_FILE, facts, data.names, work, auditor.device, in_part=budget is not None, about=about or {}
    )


def race_task(
    auditor: Auditor,
    data: Dataset,
    folder: Path,
    recipe: RaceRecipe,
    form: Form | None = None,
    about: Mapping[str, Any] | None = None,
) -> Task:
    """A race under the auditor's one condition; finished rounds are not attacked again."""
    check(data)

    def work(watch: Watch, hands: Hands, _clock: Clock) -> None:
        rounds = []
        with opened(folder / SHARDS) as done, inference(auditor.model):
            attack = attack_rounds(settled(auditor, data, folder, form, watch), hands)
            for found in race(recipe, lanes(auditor, data), remembered(attack, done)):
                rounds.append(found)
                watch(found)
        write_json(folder / RACE, races.facts(rounds, data, auditor, recipe))
        shutil.rmtree(folder / SHARDS)

    facts = {"kind": "race", "key": recipe_key(recipe), "leastwise": __version__, "recipe": to_plain_json(recipe)}
    facts["recipe"]["audit"] = to_plain_json(auditor.recipe)
    return Task(folder, RACE, facts, data.names, work, auditor.device, about=about or {})


def attack_rounds(work: Work, hands: Hands) -> races.Attacked:
    """Attack the images of a round, all classes in shared batches; each batch may be computed elsewhere."""
    ((condition, _),) = work.auditor.recipe.conditions
    size, data = work.auditor.batch_size, work.data

    def run(wanted: Mapping[int, "np.ndarray"]) -> Survived:
        positions = np.concatenate(list(wanted.values()))
        batches = [
            Piece(f"{start:06}", condition, positions[start : start + size], "predicted")
            for start in range(0, len(positions), size)
        ]
        predicted = {}
        for found in hands.pieces(work, iter(batches), lambda piece, done, so_far: None):
            if isinstance(found, Lost):
                raise ValueError(f"a round of the race could not be attacked: {found.reason}")
            predicted[found.piece.name] = np.frombuffer(found.content, dtype="<i4")
        right = np.concatenate([predicted[piece.name] for piece in batches]) == data.labels[positions]
        ends = np.cumsum([len(some) for some in wanted.values()])[:-1]
        return dict(zip(wanted, np.split(right, ends), strict=True))

    return run


def remembered(attack: races.Attacked, done: Ledger) -> races.Attacked:
    """The same attack, which looks first at what an interrupted race committed."""
    numbers = itertools.count()

    def run(wanted: Mapping[int, "np.ndarray"]) -> Survived:
        name = f"{next(numbers):06}.json"
        content = done.read(name)
        if content is not None:
            return {int(c): np.array(bits, dtype=bool) for c, bits in json.loads(content).items()}
        start = time.monotonic()
        found = attack(wanted)
        kept = {str(c): bits.astype(int).tolist() for c, bits in found.items()}
        done.commit(name, json.dumps(kept).encode(), time.monotonic() - start)
        return found

    return run


class Attacked(NamedTuple):
    """Which shards were attacked under every condition, and the pieces that nobody could compute."""

    shards: tuple[int, ...]
    lost: tuple[Lost, ...]


def attack_shards(work: Work, hands: Hands, done: Ledger, budget: float | None, watch: Watch, clock: Clock) -> Attacked:
    """Every condition on every shard, or on as many as the budget allows; what is in the ledger is not done again."""
    auditor, data = work.auditor, work.data
    names = [name for name, _ in auditor.recipe.conditions]
    shards = auditor.shards(data)
    so_far = {name: Tally.empty(data.k) for name in names}
    left = [len(names)] * len(shards)  # pieces of each shard that are not there yet
    where: dict[str, int] = {}  # the shard of each piece that was asked for
    whole: list[int] = []
    lost: list[Lost] = []
    begun, took, ended = clock.seconds(), 0.0, 0

    def fit() -> int:
        """How many shards there is time for, from what the finished ones took in this run or in an earlier one."""
        if budget is None:
            return len(shards)
        each = max(took / max(1, len(whole)) / hands.width, 1e-9)
        room = max(0.0, (budget - (clock.seconds() - begun)) / each)
        return len(whole) + int(min(len(shards) - len(whole), room))

    def add(shard: int, condition: str, record: Record) -> None:
        nonlocal took, ended
        so_far[condition] = so_far[condition] + tallied(data, shards[shard], record)
        ended, left[shard] = ended + 1, left[shard] - 1
        if left[shard] == 0:
            whole.append(shard)
            took += sum(done.seconds(piece_name(shard, c)) for c in range(len(names)))
            if len(whole) == 1:
                each = took / hands.width
                over = budget is not None and clock.seconds() - begun > budget
                watch(Planned(len(shards), max(1, fit()), each * len(shards), over))

    def wanted() -> Iterator[Piece | None]:
        for shard, positions in enumerate(shards):
            while shard >= hands.width and not (whole or lost) and budget is not None:
                yield None  # nobody knows yet how long a shard takes
            if shard and (whole or lost) and shard >= fit():
                return
            for c, condition in enumerate(names):
                record = finished(done, auditor, shard, c)
                if record is not None:
                    add(shard, condition, record)
                    continue
                where[piece_name(shard, c)] = shard
                yield Piece(piece_name(shard, c), condition, positions)

    def heard(piece: Piece, count: float, tally: Tally | None) -> None:
        share = (ended + count / len(piece.positions)) / (len(shards) * len(names))
        if tally is None:
            watch(Meanwhile(piece.condition, share))
        elif count < len(piece.positions):  # the whole piece is told below, when it is safe
            watch(Step(piece.condition, share, so_far[piece.condition] + tally))

    for found in hands.pieces(work, wanted(), heard):
        if isinstance(found, Lost):
            lost.append(found)
            continue
        if found.piece.name not in where:
            continue  # a worker that was thought dead has sent it too
        record = checked(found, auditor, data, done.folder)
        done.commit(found.piece.name, found.content, found.seconds)
        add(where.pop(found.piece.name), found.piece.condition, record)
        watch(Step(found.piece.condition, ended / (len(shards) * len(names)), so_far[found.piece.condition]))
    return Attacked(tuple(sorted(whole)), tuple(lost))


def checked(found: Found, auditor: Auditor, data: Dataset, folder: Path) -> Record:
    """What came back, if it is evidence of these examples under this recipe."""
    evidence = parse_evidence(found.content, folder / found.piece.name)
    asked = np.sort(data.ids[found.piece.positions])
    if evidence.key != auditor.key or not np.array_equal(evidence.ids, asked):
        raise RuntimeError(f"{found.piece.name} came back with the evidence of another recipe or of other examples")
    return evidence.conditions[found.piece.condition]


def piece_name(shard: int, condition: int) -> str:
    return f"{shard:06}-{condition:03}.safetensors"


def finished(done: Ledger, auditor: Auditor, shard: int, condition: int) -> Record | None:
    """What an earlier run found for a piece, if it is whole and of this recipe."""
    name = piece_name(shard, condition)
    content = done.read(name)
    if content is None:
        return None
    found = parse_evidence(content, done.folder / name)
    return found.conditions[auditor.recipe.conditions[condition][0]] if found.key == auditor.key else None


def pieces(done: Ledger, auditor: Auditor, shards: Sequence[int], condition: int) -> Iterator[Record]:
    for shard in shards:
        found = finished(done, auditor, shard, condition)
        if found is None:
            raise ValueError(
                f"{done.folder / piece_name(shard, condition)} was changed while the audit ran: start it again"
            )
        yield found


def left_out(data: Dataset, shards: Sequence["np.ndarray"], found: Attacked) -> tuple[str, ...]:
    """Sentences on what did not fit into the time and on what could not be attacked, for the evidence."""
    said = []
    broken = {piece.name.partition("-")[0] for piece, _ in found.lost}
    missing = sum(len(shards[int(name)]) for name in broken)
    if missing:
        said.append(
            f"{missing:,} of {len(data):,} images could not be attacked and were left out, which may not be by chance: "
            f"{described(found.lost)}"
        )
    count = sum(len(shards[i]) for i in found.shards)
    if count + missing < len(data):
        said.append(
            f"the time budget was enough for {count:,} of {len(data):,} images, drawn at random; "
            "the others were left out"
        )
    return tuple(said)


def described(lost: Sequence[Lost]) -> str:
    shown = [f"shard {int(p.name.partition('-')[0])} under {p.condition} ({reason})" for p, reason in lost[:SHOWN]]
    return ", ".join(shown) + (f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else "")


def settled(auditor: Auditor, data: Dataset, folder: Path, form: Form | None, watch: Watch) -> Work:
    """The choices that are no part of the recipe: made once, written down, and used again when an audit goes on."""
    kept = manifest(folder)
    if kept is not None:
        torch.set_num_threads(kept.threads)
        prepared, batch_size = auditor.prepared(data, kept.form), kept.batch_size
    else:
        prepared, batch_size = auditor.prepared(data, form), auditor.batch_size
        write_json(folder / MANIFEST, chosen(prepared, batch_size))
    watch(Ready(prepared))
    fixed = replace(auditor, batch_size=batch_size)
    return Work(fixed, data, prepared.form, prepared.model, folder / IMAGES)


def chosen(prepared: Prepared, batch_size: int) -> dict[str, Any]:
    form = {"form": asdict(prepared.form), "gain": round(prepared.gain, 3)}
    return form | {"batch_size": batch_size, "threads": torch.get_num_threads()}


class Manifest(NamedTuple):
    form: Form
    batch_size: int
    threads: int


def manifest(folder: Path) -> Manifest | None:
    """The choices of an interrupted audit, so that the rest is computed the same way."""
    try:
        kept = json.loads((folder / MANIFEST).read_text())
        found = Manifest(Form(**kept["form"]), int(kept["batch_size"]), int(kept["threads"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if found.batch_size > 0 and 0 < found.threads <= MOST_THREADS else None
