"""Connecting to a Dask cluster: one that runs already, or one that is started on this machine and ends with us."""

import ipaddress
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import dask
from distributed import Client, LocalCluster
from distributed.security import Security

from leastwise.core.text import first_line
from leastwise.jobs.dask.cluster import DEATHS, PATIENCE, DaskExecutor

# Of a scheduler that is started here: a piece whose worker died is tried on others, workers that are silent for two
# minutes are given up, and a busy machine may take long to start one.
SETTINGS = {
    "distributed.scheduler.allowed-failures": DEATHS,
    "distributed.scheduler.worker-ttl": "120s",
    "distributed.comm.timeouts.connect": "120s",
}


@contextmanager
def connected(
    scheduler: str = "",
    workers: int = 0,
    tls: Path | None = None,
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
        with attached(scheduler, safe, patience) if scheduler else started(workers or 1, safe) as client:
            executor = DaskExecutor(client, limit, patience)
            try:
                yield executor
            finally:
                executor.let_go()


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
