"""Does what recipes ask for: trainings and audits as tasks of the engine, in folders that the exhibits share."""

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from leastwise.attacks.clean import Clean
from leastwise.audit import auditor as audits
from leastwise.audit.auditor import TRIAL_FROM, Auditor, Conditions
from leastwise.audit.evidence import Evidence
from leastwise.audit.evidence_file import load_evidence, pack_evidence
from leastwise.core.files import write_atomic
from leastwise.core.json_values import with_nulls
from leastwise.core.recipe import recipe_key
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.insight.features import measure_moments, own_plane, principal_plane, project_images
from leastwise.insight.outputs import entropy
from leastwise.jobs.audit import audit_task
from leastwise.jobs.errands import Errand
from leastwise.jobs.executor import HERE, Hands
from leastwise.jobs.folder import Event, Task, claimed
from leastwise.jobs.train import Given, course_task
from leastwise.models.classifier import Classifier, inference
from leastwise.models.fast.prepare import ORIGINAL
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.zoo.registry import build, find_architecture
from leastwise.papers.build import conditions, dataset
from leastwise.papers.courses import starts_from_source, training
from leastwise.papers.recipes import Images, Measured, Recipe, Released, Trained, made
from leastwise.papers.registry import PAPERS, list_recipes
from leastwise.papers.results import Picture
from leastwise.papers.stored import OWN, Store, digest, files, write_features, write_pictures
from leastwise.training.loop import FOLDED
from leastwise.training.resume import WEIGHTS, NetworkMeasure

MADE = "made-"  # begins the name of a file of images, until its training is finished
NETWORKS = "networks"  # the folder under the results for weights that others give away
ENDINGS = (".safetensors", ".pt", ".pth", ".tar")
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
WITH_HALF = ("googlenet-imagenet", "inception-v3")  # as torchvision gives them away

Watch = Callable[[Event], None]


