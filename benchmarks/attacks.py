"""Attacks against the same attacks of other libraries: same network, images, radius and budget.

    make bench            (or: python benchmarks/attacks.py [--rounds N] [--images N] [--autoattack N] [--only NAME])

Interleaved rounds in one run, medians, ratios; robust accuracy beside, so that nobody is fast by being weak. Ours runs
as an audit runs it: on the prepared network, with a last check of every point on the network as given. Preparing
(seconds, once per audit) is not counted. Peers stop nobody early: that is how they come. The last line is JSON.

AutoAttack is done four times: by pyautoattack; ours at the same budget; `autoattack-fast`, with how often its verdict
is ours; and in two phases, the opening of `autoattack-opened` on all images and AutoAttack on a sample of what it
leaves, with the interval of the overall accuracy that this gives.

`resnet20` and `resnet2b` are networks that others trained, from the folder that LEASTWISE_TEST_DATA names; without it
they are left out. `bn_robust` is a residual network that PGD-AT trains on 10,000 images of CIFAR-10 at 8/255 (a few
minutes, kept in results/bench); where CIFAR-10 has not been fetched, the PGD-AT network of `leastwise demo`.
"""

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from leastwise.attacks.autoattack import make_autoattack, make_fast_autoattack, make_opening
from leastwise.attacks.base import Attack, Passes, rows_of
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.cli.demo_story import EPS, make_jobs
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask
from leastwise.data.loading import load
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import TrainJob
from leastwise.jobs.train_task import prepare_training
from leastwise.models.classifier import Classifier, inference
from leastwise.models.fast.prepare import attack_step, prepare
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.load.dispatch import load_model
from leastwise.models.preflight import MOST_IMAGES, find_batch_sizes
from leastwise.statistics.accuracy import CONFIDENCE
from leastwise.statistics.two_phase import TwoPhaseCounts, images_for_budget, sample_for_budget
from leastwise.training.base import Epoch
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.recipe import Training
from leastwise.training.schedules import OneCycle

sys.path.insert(0, str(Path(__file__).parents[1]))  # the networks of the tests
STEPS = 20
FAST, TWO_PHASE = "autoattack-fast", "two phases"
OURS = ("ours", FAST, TWO_PHASE)
TWO_PHASE_BUDGET = 0.2  # of the passes of all of AutoAttack
QUICK, MOST_ROUNDS = 60.0, 15  # a contest shorter than so many seconds gets more rounds, up to so many

