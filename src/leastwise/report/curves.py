"""Security curves: what each class keeps as the radius grows, and the radius at which half of it is lost."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from leastwise.attacks import Clean, median_distance
from leastwise.evidence import Evidence
from leastwise.masking import ball_of
from leastwise.notation import number

RADIUS = re.compile(r"\[([^\[\]]+)\]")
MINIMAL = (
    "CWInf",
    "CWL2",
    "DDN",
    "FAB",
    "FMN",
)  # attacks that look for the nearest mistake, if they are let to the end


class Curve(NamedTuple):
    """One attack at several radii, the smallest first."""

    attack: str
    radii: tuple[float, ...]
    conditions: tuple[str, ...]
    accuracy: Float[np.ndarray, "r k"]
    overall: Float[np.ndarray, " r"]
    norm: str  # how the radius is measured: Linf, L2 or L1
    half: Float[np.ndarray, " k"]  # the radius at which half of a class is lost; NaN if it is beyond the largest


def curves(evidence: Evidence) -> tuple[Curve, ...]:
    """Of all attacks that were made at more than one radius."""
    found: dict[str, dict[float, str]] = {}
    for name in evidence.conditions:
        if radii := set(RADIUS.findall(name)):
            found.setdefault(RADIUS.sub("", name), {})[number(radii.pop(), "eps")] = name
    return tuple(curve(evidence, attack, at) for attack, at in found.items() if len(at) > 1)


def curve(evidence: Evidence, attack: str, at: Mapping[float, str]) -> Curve:
    radii = tuple(sorted(at))
    conditions = tuple(at[radius] for radius in radii)
    tallies = [evidence.tally(name) for name in conditions]
    accuracy = np.stack([tally.accuracy.numpy() for tally in tallies])
    start = [evidence.tally(name).accuracy.numpy() for name in clean(evidence)[:1]]
    half = np.array([crossing((0.0, *radii), [*column]) for column in np.stack([*start, *accuracy], axis=1)])
    ball = ball_of(dict(json.loads(evidence.recipe)["conditions"])[conditions[0]]) or {}
    overall = np.array([tally.overall for tally in tallies])
    return Curve(attack, radii, conditions, accuracy, overall, ball.get("type", ""), half)


def clean(evidence: Evidence) -> list[str]:
    return [name for name, attack in json.loads(evidence.recipe)["conditions"] if attack["type"] == Clean.__name__]


def crossing(radii: tuple[float, ...], accuracy: list[float], level: float = 0.5) -> float:
    """Where a falling curve meets the level, by a straight line between the two points around it."""
    radii = radii[len(radii) - len(accuracy) :]  # without clean images there is nothing at zero
    if accuracy[0] < level:
        return 0.0 if radii[0] == 0 else float("nan")
    for (r0, a0), (r1, a1) in zip(
        zip(radii, accuracy, strict=True), zip(radii[1:], accuracy[1:], strict=True), strict=False
    ):
        if a1 < level <= a0:
            return r0 + (a0 - level) / (a0 - a1) * (r1 - r0)
    return float("nan")


def nearest_mistakes(evidence: Evidence, name: str) -> Float[np.ndarray, " k"] | None:
    """The median distance of each class to its nearest mistakes, where the attack looked for these: infinite if most of
    a class survived."""
    attack: dict[str, Any] = dict(json.loads(evidence.recipe)["conditions"])[name]
    if attack["type"] not in MINIMAL or attack.get("keep") != "last":
        return None
    r = evidence.conditions[name]
    size = r.l2 if attack["ball"]["type"] == "L2" else r.linf
    distance = np.where(evidence.correct(name), np.inf, size.astype(np.float64))
    y = torch.from_numpy(evidence.labels.astype(np.int64))
    return median_distance(torch.from_numpy(distance), y, evidence.k).numpy()