@dataclass(frozen=True)
class Runner:
    store: Store
    device: str = "cpu"
    threads: int = 0

    def task(self, recipe: Recipe) -> Task:
        """The work of one recipe, checked as far as it can be; what it needs must be finished."""
        return self.course(recipe) if isinstance(recipe, Trained) else self.audit(recipe)

    def run(
        self,
        recipe: Recipe,
        task: Task,
        watch: Watch = lambda event: None,
        hands: Hands = HERE,
    ) -> None:
        """Do it; what an earlier run left goes on."""
        # An unfinished result of another version, or of a network that was trained anew, makes room.
        task.run(watch, fresh=claimed(task.folder) not in (None, task.claim), hands=hands)
        if not task.finished:
            raise ValueError(load_evidence(task.folder).warnings[-1])  # images that nobody could attack
        if isinstance(recipe, Measured):
            self.keep(recipe, task.folder)
            pack_evidence(task.folder)
        self.tidy(task.folder)

    def tidy(self, folder: Path) -> None:
        for file in folder.glob(f"{MADE}*"):
            file.unlink()

    def errand(self, t: Trained) -> Errand:
        """A training for whoever has the time; what it needs must be finished."""
        root = self.store.results.absolute()
        store = replace(self.store, results=root)
        source = () if t.source is None else (store.folder(t.source) / WEIGHTS,)
        make = partial(course_under, t, store.scale, self.device, self.threads)
        return Errand(make, partial(unchanged, t), unchanged(t), root, store.folder(t), source, replaces=True)

    def course(self, t: Trained) -> Task:
        recipe = training(t)
        begins = starts_from_source(t)
        data = self.made(t) if t.source and made(t.data) else dataset(t.data, "train")
        given = Given(
            data,
            dataset(t.data, "test") if recipe.validation.on_test else None,
            load(t.extra, split="train") if t.extra else None,
            self.store.folder(t.source) / WEIGHTS if t.source and begins else None,
            self.looks(t, data),
        )
        model = build(t.arch, data.shape, data.k, seed=t.seed)
        task = course_task(t, model, recipe, given, self.store.folder(t), self.device, self.threads, result=WEIGHTS)
        return replace(task, claim=task.claim | self.store.claim(t))

    def made(self, t: Trained) -> Dataset:
        """Images made with a network: once, and then read again until the training is finished."""
        assert t.source is not None, "checked before"
        file = self.store.folder(t) / f"{MADE}{digest(self.place(t.source))[:8]}.npz"
        if not file.is_file():
            data = dataset(t.data, "train", self.network(t.source), t.seed, self.device)
            held = io.BytesIO()
            np.savez_compressed(held, images=data.images[data.rows], labels=data.labels)
            write_atomic(file, held.getvalue())
        with np.load(file) as arrays:
            images, labels = arrays["images"], arrays["labels"]
        before = dataset(replace(t.data, change=(), steps=None), "train")
        return replace(before, images=images, labels=labels, rows=np.arange(len(labels)))

    def looks(self, t: Trained, data: Dataset) -> dict[str, NetworkMeasure]:
        """What any exhibit wants of its epochs, whichever of them asks for the training first."""
        followed, recorded = followers(self.store.scale)
        found = {recipe_key(m): self.look(m) for m in followed.get(t, ())}
        return found | ({OWN: self.look_at(data, (("clean", Clean()),))} if t in recorded else {})

    def look(self, m: Measured) -> NetworkMeasure:
        return self.look_at(dataset(m.data, m.split), conditions(m))

    def look_at(self, data: Dataset, under: Conditions) -> NetworkMeasure:
        def look(model: Classifier) -> dict[str, Any]:
            auditor = audits.make_auditor(model, data, under, device=self.device, force=True)
            # Decided by counts and never by the clock, so that the same training leaves the same record.
            form = FOLDED if len(data) >= TRIAL_FROM else ORIGINAL
            return by_condition(auditor.part(data, form=form))

        return look

    def audit(self, m: Measured) -> Task:
        if m.each_epoch and isinstance(m.model, Trained) and not self.store.each_epoch(m):
            raise ValueError(
                f"the training in {self.store.folder(m.model)} was not measured after every epoch: remove that folder, "
                "and give the command again to train it anew"
            )
        files(m)
        auditor, data = self.auditor(m)
        # Results are handed on with their records: no name of a folder of this machine.
        about = {"model": self.place(m.model).relative_to(self.store.results).as_posix(), "data": m.data.name}
        task = audit_task(auditor, data, self.store.folder(m), about=about)
        return replace(task, claim=task.claim | self.store.claim(m))

    def auditor(self, m: Measured) -> tuple[Auditor, Dataset]:
        data = dataset(sized(m.data, m.model.arch), m.split)
        crafted_on = None if m.surrogate is None else self.network(m.surrogate).to(self.device)
        # A network may well have failed to learn: that is a result, and the evidence carries the warning.
        auditor = audits.make_auditor(
            self.network(m.model, data), data, conditions(m, crafted_on), device=self.device, force=True
        )
        return auditor, data

    def network(self, model: Trained | Released, data: Dataset | None = None) -> Classifier:
        place = self.place(model)
        if isinstance(model, Trained):
            return load_checkpoint(place)
        assert data is not None, "weights of others do not say what they are for"
        standard = HALF if model.arch in WITH_HALF else IMAGENET
        # Robust networks were saved together with their normalisation.
        mean, std = standard if model.weights.startswith("standard/") else ((), ())
        return load_checkpoint(place, model.arch, data.shape, k=data.k, mean=mean, std=std)

    def place(self, model: Trained | Released) -> Path:
        if isinstance(model, Trained):
            return self.store.folder(model) / WEIGHTS
        wanted = self.store.results / NETWORKS / model.weights
        for ending in ENDINGS:
            if (file := wanted.parent / f"{wanted.name}{ending}").is_file():
                return file
        raise ValueError(
            f"the network {model.weights} was trained by others and is not here: put its weights ({model.arch}) at "
            f"{wanted.parent / wanted.name}{ENDINGS[1]} and give the command again"
        )

    def keep(self, m: Measured, folder: Path) -> None:
        """Features, or single images with their logits, where the recipe keeps them."""
        if not m.keeps:
            return
        auditor, data = self.auditor(m)
        if "features" in m.keeps:
            found = measure_moments(auditor.model, data, device=self.device)
            many = (found.n > 0).sum() > 2 and found.centre.shape[1] > 1
            plane = own_plane() if found.centre.shape[1] == 2 else principal_plane(found) if many else None
            points = None if plane is None else project_images(auditor.model, data, plane, device=self.device)[0]
            write_features(folder, found, None if points is None else points[np.argsort(data.ids)])
        if {"images", "logits"} & set(m.keeps):
            write_pictures(folder, tuple(self.picture(auditor, data, at) for at in positions(shown(m), data)))

    def picture(self, auditor: Auditor, data: Dataset, position: int) -> Picture:
        """The noise belongs to the image, so it meets the same attack as in the whole audit."""
        x, y, ids = (part.to(self.device) for part in data.batch(np.array([position])))
        pixels, logits = {}, {}
        for name, attack in auditor.recipe.conditions:
            with inference(auditor.model):
                z, outcome = auditor.attacked(name, attack, x, y, ids, auditor.model)
            pixels[name], logits[name] = outcome.x_adv[0].cpu().numpy(), z[0].cpu().numpy()
        return Picture(int(ids[0]), pixels, logits)


