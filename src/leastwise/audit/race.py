"""Which class is the worst? Attacks are spent only on the classes that may still be it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from leastwise.attacks.base import Clean
from leastwise.audit.auditor import Auditor, check_finite
from leastwise.audit.evidence import Evidence
from leastwise.core.noise import random_order
from leastwise.data.dataset import Batch, Dataset
from leastwise.models.classifier import Classifier, inference
from leastwise.statistics.race import BATCH, RaceAim, Round, run_race

Survived = Mapping[int, "np.ndarray"]  # by class: which of the attacked images are still right
Attacked = Callable[[Mapping[int, "np.ndarray"]], Survived]  # positions by class


@dataclass(frozen=True)
class RaceRecipe:
    """What determines the course of a race; the audit's recipe says the model, the data, the attack and the seed."""

    recipe_name: ClassVar[str] = "RaceRecipe"

    audit: str  # key
    batch: int = BATCH  # images of a class in a round
    aim: RaceAim = RaceAim()
    guess: tuple[float, ...] = ()  # accuracies that are expected: they decide where is looked first, never the answer

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"a round needs at least 1 image per class, but saw {self.batch}")
        if self.guess and self.aim.question == "population":
            raise ValueError(
                "what an earlier audit found may guide a race on this test set only: about the population, "
                "bets must not know the images they are settled by; leave the guess out"
            )


def take_guess(earlier: Evidence, names: Sequence[str]) -> tuple[float, ...]:
    """The class accuracies of an earlier audit, under its last condition."""
    if tuple(earlier.names) != tuple(names):
        raise ValueError("the earlier audit is one of other classes, so it says nothing about these: leave --prior out")
    accuracy = earlier.tally(list(earlier.conditions)[-1]).accuracy
    # A class without images there is expected to be like the others.
    return tuple(round(float(a), 4) for a in accuracy.nan_to_num(float(accuracy.nanmean())))


@dataclass(frozen=True)
class RaceAnswer:
    """What a race found."""

    question: str
    confidence: float
    attacked: int  # images that were attacked
    images: int  # images in all
    named: tuple[str, ...]  # the worst class, or as many as were asked for; none while undecided
    contenders: tuple[str, ...]  # who may still be among them, or on either side of the threshold
    tied: bool = False  # whether the contenders are exactly equal on this test set
    below: tuple[str, ...] = ()  # classes below a threshold, and the others
    above: tuple[str, ...] = ()


def check_aim(data: Dataset, aim: RaceAim) -> None:
    """Refuse a race that has nothing to decide."""
    present = int((np.bincount(data.labels, minlength=data.k) > 0).sum())
    if aim.below is None and present < 2:
        raise ValueError(f"a race needs images of at least two classes, but saw {present}: name more with --only")
    if aim.top >= present > 1:
        raise ValueError(f"the {aim.top} worst of {present} classes need no race: ask for fewer with --top")


def order_by_class(auditor: Auditor, data: Dataset) -> list["np.ndarray"]:
    """The positions of every class's images, in an order drawn from the seed: no image twice, each as good as any."""
    order = random_order(torch.from_numpy(data.ids), auditor.recipe.seed, "race").numpy()
    labels = data.labels[order]
    return [order[labels == c] for c in range(data.k)]


def find_right(auditor: Auditor, data: Dataset) -> "np.ndarray":
    """Which images the model has right as they are: one pass each. The others need no attack."""
    found = np.zeros(len(data), dtype=bool)
    at = 0
    for batch in data.batches(auditor.batch_size, np.arange(len(data))):
        x, y, ids = Batch(*(part.to(auditor.device) for part in batch))
        with inference(auditor.model):
            z, outcome = auditor.attack_batch("clean", Clean(), x, y=y, ids=ids, crafted_on=auditor.model)
        check_finite(z, outcome, y, name="clean", classes=data.names)
        found[at : at + len(y)] = (z.argmax(dim=1) == y).cpu().numpy()
        at += len(y)
    return found


