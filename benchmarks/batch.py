"""The default batch of an audit against others, and what the system takes: `make bench-batch`.

    python benchmarks/batch.py [--threads N] [--images N] [--attacks LIST] [--autoattack N] [--rounds N] [--only NAME]

Whole audits from Python, of 1,000 images, on the prepared network, in turns over the sizes, medians. Time is that of
the processor, the system's included, so that others on the machine count little; `system` is the system's share of it
at the default, `faults` how many pages it cleared there. AutoAttack is run at the default alone.

`small` is a network of scale lite from results/lite, `resnet20` and `resnet2b` are networks that others trained, from
the folder that LEASTWISE_TEST_DATA names. The last line is JSON: the default's time over that of the best size.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from leastwise.attacks.naming import Threat
from leastwise.attacks.registry import make_attack
from leastwise.attacks.threats import Linf
from leastwise.audit.auditor import make_auditor
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.jobs.audit_task import audit
from leastwise.models.classifier import Classifier, inference
from leastwise.models.fast.prepare import Form, prepare
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.load.dispatch import load_model

if sys.platform != "win32":
    import resource

sys.path.insert(0, str(Path(__file__).parents[1]))  # the networks of the tests
SIZES = (50, 100, 200, 500, 1000)
SMALL = Path("results/lite/trainings/cifar10-small-pgdat-492d8e5a/model.safetensors")


class Subject(NamedTuple):
    """A network and the radius that it is attacked at."""

    name: str
    model: Classifier
    eps: float


class Spent(NamedTuple):
    """Seconds of the processor, and pages that the system gave."""

    user: float
    system: float
    faults: int

    @property
    def seconds(self) -> float:
        return self.user + self.system


def spent_so_far() -> Spent:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Spent(used.ru_utime, used.ru_stime, used.ru_minflt)


def subjects(folder: Path, only: str) -> list[Subject]:
    from tests.oracles.networks import IMAGENET_MEAN, cifar_network

    data = load(str(folder / "cifar10_test_first2000.npz"))
    file, std = str(folder / "nets" / "akamaster_cifar10_resnet20.th"), (0.229, 0.224, 0.225)
    made: dict[str, Callable[[], Subject]] = {
        "small": lambda: Subject("small", load_checkpoint(SMALL), 8 / 255),
        "resnet20": lambda: Subject(
            "resnet20", load_model(file, data.shape, data.names, arch="resnet20", mean=IMAGENET_MEAN, std=std), 2 / 255
        ),
        "resnet2b": lambda: Subject("resnet2b", cifar_network(folder, "cifar_resnet2b"), 2 / 255),
    }
    return [make() for name, make in made.items() if only in ("", name)]


def time_audit(one: Subject, data: Dataset, attack: str, *, size: int, form: Form) -> Spent:
    """One audit; a size of 0 is the default."""
    conditions = ((attack, make_attack(attack, Threat(Linf(one.eps), one.eps / 4, "fooled"))),)
    begun = spent_so_far()
    audit(one.model, data, conditions, batch_size=size, form=form, check=False)
    now = spent_so_far()
    return Spent(now.user - begun.user, now.system - begun.system, now.faults - begun.faults)


def compare_sizes(one: Subject, data: Dataset, attack: str, *, rounds: int, form: Form) -> dict[str, float]:
    """The default against the other sizes."""
    conditions = (("clean", make_attack("clean", Threat(Linf(one.eps), one.eps / 4, "fooled"))),)
    usual = make_auditor(one.model, data, conditions).batch_size
    sizes = sorted({usual, *(size for size in SIZES if size <= max(len(data), SIZES[0]))})
    found: dict[int, list[Spent]] = {size: [] for size in sizes}
    time_audit(one, data, attack, size=0, form=form)  # memory that is touched for the first time
    for _ in range(rounds):
        for size in sizes:
            found[size].append(time_audit(one, data, attack, size=size, form=form))
    seconds = {size: statistics.median(each.seconds for each in times) for size, times in found.items()}
    best = min(seconds, key=lambda size: seconds[size])
    here = found[usual]
    system = statistics.median(each.system / each.seconds for each in here)
    print(f"{one.name}, {attack}, {len(data)} images: " + ", ".join(f"{n} {s:.2f} s" for n, s in seconds.items()))
    print(
        f"  default {usual}: {seconds[usual] / seconds[best]:.2f} × the best ({best}), system {100 * system:.1f} %, "
        f"{statistics.median(each.faults for each in here):.0f} page faults",
        flush=True,
    )
    return {"default": usual, "over_best": round(seconds[usual] / seconds[best], 3), "system": round(system, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--attacks", default="pgd20,square:100")
    parser.add_argument("--autoattack", type=int, default=100, help="images for AutoAttack, 0 for none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="one network: small, resnet20 or resnet2b")
    settings = parser.parse_args()
    folder = Path(os.environ.get("LEASTWISE_TEST_DATA", ""))
    if not (folder / "nets").is_dir():
        raise SystemExit("LEASTWISE_TEST_DATA must name the folder of networks that others trained")
    torch.set_num_threads(settings.threads)
    print(f"torch {torch.__version__}, {settings.threads} threads, medians of {settings.rounds} rounds")
    result: dict[str, object] = {"bench": "batch"}
    data = load(str(folder / "cifar10_test_first2000.npz"))
    for one in subjects(folder, settings.only):
        some = data.take(max(1, settings.images // data.k))
        with inference(one.model):
            form = prepare(one.model, some.batch(np.arange(min(100, len(some)))).x).form
        for attack in filter(None, settings.attacks.split(",")):
            key = f"{attack.partition(':')[0]}_{one.name}"
            result[key] = compare_sizes(one, some, attack, rounds=settings.rounds, form=form)
        if settings.autoattack:
            few = data.take(max(1, settings.autoattack // data.k))
            spent = time_audit(one, few, "autoattack", size=0, form=form)
            share = spent.system / spent.seconds
            print(f"{one.name}, autoattack, {len(few)} images: {spent.seconds:.1f} s, system {100 * share:.1f} %")
            result[f"autoattack_{one.name}"] = {"seconds": round(spent.seconds, 1), "system": round(share, 4)}
    print(json.dumps(result | {"threads": settings.threads}))


if __name__ == "__main__":
    main()
