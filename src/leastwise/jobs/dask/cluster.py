"""Pieces of work on many machines, by Dask: one that is started here, or one that runs already.

The ledger of the task is the truth: workers send results back, whoever asked for them commits them, and a cluster that
dies takes nothing with it but what it was computing.
"""

import ipaddress
import itertools
import logging
import math
import os
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cloudpickle
import dask
from distributed import Client, Future, KilledWorker, LocalCluster, wait
from distributed.security import Security

from leastwise.core.files import write_atomic
from leastwise.core.text import first_line
from leastwise.jobs.dask.call import call
from leastwise.jobs.dask.worker import Inputs, Refused, packed, versions
from leastwise.jobs.errands import Brought, Errand
from leastwise.jobs.executor import Found, Gone, Heard, Lost, Piece, Work

COMPUTE, TRAIN = "leastwise.jobs.dask.worker:compute", "leastwise.jobs.dask.worker:train"
TRIES = 3  # of a piece that fails without ending its worker
DEATHS = 3  # of workers, after which a piece is set aside
SHORTEST_LIMIT = 600.0  # seconds for a piece
SLACK = 20.0  # times the seconds that it takes at most here
TICK = 1.0  # seconds between two looks at the cluster while nothing happens
PATIENCE = 60.0  # seconds without any worker

# Of a scheduler that is started here: a piece whose worker died is tried on others, workers that are silent for two
# minutes are given up, and a busy machine may take long to start one.
SETTINGS = {
    "distributed.scheduler.allowed-failures": DEATHS,
    "distributed.scheduler.worker-ttl": "120s",
    "distributed.comm.timeouts.connect": "120s",
}


@dataclass(eq=False)
class Cluster:
    """Hands elsewhere."""

    client: Client
    limit: float | None = None  # seconds for a piece
    patience: float = PATIENCE
    seen: float = field(default_factory=time.monotonic)  # when there last was a worker
    looked: float = -math.inf
    workers: int = 0
    holding: tuple[Work, str] | None = None  # what the workers were given last, and its name

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
                raise Gone(
                    f"there has been no worker at {self.address} for {self.patience:g} seconds: start one with "
                    f"`dask worker {self.address}` and give the same command again; what is finished is kept"
                )
        return max(1, self.workers)

    @property
    def address(self) -> str:
        return str(self.client.scheduler.address if self.client.scheduler else "the scheduler")

    def pieces(self, work: Work, wanted: Iterator[Piece | None], heard: Heard) -> Iterator[Found | Lost]:
        """As many at a time as there are workers: the scheduler's memory does not grow with the task, and a worker that
        dies takes down one piece, which is the one to suspect."""
        name, run, running = self.hold(work), uuid.uuid4().hex[:8], dict[Future, Piece]()

        def fill() -> None:
            while len(running) < self.width and (piece := next(wanted, None)) is not None:
                running[self.begin(name, run, piece, self.limit_of(work, piece))] = piece

        try:
            fill()
            while running:
                for future in self.ended(list(running)):
                    piece = running.pop(future)
                    found = self.outcome(future, piece, work)
                    fill()  # workers go on while this process writes
                    yield found
                fill()
        finally:
            with suppress(Exception):  # the scheduler may be gone
                self.client.cancel(list(running))

    def hold(self, work: Work) -> str:
        """Give the workers the model and the data of a task, if they do not hold them; the name they go by."""
        if self.holding is None or self.holding[0] is not work:
            self.let_go()
            held = Inputs(packed(work))
            for attempt in range(TRIES):
                try:
                    self.client.register_plugin(held, name=held.name)
                    break
                except (OSError, CancelledError) as error:  # a worker may die while it is told
                    if self.client.status != "running" or attempt == TRIES - 1:
                        raise gone(self.address) from error
                    time.sleep(TICK)
            self.holding = (work, held.name)
        return self.holding[1]

    def let_go(self) -> None:
        if self.holding is not None:
            with suppress(Exception):  # the scheduler may be gone
                self.client.unregister_worker_plugin(self.holding[1])
            self.holding = None

    def trainings(self, wanted: Iterator[tuple[Errand, Path] | None]) -> Iterator[tuple[Errand, Brought | str]]:
        """Each on one worker, or in words why not. One that dies is replaced by another, which goes on where storage
        is shared."""
        known, run, numbers, running = versions(), uuid.uuid4().hex[:8], itertools.count(), dict[Future, Errand]()

        def fill() -> None:
            while len(running) < self.width and (one := next(wanted, None)) is not None:
                errand, mark = one
                read = {str(file.relative_to(errand.root)): file.read_bytes() for file in errand.reads}
                sent = cloudpickle.dumps(errand)
                key = f"training-{next(numbers)}-{run}"
                with self.answering():
                    future = self.client.submit(
                        call, TRAIN, known, sent, str(mark), read, key=key, retries=TRIES - 1, pure=False
                    )
                running[future] = errand

        try:
            fill()
            while running:
                for future in self.ended(list(running)):
                    done, answer = running.pop(future), self.answer(future)
                    yield done, answer.sentence if isinstance(answer, Refused) else answer
                fill()
        finally:
            with suppress(Exception):
                self.client.cancel(list(running))

    def limit_of(self, work: Work, piece: Piece) -> float:
        if self.limit is not None:
            return self.limit
        share = len(piece.positions) / len(work.data)
        return max(SHORTEST_LIMIT, SLACK * share * (work.seconds or 0.0))

    def begin(self, name: str, run: str, piece: Piece, limit: float) -> Future:
        with self.answering():
            return self.client.submit(
                call, COMPUTE, name, tuple(piece), limit, key=f"{piece.name}-{run}", retries=TRIES - 1, pure=False
            )

    def ended(self, running: list[Future]) -> list[Future]:
        """Those that came to an end; waits for one."""
        while True:
            with self.answering(), self.client.as_current():
                try:
                    return list(wait(running, timeout=TICK, return_when="FIRST_COMPLETED").done)
                except TimeoutError:
                    _ = self.width  # complains when nobody is left

    def outcome(self, future: Future, piece: Piece, work: Work) -> Found | Lost:
        answer = self.answer(future)
        if isinstance(answer, Refused):
            raise ValueError(answer.sentence)
        if isinstance(answer, str):
            return Lost(piece, answer)
        for name, images in answer.images:
            write_atomic(work.images / name, images)
        return Found(piece, answer.content, answer.seconds)

    def answer(self, future: Future) -> Any:
        """What a worker returned, or in words why nobody could."""
        if future.status == "error":
            error = future.exception()
            if isinstance(error, KilledWorker):
                return f"it ended {DEATHS + 1} workers"
            return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
        with self.answering():
            return future.result()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """The scheduler is asked; if it does not answer any more, that is one sentence."""
        if self.client.status != "running":
            raise gone(self.address)
        try:
            yield
        except TimeoutError:
            raise
        except (OSError, CancelledError) as error:
            raise gone(self.address) from error
        if self.client.status != "running":
            raise gone(self.address)


