"""What an audit attacks with, as people write it: names, attacks as values, or those of an earlier audit."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leastwise.attacks.base import Attack
    from leastwise.attacks.naming import Threat
    from leastwise.audit.auditor import Conditions
    from leastwise.audit.evidence import Evidence

Radii = float | int | str | Sequence[float | int | str]  # 8/255, "8/255", or several
USUAL = "clean,pgd20,tpgd20"


def spell_radii(eps: Radii) -> list[str]:
    """Radii as the command line writes them: `8/255`, or several."""
    if isinstance(eps, str):
        return [part.strip() for part in eps.split(",")]
    if isinstance(eps, Sequence):
        return [text for one in eps for text in spell_radii(one)]
    parts = round(255 * float(eps), 9)
    return [f"{parts:g}/255" if parts == int(parts) and parts / 255 == float(eps) else repr(float(eps))]


def read_conditions(attacks: Any, threat: "Threat", radii: Sequence[str]) -> "Conditions":
    """Conditions from `"clean,pgd20"`, `["clean", PGD(…)]`, `{"mine": PGD(…)}`, a single attack, or pairs."""
    from leastwise.attacks.registry import make_attacks, repeat_over_radii

    if isinstance(attacks, str):
        return make_attacks(repeat_over_radii(attacks, radii, threat), threat)
    found: list[tuple[str, Attack]] = []
    for name, one in list_attacks(attacks):
        if not isinstance(one, str):
            found.append((name or name_attack(one, [taken for taken, _ in found]), check_attack(one)))
            continue
        made = read_conditions(one, threat, radii)
        if name and len(made) > 1:
            raise ValueError(f"{name!r} stands for one attack, but {one!r} makes {len(made)}: join them with +")
        found += [(name or own, attack) for own, attack in made]
    return tuple(found)


def list_attacks(attacks: Any) -> Iterator[tuple[str, Any]]:
    """Attacks with the names they were given, which may be none."""
    if isinstance(attacks, Mapping):
        yield from attacks.items()
    elif isinstance(attacks, Sequence):
        for one in attacks:
            yield one if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) else ("", one)
    else:
        yield "", attacks


def check_attack(given: Any) -> "Attack":
    """The attack, or a sentence on how to make one of what was given."""
    from leastwise.attacks.base import Attack

    if isinstance(given, Attack):
        return given
    kind = given.__name__ if isinstance(given, type) else type(given).__name__
    fix = f"write {kind}()" if isinstance(given, type) and issubclass(given, Attack) else "wrap it in lw.ExternalAttack"
    raise ValueError(f"an attack is a name such as 'pgd20' or a value such as lw.PGD(steps=20), but saw {kind}: {fix}")


def name_attack(attack: Any, taken: Sequence[str]) -> str:
    """A short name for an attack that has none: its type and its steps."""
    name = f"{str(getattr(attack, 'recipe_name', type(attack).__name__)).lower()}{getattr(attack, 'steps', '') or ''}"
    return next(one for n in range(1, len(taken) + 2) if (one := name if n == 1 else f"{name}-{n}") not in taken)


def conditions_of(found: "Evidence") -> "Conditions":
    """The attacks of an earlier audit as values: as they were asked for, or made anew from their names and settings."""
    from leastwise.core.recipe import to_plain_json

    asked: Conditions = getattr(found, "asked", ())
    if asked:
        return asked
    threats = list_threats(list(found.attacks.values()))
    made = []
    for name, told in found.attacks.items():
        attack = next((one for one in try_threats(name, threats) if to_plain_json(one) == told), None)
        if attack is None:
            raise ValueError(f"{name} of the earlier audit cannot be made from its name alone: give the attacks again")
        made.append((name, attack))
    return tuple(made)


def list_threats(told: Any) -> "list[Threat]":
    """The threats that stored attacks may have been made from: every ball with every step and counting rule."""
    from leastwise.attacks.registry import make_threat

    found = {}
    for one in walk(told):
        ball, step = one.get("ball"), one.get("step")
        if isinstance(ball, dict) and isinstance(ball.get("eps"), int | float):
            length = float(step) if isinstance(step, int | float) else None
            made = make_threat(str(ball["type"]).lower(), float(ball["eps"]), length)
            for threat in (made, replace(made, keep="last"), replace(made, step=float(ball["eps"]) / 4)):
                found[repr(threat)] = threat
    return list(found.values()) or [make_threat("linf", 0.0)]


def try_threats(name: str, threats: "Sequence[Threat]") -> "Iterator[Attack]":
    """The attacks of a name under each of the threats that it can be made under."""
    from leastwise.attacks.registry import make_attack

    for threat in threats:
        with suppress(ValueError):
            yield make_attack(name, threat)


def walk(told: Any) -> Iterator[dict[str, Any]]:
    """Every object inside plain JSON values, outer ones first."""
    if isinstance(told, dict):
        yield told
        for value in told.values():
            yield from walk(value)
    elif isinstance(told, list):
        for value in told:
            yield from walk(value)


def read_recipe(found: "Evidence") -> dict[str, Any]:
    """The recipe of an audit as plain values."""
    recipe: dict[str, Any] = json.loads(found.recipe)
    return recipe
