"""Who computes: an executor takes pieces of audits and whole trainings, and hands back what became of them.

This file has the interface and the executor that is this process; `leastwise.jobs.dask` has the one that is a cluster.
A piece is one condition on some examples, and its result a function of them: it may be computed anywhere, twice, or
again after a crash. Whoever asked for it writes it down.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from safetensors.torch import save as save_tensors

from leastwise.audit.auditor import Auditor, ImageKeeper
from leastwise.audit.record import Record
from leastwise.core.counts import Tally
from leastwise.core.files import write_atomic
from leastwise.core.types import Images, Labels
from leastwise.data.dataset import Dataset
from leastwise.jobs.folder import give_back_memory
from leastwise.jobs.train_task import TrainRequest, TrainResult
from leastwise.models.classifier import Classifier
from leastwise.models.fast.prepare import Form


class AuditPiece(NamedTuple):
    """One condition on some examples."""

    name: str  # of the file that holds it
    condition: str
    positions: "np.ndarray"  # in the data set
    wanted: Literal["evidence", "predicted"] = "evidence"


class PieceResult(NamedTuple):
    """What was computed for a piece: a record where it was computed here, and its bytes where they were sent."""

    piece: AuditPiece
    seconds: float
    record: Record | None = None
    content: bytes = b""


class LostPiece(NamedTuple):
    """A piece that could not be computed anywhere, and why."""

    piece: AuditPiece
    reason: str


class NobodyLeft(ValueError):
    """Nobody is left to compute anything."""


PieceListener = Callable[[AuditPiece, float, Tally | None], None]  # images done, and what whole batches of them found
ImageWriter = Callable[[str, bytes], None]  # takes the name and the content of a file with attacked images


@dataclass(frozen=True, eq=False)
class AuditWork:
    """All that the pieces of an audit are computed from."""

    auditor: Auditor
    data: Dataset
    form: Form
    crafted_on: Classifier  # the auditor's model in that form
    images: Path  # the folder of attacked images
    seconds: float | None = None  # that all of it takes at most, on this machine

    def pack(self, piece: AuditPiece, record: Record) -> bytes:
        """What is written down, or sent, of a piece: evidence, or the predicted labels as little-endian int32."""
        if piece.wanted == "predicted":
            return np.ascontiguousarray(record.predicted, dtype="<i4").tobytes()
        return self.auditor.make_evidence(self.data.where(piece.positions), {piece.condition: record}).to_bytes()


WorkItem = TypeVar("WorkItem")
WorkResult = TypeVar("WorkResult")


class WorkSession(ABC, Generic[WorkItem, WorkResult]):
    """Work under way: items are submitted while there is room, and results come back in any order."""

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether another item would be begun at once."""

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether a result is to come."""

    @abstractmethod
    def submit(self, item: WorkItem) -> None:
        """Begin an item."""

    @abstractmethod
    def wait(self) -> WorkResult:
        """Wait for the next result."""


class Executor(ABC):
    """Somebody who computes."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many items are computed at the same time."""

    @property
    @abstractmethod
    def is_remote(self) -> bool:
        """Whether others compute: trainings then run side by side, and say nothing while they run."""

    @abstractmethod
    def open_audit(
        self, work: AuditWork, listen: PieceListener
    ) -> AbstractContextManager[WorkSession[AuditPiece, PieceResult | LostPiece]]:
        """A session for the pieces of one audit."""

    @abstractmethod
    def open_trainings(self) -> AbstractContextManager[WorkSession[TrainRequest, TrainResult]]:
        """A session for whole trainings."""


class LocalSession(WorkSession[WorkItem, WorkResult]):
    """One item at a time, computed when its result is waited for. What fails here ends the session."""

    def __init__(self) -> None:
        self.items: list[WorkItem] = []

    @property
    def has_room(self) -> bool:
        return not self.items

    @property
    def is_busy(self) -> bool:
        return bool(self.items)

    def submit(self, item: WorkItem) -> None:
        self.items.append(item)


class LocalAudit(LocalSession[AuditPiece, PieceResult | LostPiece]):
    """Pieces of one audit, attacked in this process."""

    def __init__(self, work: AuditWork, listen: PieceListener) -> None:
        super().__init__()
        self.work, self.listen = work, listen

    def wait(self) -> PieceResult | LostPiece:
        begun, piece, work = time.monotonic(), self.items.pop(), self.work
        record = work.auditor.attack_piece(
            piece.condition,
            work.data,
            piece.positions,
            crafted_on=work.crafted_on,
            listen=lambda count, so_far: self.listen(piece, count, so_far),
            keep=keep_images(piece, lambda name, images: write_atomic(work.images / name, images)),
        )
        give_back_memory()
        return PieceResult(piece, time.monotonic() - begun, record)


class LocalTrainings(LocalSession[TrainRequest, TrainResult]):
    """Trainings in this process, one after the other."""

    def wait(self) -> TrainResult:
        return self.items.pop().run_here()


def keep_images(piece: AuditPiece, write: ImageWriter) -> ImageKeeper:
    """Hands the attacked images of every batch of a piece on, bit by bit, as the content of a file."""

    def keep(batch: int, ids: Labels, x_adv: Images) -> None:
        arrays = {"ids": ids.cpu().contiguous(), "images": x_adv.cpu().contiguous()}
        write(f"{Path(piece.name).stem}-{batch:03}.safetensors", save_tensors(arrays))

    return keep


class LocalExecutor(Executor):
    """This process, one item after the other."""

    width = 1
    is_remote = False

    @contextmanager
    def open_audit(
        self, work: AuditWork, listen: PieceListener
    ) -> Iterator[WorkSession[AuditPiece, PieceResult | LostPiece]]:
        yield LocalAudit(work, listen)

    @contextmanager
    def open_trainings(self) -> Iterator[WorkSession[TrainRequest, TrainResult]]:
        yield LocalTrainings()


LOCAL = LocalExecutor()
