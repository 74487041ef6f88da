"""A study: methods × radii × seeds × architectures as one file.

The file names what varies and, under [train] and [audit], options that all share. Nothing in it is evaluated.
"""

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from leastwise.core.text import did_you_mean

MOST_CELLS = 10_000
MOST_BYTES = 1 << 20  # of a study file
LISTS = ("models", "methods", "eps", "seeds")
KEYS = ("title", "data", *LISTS, "attack", "train", "audit")


class StudyCell(NamedTuple):
    """One training and its audit."""

    model: str
    method: str
    eps: str
    seed: int

    def __str__(self) -> str:
        return f"{self.model} {self.method} eps {self.eps} seed {self.seed}"


@dataclass(frozen=True)
class StudyPlan:
    title: str = "A study"
    data: str = "fashion-mini"
    models: tuple[str, ...] = ("small",)
    methods: tuple[str, ...] = ()
    eps: tuple[str, ...] = ("8/255",)
    seeds: tuple[int, ...] = (0,)
    attack: str = "clean,pgd20"
    train: Mapping[str, Any] = field(default_factory=dict)  # options of `leastwise train`
    audit: Mapping[str, Any] = field(default_factory=dict)  # options of the audits

    @property
    def cells(self) -> Iterator[StudyCell]:
        return (StudyCell(*values) for values in itertools.product(self.models, self.methods, self.eps, self.seeds))


def read_study(path: Path) -> StudyPlan:
    """A study from a TOML file; a key that is not known is answered with the nearest one that is."""
    if not path.is_file():
        raise ValueError(f"there is no study at {path}: give a .toml file")
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} is larger than any study: {path.stat().st_size:,} bytes")
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file ({' '.join(str(error).split())})") from None
    check_keys(content, KEYS, str(path))
    found: dict[str, Any] = {}
    for name in ("title", "data", "attack"):
        if name in content:
            found[name] = of_kind(content[name], str, name)
    for name in ("models", "methods"):
        if name in content:
            found[name] = tuple(of_kind(value, str, name) for value in as_list(content[name]))
    if "eps" in content:
        found["eps"] = tuple(radius(value) for value in as_list(content["eps"]))
    if "seeds" in content:
        found["seeds"] = tuple(of_kind(value, int, "seeds") for value in as_list(content["seeds"]))
    for name in ("train", "audit"):
        found[name] = of_kind(content.get(name, {}), dict, name)
    study = StudyPlan(**found)
    check_study(study, path)
    return study


def check_study(study: StudyPlan, path: Path) -> None:
    if not study.methods:
        raise ValueError(f'{path} names no methods: write methods = ["pgd-at", "trades"] or the like')
    count = math.prod(len(getattr(study, name)) for name in LISTS)
    if count > MOST_CELLS:
        raise ValueError(f"{path} asks for {count:,} trainings, more than {MOST_CELLS:,}: make several studies of it")
    for name in LISTS:
        values = getattr(study, name)
        if not values or len(set(values)) != len(values):
            raise ValueError(f"{name} in {path} must be a list of different values, but saw {list(values)}")


def check_keys(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in given:
        if key not in known:
            raise ValueError(f"{where} has a key {key!r} that means nothing: {did_you_mean(key, known)}")


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def of_kind(value: Any, kind: type, name: str) -> Any:
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table"}
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{name} must be {words[kind]}, but saw {str(value)[:40]!r}")
    return value


def radius(value: Any) -> str:
    """Text such as 8/255, or a number."""
    return f"{value!r}" if type(value) in (int, float) else str(of_kind(value, str, "eps"))
