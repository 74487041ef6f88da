"""Races over stored and made-up outcomes, whose truth is known: who was named, at what price, and how often wrongly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leastwise.statistics.race import BATCH, RaceAim, Round, replay_outcomes, run_race

BITS = Path(__file__).parents[1] / "oracles" / "resnet2b_bits.npz"
SET, POPULATION = RaceAim(), RaceAim("population")
CAT = 3

Outcomes = tuple[list["np.ndarray"], list["np.ndarray"]]  # by class: right as they are; survivors among those
MakeOutcomes = Callable[[np.random.Generator], Outcomes]


def read_resnet2b() -> Outcomes:
    """Which of CIFAR-10's test images a real network has right, and which of those survive PGD-20 at 2/255.

    `docs/results/audit.md` has the command that made the file.
    """
    kept = np.load(BITS)
    labels = kept["labels"]
    clean, survived = (np.unpackbits(kept[part]).astype(bool) for part in ("clean", "survived"))
    return [clean[labels == c] for c in range(10)], [survived[(labels == c) & clean] for c in range(10)]


def shuffle(outcomes: Outcomes, rng: np.random.Generator) -> Outcomes:
    """The images of every class in another order."""
    clean = [rng.permutation(some) for some in outcomes[0]]
    return clean, [rng.permutation(some) for some in outcomes[1]]


def draw_classes(sizes: Sequence[int], accuracies: Sequence[float], rng: np.random.Generator) -> Outcomes:
    """Images that are all right as they are and survive with the accuracy of their class."""
    survived = [rng.random(n) < p for n, p in zip(sizes, accuracies, strict=True)]
    return [np.ones(n, dtype=bool) for n in sizes], survived


def near_tie(rng: np.random.Generator) -> Outcomes:
    return draw_classes((1000, 1000), (0.40, 0.42), rng)


def unbalanced(rng: np.random.Generator) -> Outcomes:
    """43 classes of 60 to 750 images, as in a set of traffic signs: one at 30 %, the others from 55 % up."""
    sizes = np.linspace(60, 750, 43).round().astype(int)
    rng.shuffle(sizes)
    return draw_classes(sizes.tolist(), [0.30, *np.linspace(0.55, 0.95, 42)], rng)


def hundred(rng: np.random.Generator) -> Outcomes:
    return draw_classes([100] * 100, [0.10, *np.linspace(0.20, 0.70, 99)], rng)


def finish(outcomes: Outcomes, aim: RaceAim = SET, batch: int = BATCH) -> Round:
    clean, survived = outcomes
    return list(run_race(replay_outcomes(survived), clean, aim, batch=batch))[-1]


@dataclass(frozen=True)
class Races:
    """Many races: the shares that named a class and that dropped the right one; mean attacks, and of all images."""

    named: float
    wrong: float
    spent: float
    share: float


def run_races(make: MakeOutcomes, runs: int, aim: RaceAim = SET, *, seed: int = 0, truth: int = 0) -> Races:
    """On this test set any class that is lowest there is right; in the population, class `truth`."""
    rng = np.random.default_rng(seed)
    named, wrong, spent, share = [], [], [], []
    for _ in range(runs):
        outcomes = make(rng)
        found = finish(outcomes, aim)
        accuracy = np.array([s.sum() / len(c) for c, s in zip(*outcomes, strict=True)])
        lowest = set(np.flatnonzero(accuracy == accuracy.min())) if aim.question == "this-test-set" else {truth}
        named.append(found.worst is not None)
        wrong.append(not lowest & set(found.contenders))
        spent.append(found.spent)
        share.append(found.spent / sum(map(len, outcomes[1])))
    return Races(*(float(np.mean(part)) for part in (named, wrong, spent, share)))