def course_under(t: Trained, scale: str, device: str, threads: int, results: Path) -> Task:
    return Runner(Store(results, scale), device, threads).course(t)


def unchanged(t: Trained) -> str:
    """The digest of the images that a training reads, before any are made of them."""
    return dataset(replace(t.data, change=(), steps=None) if made(t.data) else t.data, "train").digest()


def by_condition(evidence: Evidence) -> dict[str, Any]:
    """Counts and mean entropies of the classes, as JSON."""
    found = {}
    for name in evidence.conditions:
        counts = evidence.tally(name)
        mean = with_nulls(entropy(evidence, name).tolist())
        found[name] = {"n": counts.n.tolist(), "correct": counts.correct.tolist(), "entropy": mean}
    return found


def sized(images: Images, arch: str) -> Images:
    """ImageNet's files are cut to what a network was made for, where that is not the usual size."""
    published = find_architecture(arch).params
    if images.name != "imagenet" or published is None or published.shape[1] == 224:
        return images
    return replace(images, name=f"imagenet@{published.shape[1]}")


def positions(ids: Iterable[int], data: Dataset) -> list[int]:
    """Where images lie; a scale without them shows the first ones instead."""
    places = {int(one): at for at, one in enumerate(data.ids)}
    others = iter(at for one, at in places.items() if one not in set(ids))
    return [places[one] if one in places else next(others) for one in ids]


@cache
def shown(m: Measured) -> tuple[int, ...]:
    """The single images that exhibits show of it, by id."""
    exhibits = [one for paper in PAPERS.values() for one in paper.exhibits if one.images]
    wanted = [one.images for one in exhibits if any(m in parts for parts in one(m.scale).values())]
    return tuple(dict.fromkeys(number for images in wanted for number in images))


@cache
def followers(scale: str) -> tuple[Mapping[Trained, tuple[Measured, ...]], frozenset[Trained]]:
    """Of all papers: what is measured after every epoch, by training; and trainings whose own record is shown."""
    recipes, _ = list_recipes(tuple(one for paper in PAPERS.values() for one in paper.exhibits), scale)
    followed: dict[Trained, tuple[Measured, ...]] = {}
    for recipe in recipes:
        if isinstance(recipe, Measured) and recipe.each_epoch and isinstance(recipe.model, Trained):
            followed[recipe.model] = (*followed.get(recipe.model, ()), recipe)
    return followed, frozenset(recipe for recipe in recipes if isinstance(recipe, Trained))
