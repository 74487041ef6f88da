"""Folders that others use, disks that are full or closed, clocks that lie: one sentence, and nothing is damaged."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leastwise.audit.evidence import EVIDENCE_FILE
from leastwise.core.files import LOCK, lock_folder
from leastwise.jobs.audit_task import AuditTask
from leastwise.jobs.events import Step
from leastwise.jobs.executor import AuditWork, LocalAudit, LocalExecutor, LostPiece, PieceListener, PieceResult
from leastwise.jobs.folder import Clock
from tests.faults.killable_cluster import account, checked, committed, images, task, wait_for

Record = Callable[[str, object], None]
HOLD = "import sys, time; from pathlib import Path; from leastwise.core.files import lock_folder\n"
HOLD += "with lock_folder(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return task(images(), tmp_path_factory.mktemp("whole")).run().read_bytes()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "audit")], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_run_is_refused_by_name_and_a_dead_one_is_taken_over(
    holder: subprocess.Popen[str], undisturbed: bytes, tmp_path: Path, record_property: Record
) -> None:
    folder = tmp_path / "audit"
    for fresh in (False, True):  # not even --fresh may take a folder from under another run
        with pytest.raises(ValueError, match=rf"process {holder.pid} on \S+ is working in .*audit: wait for it"):
            task(images(), folder).run(fresh=fresh)
    assert [path.name for path in folder.iterdir()] == [LOCK]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (folder / LOCK).exists()  # stale
    account(record_property, 3, task(images(), folder).run().read_bytes(), undisturbed)
    assert not (folder / LOCK).exists()


def test_the_lock_goes_with_the_run_whatever_happens(tmp_path: Path) -> None:
    with pytest.raises(KeyError), lock_folder(tmp_path):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with lock_folder(tmp_path), pytest.raises(ValueError, match=f"process {os.getpid()} on"):
        with lock_folder(tmp_path):
            pass


def limited(size: int) -> None:
    """A disk that is full after some bytes: no file may grow beyond them."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.parametrize("size", [0, 100, 2000, 4000])
def test_a_full_disk_is_an_error_of_the_system_and_the_run_goes_on_later(
    size: int, undisturbed: bytes, tmp_path: Path, record_property: Record
) -> None:
    folder = tmp_path / "audit"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    limited(size)
    try:
        with pytest.raises(OSError) as seen:  # the front door makes one sentence of it
            task(images(), folder).run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert seen.value.filename or seen.value.strerror
    assert not (folder / EVIDENCE_FILE).exists()
    left = [path.name for path in folder.rglob(".*")]
    assert left == []  # no half-written file, no lock
    account(record_property, 1, task(images(), folder).run().read_bytes(), undisturbed)


@pytest.mark.faults
def test_a_small_file_system_that_fills_up(undisturbed: bytes, tmp_path: Path, record_property: Record) -> None:
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True)
    if made.returncode:
        pytest.skip(f"mounting is not allowed here: {made.stderr.decode().strip()}")
    try:
        with pytest.raises(OSError, match=r"No space left|disk is full|database"):
            task(images(), place / "audit").run()
        assert not (place / "audit" / EVIDENCE_FILE).exists()
        subprocess.run(["mount", "-o", "remount,size=8m", str(place)], check=True)
        account(record_property, 2, task(images(), place / "audit").run().read_bytes(), undisturbed)
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        with pytest.raises((ValueError, OSError), match=r"writable|Read-only"):
            task(images(), place / "other").run()
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_closed_folder_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(ValueError, match="is not writable"):
        task(images(), tmp_path / "audit").run()
    assert list(tmp_path.iterdir()) == []


class Lying:
    """A clock that goes backwards, stands still, and leaps."""

    def __init__(self) -> None:
        self.now, self.moves = 1e9, iter([-1e6, 0.0, 1e9, -1.0] * 10_000)

    def __call__(self) -> float:
        self.now += next(self.moves)
        return self.now


def test_no_result_depends_on_the_clock(
    undisturbed: bytes, tmp_path: Path, record_property: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(Lying(), Lying())
    for name in ("time", "monotonic"):
        monkeypatch.setattr(time, name, Lying())
    account(record_property, 1, task(images(), tmp_path / "audit").run(clock=clock).read_bytes(), undisturbed)
    # With a budget, it decides how many shards fit, but never which or what is in them.
    data = images()
    part = AuditTask(checked(data), data, tmp_path / "part", budget=5.0)
    part.run(clock=Clock(Lying(), Lying()))
    account(record_property, 1, task(images(), tmp_path / "part").run().read_bytes(), undisturbed)


def test_a_piece_that_is_computed_twice_counts_once(
    undisturbed: bytes, tmp_path: Path, record_property: Record
) -> None:
    class Twice(LocalAudit):
        """Gives every result back twice, as a worker that was thought dead may do."""

        given: PieceResult | LostPiece | None = None

        @property
        def is_busy(self) -> bool:
            return bool(self.items) or self.given is not None

        def wait(self) -> PieceResult | LostPiece:
            found, self.given = self.given, None
            if found is None:
                found = self.given = super().wait()
            return found

    class TwiceExecutor(LocalExecutor):
        @contextmanager
        def open_audit(self, work: AuditWork, listen: PieceListener) -> Iterator[Twice]:
            yield Twice(work, listen)

    seen: list[float] = []
    folder = tmp_path / "audit"
    task(images(), folder).run(
        lambda event: seen.append(event.fraction) if isinstance(event, Step) else None, executor=TwiceExecutor()
    )
    assert max(seen) == 1.0
    account(record_property, 10, (folder / EVIDENCE_FILE).read_bytes(), undisturbed)


@pytest.mark.faults
def test_a_client_that_is_killed_leaves_nobody_behind_and_goes_on(tmp_path: Path, record_property: Record) -> None:
    from tests.hostile.files import checkpoint

    checkpoint(tmp_path)
    command = [sys.executable, "-m", "leastwise", "audit", "model.pt", "--attack", "clean,pgd20", "--threads", "1"]
    command += ["--per-class", "20", "--shard", "10", "--eps", "0.02", "--form", "given"]

    def begin(out: str, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*command, "--out", out, *more], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    assert begin("whole").wait(timeout=600) == 0
    for kill in range(2):
        run = begin("killed", "--engine", "dask", "--workers", "2")
        wait_for(
            lambda kill=kill, run=run: run.poll() is not None or len(committed(tmp_path / "killed")) > 5 * (kill + 1)
        )
        workers = children(run.pid)
        run.kill()
        run.wait()
        assert workers
        wait_for(lambda workers=workers: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    before = len(committed(tmp_path / "killed"))
    assert before > 5
    assert begin("killed", "--engine", "dask", "--workers", "2").wait(timeout=600) == 0
    files = [(tmp_path / name / EVIDENCE_FILE).read_bytes() for name in ("killed", "whole")]
    account(record_property, 2, files[0], files[1])


def children(pid: int) -> list[int]:
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found.append(int(place.name))
    return found
