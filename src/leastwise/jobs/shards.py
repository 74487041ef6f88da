"""The course of an audit through its shards: what is attacked next, what is safe, and what was found so far.

A piece is committed in two steps, the file (whole or absent) and then its line in a ledger (sqlite), so that a run that
is killed at any moment finds only whole pieces when it goes on. A file that is missing, cut short or edited does not
match its line and counts as not done.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leastwise.audit.evidence import Evidence, parse_evidence
from leastwise.audit.record import SUMS, Record, RecordColumns
from leastwise.core.counts import Tally
from leastwise.core.files import lock_folder, parse_json, sha256, write_atomic
from leastwise.data.dataset import Dataset
from leastwise.jobs.events import AuditListener, Meanwhile, Planned, Step
from leastwise.jobs.executor import AuditPiece, AuditWork, Executor, LostPiece, PieceResult, WorkSession
from leastwise.jobs.folder import ANSWERS, REPLACE, Clock, FolderClaim, read_all_answers
from leastwise.models.answers import compare_answers

SHOWN = 3  # lost pieces that are named
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


class ShardCourse:
    """How far an audit has come: which pieces are to be attacked next, and what was found."""

    def __init__(
        self,
        work: AuditWork,
        executor: Executor,
        ledger: Ledger | None,
        budget: float | None,
        listen: AuditListener,
        clock: Clock,
    ) -> None:
        self.work, self.executor, self.ledger, self.budget = work, executor, ledger, budget
        self.listen, self.clock, self.begun = listen, clock, clock.seconds()
        self.names = [name for name, _ in work.auditor.recipe.conditions]
        self.shards = work.auditor.shards(work.data)
        self.columns = {name: ShardColumns(self.shards) for name in self.names}
        self.so_far = {name: Tally.empty(work.data.k) for name in self.names}
        self.seconds = [0.0] * len(self.shards)  # of each shard's pieces
        self.left = [len(self.names)] * len(self.shards)  # pieces of each shard that are not there yet
        self.asked: dict[str, int] = {}  # the shard of each piece that is under way
        self.whole: list[int] = []
        self.lost: list[LostPiece] = []
        self.place, self.ended = 0, 0  # the next piece, and how many are there

    def submit_pieces(self, session: WorkSession[AuditPiece, PieceResult | LostPiece]) -> None:
        """Begin as many pieces as there is room for; pieces that an earlier run committed are taken on the way."""
        while session.has_room and (piece := self.next_piece()) is not None:
            session.submit(piece)

    def next_piece(self) -> AuditPiece | None:
        """The next piece that has to be attacked; None if there is none, or none yet."""
        while self.place < len(self.shards) * len(self.names):
            shard, number = divmod(self.place, len(self.names))
            if number == 0 and not self.may_begin(shard):
                return None
            self.place += 1
            name, condition = piece_name(shard, number), self.names[number]
            record = self.read_committed(name, condition, self.shards[shard])
            if record is None:
                self.asked[name] = shard
                return AuditPiece(name, condition, self.shards[shard])
            assert self.ledger is not None
            self.add(shard, condition, record, seconds=self.ledger.seconds(name))
        return None

    def may_begin(self, shard: int) -> bool:
        """Whether there is time for another shard. At first nobody knows how long one takes."""
        if self.budget is None or shard == 0:
            return True
        if not (self.whole or self.lost):
            return shard < self.executor.width
        return shard < self.count_fitting()

    def count_fitting(self) -> int:
        """How many shards there is time for, from what the finished ones took in this run or in an earlier one."""
        if self.budget is None:
            return len(self.shards)
        took = sum(self.seconds[shard] for shard in self.whole)
        each = max(took / max(1, len(self.whole)) / self.executor.width, 1e-9)
        room = max(0.0, (self.budget - (self.clock.seconds() - self.begun)) / each)
        return len(self.whole) + int(min(len(self.shards) - len(self.whole), room))

    def read_committed(self, name: str, condition: str, positions: "np.ndarray") -> Record | None:
        """What an earlier run found for a piece, if it is whole and of this recipe."""
        content = None if self.ledger is None else self.ledger.read(name)
        if content is None or self.ledger is None:
            return None
        found = parse_evidence(content, self.ledger.folder / name)
        asked = np.sort(self.work.data.ids[positions])
        same = found.key == self.work.auditor.key and np.array_equal(found.ids, asked)
        return found.conditions.get(condition) if same else None

    def take(self, result: PieceResult | LostPiece) -> None:
        """Write down what was computed for a piece."""
        if isinstance(result, LostPiece):
            self.lost.append(result)
            return
        name, condition = result.piece.name, result.piece.condition
        if name not in self.asked:
            return  # a worker that was thought dead has sent it too
        record = result.record or self.check(result)
        if self.ledger is not None:
            content = result.content or self.work.pack(result.piece, record)
            self.ledger.commit(name, content, result.seconds)
        self.add(self.asked.pop(name), condition, record, seconds=result.seconds)
        self.listen(Step(condition, self.ended / (len(self.shards) * len(self.names)), self.so_far[condition]))

    def check(self, result: PieceResult) -> Record:
        """What came back from elsewhere, if it is evidence of these examples under this recipe."""
        evidence = parse_evidence(result.content, Path(result.piece.name))
        asked = np.sort(self.work.data.ids[result.piece.positions])
        if evidence.key != self.work.auditor.key or not np.array_equal(evidence.ids, asked):
            raise RuntimeError(f"{result.piece.name} came back with the evidence of another recipe or other examples")
        return evidence.conditions[result.piece.condition]

    def add(self, shard: int, condition: str, record: Record, *, seconds: float) -> None:
        positions = self.shards[shard]
        self.so_far[condition] = self.so_far[condition] + count_correct(self.work.data, positions, record)
        self.columns[condition].put(shard, record)
        self.seconds[shard] += seconds
        self.ended, self.left[shard] = self.ended + 1, self.left[shard] - 1
        if self.left[shard] == 0:
            self.whole.append(shard)
            if len(self.whole) == 1:
                each = self.seconds[shard] / self.executor.width
                over = self.budget is not None and self.clock.seconds() - self.begun > self.budget
                fit = max(1, self.count_fitting())
                self.listen(Planned(len(self.shards), fit, each * len(self.shards), over))

    def hear(self, piece: AuditPiece, count: float, tally: Tally | None) -> None:
        """Tell of progress inside a piece. The whole piece is told of when it is safe."""
        share = (self.ended + count / len(piece.positions)) / (len(self.shards) * len(self.names))
        if tally is None:
            self.listen(Meanwhile(piece.condition, share))
        elif count < len(piece.positions):
            self.listen(Step(piece.condition, share, self.so_far[piece.condition] + tally))

    def make_evidence(self) -> Evidence:
        """Put together what every condition found on the shards that are whole, and say what was left out."""
        if not self.whole:
            raise ValueError(f"no shard could be attacked: {describe_lost(self.lost)}")
        chosen = sorted(self.whole)
        positions = np.concatenate([self.shards[shard] for shard in chosen])
        order = np.argsort(self.work.data.ids[positions])
        columns = self.columns if not self.lost else {name: self.reread(name, chosen) for name in self.names}
        records = {name: columns[name].join(chosen, order) for name in self.names}
        auditor = self.work.auditor
        told = replace(auditor, warnings=(*auditor.warnings, *self.describe_missing(chosen)))
        data = self.work.data if len(chosen) == len(self.shards) else self.work.data.where(positions)
        return told.make_evidence(data, records)

    def reread(self, condition: str, chosen: Sequence[int]) -> "ShardColumns":
        """The committed pieces once more: sums already hold shards that lost another piece later."""
        columns = ShardColumns(self.shards)
        for shard in chosen:
            name = piece_name(shard, self.names.index(condition))
            record = self.read_committed(name, condition, self.shards[shard])
            if record is None:
                raise ValueError(f"{name} was changed while the audit ran: start it again")
            columns.put(shard, record)
        return columns

    def describe_missing(self, chosen: Sequence[int]) -> tuple[str, ...]:
        """Sentences on what did not fit into the time and on what could not be attacked, for the evidence."""
        said, total = [], len(self.work.data)
        broken = {lost.piece.name.partition("-")[0] for lost in self.lost}
        missing = sum(len(self.shards[int(name)]) for name in broken)
        if missing:
            said.append(
                f"{missing:,} of {total:,} images could not be attacked and were left out, which may not be by chance: "
                f"{describe_lost(self.lost)}"
            )
        count = sum(len(self.shards[shard]) for shard in chosen)
        if count + missing < total:
            said.append(
                f"the time budget was enough for {count:,} of {total:,} images, drawn at random; "
                "the others were left out"
            )
        return tuple(said)


class ShardColumns:
    """One condition on all shards. Shards come in any order; their sums are added in the order of the shards."""

    def __init__(self, shards: Sequence["np.ndarray"]) -> None:
        self.starts = np.concatenate([[0], np.cumsum([len(shard) for shard in shards])]).tolist()
        self.columns = RecordColumns(self.starts[-1])
        self.waiting: dict[int, dict[str, Any]] = {}  # sums of shards whose turn has not come
        self.added = 0  # shards whose sums are in

    def put(self, shard: int, record: Record) -> None:
        self.columns.put(record, self.starts[shard])
        self.waiting[shard] = {name: getattr(record, name) for name in SUMS}
        while self.added in self.waiting:
            self.columns.add_sums(self.waiting.pop(self.added))
            self.added += 1

    def join(self, chosen: Sequence[int], order: "np.ndarray") -> Record:
        """The record of some shards, their rows in a given order."""
        for shard in sorted(self.waiting):
            self.columns.add_sums(self.waiting.pop(shard))
        rows = np.concatenate([np.arange(self.starts[shard], self.starts[shard + 1]) for shard in chosen])
        return self.columns.whole(rows[order])


def count_correct(data: Dataset, positions: "np.ndarray", found: Record) -> Tally:
    y = data.labels[positions]
    return Tally.count(torch.from_numpy(y), torch.from_numpy(found.predicted == y), data.k)


def piece_name(shard: int, condition: int) -> str:
    return f"{shard:06}-{condition:03}.safetensors"


def describe_lost(lost: Sequence[LostPiece]) -> str:
    shown = [f"shard {int(p.name.partition('-')[0])} under {p.condition} ({reason})" for p, reason in lost[:SHOWN]]
    return ", ".join(shown) + (f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else "")
