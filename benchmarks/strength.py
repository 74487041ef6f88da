"""Strength beside independent implementations: the same network, images, radius and budget.

    python benchmarks/strength.py NETWORK [--images N] [--seeds N] [--out FILE] [--only ATTACK,…]

NETWORK is resnet2b (CIFAR-10, 2/255) or mnist (0.3): networks that others trained, from the folder that
LEASTWISE_TEST_DATA names. Robust accuracy of every attack alone; for AutoAttack the mean over seeds and the share of
images on which both sides agree. Finished runs are kept in FILE, so that an interrupted run goes on. PGD-20 is compared
with Foolbox at its last iterate, the others with pyautoattack.
"""

import argparse
import json
import logging
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.autoattack import make_autoattack
from leastwise.attacks.base import Attack
from leastwise.attacks.fab.fab import FAB
from leastwise.attacks.goals import CE
from leastwise.attacks.pgd import PGD
from leastwise.attacks.square import Square
from leastwise.attacks.threats import Linf
from leastwise.core.files import write_json
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask
from leastwise.data.loading import load
from leastwise.models.classifier import Classifier, inference
from leastwise.models.fast.prepare import prepare

sys.path.insert(0, str(Path(__file__).parents[1]))  # the networks of the tests
BATCH = 250
STEPS = 20
STARTS = 10  # of PGD: one random start moves half a point on 1,000 images

SIDES = ("ours", "theirs")

Run = Callable[[int], Mask]  # seed -> which images survived


def subject(name: str, folder: Path, images: int) -> tuple[Classifier, Images, Labels, float]:
    from tests.oracles.networks import cifar_network, mnist_cnn

    file, eps = ("cifar10_test_first2000.npz", 2 / 255) if name == "resnet2b" else ("mnist_test.npz", 0.3)
    x, y, _ = load(str(folder / file)).batch(np.arange(images))
    model = cifar_network(folder, "cifar_resnet2b") if name == "resnet2b" else mnist_cnn(folder)
    return model.eval(), x, y, eps


def right(model: nn.Module, x: Images, y: Labels) -> Mask:
    with torch.no_grad():
        return model(x).argmax(dim=1) == y


def ours(attack: Attack, model: Classifier, x: Images, y: Labels) -> Run:
    with inference(model):
        prepared = prepare(model, x[:BATCH]).model

    def run(seed: int) -> Mask:
        left = []
        with inference(model):
            for rows in torch.split(torch.arange(len(x)), BATCH):
                x_adv = attack.run(prepared, x[rows], y[rows], Noise(seed, rows, "/audit")).x_adv
                left.append(right(model, x[rows], y[rows]) & right(model, x_adv, y[rows]))
        return torch.cat(left)

    return run


def reference(attacks: list[str] | None, model: Classifier, x: Images, y: Labels, eps: float) -> Run:
    from pyautoattack import AutoAttack

    def run(seed: int) -> Mask:
        how: dict[str, Any] = {"version": "custom", "attacks": attacks} if attacks else {"version": "standard"}
        peer = AutoAttack(model, norm="Linf", eps=eps, seed=seed, device="cpu", **how)
        if attacks:  # as the standard version has them
            peer.apgd.n_restarts, peer.fab.n_restarts = 1, 1
            peer.apgd_targeted.n_target_classes, peer.fab.n_target_classes = 9, 9
        x_adv, _ = peer.run_standard_evaluation(x, y, batch_size=BATCH)
        return right(model, x, y) & right(model, x_adv, y)

    return run


def foolbox_pgd(model: Classifier, x: Images, y: Labels, eps: float) -> Run:
    import foolbox

    def run(seed: int) -> Mask:
        torch.manual_seed(seed)
        wrapped = foolbox.models.PyTorchModel(model, bounds=(0, 1), device="cpu")
        x_adv = foolbox.attacks.LinfPGD(abs_stepsize=eps / 4, steps=STEPS)(wrapped, x, y, epsilons=eps)[1]
        return right(model, x_adv, y)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=["resnet2b", "mnist"])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", default="")
    parser.add_argument("--only", default="")
    settings = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    folder = os.environ.get("LEASTWISE_TEST_DATA")
    if not folder:
        sys.exit("set LEASTWISE_TEST_DATA to the folder of data and networks")
    model, x, y, eps = subject(settings.network, Path(folder), settings.images)
    ball = Linf(eps)
    rows: dict[str, tuple[Run, Run, int]] = {
        "pgd20": (
            ours(PGD(ball, CE(), eps / 4, STEPS, keep="last"), model, x, y),
            foolbox_pgd(model, x, y, eps),
            STARTS,
        ),
        "apgd-ce": (ours(APGD(ball, keep="fooled"), model, x, y), reference(["apgd-ce"], model, x, y, eps), 1),
        "apgd-t": (ours(APGD(ball, targets=9, keep="fooled"), model, x, y), reference(["apgd-t"], model, x, y, eps), 1),
        "fab-t": (ours(FAB(ball, targets=9, keep="fooled"), model, x, y), reference(["fab-t"], model, x, y, eps), 1),
        # The reference draws one square for all images of a batch, so its accuracy moves more from seed to seed.
        "square": (
            ours(Square(ball, keep="fooled"), model, x, y),
            reference(["square"], model, x, y, eps),
            settings.seeds,
        ),
        "autoattack": (ours(make_autoattack(ball), model, x, y), reference(None, model, x, y, eps), settings.seeds),
    }
    wanted = [name for name in settings.only.split(",") if name] or list(rows)
    out = Path(settings.out) if settings.out else None
    done: dict[str, Any] = json.loads(out.read_text()) if out and out.exists() else {}
    clean = right(model, x, y).float().mean().item()
    peers = ", ".join(f"{name} {version(name)}" for name in ("foolbox", "pyautoattack"))
    print(f"{settings.network}, eps {eps:.4f}, {len(x)} images, clean {clean:.1%}; torch {torch.__version__}, {peers}")
    for name in wanted:
        mine, theirs, seeds = rows[name]
        for seed in range(seeds):
            for side, run in (("ours", mine), ("theirs", theirs)):
                if (place := f"{name}/{side}/{seed}") not in done:
                    begun = time.perf_counter()
                    survived = "".join(str(int(one)) for one in run(seed).tolist())
                    done[place] = {"survived": survived, "seconds": round(time.perf_counter() - begun, 1)}
                    if out:
                        write_json(out, done)
        print(compared(name, [[done[f"{name}/{side}/{s}"] for s in range(seeds)] for side in SIDES]), flush=True)


def compared(name: str, sides: list[list[dict[str, Any]]]) -> str:
    masks = [np.array([[int(bit) for bit in run["survived"]] for run in runs]) for runs in sides]
    ours_, theirs = (100 * mask.mean() for mask in masks)
    agree = 100 * (masks[0] == masks[1]).mean(axis=1)
    seconds = [statistics.median(run["seconds"] for run in runs) for runs in sides]
    return (
        f"{name:10} ours {ours_:.2f}, theirs {theirs:.2f}, difference {ours_ - theirs:+.2f} ({len(sides[0])} seeds); "
        f"verdicts agree on {agree.mean():.2f} %; {seconds[0]:.0f} s and {seconds[1]:.0f} s a run"
    )


if __name__ == "__main__":
    main()
