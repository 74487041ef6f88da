"""Results of a paper's declarations: which are there, and how they are read back.

The store finds results by their jobs. Folders of version 0.1 are known by the key of the declaration in their claim,
and are adopted when they are first met.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from leastwise.audit.evidence import load_evidence
from leastwise.core.counts import Tally
from leastwise.core.files import write_json
from leastwise.core.recipe import recipe_key
from leastwise.jobs.folder import CLAIM, read_claim, read_run_facts
from leastwise.jobs.images import FEATURES, PICTURES, read_features, read_pictures
from leastwise.jobs.job import ReleasedNetwork
from leastwise.jobs.store import KEY_SHOWN, Store, weights_in
from leastwise.papers.jobs import OWN, ROBUST, make_job
from leastwise.papers.recipes import Measured, Recipe, Trained, networks, trainings
from leastwise.papers.results import RecipeResult
from leastwise.training.resume import EPOCHS

KEPT = {"features": FEATURES, "logits": PICTURES, "images": PICTURES}  # what declarations may ask to be kept
KEYS = "declared.json"  # the keys of jobs by those of declarations
# Raised whenever a declaration comes to mean another job (a default, a field, a scale): a test holds it to the jobs.
MEANING = 2


@dataclass(eq=False)
class PaperStore:
    """The results of one scale."""

    results: Path
    scale: str

    @property
    def root(self) -> Path:
        return self.results / self.scale

    @cached_property
    def store(self) -> Store:
        return Store(self.results, self.scale)

    @cached_property
    def known_keys(self) -> dict[str, str]:
        """The keys of jobs by those of declarations, as far as they were written down since declarations mean this."""
        try:
            content = json.loads((self.root / KEYS).read_text("utf-8"))
            return dict(content["jobs"]) if content["meaning"] == MEANING else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def key(self, recipe: Recipe) -> str:
        """The key of the job of a declaration."""
        return self.known_keys.get(recipe_key(recipe)) or recipe_key(make_job(recipe))

    def find(self, recipe: Recipe) -> Path | None:
        """The folder of a finished result, if there is one."""
        if isinstance(recipe, Trained):
            return self.store.find_key(self.key(recipe), (), ())
        folders = [self.find(one) for one in networks(recipe)]
        extras = dict.fromkeys(KEPT[name] for name in recipe.keeps)
        return self.store.find_key(self.key(recipe), tuple(extras), [one and weights_in(one) for one in folders])

    def folder(self, recipe: Recipe) -> Path:
        """Where the result of a declaration is, or will be."""
        return self.find(recipe) or self.store.place(make_job(recipe))

    def has(self, recipe: Recipe) -> bool:
        """Whether it is finished. What is measured after every epoch has to stand in the training's record too."""
        check_kept(recipe)
        if self.find(recipe) is None:
            return False
        return isinstance(recipe, Trained) or not recipe.each_epoch or bool(self.each_epoch(recipe))

    def has_begun(self, recipe: Recipe) -> bool:
        return not self.has(recipe) and self.store.has_begun(make_job(recipe))

    def version(self, recipe: Recipe) -> str:
        """The version of leastwise that made a finished result."""
        folder = self.find(recipe)
        return "" if folder is None else str((read_claim(folder) or {}).get("leastwise", ""))

    def read_result(self, recipe: Recipe) -> RecipeResult:
        """A finished result, with the notes on its images and on those of the trainings behind it."""
        return self.read_numbers(recipe)._replace(notes=self.read_notes(recipe))

    def read_notes(self, recipe: Recipe) -> tuple[str, ...]:
        """What runs wrote down about their images, each sentence once; nothing of a training that is not here."""
        folders = [self.find(one) for one in (*trainings([recipe]), recipe)]
        said = [note for one in folders if one is not None for note in read_run_facts(one).get("notes", ())]
        return tuple(dict.fromkeys(map(str, said)))

    def read_numbers(self, recipe: Recipe) -> RecipeResult:
        """What was measured."""
        folder = self.folder(recipe)
        if isinstance(recipe, Trained):
            lines = read_epochs(folder)
            looks = [line.get("looks", {}) for line in lines]
            clean, robust = ([look[name] for look in looks if name in look] for name in (OWN, ROBUST))
            return RecipeResult(
                epochs=tuple(read_tally(one["clean"]) for one in clean),
                robust_epochs=tuple(read_tally(one[ROBUST]) for one in robust),
            )
        moments, plane = read_features(folder) if "features" in recipe.keeps else (None, None)
        pictures = read_pictures(folder, recipe.conditions) if (folder / PICTURES).is_file() else ()
        evidence = load_evidence(folder)
        if not recipe.each_epoch:
            return RecipeResult(evidence, moments, plane=plane, pictures=pictures)
        followed = self.each_epoch(recipe)
        each = tuple({name: read_tally(counts) for name, counts in look.items()} for look in followed)
        entropies = tuple({name: mean_entropy(counts) for name, counts in look.items()} for look in followed)
        return RecipeResult(evidence, moments, each=each, entropies=entropies, plane=plane, pictures=pictures)

    def each_epoch(self, recipe: Measured) -> tuple[Mapping[str, Any], ...]:
        """What its training measured for it after every epoch: by condition, counts and mean entropies of the classes.

        Nothing where that was not asked for when it was trained.
        """
        assert isinstance(recipe.model, Trained), "only a training has epochs"
        folder = self.folder(recipe.model)
        lines = read_epochs(folder) if (folder / EPOCHS).is_file() else ()
        return tuple(line["looks"][recipe_key(recipe)] for line in lines if recipe_key(recipe) in line.get("looks", {}))

    def adopt(self, recipes: Iterable[Recipe]) -> int:
        """Give folders of version 0.1 the key of their job; how many there were."""
        adopted = 0
        for recipe in recipes:
            kind = "trainings" if isinstance(recipe, Trained) else "audits"
            folder = self.root / kind / f"{describe_declared(recipe)}-{recipe_key(recipe)[:KEY_SHOWN]}"
            claim = read_claim(folder)
            if claim is not None and claim.get("declared") == recipe_key(recipe) and "job" not in claim:
                write_json(folder / CLAIM, claim | {"job": recipe_key(make_job(recipe))})
                adopted += 1
        return adopted

    def remember_keys(self, recipes: Iterable[Recipe]) -> None:
        """Write down the keys of the jobs of declarations: drawing what is there need not make the jobs."""
        jobs = {recipe_key(one): recipe_key(make_job(one)) for one in recipes}
        jobs = dict(sorted((self.known_keys | jobs).items()))
        if jobs != self.known_keys:
            write_json(self.root / KEYS, {"meaning": MEANING, "jobs": jobs})
            del self.known_keys


def check_kept(recipe: Recipe) -> None:
    unknown = set() if isinstance(recipe, Trained) else set(recipe.keeps) - set(KEPT)
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))} cannot be kept: choose {', '.join(KEPT)}")


def describe_declared(recipe: Recipe) -> str:
    """The words that version 0.1 put into the name of a folder."""
    model = recipe if isinstance(recipe, Trained) else recipe.model
    if isinstance(model, ReleasedNetwork):
        words = ["released", model.weights]
    else:
        words = [model.data.name, "-".join(map(str, model.data.change)), model.arch, model.method, *model.fair]
    return re.sub(r"[^a-z0-9]+", "-", "-".join(word for word in words if word).lower()).strip("-")


def read_epochs(folder: Path) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in (folder / EPOCHS).read_text("utf-8").splitlines())


def read_tally(counts: Mapping[str, Any]) -> Tally:
    return Tally(torch.tensor(counts["n"]), torch.tensor(counts["correct"]))


def mean_entropy(counts: Mapping[str, Any]) -> float:
    """Over all images, from the means of the classes; a class without images has none."""
    total = sum(n * mean for n, mean in zip(counts["n"], counts["entropy"], strict=True) if n)
    return float(total / sum(counts["n"]))
