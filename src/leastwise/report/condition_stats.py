"""Evidence -> what the statistics say of one condition, once, for the summary, the page and the terminal."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from leastwise.attacks.base import Clean
from leastwise.attacks.min_norm.ddn_fmn import median_distance
from leastwise.attacks.min_norm.search import NearestMistake
from leastwise.attacks.registry import class_of
from leastwise.attacks.threats import L2, Linf
from leastwise.audit.evidence import MOST_NAMED, Evidence, count_confusions
from leastwise.audit.masking import ball_of
from leastwise.core.counts import ClassFrame
from leastwise.core.text import parse_number, percent, span
from leastwise.statistics.accuracy import ClassCounts, ClassValues, wilson_interval
from leastwise.statistics.spread import Ranking, Spread, homogeneity, measure_spread, rank_classes, variance_bounds
from leastwise.statistics.worst_class import (
    ClassRanks,
    WorstClass,
    estimate_ranks,
    estimate_worst,
    likely_worst,
    probability_worst,
    range_worst,
)

ROUGH = 0.06  # a probability of being the worst class is shown with its range if that is wider


@dataclass(frozen=True, eq=False)
class ConditionStats:
    """Of one condition; fractions."""

    names: tuple[str, ...]
    correct: ClassCounts
    n: ClassCounts
    worst: WorstClass
    probability: ClassValues  # of being the worst class, each class
    least: ClassValues  # that it becomes with classes as alike, or as different, as nobody can exclude
    most: ClassValues
    spread: Spread
    spread_low: float
    spread_high: float
    same: float  # p-value of "all classes have one accuracy"
    ranks: ClassRanks

    @property
    def candidates(self) -> tuple[int, ...]:
        """The likeliest worst classes, as few as hold the worst class in 95 of 100 audits."""
        return likely_worst(self.probability)

    @property
    def ranking(self) -> Ranking:
        """All pairs of classes: half a million tests at 1,000 classes, so only where it is asked for."""
        return rank_classes(self.correct, self.n)


def compute_stats(evidence: Evidence, condition: str) -> ConditionStats:
    """The statistics of one condition."""
    tally = evidence.tally(condition)
    correct, n = tally.correct.numpy(), tally.n.numpy()
    low, high = variance_bounds(correct, n)
    return ConditionStats(
        evidence.names,
        correct,
        n,
        estimate_worst(correct, n),
        probability_worst(correct, n),
        *range_worst(correct, n),
        measure_spread(correct, n),
        low,
        high,
        homogeneity(correct, n),
        estimate_ranks(correct, n),
    )


def certainty_sentences(found: ConditionStats) -> tuple[str, ...]:
    """Sentences on how sure the worst class is, and whether the classes differ at all."""
    candidates = found.candidates
    if len(candidates) == 1:
        first = candidates[0]
        said = [f"{found.names[first]} is the worst class with probability {describe_chance(found, first)}"]
    elif len(candidates) <= MOST_NAMED:
        likely = [f"{found.names[c]} {describe_chance(found, c)}" for c in candidates]
        said = [f"which class is the worst is open: {', '.join(likely)}"]
    else:
        said = [f"which class is the worst is open: it is among {len(candidates)} classes in 95 of 100 such audits"]
    if len(candidates) <= MOST_NAMED and any(is_rough(found, c) for c in candidates):
        said.append("in brackets: how far that depends on how alike the classes are, which this audit does not show")
    if found.same >= 0.05:
        said.append(
            f"the differences between the classes are within what chance makes of equal ones (p = {found.same:.2f})"
        )
    return tuple(f"{text[:1].upper()}{text[1:]}." for text in said)


def is_rough(found: ConditionStats, c: int) -> bool:
    """Whether a class's probability of being the worst depends on more than its images and those of the others."""
    return bool(found.most[c] - found.least[c] > ROUGH)


def describe_chance(found: ConditionStats, c: int) -> str:
    """The probability of being the worst class, with its range where that is wide."""
    said = format_probability(found.probability[c])
    return said + (f" ({100 * found.least[c]:.0f} to {100 * found.most[c]:.0f} %)" if is_rough(found, c) else "")


def headline_details(evidence: Evidence) -> tuple[str, ...]:
    """What the terminal adds to the headline: what was measured, and how sure the worst class is."""
    pick = find_attackers_pick(evidence)
    found = compute_stats(evidence, pick.condition)
    return (
        naive_sentence(pick),
        *certainty_sentences(found),
        *side_sentences(evidence),
    )


