"""What is compared: sides, each one model or several trainings of it, that saw the same images."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leastwise.audit.evidence import Evidence
from leastwise.report.class_changes import same_images
from leastwise.report.results import AuditedModel, open_result


@dataclass(frozen=True, eq=False)
class Side:
    """One model of a comparison, or several trainings of it."""

    name: str
    models: tuple[AuditedModel, ...]

    @property
    def first(self) -> Evidence:
        """The evidence of the first training: names and labels are the same in all."""
        return self.models[0].evidence

    @property
    def present(self) -> "np.ndarray":
        """Which classes have images."""
        return np.bincount(self.first.labels, minlength=self.first.k) > 0

    def hits(self, condition: str) -> list["np.ndarray"]:
        """Which images each training classifies correctly."""
        return [model.evidence.correct(condition) for model in self.models]

    def accuracy(self, condition: str) -> "np.ndarray":
        """Of every class, the mean over the trainings."""
        return np.mean([model.evidence.tally(condition).accuracy.numpy() for model in self.models], axis=0)


def open_sides(arguments: Sequence[str], names: Sequence[str] = ()) -> tuple[Side, ...]:
    """`A B1,B2,B3`: a folder, or several trainings of one method separated by commas."""
    if len(arguments) < 2:
        raise ValueError(f"a comparison needs at least two results, but saw {len(arguments)}: give two folders or more")
    found = [tuple(open_result(Path(part)) for part in text.split(",") if part) for text in arguments]
    if any(not models for models in found):
        raise ValueError("a side without a folder cannot be compared: separate folders by single commas")
    if names and len(names) != len(found):
        raise ValueError(f"{len(found)} sides need {len(found)} names, but saw {len(names)}: separate them by commas")
    typed = [
        models[0].name if len(models) == 1 else short_name(text) for text, models in zip(arguments, found, strict=True)
    ]
    chosen = list(names) or (typed if len(set(typed)) == len(typed) else [short_name(text) for text in arguments])
    if len(set(chosen)) != len(chosen):
        chosen = list(arguments)
    return make_sides(chosen, found)


def make_sides(names: Sequence[str], found: Sequence[tuple[AuditedModel, ...]]) -> tuple[Side, ...]:
    """Sides with these names, if they can be compared: other audits, of the same images."""
    made = tuple(Side(name, models) for name, models in zip(names, found, strict=True))
    check_different(made)
    for side in made:
        for model in side.models:
            if not same_images(made[0].first, model.evidence):
                raise ValueError(
                    f"models can be compared only on the same images, and {side.name} saw others than "
                    f"{made[0].name}: audit both on the same data"
                )
    return made


def check_different(found: Sequence[Side]) -> None:
    """An audit that is given twice would be a difference of nothing, or a second training that never was."""
    seen: dict[str, str] = {}
    for side in found:
        if len({json.loads(model.evidence.recipe)["model"] for model in side.models}) < len(side.models):
            raise ValueError(f"{side.name} holds one network twice: give each training of a side once")
        for model in side.models:
            if model.evidence.key in seen:
                raise ValueError(
                    f"the same audit of the same network was given twice, in {seen[model.evidence.key]} and in "
                    f"{side.name}: give each result once"
                )
            seen[model.evidence.key] = side.name


def short_name(text: str) -> str:
    """Folders by their last parts."""
    return ",".join(Path(part).resolve().name for part in text.split(",") if part)
