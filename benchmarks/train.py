"""Time of one TRADES step against the way released code does it: `make bench-train`.

Ten attack steps, batch 128, made-up images of CIFAR-10's shape. The reference is a plain loop: it crafts on the network
in evaluation mode and asks the clean batch anew in every attack step and twice in the loss, as the released code of
TRADES does; `lean` is the same loop without those repeated passes. All take turns, so that a busy moment hits all of
them. Bookkeeping is what the loop does besides crafting, loss and update: noise for the start, counts and sums by
class, the finite check. The last line is JSON.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leastwise.attacks.goals import KL
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Gaussian, Linf
from leastwise.data.dataset import Dataset
from leastwise.models.zoo.registry import build
from leastwise.training.base import Seen, Terms
from leastwise.training.batches import plan_batches
from leastwise.training.loop import Loop
from leastwise.training.methods.trades import TRADES
from leastwise.training.recipe import Training
from leastwise.training.schedules import Constant

BATCH, STEPS, EPS, STEP, BETA = 128, 10, 8 / 255, 2 / 255, 6.0
NETWORKS = (("resnet20", 7), ("small", 9), ("preact-resnet18", 3))  # and how often each takes a step


def images() -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset.of(rng.integers(0, 256, (BATCH, 3, 32, 32), dtype=np.uint8), np.arange(BATCH) % 10)


def reference(model: nn.Module, x: Tensor, y: Tensor, optimiser: torch.optim.Optimizer, lean: bool) -> None:
    """One step as released code takes it."""
    model.eval()
    at = x + 0.001 * torch.randn_like(x)
    with torch.no_grad():
        once = model(x).softmax(dim=1)
    for _ in range(STEPS):
        at.requires_grad_()
        clean = once if lean else model(x).softmax(dim=1)
        (g,) = torch.autograd.grad(F.kl_div(model(at).log_softmax(dim=1), clean, reduction="sum"), at)
        at = at.detach() + STEP * g.sign()
        at = torch.min(torch.max(at, x - EPS), x + EPS).clamp(0, 1)
    model.train()
    optimiser.zero_grad()
    z = model(x)
    again = z if lean else model(x)
    loss = F.cross_entropy(z, y) + BETA * F.kl_div(
        model(at).log_softmax(dim=1), again.softmax(dim=1), reduction="batchmean"
    )
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compared(name: str, rounds: int) -> dict[str, float]:
    data = images()
    model, other = build(name, data.shape, data.k), build(name, data.shape, data.k)
    attack = PGD(Linf(EPS), KL(), STEP, STEPS, Gaussian(0.001))
    training = Training(TRADES(attack, BETA), 1, BATCH, Constant(0.01))
    loop = Loop(model=model.train(), data=data, training=training)
    (plan,) = plan_batches(data, BATCH)
    x, y, _ = data.batch(np.arange(BATCH))
    optimiser = torch.optim.SGD(other.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    z = torch.randn(BATCH, 10)
    terms = Terms(torch.ones(BATCH), z, z, torch.ones(BATCH), BETA)
    works: dict[str, Callable[[], object]] = {
        "ours": lambda: loop.step(plan, (), rate=0.01, epoch=0, number=0, progress=0.0),
        "reference": lambda: reference(other, x, y, optimiser, lean=False),
        "lean": lambda: reference(other, x, y, optimiser, lean=True),
        "bookkeeping": lambda: Seen.empty(10) + Seen.of(terms, y, 10),
        "refresh": lambda: None if loop.prepared is None else loop.prepared.refresh(),
    }
    for work in works.values():
        work()
    spent: dict[str, list[float]] = {key: [] for key in works}
    for _ in range(rounds):
        for key, work in works.items():
            spent[key].append(timed(work))
    ratios = {
        key: statistics.median(a / b for a, b in zip(spent[key], spent["ours"], strict=True))
        for key in ("reference", "lean", "bookkeeping", "refresh")
    }
    return {"seconds": statistics.median(spent["ours"])} | ratios


def main() -> None:
    print(f"threads {torch.get_num_threads()}, torch {torch.__version__}, batch {BATCH}, {STEPS} attack steps")
    print(f"{'network':16} {'ours, s':>8} {'reference':>10} {'lean':>6} {'bookkeeping':>12} {'refresh':>8}")
    found = {}
    for name, rounds in NETWORKS:
        one = compared(name, rounds)
        found[name] = {key: round(value, 4) for key, value in one.items()}
        print(
            f"{name:16} {one['seconds']:8.3f} {one['reference']:9.2f}× {one['lean']:5.2f}× "
            f"{100 * one['bookkeeping']:10.2f} % {100 * one['refresh']:6.2f} %",
            flush=True,
        )
    print(json.dumps({"bench": "train", **found, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else torch.get_num_threads())
    main()
