"""Two processes under torchrun against one: the same parameters and exactly the same counts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.forked_commands import python

ROOT = Path(__file__).parent.parent.parent
WORK = """
import json, os, sys
import torch
from leastwise.attacks import Linf
from leastwise.models import build
from leastwise.training import CFA, OneCycle, Training, Validation, fit
from leastwise.training.awp import AWP
from leastwise.training.distributed import join_ranks
from leastwise.training.policies.weighting import FairWeighting
from leastwise.training.registry import METHODS
from tests.training.batches_and_losses import blobs
torch.set_num_threads(1)
ranks = join_ranks("cpu")
data = blobs((42, 27, 22, 12, 7), shape=(3, 8, 6))
model = build(sys.argv[2], data.shape, data.k, seed=3).double()
training = Training(
    METHODS["trades"].make(Linf(0.1), 0.05, 2), 2, 25, OneCycle(0.1), policies=(CFA(), FairWeighting()),
    validation=Validation(2), awp=AWP(warmup=0.5),
)
lines = []
for snapshot in fit(model, data, training, ranks=ranks):
    for side in (snapshot.seen.train, snapshot.seen.valid):
        counts = (side.clean.correct, side.robust.correct, side.confusion)
        lines.append([c.tolist() for c in counts])
states = [{name: value.tolist() for name, value in state.items()} for state in snapshot.states]
weights = [p.detach().flatten().tolist() for p in model.state_dict().values()]
found = {"counts": lines, "weights": weights, "states": states}
open(f"{sys.argv[1]}/{ranks.size}-{ranks.rank}.json", "w").write(json.dumps(found))
"""


def started(folder: Path, processes: int, arch: str) -> None:
    (folder / "work.py").write_text(WORK)
    work = [str(folder / "work.py"), str(folder), arch]
    if processes == 1:
        done = python(f"import sys\nsys.argv = {work!r}\n{WORK}", folder)
    else:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        group = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *work]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        done = subprocess.run(group, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def read(folder: Path, name: str) -> dict[str, list]:
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.medium
def test_two_processes_train_what_one_trains(tmp_path: Path) -> None:
    """Float64, no BatchNorm, the same global batches: parameters to 1e-8, counts exactly, states equal on both."""
    started(tmp_path, 1, "convnet")
    started(tmp_path, 2, "convnet")
    one, first, second = (read(tmp_path, name) for name in ("1-0", "2-0", "2-1"))
    assert first == second
    assert one["counts"] == first["counts"]
    for a, b in zip(one["weights"], first["weights"], strict=True):
        assert torch.allclose(torch.tensor(a), torch.tensor(b), rtol=0, atol=1e-8)


@pytest.mark.slow
def test_with_batchnorm_both_processes_still_hold_the_same_network(tmp_path: Path) -> None:
    """Each normalises by its own half of the batch, so they differ from one process, but not from each other."""
    started(tmp_path, 2, "small")
    assert read(tmp_path, "2-0") == read(tmp_path, "2-1")


@pytest.mark.slow
def test_the_command_line_under_torchrun_writes_one_result(tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    group = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "leastwise"]
    arguments = ["train", "pgd-at", "--model", "convnet", "--per-class", "20", "--epochs", "2", "--steps", "1"]
    done = subprocess.run(
        [*group, *arguments, "--out", str(tmp_path / "t")], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Checkpoint:") == 1 and done.stdout.count("epoch 2/2") == 1
    assert len((tmp_path / "t" / "epochs.jsonl").read_text().splitlines()) == 2
    line = json.loads((tmp_path / "t" / "epochs.jsonl").read_text().splitlines()[0])
    assert line["robust"]["n"] == [18] * 10 and (tmp_path / "t" / "model.pt").is_file()
