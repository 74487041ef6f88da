"""A plain loop with DistributedDataParallel: two processes with half of every batch train what one process trains."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.forked_commands import python

ROOT = Path(__file__).parents[2]
WORK = """
import json, os, sys
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
import leastwise as lw
from leastwise.models import build
from tests.training.batches_and_losses import blobs

torch.set_num_threads(1)
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
if size > 1:
    distributed.init_process_group("gloo")
data = blobs((40, 28, 20, 12, 20), shape=(3, 8, 6))
net = build(sys.argv[2], data.shape, data.k, seed=3).double()
model = DistributedDataParallel(net) if size > 1 else net
valid = blobs((4, 4, 4, 4, 4), seed=5, shape=(3, 8, 6))
step = lw.TRADES(
    eps=0.1, steps=2, policy=[lw.CFA(), lw.FairWeighting(on="valid")], awp=0.005, epochs=2, classes=data, valid=valid
)
sampler = step.sampler(data.labels)
loader = torch.utils.data.DataLoader(range(len(data)), batch_size=20 // size, sampler=sampler)
optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
found = []
for epoch in range(2):
    model.train()
    for rows in loader:
        x, y, ids = data.batch(rows.numpy())
        optimiser.zero_grad()
        step(model, x.double(), y, ids).backward()
        optimiser.step()
    seen = step.end_epoch()
    found += [seen.train.confusion.tolist(), seen.valid.robust.correct.tolist(), seen.states[0]["radius"].tolist()]
weights = [p.detach().flatten().tolist() for p in net.parameters()]
open(f"{sys.argv[1]}/{size}-{rank}.json", "w").write(json.dumps({"seen": found, "weights": weights}))
"""


def work(folder: Path, processes: int, arch: str) -> list[dict[str, list]]:
    (folder / "work.py").write_text(WORK)
    given = [str(folder / "work.py"), str(folder), arch]
    if processes == 1:
        done = python(f"import sys\nsys.argv = {given!r}\n{WORK}", folder)
    else:
        group = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *given]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        done = subprocess.run(group, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{processes}-{rank}.json").read_text()) for rank in range(processes)]


@pytest.mark.medium
def test_two_processes_train_what_one_trains(tmp_path: Path) -> None:
    """Float64, no BatchNorm, halves of the same batches: counts and states exactly, parameters to 1e-8."""
    (one,) = work(tmp_path, 1, "convnet")
    first, second = work(tmp_path, 2, "convnet")
    assert first == second and first["seen"] == one["seen"]
    for a, b in zip(one["weights"], first["weights"], strict=True):
        assert torch.allclose(torch.tensor(a), torch.tensor(b), rtol=0, atol=1e-8)


@pytest.mark.slow
def test_with_batchnorm_both_processes_hold_the_same_network(tmp_path: Path) -> None:
    first, second = work(tmp_path, 2, "small")
    assert first == second
