"""Reproductions on a cluster leave the files that one process leaves, whatever fails or is killed on the way."""

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from leastwise.cli.main import main
from leastwise.core.files import LOCK
from leastwise.jobs.dask.cluster import TrainingSession, connect_cluster
from leastwise.jobs.executor import LOCAL, Executor, NobodyLeft
from leastwise.jobs.folder import RUN
from leastwise.jobs.images import ImageSet
from leastwise.papers.recipes import Measured, PaperThreat, Recipe, Trained
from leastwise.papers.reproduce import RecipeListener, do_work, list_work
from leastwise.papers.stored import PaperStore
from tests.faults.killable_cluster import Machines, machines, wait_for

pytestmark = pytest.mark.faults

Record = Callable[[str, object], None]
FEW = ImageSet("fashion-mini", per_class=4)
ATTACK = PaperThreat(0.1, 0.05, 2)
NET = Trained(FEW, "convnet", epochs=2, batch_size=10, augment="none", scale="smoke")
ROBUST = replace(NET, method="pgd-at", threat=ATTACK)
MADE = replace(NET, data=replace(FEW, change=("matched",), steps=2), source=ROBUST)
BEGUN = replace(ROBUST, method="trades", source=ROBUST)
WILD = replace(ROBUST, rate=1e30)
WANTED = tuple(Measured(one, FEW, ("clean", "pgd2"), ATTACK, scale="smoke") for one in (NET, MADE, BEGUN, WILD))


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Machines]:
    with machines(tmp_path / "cluster") as held:
        yield held


def done(
    work: Sequence[Recipe], store: PaperStore, listener: RecipeListener = RecipeListener(), executor: Executor = LOCAL
) -> dict[Recipe, str]:
    return do_work(work, store, listener, threads=1, executor=executor)


def same_files(here: Path, there: Path) -> int:
    """How many files two folders have, all of them the same; only how long something took may differ."""
    files = [sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file()) for root in (here, there)]
    assert files[0] == files[1]
    for name in files[0]:
        if name.name != RUN:
            assert (here / name).read_bytes() == (there / name).read_bytes(), name
    return len(files[0])


def test_the_command_leaves_the_same_files(
    tmp_path: Path, record_property: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    def reproduced(out: str, *more: str) -> int:
        wanted = ["benz2021/fig12", "benz2021/fig1", "tian2021/table2"]  # two networks, and nothing but the paper
        arguments = ["--scale", "smoke", "--device", "cpu", "--threads", "1", "--out", str(tmp_path / out)]
        return main(["reproduce", *wanted, *arguments, *more])

    assert reproduced("here") == 0
    assert reproduced("there", "--engine", "dask", "--workers", "2") == 0
    assert same_files(tmp_path / "here", tmp_path / "there") > 20
    capsys.readouterr()
    assert reproduced("there", "--engine", "dask", "--workers", "2") == 0  # which starts nobody
    assert "left       nothing" in capsys.readouterr().out
    record_property("identical", 1)


class Heard(RecipeListener):
    def __init__(self) -> None:
        self.said: list[tuple[Recipe, str]] = []

    def after(self, recipe: Recipe, seconds: float, failed: str) -> None:
        self.said.append((recipe, failed))


def two_stores(folder: Path) -> tuple[PaperStore, PaperStore]:
    """One for this process, and one for the cluster, with results of their own."""
    return PaperStore(folder / "here", "smoke"), PaperStore(folder / "there", "smoke")


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("shared", [True, False], ids=["shared storage", "storage of its own"])
def test_a_failed_training_marks_its_cells_and_nothing_else(
    shared: bool, cluster: Machines, tmp_path: Path, record_property: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = two_stores(tmp_path)
    work = list_work(WANTED, here)
    expected = done(work, here)
    assert set(expected) == {WILD, WANTED[3]}
    if not shared:
        monkeypatch.setattr(TrainingSession, "mark_storage", lambda session, root: tmp_path / "not seen")
    heard = Heard()
    with connect_cluster(cluster.address) as executor:
        assert done(work, there, heard, executor) == expected
    assert sorted(map(repr, work)) == sorted(repr(recipe) for recipe, _ in heard.said)
    assert {recipe: why for recipe, why in heard.said if why} == expected
    assert all(there.has(recipe) == (recipe not in expected) for recipe in work)
    for recipe in work:
        if recipe not in expected:
            same_files(here.folder(recipe), there.folder(recipe))
    record_property("faults", 1)
    record_property("identical", len(work) - len(expected))


@pytest.mark.usefixtures("one_thread")
def test_a_training_whose_worker_is_killed_goes_on_elsewhere(
    cluster: Machines, tmp_path: Path, record_property: Record
) -> None:
    long = replace(ROBUST, epochs=12)
    here, there = two_stores(tmp_path)
    assert done((long,), here) == {}
    folder, seen = there.folder(long), list[int]()

    def kill() -> None:
        """Whoever holds the lock of the folder, after its third epoch."""

        def third() -> bool:
            with suppress(OSError):
                return (folder / "epochs.jsonl").read_text().count("\n") >= 3
            return False

        wait_for(third, 120)
        number = re.match(r"process (\d+) on", (folder / LOCK).read_text())
        assert number is not None and int(number[1]) in [process.pid for process in cluster.begun]
        os.kill(int(number[1]), signal.SIGKILL)
        seen.append(int(number[1]))

    killer = threading.Thread(target=kill)
    killer.start()
    with connect_cluster(cluster.address) as executor:
        assert done((long,), there, executor=executor) == {}
    killer.join()
    assert len(seen) == 1
    same_files(here.folder(long), folder)
    record_property("faults", 1)
    record_property("identical", 1)


@pytest.mark.usefixtures("one_thread")
def test_a_scheduler_that_dies_ends_the_command_and_what_is_finished_is_kept(
    cluster: Machines, tmp_path: Path, record_property: Record
) -> None:
    here, there = two_stores(tmp_path)
    work = list_work(WANTED[:1], here)
    assert done(work, here) == {}

    class Kill(RecipeListener):
        def after(self, recipe: Recipe, seconds: float, failed: str) -> None:
            cluster.scheduler.kill()

    with pytest.raises(NobodyLeft, match="went away: what is finished is kept"):
        with connect_cluster(cluster.address) as executor:
            done(work, there, Kill(), executor)
    assert there.has(NET) and list_work(WANTED[:1], there) == (WANTED[0],)
    cluster.schedule()
    cluster.worker()
    with connect_cluster(cluster.address) as executor:
        assert done(list_work(WANTED[:1], there), there, executor=executor) == {}
    same_files(tmp_path / "here", tmp_path / "there")
    record_property("faults", 1)
    record_property("identical", 1)


@pytest.mark.usefixtures("one_thread")
def test_an_interrupted_command_lets_go_of_the_trainings_under_way(
    cluster: Machines, tmp_path: Path, record_property: Record
) -> None:
    long = replace(ROBUST, epochs=40)
    here, there = two_stores(tmp_path)
    assert done((long,), here) == {}
    lock = there.folder(long) / LOCK

    class Stop(RecipeListener):
        def after(self, recipe: Recipe, seconds: float, failed: str) -> None:
            wait_for(lock.exists)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), connect_cluster(cluster.address) as executor:
        done((NET, long), there, Stop(), executor)
    wait_for(lambda: not lock.exists())
    assert there.has(NET) and not there.has(long)
    with connect_cluster(cluster.address) as executor:
        assert done((long,), there, executor=executor) == {}
    same_files(here.folder(long), there.folder(long))
    record_property("faults", 1)
    record_property("identical", 1)
