"""Settings as people write them, `beta=4` or `cfa.lambda1=0.3`, put into frozen values."""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from leastwise.core.parsing import number
from leastwise.core.text import did_you_mean

MAIN = "method"  # the part that settings without a name in front belong to


def changed(parts: Mapping[str, Any], assignments: tuple[str, ...]) -> dict[str, Any]:
    """The parts of a recipe, by name, with the settings in; a mistake is answered with the nearest right name."""
    result = dict(parts)
    for text in assignments:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise ValueError(f"a setting is written NAME=VALUE, such as beta=4, but saw {text!r}")
        first, dot, rest = name.partition(".")
        if dot and first in result:
            result[first] = put(result[first], rest, value, name)
        else:
            result[MAIN] = put(result[MAIN], name, value, name, others(result))
    return result


def others(parts: Mapping[str, Any]) -> list[str]:
    return [f"{name}.{f.name}" for name, part in parts.items() if name != MAIN for f in own_fields(part)]


def own_fields(value: Any) -> list[Any]:
    return list(fields(value)) if is_dataclass(value) else []


def put(value: Any, path: str, text: str, name: str, elsewhere: list[str] | None = None) -> Any:
    """The value with one field, possibly of a part of it, replaced."""
    first, _, rest = path.partition(".")
    known = [f.name for f in own_fields(value)]
    if first not in known:
        what = f"{type(value).__name__} has no setting {first!r}"
        raise ValueError(
            f"{what}: {did_you_mean(name, [*known, *(elsewhere or [])]) if known else 'it has none at all'}"
        )
    old = getattr(value, first)
    if rest:
        return replace(value, **{first: put(old, rest, text, name)})
    if is_dataclass(old):
        raise ValueError(f"{name} has settings of its own: write {name}.{own_fields(old)[0].name}=… or the like")
    return replace(value, **{first: parsed(get_type_hints(type(value))[first], text, name)})


def parsed(kind: Any, text: str, name: str) -> Any:
    """The text as a value of a field's type."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return parsed_union(get_args(kind), text, name)
    if origin is Literal:
        if text not in get_args(kind):
            raise ValueError(f"{name} must be {' or '.join(map(str, get_args(kind)))}, but saw {text!r}")
        return text
    if origin is tuple:
        (each, *_) = get_args(kind)
        return tuple(parsed(each, part, name) for part in text.split(",")) if text != "none" else ()
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, but saw {text!r}")
        return text.lower() == "true"
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"{name} must be a whole number, but saw {text!r}") from None
    if kind is float:
        return number(text, name)
    if kind is str:
        return text
    raise ValueError(f"{name} cannot be set with text: write the recipe in Python")


def parsed_union(kinds: tuple[Any, ...], text: str, name: str) -> Any:
    """None is written `none`; commas make a tuple where one is allowed."""
    if type(None) in kinds and text.lower() == "none":
        return None
    several = [kind for kind in kinds if get_origin(kind) is tuple]
    plain = [kind for kind in kinds if kind in (int, float, str, bool)]
    return parsed(several[0] if several and "," in text else (plain or list(kinds))[0], text, name)
