"""Runs jobs: a recipe in, one finished file out. The only module that knows where and how work is executed."""

import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save as save_tensors

from leastwise import __version__, ledger
from leastwise import audit as audits
from leastwise import evidence as evidences
from leastwise import race as races
from leastwise import train as trains
from leastwise.data import Dataset, load
from leastwise.evidence import Record
from leastwise.frame import Tally
from leastwise.memory import give_back_memory, steady_memory
from leastwise.models import (
    Classifier,
    build,
    inference,
    load_checkpoint,
    preflight,
)
from leastwise.models.prepare import Form, Prepared
from leastwise.objectives import Epoch
from leastwise.plan import Job, Train
from leastwise.recipe import key, plain
from leastwise.statistics import Round
from leastwise.store import check_writable, write_atomic, write_json
from leastwise.types import Images, Labels

MODEL, RECIPE, RUN = trains.MODEL, "recipe.json", "run.json"
MANIFEST = "manifest.json"  # choices that are not part of the recipe, made once and used again on resuming
SHARDS = "shards"  # of an audit that has not attacked everything yet
IMAGES = "adversarial"  # attacked images, if they were asked for
RACE = "race.json"
SUMMARY = "summary.json"  # made from the evidence by the report, and never left beside another audit's
OUTPUTS = (*trains.FILES, evidences.FILE, evidences.PACKED, RACE, SUMMARY, RUN, MANIFEST)

Event = trains.Step | Epoch | audits.Step | audits.Ready | audits.AtMost | audits.Planned | Round
Watch = Callable[[Event], None]


@dataclass(frozen=True, eq=False)
class Task:
    """A job that was checked as far as it can be before anything is written, and its folder."""

    folder: Path
    result: str  # the file whose presence means it is finished; written last, in one piece
    claim: dict[str, Any]  # the recipe with the digests of what it reads; a folder holds one
    names: tuple[str, ...]  # of the classes
    work: Callable[[Watch], None]
    device: str
    in_part: bool = False  # whether a result that leaves something out is enough
    ranks: trains.Ranks = trains.ALONE  # processes that share the work; the first one writes
    about: Mapping[str, Any] = field(default_factory=dict)  # what a reader of the results wants to know besides

    @property
    def finished(self) -> bool:
        whole = self.in_part or not (self.folder / SHARDS).exists()
        return whole and (self.folder / self.result).is_file() and claimed(self.folder) == self.claim

    def run(self, watch: Watch = lambda event: None, fresh: bool = False) -> Path:
        """Do the work, or find it done; an interrupted training goes on behind its last epoch unless `fresh`."""
        if fresh or not self.finished:
            self.ranks.wait()  # everyone has looked before the first one changes anything
            if self.ranks.first:
                self.make_room(fresh)
            self.ranks.wait()
            steady_memory()
            begun = time.time()
            self.work(watch)
            if self.ranks.first:
                write_json(self.folder / RUN, run_facts(begun, self.device) | dict(self.about))
        return self.folder / self.result

    def make_room(self, fresh: bool) -> None:
        """Claim the folder. Files of others are never touched, and a finished training is not lost by accident."""
        check_writable(self.folder)
        old, held = claimed(self.folder), [name for name in OUTPUTS if (self.folder / name).exists()]
        if old is None and held:
            raise ValueError(f"{self.folder} holds {', '.join(held)} of unknown origin: choose another folder")
        if old is not None and old["kind"] != self.claim["kind"]:
            raise ValueError(f"{self.folder} holds the results of another kind, {old['kind']}: choose another folder")
        if old not in (None, self.claim) and self.claim["kind"] == "training" and not fresh:
            raise ValueError(f"{self.folder} holds another training: choose another folder, or replace it with --fresh")
        if fresh or old != self.claim:
            for name in OUTPUTS:
                (self.folder / name).unlink(missing_ok=True)
            for name in (SHARDS, IMAGES):
                shutil.rmtree(self.folder / name, ignore_errors=True)
            write_json(self.folder / RECIPE, self.claim)


