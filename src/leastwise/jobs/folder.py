"""A task: a recipe in, one finished file out, in a folder that one process at a time works in."""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from leastwise import __version__
from leastwise.audit.auditor import AtMost, Meanwhile, Planned, Ready, Step
from leastwise.audit.evidence_file import EVIDENCE_FILE, PACKED_FILE
from leastwise.core.files import check_writable, lock_folder, write_json
from leastwise.core.memory import steady_memory
from leastwise.jobs.executor import HERE, Hands
from leastwise.statistics.race import Round
from leastwise.training.base import Epoch
from leastwise.training.distributed import ALONE, Ranks
from leastwise.training.loop import StepProgress as Step_of_train
from leastwise.training.resume import FILES
from leastwise.training.resume import MODEL as MODEL_of_train

MODEL, RECIPE, RUN = MODEL_of_train, "recipe.json", "run.json"
MANIFEST = "manifest.json"  # choices that are not part of the recipe, made once and used again on resuming
SHARDS = "shards"  # of an audit that has not attacked everything yet
IMAGES = "adversarial"  # attacked images, if they were asked for
RACE = "race.json"
SUMMARY = "summary.json"  # made from the evidence by the report, and never left beside another audit's
OUTPUTS = (*FILES, EVIDENCE_FILE, PACKED_FILE, RACE, SUMMARY, RUN, MANIFEST)

Event = Step_of_train | Epoch | Step | Meanwhile | Ready | AtMost | Planned | Round
Watch = Callable[[Event], None]


@dataclass(frozen=True)
class Clock:
    """Where time comes from. No result depends on it: it says how long things took and what fits into a budget."""

    seconds: Callable[[], float] = time.monotonic  # differences count
    date: Callable[[], float] = time.time


CLOCK = Clock()


@dataclass(frozen=True, eq=False)
class Task:
    """A job that was checked as far as it can be before anything is written, and its folder."""

    folder: Path
    result: str  # the file whose presence means it is finished; written last, in one piece
    claim: dict[str, Any]  # the recipe with the digests of what it reads; a folder holds one
    names: tuple[str, ...]  # of the classes
    work: Callable[[Watch, Hands, Clock], None]
    device: str
    in_part: bool = False  # whether a result that leaves something out is enough
    ranks: Ranks = ALONE  # processes that share the work; the first one writes
    about: Mapping[str, Any] = field(default_factory=dict)  # what a reader of the results wants to know besides

    @property
    def finished(self) -> bool:
        whole = self.in_part or not (self.folder / SHARDS).exists()
        return whole and (self.folder / self.result).is_file() and claimed(self.folder) == self.claim

    def run(
        self,
        watch: Watch = lambda event: None,
        fresh: bool = False,
        hands: Hands = HERE,
        clock: Clock = CLOCK,
    ) -> Path:
        """Do the work, or find it done; an interrupted training goes on behind its last epoch unless `fresh`."""
        if fresh or not self.finished:
            self.ranks.wait()  # everyone has looked before the first one changes anything
            if self.ranks.first:
                check_writable(self.folder)
            with lock_folder(self.folder) if self.ranks.first else nullcontext():
                if self.ranks.first:
                    make_room(self.folder, self.claim, fresh)
                self.ranks.wait()
                steady_memory()
                begun = clock.seconds()
                self.work(watch, hands, clock)
                if self.ranks.first:
                    facts = run_facts(clock.seconds() - begun, clock.date(), self.device)
                    write_json(self.folder / RUN, facts | dict(self.about))
        return self.folder / self.result


def make_room(folder: Path, claim: dict[str, Any], fresh: bool) -> None:
    """Claim the folder. Files of others are never touched, and a finished training is not lost by accident."""
    old, held = claimed(folder), [name for name in OUTPUTS if (folder / name).exists()]
    if old is None and held:
        raise ValueError(f"{folder} holds {', '.join(held)} of unknown origin: choose another folder")
    if old is not None and old["kind"] != claim["kind"]:
        raise ValueError(f"{folder} holds the results of another kind, {old['kind']}: choose another folder")
    if old not in (None, claim) and claim["kind"] == "training" and not fresh:
        raise ValueError(f"{folder} holds another training: choose another folder, or replace it with --fresh")
    sweep(folder)
    if fresh or old != claim:
        for name in OUTPUTS:
            (folder / name).unlink(missing_ok=True)
        for name in (SHARDS, IMAGES):
            shutil.rmtree(folder / name, ignore_errors=True)
        write_json(folder / RECIPE, claim)


def sweep(folder: Path) -> None:
    """Remove what a run that was killed while it wrote left of our own files."""
    for name in (*OUTPUTS, RECIPE):
        for left in folder.glob(f".{name}.*"):
            with suppress(OSError):
                left.unlink()


def claimed(folder: Path) -> dict[str, Any] | None:
    """The claim of a folder, or None if it has none that can be read."""
    try:
        claim = json.loads((folder / RECIPE).read_text())
        return claim if {"kind", "key"} <= claim.keys() else None
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def run_facts(seconds: float, date: float, device: str) -> dict[str, Any]:
    """What the recipe does not determine: it stays out of every hash."""
    return {
        "seconds": round(seconds, 1),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(date)),
        "device": device,
        "threads": torch.get_num_threads(),
        "leastwise": __version__,
        "torch": torch.__version__,
    }
