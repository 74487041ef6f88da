"""What the checks of an audit cost: audits with and without them, in turns, and passes as counted.

    python benchmarks/checks.py [--rounds N] [--images N] [--eps EPS]

The network is a small one that is trained first on the Fashion-MNIST images that come with the package. Without them
means without the check of survivors and without the finite differences. The last line is JSON.
"""

import argparse
import json
import statistics
import time
from contextlib import nullcontext
from unittest.mock import patch

import torch

from leastwise.attacks.base import Clean
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.audit.masking import cost_of_one, limit_sample
from leastwise.data.loading import load
from leastwise.jobs.audit_task import audit
from leastwise.models import preflight
from leastwise.models.output_check import Concern
from leastwise.models.zoo.registry import build
from leastwise.training.loop import fit
from leastwise.training.recipe import Training


def no_doubt(*_: object) -> tuple[Concern, ...]:
    return ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--eps", type=float, default=0.03)
    given = parser.parse_args()
    torch.set_num_threads(1)
    train, test = load("fashion-mini/train").take(60), load("fashion-mini/test")
    data = test.take(given.images // test.k)
    model = build("convnet", data.shape, data.k)
    for _ in fit(model, train, Training(epochs=4, batch_size=50)):
        pass
    conditions = (("clean", Clean()), ("pgd20", PGD(Linf(given.eps), step=given.eps / 4, steps=20, keep="fooled")))
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(given.rounds):
        for checked in (True, False):
            with nullcontext() if checked else patch.object(preflight, "doubt_steps", no_doubt):
                begun = time.perf_counter()
                found = audit(model, data, conditions, check=checked)
                seconds[checked].append(time.perf_counter() - begun)
            if checked:
                passes = found.conditions["pgd20"].forwards + found.conditions["pgd20"].backwards
                checks = sum(one.forwards + one.backwards for one in found.checks)
    with_, without = (statistics.median(seconds[checked]) for checked in (True, False))
    each = cost_of_one(Linf(given.eps), data.k)
    large = passes / len(data) * 10_000
    most = each * limit_sample(10_000, int(large), each)
    told = {
        "images": len(data),
        "seconds": round(with_, 3),
        "seconds_without": round(without, 3),
        "extra_seconds": round(with_ - without, 3),
        "check_passes": checks,
        "check_passes_of_10000_at_most": most.forwards + most.backwards,
        "share_of_10000_images_under_pgd20": round((most.forwards + most.backwards) / large, 4),
    }
    print(f"{len(data)} images: {with_:.2f} s with checks, {without:.2f} s without")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