def claimed(folder: Path) -> dict[str, Any] | None:
    """The claim of a folder, or None if it has none that can be read."""
    try:
        claim = json.loads((folder / RECIPE).read_text())
        return claim if {"kind", "key"} <= claim.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def task(
    job: Job,
    folder: Path,
    model: Path | None = None,
    device: str = "cpu",
    threads: int = 0,
    form: Form | None = None,
) -> Task:
    """The task of a job; `model` is the folder of the training that an audit needs. `threads` is for trainings."""
    if isinstance(job, Train):
        return training_task(job, folder, device, threads, form)
    assert model is not None, "an audit needs the folder of its model's training"
    data = subset(load(job.data, split="test"), job.per_class)
    network = load_checkpoint(model / MODEL)
    auditor = audits.auditor(network, data, job.conditions, job.seed, job.batch_size, device)
    return audit_task(auditor, data, folder, job.form)


def training_task(job: Train, folder: Path, device: str = "cpu", threads: int = 0, form: Form | None = None) -> Task:
    """`threads` and `form` are what an interrupted training may not change; 0 and None leave them as they were."""
    data = chosen_classes(subset(load(job.data, split="train"), job.per_class), job.only)
    looks_at_test = job.training.test_at or job.training.validation.on_test
    given = Given(
        data,
        chosen_classes(load(job.test or job.data, split="test"), job.only) if looks_at_test else None,
        load(job.extra, split="train") if job.extra else None,
        Path(job.start) if job.start else None,
    )
    model = build(job.arch, data.shape, data.k, job.mean, job.std, job.training.seed)
    return course_task(job, model, job.training, given, folder, device, threads, form)


class Given(NamedTuple):
    """What a training has besides its recipe."""

    data: Dataset
    test: Dataset | None = None
    extra: Dataset | None = None  # pseudo-labelled images
    start: Path | None = None  # a checkpoint of the same network
    looks: Mapping[str, trains.Look] = {}  # what is measured after every epoch; it changes nothing


def course_task(
    recipe: Any,
    model: Classifier,
    training: trains.Training,
    given: Given,
    folder: Path,
    device: str = "cpu",
    threads: int = 0,
    form: Form | None = None,
    result: str = MODEL,
) -> Task:
    """A training of a fresh network on any images; `recipe` is what its folder is claimed for."""
    ranks, data = trains.joined(device), given.data
    preflight(model, data.batch(np.arange(min(len(data), audits.PREFLIGHT_IMAGES))).x, data.k, gradients=False)
    facts: dict[str, Any] = {"kind": "training", "key": key(recipe), "leastwise": __version__, "data": data.digest()}
    if given.start:
        facts["start"] = begin_with(model, given.start, data)
    held = {}
    if given.extra is not None:
        held["extra"] = same_task(given.extra, data, "pseudo-labelled images")
    if given.test is not None:
        held["test"] = given.test
    facts |= {name: part.digest() for name, part in held.items()}
    if training.validation.on_test:
        held["valid"] = held["test"]
    for policy in training.policies:
        policy.init(torch.from_numpy(data.counts))  # a mistake in a setting is found before anything is written
    course = trains.Course(
        model, data, training, folder, device, threads, form, ranks, **held, looks=given.looks, result=result
    )
    return Task(folder, result, facts | {"recipe": plain(recipe)}, data.names, course.run, device, ranks=ranks)


def begin_with(model: Classifier, start: Path, data: Dataset) -> str:
    """Take over the weights of a checkpoint of the same network; their digest."""
    found = load_checkpoint(start, model.arch, data.shape, data.k)
    model.load_state_dict(found.state_dict())
    return model.digest()


def chosen_classes(data: Dataset, only: tuple[str, ...]) -> Dataset:
    """Some classes, as the only ones there are, in the order given."""
    if not only:
        return data
    numbers = [data.index(int(name) if name.isdigit() and name not in data.names else name) for name in only]
    if len(set(numbers)) < 2 or len(set(numbers)) != len(numbers):
        raise ValueError(f"choose two different classes or more, but saw {', '.join(only)}")
    names = [data.names[c] for c in numbers]
    return data.only(numbers).relabel({c: i for i, c in enumerate(numbers)}, names)


