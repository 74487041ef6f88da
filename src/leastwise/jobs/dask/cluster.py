"""Pieces of work on many machines, by Dask: one that is started here, or one that runs already.

The ledger of the task is the truth: workers send results back, whoever asked for them commits them, and a cluster that
dies takes nothing with it but what it was computing.
"""

import itertools
import logging
import math
import os
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import dask
from distributed import Client, Future, KilledWorker, LocalCluster, wait
from distributed.security import Security

from leastwise.core.files import check_writable, write_atomic
from leastwise.core.text import first_line, one_line
from leastwise.jobs.dask.call import call
from leastwise.jobs.dask.returned import check_image_name, place_files
from leastwise.jobs.dask.security import certificates, check_address
from leastwise.jobs.dask.worker import SEEN, Inputs, Refused, pack_work, versions
from leastwise.jobs.events import ignore
from leastwise.jobs.executor import (
    AuditPiece,
    AuditWork,
    Executor,
    LostPiece,
    NobodyLeft,
    PieceListener,
    PieceResult,
    WorkItem,
    WorkResult,
    WorkSession,
)
from leastwise.jobs.train_task import NEEDED_WEIGHTS, TrainRequest, TrainResult

COMPUTE, TRAIN = "leastwise.jobs.dask.worker:compute", "leastwise.jobs.dask.worker:train"
TRIES = 3  # of a piece that fails without ending its worker
DEATHS = 3  # of workers, after which a piece is set aside
SHORTEST_LIMIT = 600.0  # seconds for a piece
SLACK = 20.0  # times the seconds that it takes at most here
TICK = 1.0  # seconds between two looks at the cluster while nothing happens
PATIENCE = 60.0  # seconds without any worker


class DaskExecutor(Executor):
    """The workers of a Dask cluster."""

    is_remote = True

    def __init__(self, client: Client, limit: float | None = None, patience: float = PATIENCE) -> None:
        self.client, self.limit, self.patience = client, limit, patience  # the limit: seconds for a piece
        self.seen, self.looked, self.workers = time.monotonic(), -math.inf, 0  # when there last was a worker
        self.holding: tuple[AuditWork, str] | None = None  # what the workers were given last, and its name

    @property
    def width(self) -> int:
        now = time.monotonic()
        if now - self.looked >= TICK:
            with self.answering():
                self.workers = len(self.client.nthreads())
            self.looked = now
            if self.workers:
                self.seen = now
            elif now - self.seen > self.patience:
                raise NobodyLeft(
                    f"there has been no worker at {self.address} for {self.patience:g} seconds: start one with "
                    f"`dask worker {self.address}` and give the same command again; what is finished is kept"
                )
        return max(1, self.workers)

    @property
    def address(self) -> str:
        return str(self.client.scheduler.address if self.client.scheduler else "the scheduler")

    @contextmanager
    def open_audit(
        self, work: AuditWork, listen: PieceListener
    ) -> Iterator[WorkSession[AuditPiece, PieceResult | LostPiece]]:
        session = AuditSession(self, work)
        try:
            yield session
        finally:
            session.cancel()

    @contextmanager
    def open_trainings(self) -> Iterator[WorkSession[TrainRequest, TrainResult]]:
        session = TrainingSession(self)
        try:
            yield session
        finally:
            session.cancel()

    def hold(self, work: AuditWork) -> str:
        """Give the workers the model and the data of an audit, if they do not hold them; the name they go by."""
        if self.holding is None or self.holding[0] is not work:
            self.let_go()
            held = Inputs(pack_work(work))
            for attempt in range(TRIES):
                try:
                    self.client.register_plugin(held, name=held.name)
                    break
                except (OSError, CancelledError) as error:  # a worker may die while it is told
                    if self.client.status != "running" or attempt == TRIES - 1:
                        raise scheduler_gone(self.address) from error
                    time.sleep(TICK)
            self.holding = (work, held.name)
        return self.holding[1]

    def let_go(self) -> None:
        if self.holding is not None:
            with suppress(Exception):  # the scheduler may be gone
                self.client.unregister_worker_plugin(self.holding[1])
            self.holding = None

    @contextmanager
    def answering(self) -> Iterator[None]:
        """The scheduler is asked; if it does not answer any more, that is one sentence."""
        if self.client.status != "running":
            raise scheduler_gone(self.address)
        try:
            yield
        except TimeoutError:
            raise
        except (OSError, CancelledError) as error:
            raise scheduler_gone(self.address) from error
        if self.client.status != "running":
            raise scheduler_gone(self.address)