def gone(address: str) -> Gone:
    return Gone(
        f"the scheduler at {address} went away: what is finished is kept, and the same command goes on when it is back"
    )


@contextmanager
def connected(
    scheduler: str = "",
    workers: int = 0,
    tls: Path | None = None,
    plain: bool = False,
    limit: float | None = None,
    patience: float = PATIENCE,
) -> Iterator[Cluster]:
    """Hands of the cluster at an address; without one, of `workers` processes on this machine that end with us."""
    safe = None if tls is None else certificates(tls)
    if scheduler:
        check_address(scheduler, plain)
    if workers < 0 or (scheduler and workers):
        raise ValueError(f"--workers starts 1 process or more here, without --scheduler, but saw {workers}")
    # What the scheduler says of dead workers is told by the outcome; a task that is set aside is reported.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set({} if scheduler else SETTINGS):
        with attached(scheduler, safe, patience) if scheduler else started(workers or 1, safe) as client:
            hands = Cluster(client, limit, patience)
            try:
                yield hands
            finally:
                hands.let_go()


@contextmanager
def attached(address: str, safe: Security | None, patience: float) -> Iterator[Client]:
    try:
        client = Client(address, security=safe, timeout=10, set_as_default=False)
    except (OSError, TypeError, ValueError) as error:  # Dask: no answer, no certificate, no such protocol
        raise ValueError(f"cannot reach the scheduler at {address} ({first_line(error)}): is it running?") from None
    try:
        try:
            client.wait_for_workers(1, timeout=patience)
        except TimeoutError:
            raise ValueError(
                f"the scheduler at {address} has no worker: start one with `dask worker {address}`"
            ) from None
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=2)


@contextmanager
def started(workers: int, safe: Security | None) -> Iterator[Client]:
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


def check_address(address: str, plain: bool) -> None:
    """Whoever reaches a scheduler can run code on its workers: nothing leaves the machine without encryption."""
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or port is None or parts.scheme not in ("tcp", "tls"):
        raise ValueError(f"--scheduler is like tls://machine:8786, but saw {address!r}")
    if parts.scheme == "tcp" and not is_loopback(host) and not plain:
        raise ValueError(
            f"{address} leaves this machine without encryption, and whoever reaches it can run code there: use tls:// "
            "with --tls DIR, or --plain-tcp on a network that is yours alone"
        )


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def certificates(folder: Path) -> Security:
    """`cert.pem` and `key.pem` of this machine, and `ca.pem` to check others with; alone, `cert.pem` is for both."""
    cert, key, ca = (folder / name for name in ("cert.pem", "key.pem", "ca.pem"))
    for file in (cert, key):
        if not file.is_file():
            raise ValueError(f"there is no {file}: --tls names a folder with cert.pem, key.pem and, if wanted, ca.pem")
    sides = {
        f"tls_{side}_{part}": str(file)
        for side in ("client", "scheduler", "worker")
        for part, file in (("cert", cert), ("key", key))
    }
    return Security(require_encryption=True, tls_ca_file=str(ca if ca.is_file() else cert), **sides)


def processors() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