def attack_here(auditor: Auditor, data: Dataset, crafted_on: Classifier) -> Attacked:
    """Attack the images of a round, all classes in shared batches."""
    ((name, _),) = auditor.recipe.conditions

    def run(wanted: Mapping[int, "np.ndarray"]) -> Survived:
        positions = np.concatenate(list(wanted.values()))
        with inference(auditor.model), inference(crafted_on):
            found = auditor.attack_piece(name, data, positions, crafted_on=crafted_on)
        right = found.predicted == data.labels[positions]
        ends = np.cumsum([len(some) for some in wanted.values()])[:-1]
        return dict(zip(wanted, np.split(right, ends), strict=True))

    return run


def race(
    recipe: RaceRecipe, places: Sequence["np.ndarray"], right: "np.ndarray", *, attack: Attacked
) -> Iterator[Round]:
    """The rounds, one by one; `right` says which images are right as they are: only those are attacked.

    `attack` may look up what an interrupted race found before.
    """
    able = [some[right[some]] for some in places]
    at = [0] * len(places)

    def draw(wanted: Mapping[int, int]) -> Survived:
        rows = {c: able[c][at[c] : at[c] + count] for c, count in wanted.items()}
        for c, count in wanted.items():
            at[c] += count
        return attack(rows)

    guess = np.array(recipe.guess) if recipe.guess else None
    yield from run_race(draw, [right[some] for some in places], recipe.aim, batch=recipe.batch, guess=guess)


def conclude(rounds: Sequence[Round], data: Dataset, aim: RaceAim) -> RaceAnswer:
    """The answer after some rounds."""
    sizes = np.bincount(data.labels, minlength=data.k)
    contenders = rounds[-1].contenders if rounds else tuple(int(c) for c in np.flatnonzero(sizes))
    sides = dict(side for found in rounds for side in found.settled)
    finite = aim.question == "this-test-set"
    over = bool(rounds) and bool((rounds[-1].left[list(contenders)] == 0).all())
    tied = aim.below is None and finite and over and len(contenders) > aim.top
    named = contenders if aim.below is None and len(contenders) == aim.top else ()

    def names(classes: Sequence[int]) -> tuple[str, ...]:
        return tuple(data.names[c] for c in classes)

    return RaceAnswer(
        aim.question,
        aim.confidence,
        rounds[-1].spent if rounds else 0,
        int(sizes.sum()),
        names(named),
        names(contenders),
        tied,
        names([c for c, low in sorted(sides.items()) if low]),
        names([c for c, low in sorted(sides.items()) if not low]),
    )


def facts(
    rounds: Sequence[Round], data: Dataset, auditor: Auditor, *, recipe: RaceRecipe, right: "np.ndarray"
) -> dict[str, Any]:
    """What a race found, ready to read by any program."""
    names, aim, answer = data.names, recipe.aim, conclude(rounds, data, recipe.aim)
    zeros = [0] * data.k
    return {
        "schema": 2,
        "condition": auditor.recipe.conditions[0][0],
        "question": answer.question,
        "confidence": answer.confidence,
        "top": aim.top if aim.below is None else None,
        "threshold": aim.below,
        "attacked": answer.attacked,
        "images": answer.images,
        "worst": answer.named[0] if len(answer.named) == 1 else None,
        "named": list(answer.named),
        "contenders": list(answer.contenders),
        "tied": answer.tied,
        "below": list(answer.below),
        "above": list(answer.above),
        "rounds": len(rounds),
        "classes": list(names),
        "by_class": {
            "images": np.bincount(data.labels, minlength=data.k).tolist(),
            "right_before": np.bincount(data.labels[right], minlength=data.k).tolist(),
            "seen": rounds[-1].seen.tolist() if rounds else zeros,
            "attacked": rounds[-1].attacked.tolist() if rounds else zeros,
            "survived": rounds[-1].survived.tolist() if rounds else zeros,
        },
        "eliminated": [
            {"class": names[c], "better_than": names[by], "round": number, "attacked": found.spent}
            for number, found in enumerate(rounds, 1)
            for c, by in found.dropped
        ],
        "warnings": list(auditor.warnings),
    }
