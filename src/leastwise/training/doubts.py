"""What a training should say when it goes wrong: while it runs, and again at its end.

A policy that cannot act on a method is refused before it begins (`base.check_policies`).
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leastwise.data.dataset import Dataset
from leastwise.training.base import Epoch
from leastwise.training.recipe import Validation

FEWEST = 10  # images of a class from which a tenth is one
ALL = 0.95  # of the images of a class, where one answer is given for all
BEYOND_GUESSING = 2.33  # standard deviations: a guesser exceeds this once in a hundred times
ENOUGH = 50  # images from which a network that is no better than guessing shows it


def doubt_validation(validation: Validation, data: Dataset) -> str:
    """Why there is no validation although the recipe leaves its size open; empty if there is, or none was asked for."""
    if validation.per_class is not None or validation.on_test or validation.images(data):
        return ""
    n, c = min((int(n), c) for c, n in enumerate(data.counts) if n)
    return (
        f"the class {data.names[c]} has {n} images, fewer than {FEWEST}, so none are split off for validation and the "
        "last epoch is kept, whatever it is: give --valid-per-class, or more images"
    )


def doubt_epoch(seen: Epoch, names: Sequence[str]) -> str:
    """What went wrong in an epoch, if anything."""
    looked = seen.valid or seen.train
    tally = looked.clean
    return doubt_counts(tally.n.tolist(), tally.correct.tolist(), names, number=seen.number, of=seen.of)


def doubt_counts(n: Sequence[int], correct: Sequence[int], names: Sequence[str], *, number: int, of: int) -> str:
    """A sentence on a network that has one answer for all; or that at the end is no better than guessing."""
    present = [c for c, count in enumerate(n) if count]
    total, right, k = sum(n), sum(correct), len(present)
    if k < 2:
        return ""
    guess = total / k + BEYOND_GUESSING * math.sqrt(total / k * (1 - 1 / k))
    best = max(present, key=lambda c: correct[c] / n[c])
    others = right - correct[best]
    if right <= guess and correct[best] >= ALL * n[best] and others <= (1 - ALL) * (total - n[best]):
        return (
            f"after epoch {number} the network has collapsed: it is right on {correct[best]} of {n[best]} images of "
            f"{names[best]} and on {others} of all others, so it gives one answer for all; try a lower learning "
            "rate, a smaller radius or another policy"
        )
    if number == of and total >= ENOUGH and right <= guess:
        return (
            f"after the last epoch {right} of {total} clean images are right, no better than guessing: the labels "
            "could not be learned; check them, the learning rate and the radius"
        )
    return ""


def read_doubts(epochs: Path, names: Sequence[str], of: int) -> tuple[str, ...]:
    """What the lines of `epochs.jsonl` have to say of the last epoch."""
    try:
        line: Mapping[str, Any] = json.loads(epochs.read_text("utf-8").splitlines()[-1])
        counts = line.get("valid", line)["clean"]
        said = doubt_counts(counts["n"], counts["correct"], names, number=int(line["epoch"]), of=of)
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return ()
    return (said,) if said else ()
