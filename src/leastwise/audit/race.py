"""Which class is the worst? Attacks are spent only on the classes that may still be it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from leastwise.audit.auditor import Auditor
from leastwise.core.noise import random_order
from leastwise.data.dataset import Dataset
from leastwise.models.classifier import Classifier
from leastwise.statistics.intervals import CONFIDENCE
from leastwise.statistics.race import Round, run_race

Survived = Mapping[int, "np.ndarray"]  # by class: which of the attacked images are still right
Attacked = Callable[[Mapping[int, "np.ndarray"]], Survived]  # positions by class


@dataclass(frozen=True)
class RaceRecipe:
    """What determines the course of a race; the audit's recipe says the model, the data, the attack and the seed."""

    recipe_name: ClassVar[str] = "RaceRecipe"

    audit: str  # key
    batch: int = 25  # images of a class in a round
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"a round needs at least 1 image per class, but saw {self.batch}")
        if not 0.5 < self.confidence < 1:
            raise ValueError(f"the confidence must lie between 0.5 and 1, but saw {self.confidence:g}")


def check(data: Dataset) -> None:
    present = int((np.bincount(data.labels, minlength=data.k) > 0).sum())
    if present < 2:
        raise ValueError(f"a race needs images of at least two classes, but saw {present}: name more with --only")


def order_by_class(auditor: Auditor, data: Dataset) -> list["np.ndarray"]:
    """The positions of every class's images, in an order drawn from the seed: no image twice, each as good as any."""
    order = random_order(torch.from_numpy(data.ids), auditor.recipe.seed, "race").numpy()
    labels = data.labels[order]
    return [order[labels == c] for c in range(data.k)]


def attack_here(auditor: Auditor, data: Dataset, crafted_on: Classifier) -> Attacked:
    """Attack the images of a round, all classes in shared batches."""
    ((name, _),) = auditor.recipe.conditions

    def run(wanted: Mapping[int, "np.ndarray"]) -> Survived:
        positions = np.concatenate(list(wanted.values()))
        found = auditor.attack_piece(name, data, positions, crafted_on=crafted_on)
        right = found.predicted == data.labels[positions]
        ends = np.cumsum([len(some) for some in wanted.values()])[:-1]
        return dict(zip(wanted, np.split(right, ends), strict=True))

    return run


def race(recipe: RaceRecipe, places: list["np.ndarray"], attack: Attacked) -> Iterator[Round]:
    """The rounds, one by one; `attack` may look up what an interrupted race found before."""
    at = [0] * len(places)

    def draw(wanted: Mapping[int, int]) -> Survived:
        rows = {c: places[c][at[c] : at[c] + count] for c, count in wanted.items()}
        for c, count in wanted.items():
            at[c] += count
        return attack(rows)

    yield from run_race(draw, [len(some) for some in places], recipe.batch, confidence=recipe.confidence)


def facts(rounds: Sequence[Round], data: Dataset, auditor: Auditor, *, recipe: RaceRecipe) -> dict[str, Any]:
    """What a race found, ready to read by any program."""
    names, sizes = data.names, np.bincount(data.labels, minlength=data.k)
    present = tuple(int(c) for c in np.flatnonzero(sizes))
    contenders = rounds[-1].contenders if rounds else present
    zeros = [0] * data.k
    return {
        "schema": 1,
        "condition": auditor.recipe.conditions[0][0],
        "classes": list(names),
        "worst": names[contenders[0]] if len(contenders) == 1 else None,
        "contenders": [names[c] for c in contenders],
        "confidence": recipe.confidence,
        "rounds": len(rounds),
        "attacked": rounds[-1].spent if rounds else 0,
        "images": int(sizes.sum()),
        "n": rounds[-1].n.tolist() if rounds else zeros,
        "correct": rounds[-1].correct.tolist() if rounds else zeros,
        "eliminated": [
            {"class": names[c], "better_than": names[by], "round": number, "attacked": found.spent}
            for number, found in enumerate(rounds, 1)
            for c, by in found.dropped
        ],
        "warnings": list(auditor.warnings),
    }
