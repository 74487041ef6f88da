"""Exhibits from beginning to end: what is to be done, in order; doing it; and what came of it."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from leastwise.core.text import one_line
from leastwise.jobs.events import JobEventListener
from leastwise.jobs.executor import LOCAL, Executor
from leastwise.jobs.job import Job
from leastwise.jobs.schedule import JobListener, JobRunner, execute, schedule
from leastwise.papers.exhibit import Exhibit, Paper
from leastwise.papers.jobs import make_job
from leastwise.papers.recipes import (
    Absent,
    Measured,
    Recipe,
    Trained,
    is_replicated,
    list_replicas,
    networks,
    trainings,
)
from leastwise.papers.registry import PAPERS, list_recipes
from leastwise.papers.results import RecipeResult
from leastwise.papers.stored import PaperStore, check_kept


def recipes_of(exhibit: Exhibit, scale: str) -> tuple[Recipe, ...]:
    parts = (one for some in exhibit(scale).values() for one in some)
    return tuple(dict.fromkeys(one for one in parts if not isinstance(one, Absent)))


def needs(recipe: Recipe) -> tuple[Trained, ...]:
    """The networks that must be there before it can start."""
    if isinstance(recipe, Trained):
        return () if recipe.source is None else (recipe.source,)
    return networks(recipe)


def list_work(recipes: Iterable[Recipe], results: PaperStore) -> tuple[Recipe, ...]:
    """What is not finished, and what that needs and is not finished either; needs first, each job once.

    At the end stands what is finished, but was not measured after every epoch as it should have been.
    """
    recipes = tuple(recipes)
    declared = {make_job(one): one for one in (*recipes, *trainings(recipes))}
    left = tuple(declared[job] for job in schedule(map(make_job, recipes), results.store))
    return tuple(dict.fromkeys((*left, *find_unmeasured(recipes, results))))


def find_unmeasured(recipes: Iterable[Recipe], results: PaperStore) -> dict[Recipe, str]:
    """What should have been measured after every epoch of a training that is finished without it, and a sentence."""
    return {
        one: f"the training in {results.folder(one.model)} was not measured after every epoch: remove that folder, and "
        "give the command again to train it anew"
        for one in recipes
        if isinstance(one, Measured) and one.each_epoch and isinstance(one.model, Trained)
        if results.has(one.model) and not results.each_epoch(one)
    }


class RecipeListener:
    """Whoever tells the user how it goes, in the words of a paper; this one says nothing."""

    def during(self, recipe: Recipe, names: Sequence[str]) -> AbstractContextManager[JobEventListener]:
        """Before a job, with the names of its classes; a listener for what happens in it."""
        return JobListener().during(make_job(recipe), names)

    def after(self, recipe: Recipe, seconds: float, failed: str) -> None:
        """After a job, with the reason if it failed."""


@dataclass(frozen=True)
class Translator(JobListener):
    """Tells a recipe's listener of jobs."""

    declared: Mapping[Job, Recipe]
    listener: RecipeListener

    def during(self, job: Job, names: Sequence[str]) -> AbstractContextManager[JobEventListener]:
        return self.listener.during(self.declared[job], names)

    def after(self, job: Job, seconds: float, failed: str) -> None:
        self.listener.after(self.declared[job], seconds, failed)


def do_work(
    work: Sequence[Recipe],
    results: PaperStore,
    listener: RecipeListener = RecipeListener(),
    *,
    device: str = "cpu",
    threads: int = 0,
    executor: Executor = LOCAL,
) -> dict[Recipe, str]:
    """Do everything; what fails is left out, with all that needs it, and the rest goes on. Why each of them failed."""
    failed: dict[Recipe, str] = find_unmeasured(work, results)
    declared: dict[Job, Recipe] = {}
    for recipe in work:
        try:
            check_kept(recipe)
            declared |= {} if recipe in failed else {make_job(recipe): recipe}
        except ValueError as error:
            failed[recipe] = one_line(error)
    # A network may well have failed to learn: that is a result, and the evidence carries the warning.
    runner = JobRunner(results.store, device, threads, executor, small=True, force=True)
    done = execute(declared, runner, Translator(declared, listener))
    return failed | {declared[job]: reason for job, reason in done.items()}


@dataclass(frozen=True)
class PaperResults:
    """What the page of a paper is made of."""

    paper: Paper
    exhibits: tuple[Exhibit, ...]
    results: Mapping[Recipe, RecipeResult]
    failed: Mapping[Recipe, str]


def collect_results(
    exhibits: Iterable[Exhibit], store: PaperStore, failed: Mapping[Recipe, str]
) -> tuple[PaperResults, ...]:
    """For each paper the chosen exhibits, and others of it that are wholly there already."""
    chosen = {one.id for one in exhibits}
    found = []
    for paper in PAPERS.values():
        if not any(one.id in chosen for one in paper.exhibits):
            continue
        there = {one.id: {r: store.has(r) for r in recipes_of(one, store.scale)} for one in paper.exhibits}
        whole = {name for name, parts in there.items() if parts and all(parts.values())}
        shown = tuple(one for one in paper.exhibits if one.id in chosen | whole)
        wanted = dict.fromkeys(recipe for parts in there.values() for recipe, has in parts.items() if has)
        wanted |= dict.fromkeys(list_other_seeds(wanted, store))
        found.append(PaperResults(paper, shown, {recipe: store.read_result(recipe) for recipe in wanted}, failed))
    return tuple(found)


def list_other_seeds(recipes: Iterable[Recipe], store: PaperStore) -> tuple[Recipe, ...]:
    """Audits of any paper, or of further seeds, on the data of some: what tells trainings from seeds of one."""
    data = {recipe.data for recipe in recipes if isinstance(recipe, Measured) and isinstance(recipe.model, Trained)}
    everything, _ = list_recipes(tuple(one for paper in PAPERS.values() for one in paper.exhibits), store.scale)
    audits = [one for one in everything if isinstance(one, Measured) and one.data in data and not one.each_epoch]
    more = [other for one in audits for other in (one, *list_replicas(one))]
    return tuple(one for one in dict.fromkeys(more) if is_seed_of_several(one) and store.has(one))


def is_seed_of_several(recipe: Recipe) -> bool:
    """Whether a network is one of the recipes that are trained with several seeds."""
    model = recipe.model if isinstance(recipe, Measured) else recipe
    return isinstance(model, Trained) and is_replicated(replace(model, seed=0))


def count_versions(recipes: Iterable[Recipe], store: PaperStore, version: str) -> dict[str, int]:
    """How many finished results other versions of leastwise made."""
    counts: dict[str, int] = {}
    for recipe in recipes:
        made = store.version(recipe)
        if store.has(recipe) and made != version:
            counts[made] = counts.get(made, 0) + 1
    return counts
