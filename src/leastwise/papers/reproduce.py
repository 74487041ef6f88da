"""Exhibits from beginning to end: what is to be done, in order; doing it; and what came of it."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from leastwise.core.text import one_line
from leastwise.jobs.errands import Errand, side_by_side
from leastwise.jobs.executor import HERE, Gone, Hands, Local
from leastwise.papers.exhibit import Exhibit, Paper
from leastwise.papers.recipes import Absent, Measured, Recipe, Trained, networks
from leastwise.papers.registry import PAPERS
from leastwise.papers.results import RecipeResult
from leastwise.papers.run import Runner, Watch
from leastwise.papers.stored import Store


def recipes_of(exhibit: Exhibit, scale: str) -> tuple[Recipe, ...]:
    parts = (one for some in exhibit(scale).values() for one in some)
    return tuple(dict.fromkeys(one for one in parts if not isinstance(one, Absent)))


def needs(recipe: Recipe) -> tuple[Trained, ...]:
    """The networks that must be there before it can start."""
    if isinstance(recipe, Trained):
        return () if recipe.source is None else (recipe.source,)
    return networks(recipe)


def to_do(recipes: Iterable[Recipe], store: Store) -> tuple[Recipe, ...]:
    """What is not finished, and what that needs and is not finished either; needs first, everything once.

    A finished audit does not need its training any more.
    """
    found: dict[Recipe, None] = {}
    for recipe in recipes:
        if recipe not in found and not store.has(recipe):
            found |= dict.fromkeys((*to_do(needs(recipe), store), recipe))
    return tuple(found)


@runtime_checkable
class Show(Protocol):
    """Whoever tells the user how it goes."""

    def during(self, recipe: Recipe, names: Sequence[str]) -> AbstractContextManager[Watch]:
        """Before a task, with the names of its classes; a listener for what happens in it."""
        ...

    def after(self, recipe: Recipe, seconds: float, failed: str) -> None: ...


class Silent:
    def during(self, recipe: Recipe, names: Sequence[str]) -> AbstractContextManager[Watch]:
        return nullcontext(lambda event: None)

    def after(self, recipe: Recipe, seconds: float, failed: str) -> None:
        pass


def execute(work: Iterable[Recipe], runner: Runner, show: Show = Silent(), hands: Hands = HERE) -> dict[Recipe, str]:
    """Do everything; what fails is left out, with all that needs it, and the rest goes on. Why each of them failed.

    On a cluster trainings come first, side by side, and then the audits, whose pieces are spread over it.
    """
    failed: dict[Recipe, str] = {}
    if not isinstance(hands, Local):
        work = tuple(work)
        failed |= train_side_by_side([one for one in work if isinstance(one, Trained)], runner, show, hands)
        work = [one for one in work if isinstance(one, Measured)]
    for recipe in work:
        begun = time.monotonic()
        try:
            check_needs(recipe, failed)
            task = runner.task(recipe)
            with show.during(recipe, task.names) as watch:
                runner.run(recipe, task, watch, hands)
        except Gone:
            raise
        except Exception as error:  # whatever it is: one broken training must not cost the others
            failed[recipe] = said(error)
        show.after(recipe, time.monotonic() - begun, failed.get(recipe, ""))
    return failed


def train_side_by_side(trainings: Iterable[Trained], runner: Runner, show: Show, hands: Hands) -> dict[Recipe, str]:
    """Each begins as soon as a worker is free and what it needs is there. Why some failed."""
    failed: dict[Recipe, str] = {}
    waiting, under_way = dict.fromkeys(trainings), dict[Path, Trained]()

    def ready() -> Iterator[Errand | None]:
        while waiting:
            free = (one for one in waiting if not any(n in waiting or n in under_way.values() for n in needs(one)))
            if (recipe := next(free, None)) is None:
                yield None
                continue
            del waiting[recipe]
            try:
                check_needs(recipe, failed)
                errand = runner.errand(recipe)
            except Exception as error:
                failed[recipe] = said(error)
                show.after(recipe, 0.0, failed[recipe])
                continue
            under_way[errand.folder] = recipe
            yield errand

    for ended in side_by_side(ready(), hands):
        recipe = under_way.pop(ended.errand.folder)
        if ended.failed:
            failed[recipe] = ended.failed
        else:
            runner.tidy(ended.errand.folder)
        show.after(recipe, ended.seconds, ended.failed)
    return failed


def check_needs(recipe: Recipe, failed: Mapping[Recipe, str]) -> None:
    broken = [one for one in needs(recipe) if one in failed]
    if broken:
        raise ValueError(f"a network that it needs failed ({failed[broken[0]]})")


def said(error: Exception) -> str:
    sentence = one_line(error)
    return sentence if isinstance(error, ValueError) else f"{type(error).__name__}: {sentence}"


@dataclass(frozen=True)
class Drawn:
    """What the page of a paper is made of."""

    paper: Paper
    exhibits: tuple[Exhibit, ...]
    results: Mapping[Recipe, RecipeResult]
    failed: Mapping[Recipe, str]


def drawings(exhibits: Iterable[Exhibit], store: Store, failed: Mapping[Recipe, str]) -> tuple[Drawn, ...]:
    """For each paper the chosen exhibits, and others of it that are wholly there already."""
    chosen = {one.id for one in exhibits}
    found = []
    for paper in PAPERS.values():
        there = {one.id: {r: store.has(r) for r in recipes_of(one, store.scale)} for one in paper.exhibits}
        if not chosen & there.keys():
            continue
        whole = {name for name, parts in there.items() if parts and all(parts.values())}
        shown = tuple(one for one in paper.exhibits if one.id in chosen | whole)
        wanted = dict.fromkeys(recipe for parts in there.values() for recipe, has in parts.items() if has)
        found.append(Drawn(paper, shown, {recipe: store.found(recipe) for recipe in wanted}, failed))
    return tuple(found)


def older(recipes: Iterable[Recipe], store: Store, version: str) -> dict[str, int]:
    """How many finished results other versions of leastwise made."""
    counts: dict[str, int] = {}
    for recipe in recipes:
        made = store.version(recipe)
        if store.has(recipe) and made != version:
            counts[made] = counts.get(made, 0) + 1
    return counts


def kind(recipe: Recipe) -> str:
    return "audit" if isinstance(recipe, Measured) else "training"