class DaskSession(WorkSession[WorkItem, WorkResult]):
    """Items under way on the workers, as many at a time as there are workers: the scheduler's memory does not grow with
    the work, and a worker that dies takes down one item, which is the one to suspect."""

    def __init__(self, executor: DaskExecutor) -> None:
        self.executor, self.run = executor, uuid.uuid4().hex[:8]
        self.running: dict[Future, WorkItem] = {}
        self.ended: list[Future] = []

    @property
    def has_room(self) -> bool:
        return len(self.running) < self.executor.width

    @property
    def is_busy(self) -> bool:
        return bool(self.running)

    def wait_for_one(self) -> tuple[WorkItem, Any]:
        """An item that came to an end, and what a worker returned, or in words why nobody could."""
        while not self.ended:
            with self.executor.answering(), self.executor.client.as_current():
                try:
                    done = wait(list(self.running), timeout=TICK, return_when="FIRST_COMPLETED").done
                    self.ended = [future for future in done if future in self.running]
                except TimeoutError:
                    _ = self.executor.width  # complains when nobody is left
        future = self.ended.pop()
        return self.running.pop(future), self.read_answer(future)

    def read_answer(self, future: Future) -> Any:
        if future.status == "error":
            error = future.exception()
            if isinstance(error, KilledWorker):
                return f"it ended {DEATHS + 1} workers"
            return f"{type(error).__name__}: {one_line(error)}"[:300]
        with self.executor.answering():
            return future.result()

    def cancel(self) -> None:
        with suppress(Exception):  # the scheduler may be gone
            self.executor.client.cancel(list(self.running))


class AuditSession(DaskSession[AuditPiece, PieceResult | LostPiece]):
    """Pieces of one audit on the workers."""

    def __init__(self, executor: DaskExecutor, work: AuditWork) -> None:
        super().__init__(executor)
        self.work, self.name = work, executor.hold(work)

    def submit(self, item: AuditPiece) -> None:
        key, limit = f"{item.name}-{self.run}", self.limit_of(item)
        with self.executor.answering():
            future = self.executor.client.submit(
                call, COMPUTE, self.name, tuple(item), limit, key=key, retries=TRIES - 1, pure=False
            )
        self.running[future] = item

    def limit_of(self, piece: AuditPiece) -> float:
        if self.executor.limit is not None:
            return self.executor.limit
        share = len(piece.positions) / len(self.work.data)
        return max(SHORTEST_LIMIT, SLACK * share * (self.work.seconds or 0.0))

    def wait(self) -> PieceResult | LostPiece:
        piece, answer = self.wait_for_one()
        if isinstance(answer, Refused):
            raise ValueError(answer.sentence)
        if isinstance(answer, str):
            return LostPiece(piece, answer)
        for name, images in answer.images:
            check_image_name(name, piece.name, wanted=self.work.auditor.recipe.images)
            write_atomic(self.work.images / name, images)
        return PieceResult(piece, answer.seconds, content=answer.content)


