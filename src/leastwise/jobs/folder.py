"""The folder of a job: who may write into it, which job it belongs to, and which pieces of work are safe in it.

A piece is committed in two steps, the file (whole or absent) and then its line in a ledger (sqlite), so that a run that
is killed at any moment finds only whole pieces when it goes on. A file that is missing, cut short or edited does not
match its line and counts as not done.
"""

import contextlib
import ctypes
import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from leastwise import __version__
from leastwise.audit.evidence import EVIDENCE_FILE, EXPLAIN_FILE, PACKED_FILE, SUMMARY_FILE
from leastwise.core.files import check_writable, lock_folder, parse_json, sha256, write_atomic, write_json
from leastwise.jobs.claims import (
    ANSWERS,
    CLAIM,
    REPLACE,
    VERSION,
    FolderClaim,
    describe_other,
    read_all_answers,
    read_claim,
)
from leastwise.models.answers import compare_answers
from leastwise.training.resume import FILES as TRAINING_FILES

RUN = "run.json"
MANIFEST = "manifest.json"  # choices that are not part of the recipe, made once and used again on resuming
SHARDS = "shards"  # of an audit that has not attacked everything yet
IMAGES = "adversarial"  # attacked images, if they were asked for
RACE = "race.json"
TWO_PHASE = "two_phase.json"
SECOND = "second"  # the folder of the second phase
OUTPUTS = (*TRAINING_FILES, EVIDENCE_FILE, PACKED_FILE, RACE, TWO_PHASE, SUMMARY_FILE, RUN, MANIFEST)
LEDGER = "ledger.sqlite"
TABLE = """
create table if not exists pieces (name text primary key, digest text not null, seconds real not null) without rowid
"""
MODELS = "create table if not exists models (answers text not null)"  # of the models that made the pieces

# Lines that no run writes. Whoever made them also made what they say of the files beside them.
STRANGE = """
select count(*) from pieces where typeof(name) != 'text' or typeof(digest) != 'text' or length(digest) != 64
or typeof(seconds) not in ('real', 'integer') or not seconds between 0 and 1e9
"""


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
            content = parse_json((folder / name).read_text())
        except (OSError, ValueError, RecursionError):
            continue
        known |= content if isinstance(content, dict) else {}
    return known


@dataclass(frozen=True, eq=False)
class Ledger:
    """The pieces in one folder that are safe. Use it inside `open_ledger`."""

    folder: Path
    lines: sqlite3.Connection

    def commit(self, name: str, content: bytes, seconds: float) -> None:
        write_atomic(self.folder / name, content)
        with as_system_error(self.folder / LEDGER), self.lines:
            self.lines.execute("insert or replace into pieces values (?, ?, ?)", (name, sha256(content), seconds))

    def read(self, name: str) -> bytes | None:
        """The content of a finished piece; None if it was never finished, or is not what was committed."""
        with as_system_error(self.folder / LEDGER):
            line = self.lines.execute("select digest from pieces where name = ?", (name,)).fetchone()
        try:
            content = (self.folder / name).read_bytes()
        except OSError:
            return None
        return content if line is not None and line[0] == sha256(content) else None

    def check_models(self, claim: FolderClaim) -> None:
        """Refuse pieces that models of other answers made; whoever begins a ledger writes down what its own answer."""
        with as_system_error(self.folder / LEDGER), self.lines:
            self.lines.execute(MODELS)
            line = self.lines.execute("select answers from models").fetchone()
            begun = self.lines.execute("select 1 from pieces").fetchone()
            if line is None and begun is None:
                self.lines.execute("insert into models values (?)", (json.dumps(claim.get(ANSWERS, {})),))
        held = read_all_answers({ANSWERS: parse_json(line[0])}) if line else {}
        for name, one in read_all_answers(claim).items():
            if name in held and not (found := compare_answers(held[name], one)).same:
                raise ValueError(f"{self.folder} holds pieces of another {name} ({found.words}): {REPLACE}")

    def seconds(self, name: str) -> float:
        """How long a finished piece took."""
        with as_system_error(self.folder / LEDGER):
            line = self.lines.execute("select seconds from pieces where name = ?", (name,)).fetchone()
        return 0.0 if line is None else float(line[0])


@contextmanager
def open_ledger(folder: Path | None) -> Iterator[Ledger | None]:
    """The ledger of a folder, for one process at a time; None for work that is kept in memory only."""
    if folder is None:
        yield None
        return
    with lock_folder(folder):
        lines = connect(folder / LEDGER)
        try:
            yield Ledger(folder, lines)
        finally:
            lines.close()


@contextmanager
def as_system_error(path: Path) -> Iterator[None]:
    """Turn what sqlite says of a disk that is full, or of a file that may not be written, into the system's error."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise OSError(None, str(error), str(path)) from None


def connect(path: Path) -> sqlite3.Connection:
    """Open a ledger. One that cannot be read says nothing about what is done: it begins anew."""
    if path.is_symlink() or path.parent.is_symlink():
        raise ValueError(f"{path} is reached by a link, which leastwise never makes: look who did, and remove it")
    with as_system_error(path):
        lines = sqlite3.connect(path)
    try:
        lines.execute(TABLE)
        made = {" ".join(str(text).split()) for (text,) in lines.execute("select lower(sql) from sqlite_master")}
        ours = {" ".join(table.replace("if not exists ", "").split()) for table in (TABLE, MODELS)}
        if not made <= ours or lines.execute(STRANGE).fetchone()[0]:
            raise sqlite3.DatabaseError("not as we write them")
    except (sqlite3.DatabaseError, UnicodeError, OverflowError):
        lines.close()
        path.unlink(missing_ok=True)
        with as_system_error(path):
            lines = sqlite3.connect(path)
            lines.execute(TABLE)
    with as_system_error(path):
        lines.commit()
    return lines


# What the allocator of the C library does with the memory of long work.

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def steady_memory() -> None:
    """Keep blocks of 4 MB and more out of the heap, where gaps between small blocks add up: 150 MB over 50 shards.

    glibc does so by itself until the first of them is freed, and then raises the limit to 32 MB. With huge pages (see
    the command line) and a heap that is not cut back at every turn this costs no time.
    """
    with contextlib.suppress(OSError, AttributeError):  # other systems have no such call
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 4 << 20)
        libc.mallopt(M_TRIM_THRESHOLD, 512 << 20)


def give_back_memory() -> None:
    """Let the allocator return what is free."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
