"""Populations of classes with known truths, over which promises are checked: random accuracies and sizes."""

from collections.abc import Callable

import numpy as np

Truth = Callable[[np.random.Generator], tuple["np.ndarray", "np.ndarray"]]


def uneven(low: int, high: int, k: int, rng: np.random.Generator) -> "np.ndarray":
    """Sizes even on a logarithmic scale."""
    return np.round(np.exp(rng.uniform(np.log(low), np.log(high), k))).astype(np.int64)


TRUTHS: dict[str, Truth] = {
    "five of ten with 1 to 5 images": lambda r: (r.beta(4, 4, 10), np.append(r.integers(1, 6, 5), np.full(5, 100))),
    "five of ten with 1 to 5, wide": lambda r: (r.random(10), np.append(r.integers(1, 6, 5), np.full(5, 1000))),
    "10 wide, n 1000": lambda r: (r.beta(4, 3, 10), np.full(10, 1000)),
    "10 flat, n 50": lambda r: (r.random(10), np.full(10, 50)),
    "10 nearly equal, n 1000": lambda r: (r.beta(2000, 2000, 10), np.full(10, 1000)),
    "10 equal": lambda r: (np.full(10, 0.5), np.full(10, 200)),
    "10 near 0": lambda r: (r.beta(1, 30, 10), np.full(10, 100)),
    "10 near 1": lambda r: (r.beta(99, 1, 10), np.full(10, 1000)),
    "10, one far below": lambda r: (np.append(r.beta(80, 20, 9), r.beta(50, 50)), np.full(10, 50)),
    "10 in two clusters": lambda r: (np.append(r.beta(80, 320, 5), r.beta(280, 120, 5)), np.full(10, 50)),
    "0, 0.3, 0.5 and 1": lambda r: (r.choice([0.0, 0.3, 0.5, 1.0], 12), np.full(12, 30)),
    "2 of 100 images": lambda r: (r.random(2), np.full(2, 100)),
    "2 alike": lambda r: (r.beta(200, 200, 2), np.full(2, 100)),
    "2 of three images": lambda r: (r.random(2), np.full(2, 3)),
    "5 of 20 images": lambda r: (r.beta(5, 5, 5), np.full(5, 20)),
    "20 weak of 30": lambda r: (r.beta(1, 9, 20), np.full(20, 30)),
    "43 of 5 to 500": lambda r: (r.beta(8, 3, 43), uneven(5, 500, 43, r)),
    "100 alike": lambda r: (r.beta(20, 20, 100), np.full(100, 50)),
    "100 in two clusters": lambda r: (np.append(r.beta(80, 320, 50), r.beta(280, 120, 50)), np.full(100, 50)),
    "100 of 1 to 5": lambda r: (r.beta(2, 2, 100), r.integers(1, 6, 100)),
    "100, 30 missing": lambda r: (r.beta(4, 4, 100), np.where(r.permutation(100) < 30, 0, 50)),
    "1000 of 50": lambda r: (r.beta(4, 4, 1000), np.full(1000, 50)),
}
QUICK = (
    "five of ten with 1 to 5 images",
    "10 nearly equal, n 1000",
    "10, one far below",
    "0, 0.3, 0.5 and 1",
    "43 of 5 to 500",
)


def draw_audits(name: str, runs: int, seed: int = 1) -> list[tuple["np.ndarray", "np.ndarray", "np.ndarray"]]:
    """Truths, right answers and numbers of images of several audits."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(runs):
        p, n = TRUTHS[name](rng)
        made.append((p, rng.binomial(n, p), n))
    return made
