"""Two started workers against one, one thread each: `make bench-cluster`.

    python benchmarks/cluster.py [IMAGES [ROUNDS [ATTACK]]]

AutoAttack on 500 images of a small adversarially trained residual network for CIFAR-10, in shards of 25; the two take
turns, and starting the processes is not counted. The last line is JSON: the median of the ratios, and what the machine
allows: how much faster two plain processes take steps of the same network than one.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from leastwise.attacks.naming import Threat
from leastwise.attacks.registry import make_attacks
from leastwise.attacks.threats import Linf
from leastwise.audit.auditor import make_auditor
from leastwise.data.loading import load
from leastwise.jobs.audit_task import AuditTask
from leastwise.jobs.dask.cluster import connect_cluster
from leastwise.models.fast.prepare import Form

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.oracles.networks import resnet2b

IMAGES, SHARD, ROUNDS = 500, 25, 3
STEPS = 200  # a few seconds


def main(images: int = IMAGES, rounds: int = ROUNDS, attack: str = "autoattack") -> None:
    torch.set_num_threads(1)
    folder = Path(
        os.environ.get("LEASTWISE_TEST_DATA") or sys.exit("LEASTWISE_TEST_DATA must name the folder of networks")
    )
    data = load(str(folder / "cifar10_test_first2000.npz"))
    data = data.where(np.arange(len(data)) < images)
    eps = 2 / 255
    checked = make_auditor(resnet2b(), data, make_attacks(attack, Threat(Linf(eps), eps / 4)), shard=SHARD)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    found = set()
    with tempfile.TemporaryDirectory() as place, connect_cluster(workers=1) as one, connect_cluster(workers=2) as two:
        for number in range(rounds):
            for executor in (one, two) if number % 2 == 0 else (two, one):
                task = AuditTask(checked, data, Path(place) / f"{number}-{executor.width}", Form(folded=True))
                begun = time.monotonic()
                found.add(task.run(executor=executor).read_bytes())
                seconds[executor.width].append(time.monotonic() - begun)
                print(f"{executor.width} worker(s): {seconds[executor.width][-1]:.1f} s", flush=True)
    assert len(found) == 1, "the results differ"
    ratio = statistics.median(a / b for a, b in zip(seconds[1], seconds[2], strict=True))
    facts = {"bench": "cluster", "images": images, "attack": attack, "seconds": seconds}
    print(json.dumps(facts | {"speed-up": round(ratio, 2), "machine": round(allowed(rounds), 2)}))


def allowed(rounds: int) -> float:
    """Two processes that share nothing but the machine, against one of them."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:

        def together(count: int) -> float:
            return max(future.result() for future in [pool.submit(steps) for _ in range(count)])

        together(2)  # to start them
        return statistics.median(2 * together(1) / together(2) for _ in range(rounds))


def steps() -> float:
    """Seconds of some forward and backward passes."""
    torch.set_num_threads(1)
    model, x = resnet2b().eval(), torch.rand(SHARD, 3, 32, 32)
    begun = time.monotonic()
    for _ in range(STEPS):
        at = x.clone().requires_grad_()
        torch.autograd.grad(model(at).sum(), at)
    return time.monotonic() - begun


if __name__ == "__main__":
    images, rounds, attack = (*sys.argv[1:], *(str(IMAGES), str(ROUNDS), "autoattack")[len(sys.argv) - 1 :])
    main(int(images), int(rounds), attack)
