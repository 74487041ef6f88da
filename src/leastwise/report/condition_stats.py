"""Evidence -> what the statistics say of one condition, once, for the summary, the page and the terminal."""

from dataclasses import dataclass

import numpy as np

from leastwise.audit.evidence import MOST_NAMED, Evidence
from leastwise.report.security_curves import half_lost, make_curves
from leastwise.report.text import percent, span
from leastwise.report.weakest import find_attackers_pick
from leastwise.statistics.intervals import ClassCounts, ClassValues, Ranking, rank_classes
from leastwise.statistics.spread import Spread, homogeneity, measure_spread, variance_bounds
from leastwise.statistics.worst_class import WorstClass, estimate_worst, probability_worst

SURE = 0.95  # a probability of being the worst class from which no other is named beside it


@dataclass(frozen=True, eq=False)
class ConditionStats:
    """Of one condition; fractions."""

    names: tuple[str, ...]
    correct: ClassCounts
    n: ClassCounts
    worst: WorstClass
    probability: ClassValues  # of being the worst class, each class
    spread: Spread
    spread_low: float
    spread_high: float
    same: float  # p-value of "all classes have one accuracy"

    @property
    def candidates(self) -> tuple[int, ...]:
        """The likeliest worst classes, as few as hold the worst class with 95 % probability."""
        order = np.argsort(-np.nan_to_num(self.probability, nan=-1.0), kind="stable")
        total = np.cumsum(np.nan_to_num(self.probability[order]))
        return tuple(int(c) for c in order[: int(np.searchsorted(total, SURE)) + 1])

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
        measure_spread(correct, n),
        low,
        high,
        homogeneity(correct, n),
    )


def certainty_sentences(found: ConditionStats) -> tuple[str, ...]:
    """Sentences on how sure the worst class is, and whether the classes differ at all."""
    candidates = found.candidates
    likely = [f"{found.names[c]} {format_probability(found.probability[c])}" for c in candidates]
    if len(candidates) == 1:
        first = candidates[0]
        said = [
            f"{found.names[first]} is the worst class with probability {format_probability(found.probability[first])}"
        ]
    elif len(candidates) <= MOST_NAMED:
        said = [f"which class is the worst is open: {', '.join(likely)}"]
    else:
        said = [f"which class is the worst is open: {len(candidates)} classes hold it with probability 95 %"]
    if found.same >= 0.05:
        said.append(
            f"the differences between the classes are within what chance makes of equal ones (p = {found.same:.2f})"
        )
    return tuple(f"{text[:1].upper()}{text[1:]}." for text in said)


def headline_details(evidence: Evidence) -> tuple[str, ...]:
    """What the terminal adds to the headline: the worst class without bad luck, and how sure it is."""
    found = compute_stats(evidence, find_attackers_pick(evidence).condition)
    worst = found.worst
    corrected = f"{percent(worst.corrected)} % {span(worst.low, worst.high)}"
    return (
        f"The lowest of many measurements is partly bad luck; corrected for it: {corrected}.",
        *certainty_sentences(found),
        *side_sentences(evidence),
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
