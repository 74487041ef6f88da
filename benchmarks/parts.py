"""What parts of an attack step cost, against one forward and backward pass of `small` on 100 images.

    python benchmarks/parts.py [--rounds N]

Interleaved rounds in one run, medians. The last line is JSON: the share of a pass that drawing the random
starts takes, and how many times faster channels-last weights are.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from leastwise.core.noise import Noise
from leastwise.core.types import Images
from leastwise.models.zoo.registry import build

SHAPES = ((1, 28, 28), (3, 32, 32))
IMAGES = 100


def one_pass(model: nn.Module, x: Images) -> None:
    at = x.clone().requires_grad_()
    torch.autograd.grad(model(at).sum(), at)


def medians(parts: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Milliseconds; every round runs each part once, so that a busy moment hits all."""
    times: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(rounds):
        for name, part in parts.items():
            begun = time.perf_counter()
            part()
            times[name].append(1000 * (time.perf_counter() - begun))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=41)
    rounds = parser.parse_args().rounds
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {IMAGES} images")
    ratios = {}
    for shape in SHAPES:
        chosen = build("small", shape, 10).eval()
        plain = build("small", shape, 10).eval()
        plain.net.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        noise, x = Noise(0, torch.arange(IMAGES), "/bench"), torch.rand(IMAGES, *shape)
        found = medians(
            {
                "noise": partial(noise.uniform, shape),
                "pass": partial(one_pass, chosen, x),
                "contiguous": partial(one_pass, plain, x),
            },
            rounds,
        )
        print(f"{shape}: " + ", ".join(f"{name} {value:.2f} ms" for name, value in found.items()))
        ratios[f"noise_{shape[1]}"] = round(found["noise"] / found["pass"], 3)
        ratios[f"channels_last_{shape[1]}"] = round(found["contiguous"] / found["pass"], 2)
    print(json.dumps({"bench": "parts"} | ratios))


if __name__ == "__main__":
    main()
