"""Training methods and class-wise policies by name, and their settings as people write them (`cfa.lambda1=0.3`).

To add a method or policy, write its file in `methods/` or `policies/` with its entry at the end, and add the file here.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from leastwise.attacks.goals import CE, DLR, KL, Margin
from leastwise.attacks.threats import Gaussian, Uniform, Zero
from leastwise.core.recipe import name_of_type
from leastwise.core.text import did_you_mean, parse_number
from leastwise.training.averaging import AVERAGINGS
from leastwise.training.base import Objective, Policy
from leastwise.training.entries import Method, NamedPolicy, PublishedSetting
from leastwise.training.methods import (
    avmixup,
    bat,
    distillation,
    hypersphere,
    mart,
    max_entropy,
    pgd_at,
    single_class,
    standard,
    trades,
)
from leastwise.training.policies import (
    aiming,
    cfa,
    cfol,
    confusion,
    dafa,
    distilling,
    faal,
    fixed,
    frl,
    margins,
    regularisers,
    unbalanced,
    wat,
    weighting,
)
from leastwise.training.timetable import Timetable

METHODS: dict[str, Method] = {
    **standard.METHODS,
    **pgd_at.METHODS,
    **trades.METHODS,
    **mart.METHODS,
    **hypersphere.METHODS,
    **max_entropy.METHODS,
    **avmixup.METHODS,
    **bat.METHODS,
    **single_class.METHODS,
    **distillation.METHODS,
}

POLICIES: dict[str, NamedPolicy] = {
    **weighting.POLICIES,
    **regularisers.POLICIES,
    **unbalanced.POLICIES,
    **frl.POLICIES,
    **cfa.POLICIES,
    **dafa.POLICIES,
    **wat.POLICIES,
    **faal.POLICIES,
    **cfol.POLICIES,
    **aiming.POLICIES,
    **confusion.POLICIES,
    **distilling.POLICIES,
    **margins.POLICIES,
    **fixed.POLICIES,
}

# What parts of an attack may be set to by a word, as in `attack.start=gaussian`.
NAMED_VALUES: dict[str, dict[str, Any]] = {
    "start": {"zero": Zero(), "uniform": Uniform(), "gaussian": Gaussian(0.001)},
    "goal": {"ce": CE(), "literal-ce": CE(literal=True), "kl": KL(), "margin": Margin(), "dlr": DLR()},
}

MAIN = "method"  # the part that settings without a name in front belong to


def find_method(name: str) -> Method:
    """The method of this name; the name of another part of a training is answered with where it belongs."""
    if name in POLICIES:
        raise ValueError(f"{name} treats classes differently within a method: write `train trades --fair {name}`")
    if name in AVERAGINGS:
        raise ValueError(f"{name} averages the weights of a method: write `train trades --average {name}`")
    if name not in METHODS:
        raise ValueError(f"there is no training method {name!r}: {did_you_mean(name, METHODS)}")
    return METHODS[name]


def find_policy(name: str) -> Policy:
    """The policy of this name with its default settings."""
    if name not in POLICIES:
        raise ValueError(f"there is no class-wise policy {name!r}: {did_you_mean(name, POLICIES)}")
    return POLICIES[name].policy


def find_published(fair: Sequence[str]) -> PublishedSetting | None:
    """What surrounds the first of some policies in its paper, where that is not what methods have by default."""
    return next((found for name in fair if name in POLICIES and (found := POLICIES[name].published)), None)


def settings_text(value: Any) -> str:
    """The settings of a method that are its own, as `--set` takes them."""
    own = {f.name: getattr(value, f.name) for f in own_fields(value) if f.name != "attack"}
    return " ".join(f"{name}={value_text(held)}" for name, held in own.items())


def value_text(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, tuple):
        return ",".join(map(value_text, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def apply_settings(parts: Mapping[str, Any], assignments: tuple[str, ...]) -> dict[str, Any]:
    """The parts of a recipe, by name, with the settings in; a mistake is answered with the nearest right name."""
    result = dict(parts)
    for text in assignments:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise ValueError(f"a setting is written NAME=VALUE, such as beta=4, but saw {text!r}")
        first, dot, rest = name.partition(".")
        if dot and first in result:
            result[first] = set_field(result[first], rest, value, name=name)
        else:
            result[MAIN] = set_field(result[MAIN], name, value, name=name, elsewhere=other_settings(result))
    return result


def split_settings(
    assignments: Sequence[str],
) -> tuple[tuple[str, ...], Callable[[Objective], tuple[Timetable, ...]]]:
    """Settings that stay, and the timetables of those that change by epochs, once the method is known."""
    changing = [text for text in assignments if "@" in text.partition("=")[2]]
    stay = tuple(text for text in assignments if text not in changing)
    return stay, lambda objective: tuple(read_timetable(objective, text) for text in changing)


def read_timetable(objective: Objective, assignment: str) -> Timetable:
    """A setting of the method that changes by epochs: values, each but the first with the share where it begins."""
    name, _, text = assignment.partition("=")
    points = []
    for part in text.split(","):
        value, _, share = part.partition("@")
        held = apply_settings({MAIN: objective}, (f"{name}={value}",))[MAIN]
        for step in name.split("."):
            held = getattr(held, step)
        points.append((parse_number(share, f"the share of {name}") if share else 0.0, held))
    return Timetable(name, tuple(points))


def other_settings(parts: Mapping[str, Any]) -> list[str]:
    """The settings of all parts but the method, with the name of the part in front."""
    return [f"{name}.{f.name}" for name, part in parts.items() if name != MAIN for f in own_fields(part)]


def own_fields(value: Any) -> list[Any]:
    """The fields of a dataclass; nothing else has settings."""
    return [f for f in fields(value) if f.metadata.get("recipe", True)] if is_dataclass(value) else []


def set_field(value: Any, path: str, text: str, *, name: str, elsewhere: Sequence[str] = ()) -> Any:
    """The value with one field, possibly of a part of it, replaced."""
    first, _, rest = path.partition(".")
    known = [f.name for f in own_fields(value)]
    if first not in known:
        what = f"{name_of_type(type(value))} has no setting {first!r}"
        raise ValueError(f"{what}: {did_you_mean(name, [*known, *elsewhere]) if known else 'it has none at all'}")
    old = getattr(value, first)
    if rest:
        if not own_fields(old):
            raise ValueError(f"{name.removesuffix('.' + rest)} is {old}, which has no settings: {rest} cannot be set")
        return replace(value, **{first: set_field(old, rest, text, name=name)})
    if is_dataclass(old) and first in NAMED_VALUES:
        return replace(value, **{first: find_named(first, text, name)})
    if is_dataclass(old):
        own = [f.name for f in own_fields(old)]
        raise ValueError(f"{name} has settings of its own: write {name}.{own[0]}=… or the like")
    return replace(value, **{first: parse_value(get_type_hints(type(value))[first], text, name)})


def find_named(part: str, text: str, name: str) -> Any:
    """What a word means as the start or the goal of an attack."""
    named = NAMED_VALUES[part]
    if text not in named:
        raise ValueError(f"{name} must be {' or '.join(named)}, but saw {text!r}")
    return named[text]


def parse_value(kind: Any, text: str, name: str) -> Any:
    """The text as a value of a field's type."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return parse_union(get_args(kind), text, name)
    if origin is Literal:
        if text not in get_args(kind):
            raise ValueError(f"{name} must be {' or '.join(map(str, get_args(kind)))}, but saw {text!r}")
        return text
    if origin is tuple:
        (each, *_) = get_args(kind)
        return tuple(parse_value(each, part, name) for part in text.split(",")) if text != "none" else ()
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
        return parse_number(text, name)
    if kind is str:
        return text
    raise ValueError(f"{name} cannot be set with text: write the recipe in Python")


def parse_union(kinds: tuple[Any, ...], text: str, name: str) -> Any:
    """None is written `none`; commas make a tuple where one is allowed."""
    if type(None) in kinds and text.lower() == "none":
        return None
    several = [kind for kind in kinds if get_origin(kind) is tuple]
    plain = [kind for kind in kinds if kind in (int, float, str, bool)]
    return parse_value(several[0] if several and "," in text else (plain or list(kinds))[0], text, name)
