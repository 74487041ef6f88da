"""Security curves: what each class keeps as the radius grows, and the radius at which half of it is lost."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from leastwise.attacks.base import Clean
from leastwise.attacks.min_norm.ddn_fmn import median_distance
from leastwise.attacks.min_norm.search import NearestMistake
from leastwise.attacks.registry import class_of
from leastwise.attacks.threats import L2, Linf
from leastwise.audit.evidence import MOST_NAMED, Evidence
from leastwise.audit.masking import ball_of
from leastwise.core.parsing import parse_number

RADIUS = re.compile(r"\[([^\[\]]+)\]")


class Curve(NamedTuple):
    """One attack at several radii, the smallest first."""

    attack: str
    radii: tuple[float, ...]
    conditions: tuple[str, ...]
    accuracy: Float[np.ndarray, "r k"]
    overall: Float[np.ndarray, " r"]
    norm: str  # how the radius is measured: Linf, L2 or L1
    half: Float[np.ndarray, " k"]  # the radius at which a class falls below 50 %, between two that were tried; or NaN
    between: Float[np.ndarray, "k 2"]  # the largest radius that more than half survives and the smallest that it does
    # not: NaN for the first if the smallest radius is too large, for the second if the largest is too small


def make_curves(evidence: Evidence) -> tuple[Curve, ...]:
    """Of all attacks that were made at more than one radius."""
    found: dict[str, dict[float, str]] = {}
    for name in evidence.conditions:
        if radii := set(RADIUS.findall(name)):
            found.setdefault(RADIUS.sub("", name), {})[parse_number(radii.pop(), "eps")] = name
    return tuple(make_curve(evidence, attack, at) for attack, at in found.items() if len(at) > 1)


def make_curve(evidence: Evidence, attack: str, at: Mapping[float, str]) -> Curve:
    """The curve of one attack, whose conditions are given by their radii."""
    radii = tuple(sorted(at))
    conditions = tuple(at[radius] for radius in radii)
    tallies = [evidence.tally(name) for name in conditions]
    accuracy = np.stack([tally.accuracy.numpy() for tally in tallies])
    start = [evidence.tally(name).accuracy.numpy() for name in clean_conditions(evidence)[:1]]
    columns = np.stack([*start, *accuracy], axis=1)  # by class
    tried = (*(0.0 for _ in start), *radii)
    half = np.array([find_crossing(tried, [*column]) for column in columns])
    between = np.array([find_bracket(tried, [*column]) for column in columns])
    ball = ball_of(evidence.attacks[conditions[0]]) or {}
    overall = np.array([tally.overall for tally in tallies])
    return Curve(attack, radii, conditions, accuracy, overall, ball.get("type", ""), half, between)


def clean_conditions(evidence: Evidence) -> list[str]:
    """The conditions that are the images as they are."""
    return [name for name, attack in evidence.attacks.items() if attack["type"] == Clean.recipe_name]


def find_crossing(radii: tuple[float, ...], accuracy: list[float], level: float = 0.5) -> float:
    """Where a falling curve meets the level, by a straight line between the two points around it."""
    if accuracy[0] < level:
        return 0.0 if radii[0] == 0 else float("nan")
    for (r0, a0), (r1, a1) in zip(
        zip(radii, accuracy, strict=True), zip(radii[1:], accuracy[1:], strict=True), strict=False
    ):
        if a1 < level <= a0:
            return r0 + (a0 - level) / (a0 - a1) * (r1 - r0)
    return float("nan")


def find_bracket(radii: tuple[float, ...], accuracy: list[float], level: float = 0.5) -> tuple[float, float]:
    """The two radii that a falling curve meets the level between; NaN for an end that was not tried."""
    if np.isnan(accuracy).any():
        return float("nan"), float("nan")
    below = next((i for i, value in enumerate(accuracy) if value < level), len(accuracy))
    return (radii[below - 1] if below else float("nan")), (radii[below] if below < len(radii) else float("nan"))


def half_lost(curve: Curve, names: tuple[str, ...]) -> str:
    """One sentence: the classes whose accuracy falls below 50 % at the smallest radii, and how many never do."""
    at = np.where(np.isnan(curve.half) & ~np.isnan(curve.between[:, 1]), 0.0, curve.half)  # before the smallest radius
    lost = [c for c in np.argsort(at, kind="stable") if not np.isnan(at[c])]
    kept = int((np.isnan(at) & ~np.isnan(curve.between[:, 0])).sum())
    if not lost:
        return f"No class falls below 50 % under {curve.attack} up to eps = {radius_text(curve.radii[-1], curve.norm)}."
    smallest = radius_text(curve.radii[0], curve.norm)
    said = [
        f"{names[c]} {f'before {smallest}' if np.isnan(curve.half[c]) else radius_text(curve.half[c], curve.norm)}"
        for c in lost[:MOST_NAMED]
    ]
    more = f", {len(lost) - MOST_NAMED} more later" if len(lost) > MOST_NAMED else ""
    never = f"; {kept} stay above it up to {radius_text(curve.radii[-1], curve.norm)}" if kept else ""
    return f"Accuracy under {curve.attack} falls below 50 % at eps: {', '.join(said)}{more}{never}."


def radius_text(eps: float, norm: str) -> str:
    """A radius for people: in 1/255 for Linf."""
    return f"{255 * eps:.4g}/255" if norm == Linf.recipe_name else f"{eps:.4g}"


def nearest_mistakes(evidence: Evidence, name: str) -> Float[np.ndarray, " k"] | None:
    """The median distance of each class to its nearest mistakes, where the attack looked for these: infinite if most of
    a class survived."""
    attack = evidence.attacks[name]
    kind = class_of(attack["type"])
    if kind is None or not issubclass(kind, NearestMistake) or attack.get("keep") != "last":
        return None
    r = evidence.conditions[name]
    size = r.l2 if attack["ball"]["type"] == L2.recipe_name else r.linf
    distance = np.where(evidence.correct(name), np.inf, size.astype(np.float64))
    y = torch.from_numpy(evidence.labels.astype(np.int64))
    return median_distance(torch.from_numpy(distance), y, evidence.k).numpy()
