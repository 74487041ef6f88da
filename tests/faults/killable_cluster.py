"""Networks with traps, and a cluster of real processes on the loopback interface that tests may kill."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leastwise.attacks.base import Clean
from leastwise.attacks.goals import CE
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.audit.auditor import Auditor, make_auditor
from leastwise.audit.evidence import parse_evidence
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import AuditTask
from leastwise.jobs.folder import SHARDS
from leastwise.jobs.shards import LEDGER

ROOT = Path(__file__).parents[2]
TRAPS = "LEASTWISE_TEST_TRAPS"  # a folder, known to workers only: what they find there happens to them
SHAPE, K, SHARD = (3, 8, 6), 5, 7
CONDITIONS = (("clean", Clean()), ("pgd5", PGD(Linf(0.1), CE(), step=0.03, steps=5, keep="fooled")))


class Trapped(nn.Module):
    """A small network. In a worker it is slow, dies, hangs or fails when a file of that name says so."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.weight = nn.Parameter(torch.randn(K, int(np.prod(SHAPE)), generator=generator) / 5)

    def forward(self, x: Tensor) -> Tensor:
        if traps := os.environ.get(TRAPS):
            spring(Path(traps), x)
        return x.flatten(1) @ self.weight.T


def spring(traps: Path, x: Tensor) -> None:
    if (traps / "slow").exists():
        time.sleep(float((traps / "slow").read_text()))
    for name, happens in (("die", die), ("hang", lambda: time.sleep(3600)), ("fail", fail)):
        with suppress(FileNotFoundError):
            (traps / name).rename(traps / f"{name} happened to {os.getpid()}")  # to one of them, once
            happens()
    if (traps / "poison").exists() and bool(
        (x.flatten(1).sum(1) - float((traps / "poison").read_text())).abs().min() < 1e-4
    ):
        (traps / f"poisoned {os.getpid()}").touch()
        die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    raise RuntimeError("a trap")


def images(n: int = 33) -> Dataset:
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(n) % K)
    return Dataset.of(
        rng.integers(0, 256, (n, *SHAPE), dtype=np.uint8),
        labels,
        ("ant", "bee", "cow", "dog", "elk"),
        ids=1000 + 7 * rng.permutation(n),
    )


def checked(data: Dataset, shard: int = SHARD, images: bool = False) -> Auditor:
    return make_auditor(Trapped(), data, CONDITIONS, batch_size=4, shard=shard, images=images, force=True)


def task(data: Dataset, folder: Path, shard: int = SHARD, images: bool = False) -> AuditTask:
    return AuditTask(checked(data, shard, images), data, folder)


def committed(folder: Path) -> dict[str, int]:
    """How often each piece stands in the ledger."""
    path = folder / SHARDS / LEDGER
    if not path.exists():
        return {}
    with suppress(sqlite3.Error):
        lines = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return dict(lines.execute("select name, count(*) from pieces group by name"))
        finally:
            lines.close()
    return {}


class Machines:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path, silence: str) -> None:
        self.folder, self.port, self.begun = folder, 0, list[subprocess.Popen[bytes]]()
        self.silence = silence  # after which the scheduler gives a worker up
        self.traps = folder / "traps"
        self.traps.mkdir(parents=True, exist_ok=True)
        self.schedule()

    def schedule(self) -> None:
        place = self.folder / "scheduler.json"
        place.unlink(missing_ok=True)
        self.scheduler = self.start(
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--scheduler-file",
            str(place),
            "--no-dashboard",
        )
        self.address = str(json.loads(wait_for(lambda: place.exists() and place.read_text()))["address"])
        self.port = int(self.address.rpartition(":")[2])

    def worker(self, *more: str) -> subprocess.Popen[bytes]:
        return self.start(
            "worker",
            self.address,
            "--nthreads",
            "1",
            "--no-nanny",
            "--no-dashboard",
            "--host",
            "127.0.0.1",
            "--memory-limit",
            "0",
            *more,
        )

    def start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"OMP_NUM_THREADS": "1", TRAPS: str(self.traps)}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        environment |= {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": self.silence}
        with (self.folder / f"{kind}.log").open("ab") as log:
            command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments]
            process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)
        self.begun.append(process)
        return process

    def set(self, trap: str, text: str = "") -> None:
        (self.traps / trap).write_text(text)

    def happened(self, trap: str) -> int:
        return len(list(self.traps.glob(f"{trap} happened*")))

    def __enter__(self) -> "Machines":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.begun:
            if process.poll() is None:
                process.kill()
            process.wait()


@contextmanager
def machines(folder: Path, workers: int = 2, silence: str = "120s") -> Iterator[Machines]:
    folder.mkdir(parents=True, exist_ok=True)
    with Machines(folder, silence) as held:
        for _ in range(workers):
            held.worker()
        yield held


def wait_for(look: Callable[[], Any], seconds: float = 600.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


def account(record: Callable[[str, object], None], faults: int, found: bytes, whole: bytes) -> None:
    """Count what a disturbed run lost against an undisturbed one of the same recipe, for the summary."""
    some, all_of_it = parse_evidence(found, Path("found")), parse_evidence(whole, Path("whole"))
    shard = json.loads(all_of_it.recipe)["shard"]
    missing, extra = np.setdiff1d(all_of_it.ids, some.ids), len(some.ids) - len(np.unique(some.ids))
    counts = {"lost": -(-len(missing) // shard), "twice": -(-extra // shard)}
    counts |= {"faults": faults, "identical": int(found == whole), "different": int(found != whole)}
    for name, value in counts.items():
        record(name, value)
    assert found == whole
