"""A cluster finds what one process finds, byte for byte, whatever is killed on the way."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from leastwise.audit.auditor import Auditor
from leastwise.audit.evidence import load_evidence
from leastwise.audit.race import RaceRecipe
from leastwise.cli.main import main
from leastwise.jobs.audit_task import AuditTask
from leastwise.jobs.dask.cluster import connect_cluster
from leastwise.jobs.dask.security import check_address
from leastwise.jobs.events import Step
from leastwise.jobs.folder import IMAGES
from leastwise.jobs.race_task import RaceTask
from leastwise.models.answers import choose_moved
from leastwise.models.fast.prepare import ORIGINAL
from leastwise.models.load.checkpoint import load_checkpoint
from tests.faults.killable_cluster import Machines, account, checked, committed, images, machines, task

Record = Callable[[str, object], None]
PIECES = 10  # 33 images in shards of 7, two conditions
MOST_GROWTH = 32.0  # MiB: Dask's own logs of the last hundred thousand events fill up over the first of them


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return task(images(), tmp_path_factory.mktemp("whole")).run().read_bytes()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Machines]:
    with machines(tmp_path / "cluster") as held:
        yield held


def opened(dask_worker: Any) -> list[int]:
    """How often a worker opened the model and the data that it holds."""
    return [held.opened for name, held in dask_worker.plugins.items() if name.startswith("leastwise")]


def test_a_cluster_started_here_listens_on_loopback_only(recwarn: pytest.WarningsRecorder) -> None:
    with (
        connect_cluster(workers=1),
        connect_cluster(workers=1),
    ):  # the second one does not complain about the port of the first
        mine = psutil.Process()
        sockets = [
            one
            for process in (mine, *mine.children(recursive=True))
            for one in process.net_connections(kind="inet")
            if one.status == psutil.CONN_LISTEN
        ]
    assert len(sockets) >= 4 and {one.laddr.ip for one in sockets} == {"127.0.0.1"}
    assert not [one for one in recwarn if "already in use" in str(one.message)]


def test_two_workers_started_here_find_the_same_bytes(undisturbed: bytes, tmp_path: Path) -> None:
    data = images()
    recipe = RaceRecipe(checked(data).key, batch=2)
    alone = replaced(checked(data))
    here = RaceTask(alone, data, tmp_path / "race here", recipe).run().read_bytes()
    with connect_cluster(workers=2) as executor:
        assert executor.client.scheduler is not None and "127.0.0.1" in executor.client.scheduler.address
        assert task(data, tmp_path / "audit").run(executor=executor).read_bytes() == undisturbed
        assert RaceTask(alone, data, tmp_path / "race", recipe).run(executor=executor).read_bytes() == here
        counts: list[list[int]] = []
        kept = task(data, tmp_path / "kept", images=True)
        kept.run(lambda event: counts.extend(executor.client.run(opened).values()), executor=executor)
        # Many pieces, but the model and the data were opened once by each, and those of other tasks are forgotten.
        assert max(max(each, default=0) for each in counts) == 1 and max(len(each) for each in counts) == 1
        executor.let_go()
        assert list(executor.client.run(opened).values()) == [[], []]
    task(data, tmp_path / "kept here", images=True).run()
    for file in sorted((tmp_path / "kept here" / IMAGES).iterdir()):
        assert (tmp_path / "kept" / IMAGES / file.name).read_bytes() == file.read_bytes()


def replaced(auditor: Auditor) -> Auditor:
    """Under its attack only."""
    return replace(auditor, recipe=replace(auditor.recipe, conditions=auditor.recipe.conditions[1:]))


@pytest.mark.faults
@pytest.mark.parametrize("kills", [(1,), (1, 1, 1), (2,)], ids=["one", "three in turn", "two at once"])
def test_killed_workers_cost_nothing_but_time(
    kills: tuple[int, ...], cluster: Machines, undisturbed: bytes, tmp_path: Path, record_property: Record
) -> None:
    cluster.set("slow", "0.05")
    workers = [process for process in cluster.begun if process is not cluster.scheduler]
    left, seen = list(kills), [0]

    def kill(_event: object) -> None:
        count = len(committed(tmp_path / "audit"))
        if left and count > seen[0]:
            seen[0] = count
            for _ in range(left.pop(0)):
                victim = workers.pop(0)
                victim.send_signal(signal.SIGKILL)
                workers.append(cluster.worker())

    with connect_cluster(cluster.address) as executor:
        found = task(images(), tmp_path / "audit").run(kill, executor=executor)
    assert not left
    account(record_property, sum(kills), found.read_bytes(), undisturbed)


@pytest.mark.faults
def test_a_hanging_worker_is_ended_and_its_shard_goes_elsewhere(
    cluster: Machines, undisturbed: bytes, tmp_path: Path, record_property: Record
) -> None:
    cluster.set("hang")
    with connect_cluster(cluster.address, limit=10.0) as executor:
        found = task(images(), tmp_path / "audit").run(executor=executor)
    assert cluster.happened("hang") == 1
    account(record_property, 1, found.read_bytes(), undisturbed)


@pytest.mark.faults
def test_a_frozen_worker_is_given_up(undisturbed: bytes, tmp_path: Path, record_property: Record) -> None:
    with machines(tmp_path / "cluster", silence="20s") as cluster:
        cluster.set("slow", "0.05")
        victim = cluster.begun[1]

        def freeze(_event: object) -> None:
            if committed(tmp_path / "audit") and victim.poll() is None:
                victim.send_signal(signal.SIGSTOP)

        with connect_cluster(cluster.address) as executor:
            found = task(images(), tmp_path / "audit").run(freeze, executor=executor)
    account(record_property, 1, found.read_bytes(), undisturbed)


@pytest.mark.faults
def test_a_failing_piece_is_tried_again(
    cluster: Machines, undisturbed: bytes, tmp_path: Path, record_property: Record
) -> None:
    cluster.set("fail")
    with connect_cluster(cluster.address) as executor:
        found = task(images(), tmp_path / "audit").run(executor=executor)
    assert cluster.happened("fail") == 1
    account(record_property, 1, found.read_bytes(), undisturbed)


@pytest.mark.faults
def test_a_dead_scheduler_is_one_sentence_and_a_restart_goes_on(
    cluster: Machines, undisturbed: bytes, tmp_path: Path, record_property: Record
) -> None:
    cluster.set("slow", "0.05")
    steps: list[object] = []

    def kill(_event: object) -> None:
        steps.append(_event)
        if len(committed(tmp_path / "audit")) == 3:
            cluster.scheduler.kill()

    with pytest.raises(
        ValueError, match=r"the scheduler at tcp://127\.0\.0\.1:\d+ went away: what is finished is kept"
    ):
        with connect_cluster(cluster.address) as executor:
            task(images(), tmp_path / "audit").run(kill, executor=executor)
    before = committed(tmp_path / "audit")
    assert 3 <= len(before) < PIECES
    cluster.schedule()
    cluster.worker()
    later: list[object] = []
    with connect_cluster(cluster.address) as executor:
        found = task(images(), tmp_path / "audit").run(later.append, executor=executor)
    steps_later = [event for event in later if isinstance(event, Step)]
    assert len(steps_later) == PIECES - len(before)  # what was committed was not done again
    account(record_property, 1, found.read_bytes(), undisturbed)


@pytest.mark.faults
def test_a_poisoned_shard_is_set_aside_and_the_rest_completes(
    cluster: Machines, undisturbed: bytes, tmp_path: Path, record_property: Record
) -> None:
    data = images()
    bad = checked(data).shards(data)[2]
    unasked = np.setdiff1d(bad, choose_moved(data))  # workers are asked for some images before they begin
    cluster.set("poison", str(float(data.batch(unasked[:1]).x.sum())))

    def replace_dead(_event: object) -> None:
        with suppress(StopIteration):
            dead = next(p for p in cluster.begun if p.poll() is not None and p.returncode == -signal.SIGKILL)
            cluster.begun.remove(dead)
            cluster.worker()

    for _ in range(4):  # it ends four of them
        cluster.worker()
    with connect_cluster(cluster.address) as executor:
        done = task(data, tmp_path / "audit")
        done.run(replace_dead, executor=executor)
    found = load_evidence(tmp_path / "audit")
    missing = np.setdiff1d(data.ids, found.ids)
    assert np.array_equal(missing, np.sort(data.ids[bad])) and not done.finished
    said = [text for text in found.warnings if "could not be attacked" in text]
    assert said == [
        f"{len(bad)} of 33 images could not be attacked and were left out, which may not be by chance: "
        "shard 2 under clean (it ended 4 workers)"
    ]
    assert len(committed(tmp_path / "audit")) == PIECES - 1
    # Without the poison the same task adds what is missing.
    account(record_property, 4, task(data, tmp_path / "audit").run().read_bytes(), undisturbed)


@pytest.mark.faults
def test_two_thousand_shards_are_all_counted_once(
    cluster: Machines, tmp_path: Path, record_property: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    data = images(4000)
    attacked = replaced(checked(data, shard=2))
    begun = time.monotonic()
    whole = AuditTask(attacked, data, None, form=ORIGINAL).attack().to_bytes()
    here = (time.monotonic() - begun) / 2
    counted: list[int] = []  # images, after each shard
    known: list[int] = []  # tasks that the scheduler remembers
    held: list[float] = []  # its memory in MiB
    with connect_cluster(cluster.address) as executor:

        def look(event: object) -> None:
            if isinstance(event, Step):
                counted.append(int(event.so_far.n.sum()))
                if len(counted) % 100 == 0:
                    known.append(executor.client.run_on_scheduler(remembered))
                    held.append(memory(cluster.scheduler.pid))

        begun = time.monotonic()
        found = AuditTask(attacked, data, tmp_path / "there", form=ORIGINAL).run(look, executor=executor).read_bytes()
        there = (time.monotonic() - begun) / 2
    assert counted == list(range(2, 4001, 2))  # no shard is missing, and none counts twice
    assert len(np.unique(load_evidence(tmp_path / "there").ids)) == 4000
    assert max(known) <= 6  # the scheduler knows a few of them at a time, and no more as time goes on
    assert max(held) - held[1] < MOST_GROWTH
    account(record_property, 0, found, whole)
    with capsys.disabled():
        print(
            f"\n2,000 shards: {here:.1f} ms each in this process, {there:.1f} ms by two workers, which is "
            f"{there - here / 2:.1f} ms of overhead; the scheduler held {held[1]:.0f} MiB after 200 and at most "
            f"{max(held):.0f} MiB later"
        )


def remembered(dask_scheduler: Any) -> int:
    return len(dask_scheduler.tasks)


def memory(pid: int) -> float:
    """In MiB, of another process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("tcp://10.0.0.5:8786", "leaves this machine without encryption"),
        ("10.0.0.5:8786", "leaves this machine without encryption"),
        ("tcp://scheduler.example:8786", "leaves this machine without encryption"),
        ("tcp://127.0.0.1", "is like tls://machine:8786"),
        ("http://127.0.0.1:80", "is like tls://machine:8786"),
        ("tcp://127.0.0.1:eighty", "is like tls://machine:8786"),
        ("", "is like tls://machine:8786"),
    ],
)
def test_an_address_off_this_machine_needs_encryption(address: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_address(address, plain=False)


def test_addresses_that_are_taken() -> None:
    for address in ("tcp://127.0.0.1:8786", "tcp://[::1]:8786", "localhost:8786", "tls://10.0.0.5:8786"):
        check_address(address, plain=False)
    check_address("tcp://10.0.0.5:8786", plain=True)


STUDY = """
methods = ["standard", "pgd-at"]
models = ["convnet"]
eps = [0.1]
attack = "clean,pgd2"
[train]
epochs = 2
steps = 1
per_class = 4
batch_size = 20
valid_per_class = 0
[audit]
per_class = 4
batch_size = 10
"""


@pytest.mark.faults
def test_a_study_on_a_cluster_is_the_study_of_one_process(
    cluster: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(STUDY)
    arguments = ["study", "s.toml", "--threads", "1", "--device", "cpu"]
    assert main([*arguments, "--out", "here"]) == 0
    assert main([*arguments, "--out", "there", "--engine", "dask", "--scheduler", cluster.address]) == 0
    files = sorted(
        path.relative_to("here") for path in Path("here").rglob("*") if path.suffix in (".csv", ".safetensors")
    )
    assert len(files) == 3
    for file in files:
        assert (tmp_path / "there" / file).read_bytes() == (tmp_path / "here" / file).read_bytes()
    weights = sorted(path.relative_to("here") for path in Path("here").glob("train-*/model.pt"))
    for file in weights:
        assert load_checkpoint(Path("there") / file).digest() == load_checkpoint(Path("here") / file).digest()
    assert not list(Path("there").rglob(".leastwise*"))
    record_property("identical", len(files))