Contest = dict[str, Callable[[Images, Labels], Images]]


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, images it gets right or wrong, and the radius it is attacked at."""

    name: str
    model: Classifier
    x: Images
    y: Labels
    eps: float

    @property
    def batch(self) -> int:
        """What an audit takes unless told otherwise; the peers get the same."""
        return find_batch_sizes(self.model, self.x[:2]).usual


def subjects(images: int, only: str) -> list[Subject]:
    folder = os.environ.get("LEASTWISE_TEST_DATA")
    made = []
    if folder:
        from tests.oracles.networks import IMAGENET_MEAN, cifar_network

        place = Path(folder)
        data = load(str(place / "cifar10_test_first2000.npz"))
        x, y, _ = data.batch(np.arange(images or 1000))
        file = str(place / "nets" / "akamaster_cifar10_resnet20.th")
        if only in ("", "resnet20"):
            model = load_model(
                file, data.shape, data.names, arch="resnet20", mean=IMAGENET_MEAN, std=(0.229, 0.224, 0.225)
            )
            made.append(Subject("resnet20", model, x[: images or 400], y[: images or 400], 2 / 255))
        if only in ("", "resnet2b"):
            made.append(Subject("resnet2b", cifar_network(place, "cifar_resnet2b"), x, y, 2 / 255))
    else:
        print("LEASTWISE_TEST_DATA is not set: resnet20 and resnet2b are left out")
    if only in ("", "bn_robust"):
        made.append(robust_network(images or 1000))
    for one in made:
        one.model.eval()
    return made


def demo_training() -> TrainJob:
    """The adversarial training of the demo."""
    job = make_jobs()["pgd-at"].model
    assert isinstance(job, TrainJob)
    return job


def robust_network(images: int) -> Subject:
    eps = 8 / 255
    inner = PGD(Linf(eps), step=2 / 255, steps=5)
    training = Training(PGDAT(inner), epochs=10, batch_size=128, schedule=OneCycle(0.2))
    job = TrainJob(ImageSet("cifar10", per_class=1000), "small", training)
    try:
        data = load("cifar10/test")
    except ValueError as why:
        print(f"the robust network is the demo's: {why}")
        job, eps, data = demo_training(), EPS, load("fashion-mini/test").take(-(-images // 10))
    task = prepare_training(job, Path("results/bench") / job.data.name)
    if not task.finished:
        task.run(
            lambda e: (
                print(f"  epoch {e.number}: {e.attacked.overall:.1%} right under attack")
                if isinstance(e, Epoch)
                else None
            )
        )
    x, y, _ = data.batch(np.arange(min(images, len(data))))
    return Subject("bn_robust", load_checkpoint(task.weights), x, y, eps)


# One call each: images and labels in, attacked images out.


def ours(attack: Attack, given: nn.Module, prepared: nn.Module) -> Callable[[Images, Labels], Images]:
    def run(x: Images, y: Labels) -> Images:
        noise = Noise(0, torch.arange(len(x)), "/bench")
        with inference(given):
            x_adv = attack.run(prepared, x, y, noise).x_adv
            with torch.no_grad():
                given(x_adv)  # an audit checks every point on the network as given
        return x_adv

    return run


def with_foolbox(model: nn.Module, eps: float) -> Callable[[Images, Labels], Images]:
    import foolbox

    wrapped = foolbox.models.PyTorchModel(model, bounds=(0, 1), device="cpu")
    attack = foolbox.attacks.LinfPGD(abs_stepsize=eps / 4, steps=STEPS)
    return lambda x, y: attack(wrapped, x, y, epsilons=eps)[1]


def with_torchattacks(model: nn.Module, eps: float) -> Callable[[Images, Labels], Images]:
    import torchattacks

    attack = torchattacks.PGD(model, eps=eps, alpha=eps / 4, steps=STEPS, random_start=True)
    return lambda x, y: attack(x, y)


def with_art(model: nn.Module, eps: float, shape: tuple[int, ...], k: int) -> Callable[[Images, Labels], Images]:
    from art.attacks.evasion import ProjectedGradientDescentPyTorch
    from art.estimators.classification import PyTorchClassifier

    estimator: Any = PyTorchClassifier(
        model, nn.CrossEntropyLoss(), shape, k, clip_values=(0.0, 1.0), device_type="cpu"
    )
    attack = ProjectedGradientDescentPyTorch(
        estimator, eps=eps, eps_step=eps / 4, max_iter=STEPS, num_random_init=1, batch_size=MOST_IMAGES, verbose=False
    )
    return lambda x, y: torch.from_numpy(attack.generate(x.numpy(), y.numpy()))


def with_pyautoattack(model: nn.Module, eps: float) -> Callable[[Images, Labels], Images]:
    from pyautoattack import AutoAttack

    attack = AutoAttack(model, norm="Linf", eps=eps, version="standard", device="cpu", seed=0)
    return lambda x, y: attack.run_standard_evaluation(x, y, batch_size=len(x))[0]


def in_batches(run: Callable[[Images, Labels], Images], x: Images, y: Labels, size: int) -> Images:
    return torch.cat([run(x[i : i + size], y[i : i + size]) for i in range(0, len(x), size)])


def in_two_phases(one: Subject, prepared: nn.Module) -> Callable[[Images, Labels], Images]:
    """The opening on everyone and AutoAttack on a sample, as `--two-phase budget:20%` has it; remembers the counts."""
    opening, later = make_opening(Linf(one.eps)), make_autoattack(Linf(one.eps))

    def run(x: Images, y: Labels) -> Images:
        found = []
        for rows in torch.split(torch.arange(len(x)), one.batch):
            with inference(one.model):
                found.append(opening.run(prepared, x[rows], y[rows], Noise(0, rows, "/bench")))
        x_adv, k = torch.cat([part.x_adv for part in found]), one.model.k
        with torch.no_grad():
            left = rows_of((one.model(x).argmax(1) == y) & (one.model(x_adv).argmax(1) == y))
        images, survivors = (np.bincount(y[rows].numpy(), minlength=k) for rows in (torch.arange(len(y)), left))
        before = sum(part.forwards + part.backwards for part in found)
        each = later.cost(k) or Passes(0)
        most = images_for_budget(TWO_PHASE_BUDGET, before, each.forwards + each.backwards, survivors=len(left))
        drawn = sample_for_budget(max(most, k), survivors, images, confidence=CONFIDENCE)
        order = left[torch.randperm(len(left), generator=torch.Generator().manual_seed(0))]
        some = torch.cat([order[y[order] == c][: int(drawn[c])] for c in range(k)])
        second = in_batches(ours(later, one.model, prepared), x[some], y[some], one.batch)
        with torch.no_grad():
            stood = some[one.model(second).argmax(1) == y[some]]
        PHASES[one.name] = TwoPhaseCounts(images, survivors, drawn, np.bincount(y[stood].numpy(), minlength=k))
        return x_adv.index_copy(0, some, second)

    return run


PHASES: dict[str, TwoPhaseCounts] = {}  # what the last run in two phases found, by network


def contest(
    one: Subject, x: Images, y: Labels, sides: Contest, rounds: int
) -> tuple[dict[str, float], dict[str, Mask]]:
    """The fastest peer's time over that of each of ours, in rounds in which everyone takes a turn; and who survived."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    robust: dict[str, Mask] = {}
    begun = time.perf_counter()
    while len(times["ours"]) < rounds or (len(times["ours"]) < MOST_ROUNDS and time.perf_counter() - begun < QUICK):
        for name, run in sides.items():
            start = time.perf_counter()
            x_adv = run(x, y) if name == TWO_PHASE else in_batches(run, x, y, one.batch)
            times[name].append(time.perf_counter() - start)
            with torch.no_grad():
                robust[name] = (one.model(x).argmax(1) == y) & (one.model(x_adv).argmax(1) == y)
    mine = [name for name in sides if name in OURS]
    peers = [min(round_) for round_ in zip(*(t for name, t in times.items() if name not in mine), strict=True)]
    ratios = {
        name: statistics.median(theirs / own for theirs, own in zip(peers, times[name], strict=True)) for name in mine
    }
    print(
        f"  {len(peers)} rounds: "
        + "; ".join(
            f"{name} {statistics.median(t):.2f} s"
            + (f", robust {robust[name].float().mean():.1%}" if name != TWO_PHASE else "")
            for name, t in times.items()
        )
    )
    return ratios, robust