def naive_sentence(pick: "AttackersPick") -> str:
    """What was measured, with the interval that would hold if the class had been chosen before looking."""
    if pick.ties > 1:
        return f"Without the luck of being the lowest of many the worst class has {pick.accuracy} % {pick.interval}."
    return (
        f"Measured were {pick.measured} % (naive Wilson interval {pick.naive}); the lowest of many measurements is "
        f"partly bad luck, which the first number is corrected for."
    )


def side_sentences(evidence: Evidence) -> tuple[str, ...]:
    """What was asked for besides: where each class is half lost, and what rounding to 8 bits leaves of the attacks."""
    said = [half_lost(one, evidence.names) for one in make_curves(evidence)]
    for name in evidence.conditions:
        if (rounded := evidence.in_8_bits(name)) is not None:
            before = evidence.tally(name)
            more = int(rounded.correct.sum()) - int(before.correct.sum())
            said.append(
                f"Rounded to 8 bits, {percent(rounded.overall)} % survive {name} ({more:+d} images), "
                f"as it is {percent(before.overall)} %."
            )
    return tuple(said)


def format_probability(probability: float) -> str:
    """A probability in percent; its ends are not rounded to certainty."""
    return "> 99.9 %" if probability > 0.999 else "< 0.1 %" if probability < 0.001 else f"{100 * probability:.1f} %"


def lowest_accuracy(frame: ClassFrame) -> list[float]:
    """The worst class's accuracy, by condition."""
    lowest: list[float] = frame.accuracy.gather(1, frame.worst[:, None]).squeeze(1).tolist()
    return lowest


@dataclass(frozen=True)
class AttackersPick:
    """The class an attacker would pick, under the condition where the worst class is lowest."""

    condition: str
    picked: str
    ties: int  # classes that share the last place
    accuracy: str  # of the worst class, without the bad luck of being picked as the lowest
    interval: str  # of the lowest true accuracy, whichever class has it
    measured: str
    naive: str  # Wilson's interval of what was measured, as if the class had been chosen before looking
    overall: str


def find_attackers_pick(evidence: Evidence) -> AttackersPick:
    """The weakest class under the condition where it is weakest."""
    frame = evidence.frame()
    lowest = lowest_accuracy(frame)
    overall: list[float] = frame.overall.tolist()
    # Of conditions that are equally bad the last: clean images stand first, and no attacker is needed for them.
    row = min(range(len(lowest)), key=lambda r: (lowest[r], overall[r], -r))
    worst = int(frame.worst[row])
    low, high = wilson_interval(frame.correct[row].numpy(), frame.n[row].numpy())
    found = estimate_worst(frame.correct[row].numpy(), frame.n[row].numpy())
    return AttackersPick(
        frame.conditions[row],
        frame.names[worst],
        int((frame.accuracy[row] == lowest[row]).sum()),
        percent(found.corrected),
        span(found.low, found.high),
        percent(lowest[row]),
        span(low[worst], high[worst]),
        percent(overall[row]),
    )


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


WHOLE = 1000  # classes up to which all pairs are looked at


def confusion_norm(evidence: Evidence, condition: str) -> float:
    """The largest singular value of the shares that go astray: one number for how concentrated mistakes are.

    Of many classes most pairs are never confused: the matrix is then kept by its entries, and the value found by
    iteration (at 10,000 classes a whole matrix would be 800 MB, and its values take hours).
    """
    if evidence.k <= WHOLE:
        counts = count_confusions(evidence, condition)
        share = counts / np.maximum(counts.sum(1), 1)[:, None]
        np.fill_diagonal(share, 0.0)
        return float(np.linalg.norm(share, 2))
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import svds

    n = np.bincount(evidence.labels, minlength=evidence.k)
    predicted = evidence.conditions[condition].predicted
    wrong = predicted != evidence.labels
    if not wrong.any():
        return 0.0
    rows, columns = evidence.labels[wrong].astype(np.int64), predicted[wrong].astype(np.int64)
    share = csr_matrix((1 / n[rows], (rows, columns)), shape=(evidence.k, evidence.k))
    start = np.asarray(
        share.sum(1)
    ).ravel()  # not at right angles to the vector that is looked for: nothing is negative
    return float(svds(share, k=1, v0=start, return_singular_vectors=False)[0])
