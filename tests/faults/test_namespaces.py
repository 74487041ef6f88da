"""The guide's three commands, as written, on two machines that are network namespaces; then one is cut off."""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leastwise.evidence import FILE
from tests.faults.given import ROOT, account, committed, wait_for
from tests.hostile.files import checkpoint

pytestmark = pytest.mark.faults

FIRST, SECOND = f"lw{os.getpid() % 100000}a", f"lw{os.getpid() % 100000}b"
ADDRESS = "10.231.77.1"


def ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True)


@pytest.fixture
def network() -> Iterator[None]:
    """Two namespaces, one cable, no way out."""
    try:
        made = ip("netns", "add", FIRST)
    except FileNotFoundError:
        pytest.skip("iproute2 is not installed")
    if made.returncode:
        pytest.skip(f"network namespaces are not allowed here: {made.stderr.strip()}")
    try:
        for arguments in (
            f"netns add {SECOND}",
            f"link add va netns {FIRST} type veth peer name vb netns {SECOND}",
            f"-n {FIRST} address add {ADDRESS}/24 dev va",
            f"-n {SECOND} address add 10.231.77.2/24 dev vb",
            f"-n {FIRST} link set va up",
            f"-n {SECOND} link set vb up",
            f"-n {FIRST} link set lo up",
            f"-n {SECOND} link set lo up",
        ):
            done = ip(*arguments.split())
            if done.returncode:
                pytest.skip(f"network namespaces are not allowed here: {done.stderr.strip()}")
        yield
    finally:
        for name in (FIRST, SECOND):
            ip("netns", "del", name)


def commands() -> list[str]:
    """The commands of the guide: certificate, scheduler, worker, audit."""
    text = (ROOT / "docs" / "guide" / "cluster.md").read_text()
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    return [
        next(line for line in lines if start in line) for start in ("openssl", "dask sch", "dask work", "--tls certs")
    ]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[[str, str], subprocess.Popen[bytes]]]:
    begun: list[subprocess.Popen[bytes]] = []
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "src"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        # Whoever is silent for long is given up; importing torch takes long, so it is done before registering.
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "40s",
        "DASK_DISTRIBUTED__WORKER__PRELOAD": "leastwise.engine.remote",
    }

    def start(where: str, command: str) -> subprocess.Popen[bytes]:
        words = shlex.split(command.replace("node1", ADDRESS))
        if words[0] == "leastwise":
            words[:1] = [sys.executable, "-m", "leastwise"]
        with (tmp_path / f"{len(begun)}.log").open("wb") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", where, *words], cwd=tmp_path, env=environment, stdout=log, stderr=log
            )
        begun.append(process)
        return process

    yield start
    for process in reversed(begun):
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.mark.usefixtures("network")
def test_the_guide_on_two_machines_one_of_which_is_cut_off(
    machine: Callable[[str, str], subprocess.Popen[bytes]],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    certificate, scheduler, worker, audit = commands()
    checkpoint(tmp_path)
    subprocess.run(["bash", "-c", certificate], cwd=tmp_path, check=True, capture_output=True)
    here = f"{audit.split(' --engine')[0]} --threads 1 --out here"
    assert machine(FIRST, here).wait(timeout=900) == 0
    machine(FIRST, scheduler)
    time.sleep(3)
    for where in (FIRST, SECOND):
        machine(where, worker)
    client = machine(FIRST, f"{audit} --out there")
    wait_for(lambda: client.poll() is not None or len(committed(tmp_path / "there")) >= 3, 600)
    assert client.poll() is None, "it was over before the cable was cut"
    assert ip("-n", SECOND, "link", "set", "vb", "down").returncode == 0
    assert client.wait(timeout=600) == 0
    files = [(tmp_path / name / FILE).read_bytes() for name in ("there", "here")]
    account(record_property, 1, files[0], files[1])