def same_task(extra: Dataset, data: Dataset, what: str) -> Dataset:
    if (extra.shape, extra.names) != (data.shape, data.names):
        raise ValueError(
            f"{what} need the shape {data.shape} and the classes {', '.join(data.names)}, "
            f"but have {extra.shape} and {', '.join(extra.names)}"
        )
    return extra


def audit_task(
    auditor: audits.Auditor,
    data: Dataset,
    folder: Path,
    form: Form | None = None,
    budget: float | None = None,
    about: Mapping[str, Any] | None = None,
) -> Task:
    """`form` is how attacks compute the model; without it, the one in the folder's manifest or the fastest.

    With a budget, in seconds, as many shards are attacked as fit into it, but at least one.
    """

    def work(watch: Watch) -> None:
        with ledger.opened(folder / SHARDS) as done, inference(auditor.model):
            prepared, batch_size = settled(auditor, data, folder, form)
            watch(audits.Ready(prepared))
            fixed = replace(auditor, batch_size=batch_size)
            watch(audits.at_most(fixed, data, prepared.model))
            count = attack_shards(fixed, data, prepared.model, done, budget, watch)
            shards = auditor.shards(data)[:count]
            some = replace(fixed, warnings=(*auditor.warnings, *left_out(data, shards)))
            records = {
                name: audits.assembled(pieces(done, auditor, count, c), data, shards)
                for c, (name, _) in enumerate(auditor.recipe.conditions)
            }
            some.evidence(data.where(np.concatenate(shards)), records).save(folder / evidences.FILE)
        if len(shards) == len(auditor.shards(data)):
            shutil.rmtree(folder / SHARDS)

    facts = {"kind": "audit", "key": auditor.key, "leastwise": __version__, "recipe": plain(auditor.recipe)}
    return Task(
        folder, evidences.FILE, facts, data.names, work, auditor.device, in_part=budget is not None, about=about or {}
    )


def race_task(
    auditor: audits.Auditor,
    data: Dataset,
    folder: Path,
    recipe: races.RaceRecipe,
    form: Form | None = None,
    about: Mapping[str, Any] | None = None,
) -> Task:
    """A race under the auditor's one condition; finished rounds are not attacked again."""
    races.check(data)

    def work(watch: Watch) -> None:
        rounds = []
        with ledger.opened(folder / SHARDS) as done, inference(auditor.model):
            prepared, batch_size = settled(auditor, data, folder, form)
            watch(audits.Ready(prepared))
            attack = races.attacked(replace(auditor, batch_size=batch_size), data, prepared.model)
            for found in races.race(recipe, races.lanes(auditor, data), remembered(attack, done)):
                rounds.append(found)
                watch(found)
        write_json(folder / RACE, races.facts(rounds, data, auditor, recipe))
        shutil.rmtree(folder / SHARDS)

    facts = {"kind": "race", "key": key(recipe), "leastwise": __version__, "recipe": plain(recipe)}
    facts["recipe"]["audit"] = plain(auditor.recipe)
    return Task(folder, RACE, facts, data.names, work, auditor.device, about=about or {})


def remembered(attack: races.Attacked, done: ledger.Ledger) -> races.Attacked:
    """The same attack, which looks first at what an interrupted race committed."""
    numbers = itertools.count()

    def run(wanted: Mapping[int, "np.ndarray"]) -> races.Survived:
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


