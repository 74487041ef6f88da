"""One candidate of a lift: made in a folder of its own, and measured in two parts, of which a hopeless one gets one."""

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from leastwise import __version__
from leastwise.attacks.base import Attack, Clean
from leastwise.attacks.goals import CE
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Ball, Uniform
from leastwise.core.recipe import recipe_key, to_plain_json
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import audit
from leastwise.jobs.events import JobEventListener
from leastwise.jobs.folder import tell_answers
from leastwise.jobs.lift.ways import EditWay, SoupWay, TuneWay, Way
from leastwise.jobs.train_task import TrainingTask
from leastwise.models.answers import ask_network
from leastwise.models.classifier import Classifier
from leastwise.models.load.checkpoint import load_into, save_checkpoint
from leastwise.statistics.extremes import PairedCounts
from leastwise.training.edits.base import EditImages
from leastwise.training.edits.soup import Soup
from leastwise.training.recipe import Training
from leastwise.training.resume import MODEL, Course

CONDITION = "attacked"
LARGEST_VALIDATION, FEWEST_VALIDATION = 500, 30  # images of each class that are set aside to choose by
FIRST_PART = 3  # a candidate is measured on one in so many of the validation images first

Show = Callable[[str], AbstractContextManager[JobEventListener]]  # what is being done; a listener for how it goes


@dataclass(frozen=True)
class TuneRecipe:
    """A fine-tuning of a network that somebody brought, for its key."""

    recipe_name: ClassVar[str] = "Tune"

    network: str  # digest
    images: str  # digest
    training: Training


@dataclass(frozen=True, eq=False)
class LiftMaterial:
    """What a lift works with: the network, images of three kinds, and the attack that is feared."""

    model: Classifier
    train: Dataset
    valid: Dataset
    attack: Attack  # that candidates are measured under
    edit_attack: PGD  # that edits look at
    folder: Path
    seed: int = 0
    device: str = "cpu"
    threads: int = 0

    def images(self) -> EditImages:
        return EditImages(self.train, self.valid, self.edit_attack, self.seed, self.device)


def attack_for_edits(ball: Ball) -> PGD:
    """What edits look at: ten steps of a quarter of the radius."""
    return PGD(ball, CE(), ball.eps / 4, 10, Uniform())


def make_candidate(way: Way, material: LiftMaterial, made: Mapping[str, Classifier], *, show: Show) -> Classifier:
    """The network that a way leads to; one that was made before is read from its folder."""
    folder = material.folder / "tried" / way.name
    given = made[""]
    if isinstance(way, TuneWay):
        return tune(way, material, folder, show=show)
    before = made[way.after] if isinstance(way, EditWay) else made[way.first]
    if (folder / MODEL).is_file():
        return load_into(copy.deepcopy(given), folder / MODEL)
    if isinstance(way, EditWay):
        found = way.edit.edit(before, material.images())
    else:
        other = made[way.second]
        found = Soup(other.digest(), way.share, other).edit(before, material.images())
    save(found, folder / MODEL, material.valid, way=way)
    return found


def tune(way: TuneWay, material: LiftMaterial, folder: Path, *, show: Show) -> Classifier:
    """Fine-tune a copy of the network, from where an interrupted run stopped."""
    data = material.train if way.per_class is None else material.train.take(way.per_class)
    model = copy.deepcopy(material.model).to(material.device)
    claim: dict[str, Any] = {
        "kind": "training",
        "key": recipe_key(recipe := TuneRecipe(material.model.digest(), data.digest(), way.training)),
        "leastwise": __version__,
        "recipe": to_plain_json(recipe),
    } | tell_answers({"network to start from": ask_network(material.model, data)})
    course = Course(
        model=model, data=data, training=way.training, folder=folder, device=material.device, threads=material.threads
    )
    task = TrainingTask(claim, course)
    with show(f"training {way.name}") as listen:
        task.run(listen)
    return load_into(copy.deepcopy(material.model), task.weights)


def save(model: Classifier, path: Path, data: Dataset, *, way: EditWay | SoupWay) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    note = f"changed after training by leastwise lift ({way.name})"
    save_checkpoint(path, model, data.shape, names=data.names, notes=(*model.notes, note))


@dataclass(frozen=True, eq=False)
class CandidateBits:
    """Which images a network gets right, without and under attack, on as many parts as it was measured on."""

    clean: np.ndarray
    robust: np.ndarray
    labels: np.ndarray
    k: int

    @property
    def average(self) -> float:
        return float(self.robust.mean())

    @property
    def clean_average(self) -> float:
        return float(self.clean.mean())

    @property
    def classes(self) -> np.ndarray:
        """Accuracy under attack class by class; NaN without images."""
        n = np.bincount(self.labels, minlength=self.k)
        right = np.bincount(self.labels[self.robust], minlength=self.k)
        return right / np.where(n > 0, n, np.nan)

    def against(self, base: "CandidateBits") -> PairedCounts:
        """Counts beside the network as it is, on the images that both saw."""
        n = min(len(self.robust), len(base.robust))
        return PairedCounts.count(base.robust[:n], self.robust[:n], self.labels[:n], k=self.k)

    def join(self, other: "CandidateBits") -> "CandidateBits":
        """Both parts."""
        clean, robust = np.append(self.clean, other.clean), np.append(self.robust, other.robust)
        return CandidateBits(clean, robust, np.append(self.labels, other.labels), self.k)


def measure(
    model: Classifier, data: Dataset, attack: Attack, *, folder: Path, listen: JobEventListener, seed: int, device: str
) -> CandidateBits:
    """Audit a network on some images, in a folder that is found again."""
    conditions = (("clean", Clean()), (CONDITION, attack))
    found = audit(model, data, conditions, out=folder, seed=seed, device=device, listen=listen, force=True, check=False)
    return CandidateBits(found.correct("clean"), found.correct(CONDITION), np.asarray(found.labels), data.k)


def split_parts(data: Dataset) -> tuple[Dataset, Dataset]:
    """The first part of the images of each class, and the rest."""
    labels = np.asarray(data.labels)
    first = np.zeros(len(labels), dtype=bool)
    for c in np.unique(labels):
        first[np.flatnonzero(labels == c)[::FIRST_PART]] = True
    return data.where(first), data.where(~first)


def hold_out(train: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """Training images without those that are set aside to choose by, a fifth of each class at most, and these."""
    held = min(LARGEST_VALIDATION, min(int(n) for n in train.counts if n) // 5)
    if held < FEWEST_VALIDATION:
        raise ValueError(
            f"{held} images of each class are too few to choose by: give --valid, or {5 * FEWEST_VALIDATION} training "
            "images of each class"
        )
    return train.split(held, seed)
