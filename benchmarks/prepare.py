"""Step time of given and prepared networks: `make bench-prepare`.

A step is one forward pass and the input gradient, as attacks take it. `prepare` chooses a form; then the network as
given and the chosen form take turns, thirty-one pairs. Keeping the original form counts as 1.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import torch

from leastwise.models.classifier import Classifier
from leastwise.models.fast.prepare import ORIGINAL, attack_step, prepare
from leastwise.models.zoo.registry import build

PAIRS = 31
# Name and batch: so large that two cores take a step of the network as given in less than a second.
NETWORKS = (
    ("resnet20", 100),
    ("resnet18", 16),
    ("wrn-16-4", 50),
    ("vgg16-bn", 50),
    ("densenet121", 16),
    ("vit-small", 8),
)


def trained_for_a_moment(name: str) -> Classifier:
    """BatchNorm statistics that are not the initial ones."""
    model = build(name, (3, 32, 32), 10, mean=(0.4914, 0.4822, 0.4465), std=(0.2471, 0.2435, 0.2616)).train()
    with torch.no_grad():
        for _ in range(3):
            model(torch.rand(32, 3, 32, 32))
    return model.eval()


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    print(f"threads: {torch.get_num_threads()}, torch {torch.__version__}, medians of {PAIRS} interleaved pairs")
    print(f"{'network':12} {'batch':>5} {'given ms':>9} {'prepared ms':>11} {'gain':>6}  form")
    gains = {}
    for name, size in NETWORKS:
        model = trained_for_a_moment(name)
        x = torch.rand(size, 3, 32, 32)
        made = prepare(model, x)
        if made.form == ORIGINAL:
            now = statistics.median(timed(partial(attack_step, model, x)) for _ in range(PAIRS))
            given, prepared, gain = now, now, 1.0
        else:
            plain, fast = partial(attack_step, model, x), partial(attack_step, made.model, x)
            pairs = [(timed(plain), timed(fast)) for _ in range(PAIRS)]
            given, prepared = (statistics.median(side) for side in zip(*pairs, strict=True))
            gain = statistics.median(a / b for a, b in pairs)
        gains[name] = round(gain, 2)
        print(f"{name:12} {size:5} {1e3 * given:9.1f} {1e3 * prepared:11.1f} {gain:6.2f}  {made.form}", flush=True)
    print(json.dumps({"bench": "prepare", **gains, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else torch.get_num_threads())
    main()