class TrainingSession(DaskSession[TrainRequest, TrainResult]):
    """Whole trainings, each on one worker. One that dies is replaced by another, which goes on where storage is
    shared: a file in the folder's parent tells a worker whether it sees the same storage."""

    def __init__(self, executor: DaskExecutor) -> None:
        super().__init__(executor)
        self.versions, self.numbers = versions(), itertools.count()
        self.marks: dict[Path, Path] = {}

    def submit(self, item: TrainRequest) -> None:
        mark = self.mark_storage(item.folder.parent)
        read = {name: file.read_bytes() for name in NEEDED_WEIGHTS if (file := getattr(item, name))}
        sent = cloudpickle.dumps(replace(item, listen=ignore))
        key = f"training-{next(self.numbers)}-{self.run}"
        with self.executor.answering():
            future = self.executor.client.submit(
                call, TRAIN, self.versions, sent, str(mark), read, key=key, retries=TRIES - 1, pure=False
            )
        self.running[future] = item

    def mark_storage(self, root: Path) -> Path:
        if root not in self.marks:
            check_writable(root)
            self.marks[root] = root / f"{SEEN}{uuid.uuid4().hex}"
            write_atomic(self.marks[root], b"")
        return self.marks[root]

    def wait(self) -> TrainResult:
        request, answer = self.wait_for_one()
        if isinstance(answer, Refused | str):
            return TrainResult(request, 0.0, answer.sentence if isinstance(answer, Refused) else answer)
        try:
            place_files(request, answer.files)
        except (OSError, ValueError) as error:
            return TrainResult(request, answer.seconds, one_line(error))
        return TrainResult(request, answer.seconds)

    def cancel(self) -> None:
        super().cancel()
        for mark in self.marks.values():
            mark.unlink(missing_ok=True)


def scheduler_gone(address: str) -> NobodyLeft:
    return NobodyLeft(
        f"the scheduler at {address} went away: what is finished is kept, and the same command goes on when it is back"
    )


# Of a scheduler that is started here: a piece whose worker died is tried on others, workers that are silent for two
# minutes are given up, and a busy machine may take long to start one.
SETTINGS = {
    "distributed.scheduler.allowed-failures": DEATHS,
    "distributed.scheduler.worker-ttl": "120s",
    "distributed.comm.timeouts.connect": "120s",
}


@contextmanager
def connect_cluster(
    scheduler: str = "",
    workers: int = 0,
    tls: Path | None = None,
    *,
    plain: bool = False,
    limit: float | None = None,
    patience: float = PATIENCE,
) -> Iterator[DaskExecutor]:
    """The cluster at an address; without one, `workers` processes on this machine that end with us."""
    safe = None if tls is None else certificates(tls)
    if scheduler:
        check_address(scheduler, plain)
    if workers < 0 or (scheduler and workers):
        raise ValueError(f"--workers starts 1 process or more here, without --scheduler, but saw {workers}")
    # What the scheduler says of dead workers is told by the outcome; a task that is set aside is reported.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set({} if scheduler else SETTINGS):
        with attach_client(scheduler, safe, patience) if scheduler else start_workers(workers or 1, safe) as client:
            executor = DaskExecutor(client, limit, patience)
            try:
                yield executor
            finally:
                executor.let_go()


@contextmanager
def attach_client(address: str, safe: Security | None, patience: float) -> Iterator[Client]:
    try:
        client = Client(address, security=safe, timeout=10, set_as_default=False)
    except (OSError, TypeError, ValueError) as error:  # Dask: no answer, no certificate, no such protocol
        raise ValueError(f"cannot reach the scheduler at {address} ({first_line(error)}): is it running?") from None
    try:
        try:
            client.wait_for_workers(1, timeout=patience)
        except TimeoutError:
            raise ValueError(f"the scheduler at {address} has no worker: start `dask worker {address}`") from None
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=2)


@contextmanager
def start_workers(workers: int, safe: Security | None) -> Iterator[Client]:
    """A cluster on this machine, on the loopback interface only, one thread for each worker."""
    with LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        protocol="tls://" if safe else "tcp://",
        security=safe,
        dashboard_address="127.0.0.1:0",  # any free port: another cluster may have the usual one
        memory_limit=None,
        silence_logs=logging.CRITICAL,
    ) as cluster:
        with Client(cluster, security=safe, set_as_default=False) as client:
            yield client


def processors() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
