"""What a worker of a cluster does: hold the model and the data once, and compute pieces of work from them."""

import faulthandler
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import torch
from distributed import WorkerPlugin, get_worker
from jaxtyping import Int, UInt8
from torch import nn

from leastwise import __version__
from leastwise.audit.auditor import Auditor, list_surrogates
from leastwise.core.files import sha256, write_atomic
from leastwise.core.text import one_line
from leastwise.data.dataset import Dataset
from leastwise.jobs.events import ignore
from leastwise.jobs.executor import AuditPiece, AuditWork, keep_images
from leastwise.jobs.folder import CLAIM, RUN, give_back_memory, steady_memory
from leastwise.jobs.train_task import NEEDED_WEIGHTS, TrainRequest, read_training_data
from leastwise.models.answers import ask_again, compare_answers
from leastwise.models.classifier import inference
from leastwise.models.fast.prepare import put_in_form
from leastwise.training.loop import StepProgress
from leastwise.training.resume import FILES as TRAINING_FILES
from leastwise.training.resume import TrainingCallback

MOST_SENT = 1 << 30  # bytes of pixels; larger sets are read by every worker from storage that they share
USER = "leastwise_user_"  # modules that were loaded from a file the user named

SEEN = ".leastwise.seen."  # a file that a worker finds if it sees the same storage

Versions = dict[str, str]


class Refused(NamedTuple):
    """The user's mistake: the same everywhere, so that trying again elsewhere is of no use."""

    sentence: str


class Answer(NamedTuple):
    content: bytes
    seconds: float
    images: tuple[tuple[str, bytes], ...]


def versions() -> Versions:
    return {"leastwise": __version__, "torch": torch.__version__, "numpy": np.__version__}


def pack_work(work: AuditWork) -> bytes:
    """Everything a piece is computed from, as bytes that another process can open."""
    auditor = replace(work.auditor, model=deepcopy(work.auditor.model).to("cpu"))
    for module in unknown_elsewhere(auditor.model):
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(
            {"auditor": auditor, "data": portable(work.data), "form": work.form, "threads": torch.get_num_threads()}
        )
    except Exception as error:  # a foreign model may hold anything
        raise ValueError(
            f"this model or attack cannot be sent to other processes ({type(error).__name__}: {error}): "
            "save the network as a checkpoint, or leave --engine out"
        ) from None


def unknown_elsewhere(model: nn.Module) -> list[ModuleType]:
    """Modules that another process could not import: they travel with the model."""
    names = {type(part).__module__ for part in model.modules()}
    return [sys.modules[name] for name in sorted(names) if name == "__main__" or name.startswith(USER)]


def portable(data: Dataset) -> Dataset:
    """Only the rows that are used; a set that is too large is read by each worker, from storage that they share."""
    held: Any = getattr(data.images, "array", data.images)
    if not isinstance(held, np.ndarray) or len(data) * int(np.prod(data.shape)) > MOST_SENT:
        return data
    rows = data.images[data.rows]
    images = np.ascontiguousarray(rows) if rows.strides[1] > 1 or data.shape[0] > 1 else GreyRows(rows[:, 0])
    return replace(data, images=images, rows=np.arange(len(data)))


class GreyRows:
    """`[n h w]` seen as `[n 1 h w]` as numpy does it: torch has another kernel, with other last bits, for `[n 1 h w]`
    that was made in one piece, and a worker must find the bits that this process would."""

    def __init__(self, array: UInt8[np.ndarray, "n h w"]) -> None:
        self.array, self.shape, self.dtype = np.ascontiguousarray(array), (len(array), 1, *array.shape[1:]), array.dtype

    def __getitem__(self, rows: Int[np.ndarray, " m"], /) -> UInt8[np.ndarray, "m c h w"]:
        return np.asarray(self.array[:, None][rows])


class Inputs(WorkerPlugin):
    """The model and the data of a task. The scheduler gives every worker, also one that comes later, one copy."""

    def __init__(self, content: bytes) -> None:
        self.name = f"leastwise-{sha256(content)}"
        self.content, self.versions = content, versions()

    def setup(self, worker: Any) -> None:
        self.lock = threading.Lock()
        self.work: AuditWork | None = None
        self.opened = 0

    def open(self) -> AuditWork:
        if self.work is None:
            check_versions(self.versions)
            if f"leastwise-{sha256(self.content)}" != self.name:
                raise RuntimeError("the model and the data arrived damaged")
            self.work, self.opened, self.content = unpack_work(self.content), self.opened + 1, b""
        return self.work


def check_versions(wanted: Versions) -> None:
    here = versions()
    other = [f"{name} {here[name]} instead of {wanted[name]}" for name in wanted if here[name] != wanted[name]]
    if other:
        raise ValueError(f"the worker {socket.gethostname()} has {', '.join(other)}: install the same versions there")


