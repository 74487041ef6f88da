"""Who computes the pieces of a task: this process, or others (`leastwise.jobs.dask.cluster`).

A piece is one condition on some examples, and its result a function of them: it may be computed anywhere, twice, or
again after a crash. Whoever asked for it writes it down.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from safetensors.torch import save as save_tensors

from leastwise.audit.auditor import Auditor
from leastwise.core.counts import Tally
from leastwise.core.files import write_atomic
from leastwise.core.memory import give_back_memory
from leastwise.core.types import Images, Labels
from leastwise.data.dataset import Dataset
from leastwise.models.classifier import Classifier
from leastwise.models.fast.prepare import Form


class Piece(NamedTuple):
    """One condition on some examples."""

    name: str  # of the file that holds it
    condition: str
    positions: "np.ndarray"  # in the data set
    wanted: Literal["evidence", "predicted"] = "evidence"


class Found(NamedTuple):
    """What was computed for a piece: evidence as bytes, or the predicted labels as little-endian int32."""

    piece: Piece
    content: bytes
    seconds: float


class Lost(NamedTuple):
    """A piece that could not be computed anywhere, and why."""

    piece: Piece
    reason: str


class Gone(ValueError):
    """Nobody is left to compute anything."""


Heard = Callable[[Piece, float, Tally | None], None]  # of a piece: images done, and what was found in whole batches
Kept = Callable[[str, bytes], None]  # name and content of a file with attacked images


@dataclass(frozen=True, eq=False)
class Work:
    """All that the pieces of a task are computed from."""

    auditor: Auditor
    data: Dataset
    form: Form
    crafted_on: Classifier  # the auditor's model in that form
    images: Path  # the folder of attacked images
    seconds: float | None = None  # that all of it takes at most, on this machine

    def compute(self, piece: Piece, heard: Heard, kept: Kept) -> bytes:
        def done(count: float, so_far: Tally | None) -> None:
            heard(piece, count, so_far)

        found = self.auditor.piece(
            piece.condition,
            self.data,
            piece.positions,
            self.crafted_on,
            Tally.empty(self.data.k),
            done,
            partial(keep_images, kept, Path(piece.name).stem),
        )
        if piece.wanted == "predicted":
            return np.ascontiguousarray(found.predicted, dtype="<i4").tobytes()
        return self.auditor.evidence(self.data.where(piece.positions), {piece.condition: found}).to_bytes()


def keep_images(kept: Kept, name: str, batch: int, ids: Labels, x_adv: Images) -> None:
    """The attacked images of a batch, bit by bit."""
    arrays = {"ids": ids.cpu().contiguous(), "images": x_adv.cpu().contiguous()}
    kept(f"{name}-{batch:03}.safetensors", save_tensors(arrays))


@runtime_checkable
class Hands(Protocol):
    @property
    def width(self) -> int:
        """Pieces that are computed at the same time."""
        ...

    def pieces(self, work: Work, wanted: Iterator[Piece | None], heard: Heard) -> Iterator[Found | Lost]:
        """What was wanted, in any order. Pieces are drawn from `wanted` shortly before they are begun.

        None means that the next one is known only after another result.
        """
        ...

    def trainings(self, wanted: Iterator[Any]) -> Iterator[Any]:
        """Whole trainings, side by side where there are several processes."""
        ...


@dataclass(frozen=True)
class Local:
    """This process, one piece after the other. What fails here ends the task."""

    width: int = 1

    def pieces(self, work: Work, wanted: Iterator[Piece | None], heard: Heard) -> Iterator[Found | Lost]:
        for piece in wanted:
            assert piece is not None, "whatever was wanted before is here"
            begun = time.monotonic()
            content = work.compute(piece, heard, lambda name, images: write_atomic(work.images / name, images))
            yield Found(piece, content, time.monotonic() - begun)
            give_back_memory()

    def trainings(self, wanted: Iterator[Any]) -> Iterator[Any]:
        raise AssertionError("trainings here are run one by one")


HERE = Local()
