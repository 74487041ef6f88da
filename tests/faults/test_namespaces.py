"""The guide's three commands, as written, on two machines that are network namespaces; then one is cut off."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from leastwise.audit.evidence import EVIDENCE_FILE
from tests.faults.killable_cluster import ROOT, account, committed, wait_for
from tests.hostile.files import checkpoint

pytestmark = pytest.mark.faults

FIRST, SECOND = f"lw{os.getpid() % 100000}a", f"lw{os.getpid() % 100000}b"
ADDRESS, OTHER = "10.231.77.1", "10.231.77.2"


HOSTS = Path("/etc/netns")


def ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True)


@pytest.fixture
def network() -> Iterator[None]:
    """Two namespaces, one cable, no way out. In both, the first is called node1."""
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
            f"-n {SECOND} address add {OTHER}/24 dev vb",
            f"-n {FIRST} link set va up",
            f"-n {SECOND} link set vb up",
            f"-n {FIRST} link set lo up",
            f"-n {SECOND} link set lo up",
        ):
            done = ip(*arguments.split())
            if done.returncode:
                pytest.skip(f"network namespaces are not allowed here: ip {arguments}: {done.stderr.strip()}")
        for name in (FIRST, SECOND):  # `ip netns exec` shows this file as /etc/hosts
            try:
                (HOSTS / name).mkdir(parents=True)
                (HOSTS / name / "hosts").write_text(f"127.0.0.1 localhost\n{ADDRESS} node1\n")
            except OSError as error:
                pytest.skip(f"names of machines cannot be set here: {error}")
        yield
    finally:
        for name in (FIRST, SECOND):
            ip("netns", "del", name)
            shutil.rmtree(HOSTS / name, ignore_errors=True)
        with suppress(OSError):
            HOSTS.rmdir()  # unless others use it


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
    }

    def start(where: str, command: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{len(begun)}.log").open("wb") as log:
            words = ["ip", "netns", "exec", where, *shlex.split(command)]
            process = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=log, stderr=log)
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
    alone = machine(FIRST, f"{audit.split(' --engine')[0]} --threads 1 --out here")
    machine(FIRST, scheduler)
    for where in (FIRST, SECOND):
        machine(where, worker)
    assert alone.wait(timeout=900) == 0
    log = tmp_path / "1.log"
    wait_for(lambda: all(f"Register worker addr: tls://{place}" in log.read_text() for place in (ADDRESS, OTHER)))
    client = machine(FIRST, audit)  # whose results go into a folder with a name of its own

    def found() -> Path:
        return next(tmp_path.glob("results/audit-*"), tmp_path / "none")

    wait_for(lambda: client.poll() is not None or len(committed(found())) >= 3)
    assert client.poll() is None, "it was over before the cable was cut"
    assert ip("-n", SECOND, "link", "set", "vb", "down").returncode == 0
    assert client.wait(timeout=600) == 0
    assert f"Remove worker addr: tls://{OTHER}" in log.read_text()  # and what it had was done by the other
    account(
        record_property, 1, (found() / EVIDENCE_FILE).read_bytes(), (tmp_path / "here" / EVIDENCE_FILE).read_bytes()
    )