def compete_in_autoattack(one: Subject, prepared: nn.Module, x: Images, y: Labels) -> dict[str, float]:
    """What the last line says of AutoAttack on a network."""
    ball, end = Linf(one.eps), "" if one.name == "bn_robust" else f"_{one.name}"
    sides: Contest = {
        "ours": ours(make_autoattack(ball), one.model, prepared),
        FAST: ours(make_fast_autoattack(ball), one.model, prepared),
        TWO_PHASE: in_two_phases(one, prepared),
        "pyautoattack": with_pyautoattack(one.model, one.eps),
    }
    ratios, robust = contest(one, x, y, sides, 1)
    agree = (robust[FAST] == robust["ours"]).float().mean().item()
    higher = robust[FAST].float().mean().item() - robust["pyautoattack"].float().mean().item()
    low, high = (100 * float((bound * PHASES[one.name].images).sum() / len(x)) for bound in PHASES[one.name].bounds())
    tried, all_ = int(PHASES[one.name].drawn.sum()), int(PHASES[one.name].survivors.sum())
    print(f"  {ratios['ours']:.2f} × pyautoattack", flush=True)
    print(
        f"  autoattack-fast {ratios[FAST]:.2f} ×: our AutoAttack's verdict on {agree:.2%}, {100 * higher:+.1f} points"
    )
    print(
        f"  two phases {ratios[TWO_PHASE]:.2f} ×: {tried} of {all_} survivors tried, between {low:.1f} and {high:.1f} %"
    )
    return {
        f"autoattack{end}": round(ratios["ours"], 2),
        f"autoattack_fast{end}": round(ratios[FAST], 2),
        f"autoattack_fast_agree{end}": round(100 * agree, 2),
        f"autoattack_fast_higher{end}": round(100 * higher, 2),
        f"two_phase{end}": round(ratios[TWO_PHASE], 2),
        f"two_phase_width{end}": round(high - low, 1),
    }