def attack_shards(
    auditor: audits.Auditor,
    data: Dataset,
    crafted_on: Classifier,
    done: ledger.Ledger,
    budget: float | None,
    watch: Watch,
) -> int:
    """Every condition on one shard after the other; what is in the ledger is not done again. How many were done."""
    begun, took = time.monotonic(), 0.0
    names = [name for name, _ in auditor.recipe.conditions]
    shards = auditor.shards(data)
    so_far = {name: Tally.empty(data.k) for name in names}
    for i, positions in enumerate(shards):
        for c, name in enumerate(names):
            before = so_far[name]

            def heard(found: int, tally: Tally, i: int = i, c: int = c, n: int = int(before.n.sum())) -> None:
                share = (found - n) / len(shards[i])
                watch(audits.Step(names[c], (i + (c + share) / len(names)) / len(shards), tally))

            found = finished(done, auditor, i, c)
            if found is None:
                start = time.monotonic()
                keep = partial(keep_images, done.folder.parent / IMAGES, i, c)
                found = auditor.piece(name, data, positions, crafted_on, before, heard, keep)
                one = auditor.evidence(data.where(positions), {name: found})
                done.commit(piece_name(i, c), one.to_bytes(), time.monotonic() - start)
            so_far[name] = before + audits.tallied(data, positions, found)
        give_back_memory()
        took += sum(done.seconds(piece_name(i, c)) for c in range(len(names)))  # in this run or in an earlier one
        each, left = took / (i + 1), np.inf if budget is None else budget - (time.monotonic() - begun)
        fit = i + 1 + int(min(len(shards) - i - 1, max(0.0, left / max(each, 1e-9))))
        if i == 0:
            watch(audits.Planned(len(shards), fit, each * len(shards), over=left < 0))
        if i + 1 >= fit:
            return i + 1
    return len(shards)


def keep_images(folder: Path, shard: int, condition: int, batch: int, ids: Labels, x_adv: Images) -> None:
    """The attacked images of a batch, bit by bit."""
    arrays = {"ids": ids.cpu().contiguous(), "images": x_adv.cpu().contiguous()}
    write_atomic(folder / f"{shard:06}-{condition:03}-{batch:03}.safetensors", save_tensors(arrays))


def piece_name(shard: int, condition: int) -> str:
    return f"{shard:06}-{condition:03}.safetensors"


def finished(done: ledger.Ledger, auditor: audits.Auditor, shard: int, condition: int) -> Record | None:
    """What an earlier run found for a piece, if it is whole and of this recipe."""
    name = piece_name(shard, condition)
    content = done.read(name)
    if content is None:
        return None
    found = evidences.parsed(content, done.folder / name)
    return found.conditions[auditor.recipe.conditions[condition][0]] if found.key == auditor.key else None


def pieces(done: ledger.Ledger, auditor: audits.Auditor, shards: int, condition: int) -> Iterator[Record]:
    for shard in range(shards):
        found = finished(done, auditor, shard, condition)
        if found is None:
            raise ValueError(
                f"{done.folder / piece_name(shard, condition)} was changed while the audit ran: start it again"
            )
        yield found


def left_out(data: Dataset, shards: Sequence["np.ndarray"]) -> tuple[str, ...]:
    """A sentence on what did not fit into the time, for the evidence."""
    count = sum(map(len, shards))
    said = (
        f"the time budget was enough for {count:,} of {len(data):,} images, drawn at random; the others were left out"
    )
    return () if count == len(data) else (said,)


def settled(auditor: audits.Auditor, data: Dataset, folder: Path, form: Form | None) -> tuple[Prepared, int]:
    """The choices that are no part of the recipe: made once, written down, and used again when an audit goes on."""
    kept = manifest(folder)
    if kept is not None:
        torch.set_num_threads(kept.threads)
        return auditor.prepared(data, kept.form), kept.batch_size
    prepared = auditor.prepared(data, form)
    chosen = {"form": asdict(prepared.form), "gain": round(prepared.gain, 3)}
    write_json(folder / MANIFEST, chosen | {"batch_size": auditor.batch_size, "threads": torch.get_num_threads()})
    return prepared, auditor.batch_size


class Manifest(NamedTuple):
    form: Form
    batch_size: int
    threads: int


def manifest(folder: Path) -> Manifest | None:
    """The choices of an interrupted audit, so that the rest is computed the same way."""
    try:
        kept = json.loads((folder / MANIFEST).read_text())
        return Manifest(Form(**kept["form"]), int(kept["batch_size"]), int(kept["threads"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def subset(data: Dataset, per_class: int | None) -> Dataset:
    return data if per_class is None else data.take(per_class)


def run_facts(begun: float, device: str) -> dict[str, Any]:
    """What the recipe does not determine: it stays out of every hash."""
    return {
        "seconds": round(time.time() - begun, 1),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "device": device,
        "threads": torch.get_num_threads(),
        "leastwise": __version__,
        "torch": torch.__version__,
    }
