"""The plan in words: exhibits, what they need, and what is there already."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from leastwise.data.cache import describe_missing, find_folder
from leastwise.data.registry import SOURCES
from leastwise.jobs.store import NETWORKS
from leastwise.papers.cost import count_images, find_released
from leastwise.papers.exhibit import Exhibit
from leastwise.papers.recipes import Absent, Measured, Recipe, Trained
from leastwise.papers.reproduce import needs
from leastwise.papers.stored import PaperStore

FEW = 3  # conditions that a line names


def tree(exhibits: Iterable[Exhibit], store: PaperStore) -> Iterator[str]:
    """An exhibit, its roles with their audits, and under each the trainings it needs; what was named once is short."""
    named: set[Recipe] = set()
    for exhibit in exhibits:
        yield f"{exhibit.id}: {exhibit.title}"
        if not exhibit.needs:
            yield "  needs nothing but the paper"
        for role, parts in exhibit(store.scale).items():
            for part in parts:
                if isinstance(part, Absent):
                    yield f"  {role}: left out, {part.reason}"
                    continue
                yield f"  {role}: {line(part, store, named)}"
                yield from under(part, store, named, indent="    ")


def under(recipe: Recipe, store: PaperStore, named: set[Recipe], *, indent: str) -> Iterator[str]:
    for need in needs(recipe):
        yield f"{indent}{line(need, store, named)}"
        yield from under(need, store, named, indent=f"{indent}  ")


def line(recipe: Recipe, store: PaperStore, named: set[Recipe]) -> str:
    again = " (see above)" if recipe in named else ""
    named.add(recipe)
    state = "done" if store.has(recipe) else "begun" if store.has_begun(recipe) else "to do"
    return f"{about(recipe)} [{state}] {store.folder(recipe).name}{again}"


def about(recipe: Recipe) -> str:
    if isinstance(recipe, Trained):
        method = " + ".join((recipe.method, *recipe.fair))
        return f"train {recipe.arch} by {method} on {images(recipe)}, {recipe.epochs} epochs"
    more = len(recipe.conditions) - FEW
    under = ", ".join(recipe.conditions[:FEW]) + (f" and {more} more" if more > 0 else "")
    often = " after every epoch" if recipe.each_epoch else ""
    return f"audit under {under}{often}, {count_images(recipe.data, recipe.split):,} images of {images(recipe)}"


def images(recipe: Recipe) -> str:
    change = " ".join(map(str, recipe.data.change))
    return recipe.data.name + (f" ({change})" if change else "")


def missing(recipes: Iterable[Recipe], store: PaperStore) -> Iterator[str]:
    """Data sets and networks that only the user can bring, in one sentence each."""
    recipes = tuple(recipes)
    for name in dict.fromkeys(recipe.data.name for recipe in recipes):
        source = SOURCES[name]
        if source.folders and find_folder(source.folders) is None:
            yield describe_missing(name, source.folders)
    absent = [model.weights for model in find_released(recipes) if store.store.find_weights(model) is None]
    if absent:
        folder = store.results / NETWORKS
        yield f"networks of others are not here: put {', '.join(absent)} under {folder}, as {Path(absent[0]).name}.pt"


def count_in_words(recipes: Iterable[Recipe]) -> str:
    recipes = tuple(recipes)
    audits = sum(isinstance(recipe, Measured) for recipe in recipes)
    return f"{plural(len(recipes) - audits, 'training')} and {plural(audits, 'audit')}"


def plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def short(number: int) -> str:
    """1.8 million."""
    for unit, name in ((10**12, " trillion"), (10**9, " billion"), (10**6, " million")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:,}"
