"""Gates: does a result meet its demands? Pass, fail or inconclusive, decided on confidence bounds, not on estimates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
from jaxtyping import Int

from leastwise.core.recipe import describe_difference
from leastwise.statistics.accuracy import CONFIDENCE, ClassCounts, Hits
from leastwise.statistics.gate.falls import ClassFalls, estimate_largest_fall, visible_fall
from leastwise.statistics.gate.language import GateTerm
from leastwise.statistics.gate.measures import GateEstimate, Look, estimate_measure
from leastwise.statistics.gate.plan import DecidedShare, images_for_power, share_decided, share_of_falls


class GateOutcome(Enum):
    """What a gate says of one demand."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, eq=False)
class SingleImages:
    """For comparing two results image by image: what was right under each condition."""

    ids: Int[np.ndarray, " n"]
    labels: Int[np.ndarray, " n"]
    hits: Mapping[str, Hits]


@dataclass(frozen=True, eq=False)
class Result:
    """Counts by condition, each `(correct, n)` over the classes, and the single images where they are known."""

    names: tuple[str, ...]
    counts: Mapping[str, tuple[ClassCounts, ClassCounts]]
    images: SingleImages | None = None
    attacks: Mapping[str, Any] = field(default_factory=dict)  # settings behind the names of conditions, where known
    model: str = ""  # the fingerprint of the network, where known
    data: str = ""  # the fingerprint of the images, where known
    warnings: tuple[str, ...] = ()  # what has to be known before any verdict
    doubted: frozenset[str] = frozenset()  # conditions under which accuracies seem to be too high


@dataclass(frozen=True)
class GateVerdict:
    """One demand, what was decided, and the interval that it was decided on."""

    term: GateTerm
    outcome: GateOutcome
    estimate: float
    low: float
    high: float
    images_needed: int | None  # of the largest class, which would decide in 80 % of cases if the estimate is the truth
    detail: str  # which class is worst or fell most, and whether images were paired; else empty
    visible: float | None = None  # unpaired drops: how far a class must fall for this gate to see it in 80 % of cases
    doubted: bool = False  # open because the attack seems to have failed, which no number of images decides


def decide(
    terms: Sequence[GateTerm],
    result: Result,
    bases: Mapping[str, Result],
    *,
    confidence: float = CONFIDENCE,
    anytime: bool = False,
) -> tuple[GateVerdict, ...]:
    """Verdicts that are all right together with the given confidence: the terms share the error (Bonferroni).

    `bases` has the results that `drop` terms name. `images_needed` supposes that all classes grow alike. Verdicts
    are for one look at a number of images fixed beforehand; `anytime` ones may be repeated as images are added.
    """
    look = Look(1 - (1 - confidence) / max(len(terms), 1), anytime)
    verdicts = (decide_term(term, result, bases, look=look) for term in terms)
    return tuple(doubt_verdict(verdict, result, bases) for verdict in verdicts)


def doubt_verdict(verdict: GateVerdict, result: Result, bases: Mapping[str, Result]) -> GateVerdict:
    """No verdict on accuracies that seem to be too high, unless it would only be clearer if they were lower."""
    term = verdict.term
    of = [result, *([bases[term.name]] if term.measure == "drop" else [])]
    if not any(term.condition in one.doubted for one in of):
        return verdict
    lower = GateOutcome.FAIL if term.comparison in (">=", ">") else GateOutcome.PASS
    if verdict.outcome is lower and term.measure in ("worst", "accuracy", "overall", "macro"):
        return verdict
    return replace(verdict, outcome=GateOutcome.INCONCLUSIVE, images_needed=None, doubted=True)


def decide_term(term: GateTerm, result: Result, bases: Mapping[str, Result], *, look: Look) -> GateVerdict:
    """The verdict on one demand, with the number of images that would decide it if these do not."""
    if term.measure == "drop":
        return decide_fall(term, measure_falls(term, result, bases), result.names, look=look)
    correct, n = counts_for(term, result)
    found = estimate_measure(term.measure, correct, n, confidence=look.confidence, anytime=look.anytime)
    detail = "" if found.index is None else result.names[found.index]
    needed = find_images_needed(term, found, share_decided(term, correct, n, look=look), size=int(n.max()))
    return GateVerdict(term, judge(term, found), found.value, found.low, found.high, needed, detail)


