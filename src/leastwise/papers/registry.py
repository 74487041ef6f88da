"""The four papers: what each exhibit needs, what it leaves open, what it claims, and what it printed."""

from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

from leastwise.core.text import nearest_name
from leastwise.papers import ahn, benz2021, tian2021, tradeoff2022
from leastwise.papers.exhibit import Exhibit, Paper
from leastwise.papers.recipes import Absent, Recipe

PAPERS: dict[str, Paper] = {one.id: one for one in (benz2021.PAPER, tian2021.PAPER, ahn.PAPER, tradeoff2022.PAPER)}
EXHIBITS: dict[str, Exhibit] = {one.id: one for paper in PAPERS.values() for one in paper.exhibits}


def select_exhibits(name: str) -> tuple[Exhibit, ...]:
    """The exhibits of `PAPER` or `PAPER/EXHIBIT`."""
    paper, slash, _ = name.partition("/")
    if paper not in PAPERS:
        raise ValueError(f"there is no paper {paper!r}: choose {', '.join(PAPERS)}")
    exhibits = PAPERS[paper].exhibits
    found = tuple(one for one in exhibits if not slash or one.id == name)
    if not found:
        nearest = nearest_name(name, [one.id for one in exhibits], likeness=0.0)
        raise ValueError(f"there is no exhibit {name!r}: did you mean {nearest}? `leastwise list papers` shows all")
    return found


def keep_roles(exhibits: tuple[Exhibit, ...], roles: tuple[str, ...]) -> tuple[Exhibit, ...]:
    """The exhibits with some of their rows only, by the names of their roles; `*` stands for anything."""
    known = tuple(dict.fromkeys(role for one in exhibits for role in one.needs))
    for role in roles:
        if not any(fnmatchcase(name, role) for name in known):
            raise ValueError(f"no row is called {role!r}: choose among {'; '.join(known)}")

    def wanted(name: str) -> bool:
        return not roles or any(fnmatchcase(name, role) for role in roles)

    return tuple(
        replace(one, needs={name: need for name, need in one.needs.items() if wanted(name)}) for one in exhibits
    )


def list_recipes(exhibits: tuple[Exhibit, ...], scale_name: str) -> tuple[tuple[Recipe, ...], tuple[Absent, ...]]:
    """What several exhibits need at a scale, each recipe once; and what the scale cannot offer."""
    parts = [one for exhibit in exhibits for some in exhibit(scale_name).values() for one in some]
    there = dict.fromkeys(one for one in parts if not isinstance(one, Absent))
    absent = dict.fromkeys(one for one in parts if isinstance(one, Absent))
    return tuple(there), tuple(absent)


def load_drawings(paper: Paper) -> dict[str, Any]:
    """The functions that draw a paper's exhibits, by the exhibits' ids: each takes a `DrawingInput`."""
    found: dict[str, Any] = import_module(f"{__package__}.{paper.id}.drawings").DRAWINGS
    return found


def load_rules(paper: Paper) -> tuple[Any, ...]:
    """The `VerdictRule`s of a paper: how its exhibits speak to claims."""
    found: tuple[Any, ...] = import_module(f"{__package__}.{paper.id}.verdicts").RULES
    return found
