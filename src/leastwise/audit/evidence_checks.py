"""Whether evidence can be what it says: kinds, sizes and ranges of every column, and the recipe behind it.

A digest that fits only shows that nobody damaged a file by accident. Whoever writes a file can write a digest too, so
that everything that readers rely on is looked at once, where it is read.
"""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from leastwise.attacks.codes import NEVER
from leastwise.audit.record import SUMS, ExampleInts, Record
from leastwise.core.escaping import escape_unprintable
from leastwise.core.files import parse_json

WHOLE = ("predicted", "runner_up", "by", "step", "trouble", "each", "rounded", "reached")  # columns of integers
NESTED = ("ball", "goal", "attack")  # parts of an attack that have settings of their own
MOST_PASSES = 1 << 62


def require(holds: bool, otherwise: str) -> None:
    """Raise ValueError with the sentence unless the condition holds."""
    if not holds:
        raise ValueError(otherwise)


def in_range(values: "np.ndarray", low: float, high: float) -> bool:
    """Whether all values lie between the two; nothing at all does."""
    return len(values) == 0 or bool(values.min() >= low and values.max() <= high)


def check_examples(ids: ExampleInts, labels: ExampleInts, k: int) -> None:
    """Refuse examples that are not distinct and sorted, or of classes that there are not."""
    whole = all(isinstance(one, np.ndarray) and one.dtype.kind in "iu" and one.ndim == 1 for one in (ids, labels))
    require(whole, "ids and labels are not whole numbers")
    require(len(np.unique(ids)) == len(ids) and bool((np.diff(ids) > 0).all()), "ids are not distinct and sorted")
    require(labels.shape == ids.shape and in_range(labels, 0.0, k - 1.0), "labels are outside the classes")


def check_record(name: str, r: Record, labels: ExampleInts, *, k: int) -> None:
    """Refuse a record whose columns are of a wrong kind or size, or hold numbers that cannot be."""
    n = len(labels)
    for f in fields(Record):
        value = getattr(r, f.name)
        if not isinstance(value, np.ndarray):
            require(type(value) is int and 0 <= value < MOST_PASSES, f"{name}: {f.name} is no count")
            continue
        require(value.dtype.kind in ("iu" if f.name in WHOLE else "f"), f"{name}: {f.name} has numbers of a wrong kind")
        fits = value.shape == ((k, k) if f.name in SUMS else (n,))
        require(fits or (f.name in SUMS and value.shape == (0, 0)), f"{name}: {f.name} has a wrong size")
    require(in_range(r.predicted, 0.0, k - 1.0), f"{name}: predictions are outside the classes")
    require(in_range(r.runner_up, 0.0, k - 1.0), f"{name}: predictions are outside the classes")
    probabilities = np.concatenate([r.p_true, r.p_predicted, r.p_runner_up, r.p_squared])
    require(in_range(probabilities, 0.0, 1 + 1e-5), f"{name}: probabilities are outside [0, 1]")
    right = r.predicted == labels
    agree = bool(((r.margin > 0) <= right).all()) and bool(((r.margin < 0) <= ~right).all())
    require(agree and not bool(np.isnan(r.margin).any()), f"{name}: margins contradict predictions")
    require(in_range(r.entropy, -1e-5, float(np.log(k)) + 1e-5), f"{name}: entropies are outside [0, ln k]")
    each_class = np.bincount(labels, minlength=k)[:, None]
    possible = r.reached.size == 0 or bool(((r.reached >= 0) & (r.reached <= each_class)).all())
    require(possible, f"{name}: more were reached than exist")
    positive = (r.step >= NEVER).all() and (r.linf >= 0).all() and (r.l2 >= 0).all()
    require(bool(positive), f"{name}: steps or norms are negative")


def check_words(about: Mapping[str, Any]) -> None:
    """Refuse names, groups and warnings that are no text, or classes of a group that there are not."""
    names = about["names"]
    require(is_texts(names) and len(set(names)) == len(names) > 0, "class names are not distinct texts")
    require(is_texts(about["warnings"]), "warnings are no texts")
    for name, classes in about["groups"]:
        known = isinstance(classes, list) and all(type(c) is int and 0 <= c < len(names) for c in classes)
        require(isinstance(name, str) and known, "a group has classes that there are not")
    for name in about["conditions"]:
        require(escape_unprintable(name) == name, "the name of a condition cannot be printed")
        require(isinstance(about["conditions"][name], dict), "a condition has no counts")


def is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def check_recipe(recipe: object, conditions: Mapping[str, Record]) -> None:
    """Refuse a recipe that does not describe its conditions, which every reader takes it to do."""
    require(isinstance(recipe, str), "the recipe is no text")
    assert isinstance(recipe, str)
    said = parse_json(recipe)
    require(isinstance(said, dict) and all(isinstance(said.get(part), str) for part in ("model", "data")), "no recipe")
    pairs = said.get("conditions")
    require(isinstance(pairs, list) and all(isinstance(p, list) and len(p) == 2 for p in pairs), "no conditions")
    named = {name: attack for name, attack in pairs if isinstance(name, str)}
    require(named.keys() >= conditions.keys() and len(named) == len(pairs), "the recipe is of other conditions")
    for attack in named.values():
        check_attack(attack)


def check_attack(attack: Any) -> None:
    """Refuse settings of an attack that are not as attacks write them."""
    require(isinstance(attack, dict) and isinstance(attack.get("type"), str), "an attack has no name")
    for part in NESTED:
        if part in attack:
            check_attack(attack[part])
    for number in ("eps", "inverse_temperature"):
        value = attack.get(number, 0.0)
        require(type(value) in (int, float) and math.isfinite(value), f"{number} of an attack is no number")
    members = attack.get("members", [])
    require(isinstance(members, list), "members of an attack are no list")
    for member in members:
        check_attack(member)
