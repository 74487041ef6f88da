"""PGD-20 against Foolbox on the same network, images and budget: interleaved pairs, medians, ratios.

    make bench            (or: python benchmarks/attacks.py [--pairs N] [--images N])

The network is trained here for a minute the way the demo does it. The last line is JSON.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version

import foolbox
import torch
from torch import nn

from leastwise.attacks import PGD
from leastwise.balls import Linf
from leastwise.data import load
from leastwise.demo import EPS, audits
from leastwise.models import build, inference
from leastwise.noise import Noise
from leastwise.train import fit
from leastwise.types import Images, Labels

STEPS = 20


def robust_network(name: str) -> nn.Module:
    recipe = audits()[name].model
    data = load(recipe.data, split="train")
    model = build(recipe.arch, data.shape, data.k)
    for _ in fit(model, data, recipe.training):
        pass
    return model.eval()


def seconds(work: Callable[[], float]) -> tuple[float, float]:
    begun = time.perf_counter()
    survived = work()
    return time.perf_counter() - begun, survived


def contest(model: nn.Module, x: Images, y: Labels, pairs: int) -> dict[str, float]:
    """Medians over interleaved pairs, so that a busy moment hits both."""
    ours = PGD(Linf(EPS), step=EPS / 4, steps=STEPS, keep="fooled")
    noise = Noise(0, torch.arange(len(x)), "/bench")
    theirs = foolbox.attacks.LinfPGD(abs_stepsize=EPS / 4, steps=STEPS)
    wrapped = foolbox.models.PyTorchModel(model, bounds=(0, 1), device="cpu")

    def run_ours() -> float:
        with inference(model):
            return 1 - ours.run(model, x, y, noise).fooled.float().mean().item()

    def run_theirs() -> float:
        return 1 - theirs(wrapped, x, y, epsilons=EPS)[2].float().mean().item()

    times: list[tuple[float, float]] = []
    for _ in range(pairs):
        (a, ours_left), (b, theirs_left) = seconds(run_ours), seconds(run_theirs)
        times.append((a, b))
    cost = ours.run(model, x, y, noise)
    return {
        "ours_s": statistics.median(a for a, _ in times),
        "foolbox_s": statistics.median(b for _, b in times),
        "ratio": statistics.median(b / a for a, b in times),
        "ours_robust": ours_left,
        "foolbox_robust": theirs_left,
        "forwards_per_image": cost.forwards / len(x),
        "backwards_per_image": cost.backwards / len(x),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--images", type=int, default=400)
    settings = parser.parse_args()
    data = load("fashion-mini/test").take(settings.images // 10)
    x, y, _ = next(data.batches(len(data)))
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads; foolbox {version('foolbox')}; {len(x)} images"
    )
    ratios = {}
    for name in ("standard", "pgd-at"):
        result = contest(robust_network(name), x, y, settings.pairs)
        ratios[f"pgd20_{name.replace('-', '_')}"] = round(result["ratio"], 2)
        print(f"{name}: " + ", ".join(f"{key} {value:.3f}" for key, value in result.items()))
    print(json.dumps({"bench": "attacks"} | ratios))


if __name__ == "__main__":
    main()