def floor(attack: Attack, prepared: nn.Module, x: Images, y: Labels) -> float:
    """Seconds of the attack over those of the bare passes it needed: forwards and backwards of the prepared network."""
    noise = Noise(0, torch.arange(len(x)), "/bench")
    bare, alone, whole = [], [], []
    found = attack.run(prepared, x, y, noise)
    for _ in range(MOST_ROUNDS):
        begun = time.perf_counter()
        attack_step(prepared, x)
        bare.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        with torch.no_grad():
            prepared(x)
        alone.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        attack.run(prepared, x, y, noise)
        whole.append(time.perf_counter() - begun)
    both, forward = statistics.median(bare) / len(x), statistics.median(alone) / len(x)
    print(f"  {found.forwards / len(x):.1f} forwards, {found.backwards / len(x):.1f} backwards per image", end="; ")
    return statistics.median(whole) / (found.backwards * both + (found.forwards - found.backwards) * forward)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=0, help="1000 unless given; 400 for resnet20")
    parser.add_argument("--autoattack", type=int, default=200, help="images for AutoAttack, which takes minutes")
    parser.add_argument("--only", default="", help="one network: resnet20, resnet2b or bn_robust")
    settings = parser.parse_args()
    warnings.simplefilter("ignore")
    names = ("foolbox", "torchattacks", "adversarial-robustness-toolbox", "pyautoattack")
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads; "
        + ", ".join(f"{n} {version(n)}" for n in names)
    )
    result: dict[str, object] = {"bench": "attacks"}
    for one in subjects(settings.images, settings.only):
        size = min(one.batch, len(one.x))
        with inference(one.model):
            prepared = prepare(one.model, one.x[:size])
        attack = PGD(Linf(one.eps), step=one.eps / 4, steps=STEPS, keep="fooled")
        print(f"PGD-{STEPS}, {one.name}, eps {one.eps:.4f}, {len(one.x)} images in batches of {size}; {prepared}")
        sides: Contest = {
            "ours": ours(attack, one.model, prepared.model),
            "foolbox": with_foolbox(one.model, one.eps),
            "torchattacks": with_torchattacks(one.model, one.eps),
            "art": with_art(one.model, one.eps, tuple(one.x.shape[1:]), one.model.k),
        }
        ratio = contest(one, one.x, one.y, sides, settings.rounds)[0]["ours"]
        above = floor(attack, prepared.model, one.x[:size], one.y[:size])
        print(f"{above:.2f} × the bare passes; {ratio:.2f} × the fastest peer", flush=True)
        result[f"pgd20_{one.name}"] = round(ratio, 2)
        result["floor"] = max(round(above, 2), float(str(result.get("floor", 0))))
        if one.name != "resnet20":  # where AutoAttack has nothing to do
            x, y = one.x[: settings.autoattack], one.y[: settings.autoattack]
            print(f"AutoAttack standard, {one.name}, {len(x)} images")
            result |= compete_in_autoattack(one, prepared.model, x, y)
    print(json.dumps(result | {"threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
