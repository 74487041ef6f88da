"""Reproductions on a cluster leave the files that one process leaves, whatever fails or is killed on the way."""

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from leastwise.cli.main import main
from leastwise.core.files import LOCK
from leastwise.jobs.dask.cluster import Cluster, connected
from leastwise.jobs.errands import Errand
from leastwise.jobs.executor import Gone
from leastwise.jobs.folder import RUN
from leastwise.papers.recipes import Images, Measured, Recipe, Threat, Trained
from leastwise.papers.reproduce import Silent, execute, to_do
from leastwise.papers.run import Runner
from leastwise.papers.stored import Store
from tests.faults.killable_cluster import Machines, machines, wait_for

pytestmark = pytest.mark.faults

Record = Callable[[str, object], None]
FEW = Images("fashion-mini", per_class=4)
ATTACK = Threat(0.1, 0.05, 2)
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


class Heard(Silent):
    def __init__(self) -> None:
        self.said: list[tuple[Recipe, str]] = []

    def after(self, recipe: Recipe, seconds: float, failed: str) -> None:
        self.said.append((recipe, failed))


def two_runners(folder: Path) -> tuple[Runner, Runner]:
    """One for this process, and one for the cluster, with results of their own."""
    return Runner(Store(folder / "here", "smoke"), threads=1), Runner(Store(folder / "there", "smoke"), threads=1)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("shared", [True, False], ids=["shared storage", "storage of its own"])
def test_a_failed_training_marks_its_cells_and_nothing_else(
    shared: bool, cluster: Machines, tmp_path: Path, record_property: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = two_runners(tmp_path)
    work = to_do(WANTED, here.store)
    expected = execute(work, here)
    assert set(expected) == {WILD, WANTED[3]}
    if not shared:
        trainings = Cluster.trainings

        def apart(self: Cluster, wanted: Iterator[tuple[Errand, Path] | None]) -> object:
            return trainings(self, (one and (one[0], tmp_path / "not seen") for one in wanted))

        monkeypatch.setattr(Cluster, "trainings", apart)
    heard = Heard()
    with connected(cluster.address) as hands:
        assert execute(work, there, heard, hands) == expected
    assert sorted(map(repr, work)) == sorted(repr(recipe) for recipe, _ in heard.said)
    assert {recipe: why for recipe, why in heard.said if why} == expected
    assert all(there.store.has(recipe) == (recipe not in expected) for recipe in work)
    for recipe in work:
        if recipe not in expected:
            same_files(here.store.folder(recipe), there.store.folder(recipe))
    record_property("faults", 1)
    record_property("identical", len(work) - len(expected))


@pytest.mark.usefixtures("one_thread")
def test_a_training_whose_worker_is_killed_goes_on_elsewhere(
    cluster: Machines, tmp_path: Path, record_property: Record
) -> None:
    long = replace(ROBUST, epochs=12)
    here, there = two_runners(tmp_path)
    assert execute((long,), here) == {}
    folder, seen = there.store.folder(long), list[int]()

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
    with connected(cluster.address) as hands:
        assert execute((long,), there, hands=hands) == {}
    killer.join()
    assert len(seen) == 1
    same_files(here.store.folder(long), folder)
    record_property("faults", 1)
    record_property("identical", 1)


@pytest.mark.usefixtures("one_thread")
def test_a_scheduler_that_dies_ends_the_command_and_what_is_finished_is_kept(
    cluster: Machines, tmp_path: Path, record_property: Record
) -> None:
    here, there = two_runners(tmp_path)
    work = to_do(WANTED[:1], here.store)
    assert execute(work, here) == {}

    class Kill(Silent):
        def after(self, recipe: Recipe, seconds: float, failed: str) -> None:
            cluster.scheduler.kill()

    with pytest.raises(Gone, match="went away: what is finished is kept"):
        with connected(cluster.address) as hands:
            execute(work, there, Kill(), hands)
    assert there.store.has(NET) and to_do(WANTED[:1], there.store) == (WANTED[0],)
    cluster.schedule()
    cluster.worker()
    with connected(cluster.address) as hands:
        assert execute(to_do(WANTED[:1], there.store), there, hands=hands) == {}
    same_files(tmp_path / "here", tmp_path / "there")
    record_property("faults", 1)
    record_property("identical", 1)


@pytest.mark.usefixtures("one_thread")
def test_an_interrupted_command_lets_go_of_the_trainings_under_way(
    cluster: Machines, tmp_path: Path, record_property: Record
) -> None:
    long = replace(ROBUST, epochs=40)
    here, there = two_runners(tmp_path)
    assert execute((long,), here) == {}
    lock = there.store.folder(long) / LOCK

    class Stop(Silent):
        def after(self, recipe: Recipe, seconds: float, failed: str) -> None:
            wait_for(lock.exists)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), connected(cluster.address) as hands:
        execute((NET, long), there, Stop(), hands)
    wait_for(lambda: not lock.exists())
    assert there.store.has(NET) and not there.store.has(long)
    with connected(cluster.address) as hands:
        assert execute((long,), there, hands=hands) == {}
    same_files(here.store.folder(long), there.store.folder(long))
    record_property("faults", 1)
    record_property("identical", 1)