def unpack_work(content: bytes) -> AuditWork:
    held = cloudpickle.loads(content)
    torch.set_num_threads(held["threads"])
    steady_memory()
    auditor, data = held["auditor"], held["data"]
    auditor = replace(auditor, model=auditor.model.to(auditor.device))
    check_inputs(auditor, data)
    first = data.batch(np.arange(min(len(data), auditor.batch_size))).x.to(auditor.device)
    with inference(auditor.model):
        prepared = put_in_form(auditor.model, held["form"], first)
    return AuditWork(auditor, data, prepared.form, prepared.model, Path())


def check_inputs(auditor: Auditor, data: Dataset) -> None:
    """Refuse to work with other images, or with a model that answers otherwise here than where it was sent from."""
    here, shared = socket.gethostname(), "put files that it reads on storage that all workers share"
    if auditor.recipe.data != data.digest():
        raise ValueError(f"the worker {here} does not see the same data: {shared}")
    for name, model in {"model": auditor.model, **list_surrogates(auditor.recipe.conditions)}.items():
        kept = auditor.answers.get(name)
        if kept is None:
            continue
        try:
            asked = ask_again(model, data, kept, batch=auditor.batch_size, device=auditor.device)
        except ValueError as error:  # it answered where it was sent from: another worker may do better
            raise RuntimeError(one_line(error)) from error
        found = compare_answers(kept, asked)
        if not found.same:
            raise ValueError(
                f"on the worker {here} the {name} answers otherwise ({found.words}): give it the same files, variables "
                f"of the environment and libraries, and {shared}"
            )
    if auditor.recipe.model != auditor.model.digest():
        raise ValueError(f"the worker {here} does not see the same model: {shared}")


def compute(name: str, wanted: Sequence[Any], limit: float) -> Answer | Refused:
    """A piece, on a worker. One that takes longer than `limit` seconds ends the worker, and another one tries."""
    piece = AuditPiece(*wanted)
    held = get_worker().plugins[name]
    assert isinstance(held, Inputs)
    images: list[tuple[str, bytes]] = []
    with held.lock:  # the number of threads and the mode of the model belong to the process
        try:
            work = held.open()
            begun = time.monotonic()
            with ended_after(limit), inference(work.auditor.model):
                record = work.auditor.attack_piece(
                    piece.condition,
                    work.data,
                    piece.positions,
                    crafted_on=work.crafted_on,
                    keep=keep_images(piece, lambda file, image: images.append((file, image))),
                )
            return Answer(work.pack(piece, record), time.monotonic() - begun, tuple(images))
        except ValueError as error:
            return Refused(one_line(error))
        finally:
            give_back_memory()


class TrainingFiles(NamedTuple):
    """What a worker sends back of a training: files by name, the result last; none if they are where they belong."""

    files: dict[str, bytes]
    seconds: float


def train(wanted: Versions, request: bytes, mark: str, read: dict[str, bytes]) -> TrainingFiles | Refused:
    """A whole training, on a worker."""
    try:
        check_versions(wanted)
        return train_elsewhere(cloudpickle.loads(request), Path(mark), read)
    except ValueError as error:
        return Refused(one_line(error))


def train_elsewhere(request: TrainRequest, mark: Path, read: dict[str, bytes]) -> TrainingFiles:
    """In the folder itself where it is shared, so that a later worker goes on; else in one of the worker's own."""
    begun = time.monotonic()
    if read_training_data(request.job).digest() != request.data:
        raise ValueError("a worker does not see the same data: put it on storage that all workers share")
    if mark.exists():
        request.run(stop_when_unwanted(mark))
        return TrainingFiles({}, time.monotonic() - begun)
    with TemporaryDirectory() as place:
        sent = {name: Path(place) / f"{name}{Path(getattr(request, name)).suffix}" for name in read}
        for name, content in read.items():
            write_atomic(sent[name], content)
        needed: dict[str, Any] = {name: sent.get(name) for name in NEEDED_WEIGHTS}
        done = replace(request, folder=Path(place) / "training", **needed).run(ignore)
        names = [name for name in (CLAIM, *TRAINING_FILES, RUN) if (done.folder / name).is_file()]
        files = {name: (done.folder / name).read_bytes() for name in names if name != done.weights.name}
        files[done.weights.name] = done.weights.read_bytes()
        return TrainingFiles(files, time.monotonic() - begun)


def stop_when_unwanted(mark: Path) -> TrainingCallback:
    """A cancelled task cannot be stopped from outside; it would hold its folder against whoever comes next."""

    def look(event: object) -> None:
        if isinstance(event, StepProgress) and not mark.exists():
            raise RuntimeError("nobody waits for this training any more")

    return look


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """A hanging process cannot stop itself, whatever hangs in it; a timer outside the interpreter can."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
