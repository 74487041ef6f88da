"""Recipes are values: frozen dataclasses made of numbers, strings, tuples and each other.

The hash of a recipe's canonical JSON is its cache key: two recipes that compare equal have the same
key, and anything that would change a result changes the key. What the key knows of a type is its
`recipe_name`, not the name of the class: a class may be renamed or moved, and stored results are
still found.
"""

import hashlib
import json
import math
from dataclasses import Field, fields, is_dataclass
from typing import Any

KEY_LENGTH = 16  # hex digits: 64 bits, no accidental collision among billions of recipes


# Metadata of a field that came to a recipe type later: it is told only where it differs from its default, so that
# recipes from before it was there keep their keys.
ADDED_LATER = {"recipe": "unless default"}


def idle_without(other: str, told: Any) -> dict[str, Any]:
    """Metadata of a field that means nothing while another one is zero: then it is always told as the same value.

    Recipes that differ only there do the same work, and its default may change without touching their keys.
    """
    return {"idle": (other, told)}


def name_of_type(kind: type) -> str:
    """The name that recipes have for a type: its own `recipe_name`, never one that it inherits."""
    return str(vars(kind).get("recipe_name", kind.__name__))


def to_plain_json(value: Any) -> Any:
    """The recipe as JSON values; a dataclass becomes an object with the `recipe_name` of its type.

    Left out are fields with `metadata={"recipe": False}`, such as a network whose digest stands beside it. They must
    have `compare=False` too. Fields with `metadata=ADDED_LATER` are left out while they have their default.
    """
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            if not math.isfinite(value):
                raise ValueError(f"a recipe holds finite numbers only, but saw {value}: replace it by a finite value")
            return int(value) if value.is_integer() else value  # 1.0 and 1 are equal, so they have one key
        case tuple():
            return [to_plain_json(v) for v in value]
    if is_dataclass(value) and not isinstance(value, type):
        told = [f for f in fields(value) if is_in_recipe(f, getattr(value, f.name))]
        return {"type": name_of_type(type(value))} | {f.name: to_plain_json(told_value(value, f)) for f in told}
    raise ValueError(
        f"a recipe is made of numbers, strings, tuples and frozen dataclasses, but saw {type(value).__name__}: "
        "give a plain value instead"
    )


def told_value(recipe: Any, field: Field[Any]) -> Any:
    """The value of a field as the recipe tells it."""
    other, told = field.metadata.get("idle", ("", None))
    return told if other and not getattr(recipe, other) else getattr(recipe, field.name)


def is_in_recipe(field: Field[Any], value: Any) -> bool:
    """Whether a field is part of the recipe, given its value."""
    rule = field.metadata.get("recipe", True)
    return value != field.default if rule == ADDED_LATER["recipe"] else bool(rule)


def canonical_json(value: Any) -> str:
    """One text per recipe: sorted keys, no spaces, plain ASCII."""
    return json.dumps(to_plain_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def key_of_json(text: str) -> str:
    """The cache key of a recipe whose canonical JSON is at hand."""
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def recipe_key(value: Any) -> str:
    """The recipe's cache key."""
    return key_of_json(canonical_json(value))


def describe_difference(a: Any, b: Any, path: str = "") -> str:
    """Where two plain JSON values first differ, such as `ball.eps 0.01 and 0.1`; empty if they do not."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted(a.keys() | b.keys()):
            found = describe_difference(a.get(name), b.get(name), f"{path}.{name}" if path else name)
            if found:
                return found
        return ""
    return "" if a == b else f"{path or 'value'} {json.dumps(a)} and {json.dumps(b)}"