def decide_fall(term: GateTerm, falls: ClassFalls, names: Sequence[str], *, look: Look) -> GateVerdict:
    """The verdict on a drop."""
    found = estimate_largest_fall(falls, look.confidence, anytime=look.anytime)
    assert found.index is not None
    needed = find_images_needed(term, found, share_of_falls(term, falls, look=look), size=falls.size)
    detail = f"{names[found.index]}, {'paired' if falls.paired else 'unpaired'}"
    visible = None if falls.paired else visible_fall(falls, term.threshold, confidence=look.confidence)
    return GateVerdict(term, judge(term, found), found.value, found.low, found.high, needed, detail, visible)


def find_images_needed(term: GateTerm, found: GateEstimate, decided: DecidedShare, *, size: int) -> int | None:
    """Nothing where the gate is decided, or where the estimate lies on the limit."""
    if judge(term, found) is not GateOutcome.INCONCLUSIVE or found.value == term.threshold:
        return None
    return images_for_power(decided, size)


def judge(term: GateTerm, found: GateEstimate) -> GateOutcome:
    """Pass when the whole interval meets the demand, fail when none of it does."""
    t = term.threshold
    sure, hopeless = {
        ">=": (found.low >= t, found.high < t),
        ">": (found.low > t, found.high <= t),
        "<=": (found.high <= t, found.low > t),
        "<": (found.high < t, found.low >= t),
    }[term.comparison]
    return GateOutcome.PASS if sure else GateOutcome.FAIL if hopeless else GateOutcome.INCONCLUSIVE


def counts_of_condition(condition: str, result: Result, owner: str) -> tuple[ClassCounts, ClassCounts]:
    """Right answers and images of each class under a condition, if the result has it."""
    if condition not in result.counts:
        raise ValueError(
            f"{owner} has no condition {condition!r}: use one of {', '.join(result.counts)}, or audit it first"
        )
    return result.counts[condition]


def counts_for(term: GateTerm, result: Result) -> tuple[ClassCounts, ClassCounts]:
    """Right answers and images of the classes that a term is about."""
    correct, n = counts_of_condition(term.condition, result, "the result")
    if term.measure == "accuracy":
        if term.name not in result.names:
            raise ValueError(f"the result has no class {term.name!r}: use one of {', '.join(result.names)}")
        c = result.names.index(term.name)
        correct, n = correct[c : c + 1], n[c : c + 1]
    if not n.sum():
        raise ValueError(f"{term.text!r} is about images that the result does not have: audit them first")
    return correct, n


def measure_falls(term: GateTerm, result: Result, bases: Mapping[str, Result]) -> ClassFalls:
    """What each class lost since the base: on the images both know, or from the counts where one knows no images."""
    if term.name not in bases:
        raise ValueError(f"there is no base {term.name!r} for {term.text!r}: give the folder or summary of a result")
    base, owner = bases[term.name], f"the base {term.name!r}"
    if sorted(base.names) != sorted(result.names):
        raise ValueError(f"{owner} has other classes than the result: compare audits of the same data")
    before, since = (one.attacks.get(term.condition) for one in (base, result))
    if before is not None and since is not None and (apart := describe_difference(before, since)):
        raise ValueError(
            f"{term.condition} is not the same attack in {owner} and in the result ({apart}): audit both alike"
        )
    order = np.array([base.names.index(name) for name in result.names])
    correct, n = counts_of_condition(term.condition, result, "the result")
    base_correct, base_n = counts_of_condition(term.condition, base, owner)
    if result.images is None or base.images is None:
        return ClassFalls(base_correct[order], base_n[order], correct, n, paired=False)
    if result.data != base.data and result.data and base.data and np.array_equal(result.images.ids, base.images.ids):
        raise ValueError(f"{owner} is about other images than the result: compare audits of the same data")
    _, here, there = np.intersect1d(result.images.ids, base.images.ids, assume_unique=True, return_indices=True)
    labels = result.images.labels[here]
    if not len(here) or (order[labels] != base.images.labels[there]).any():
        raise ValueError(f"{owner} is about other images than the result: compare audits of the same data")
    now, then = result.images.hits[term.condition][here], base.images.hits[term.condition][there]
    k = len(result.names)
    lost, gained = (np.bincount(labels[which], minlength=k) for which in (then & ~now, now & ~then))
    both = np.bincount(labels, minlength=k)
    return ClassFalls(lost, both, gained, both, paired=True)
