"""An audit in two phases: the first member of an attack on all images, the others on a random sample of its survivors.

What the second phase leaves open is no evidence of single images, so it is kept beside the evidence and not in it: a
condition of the evidence is always known for every image, and nothing that reads evidence can mistake one for the
other.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from leastwise.attacks.base import Attack
from leastwise.attacks.combine import Cascade
from leastwise.audit.auditor import Conditions
from leastwise.audit.evidence import Evidence
from leastwise.core.files import with_nulls
from leastwise.core.noise import random_order
from leastwise.core.text import parse_share
from leastwise.statistics.accuracy import CONFIDENCE, ClassCounts
from leastwise.statistics.two_phase import TwoPhaseCounts, images_for_budget, sample_for_budget, sample_for_width


@dataclass(frozen=True)
class SamplePlan:
    """What the sample is chosen for: a share of the passes of a full audit, or the widest interval of a class."""

    kind: Literal["budget", "width"]
    value: float


@dataclass(frozen=True)
class PhasedAttack:
    """An attack that is made in two phases; `first` is the condition under which the first phase is kept."""

    name: str
    first: str
    later: Attack


def parse_plan(text: str) -> SamplePlan:
    """`budget:40%` or `width:10%`."""
    kind, _, value = text.partition(":")
    if kind not in ("budget", "width") or not value:
        raise ValueError(
            f"two phases are planned for budget:SHARE or width:SHARE, such as budget:40%, but saw {text!r}"
        )
    share = parse_share(value)
    if not 0 < share <= 1:
        raise ValueError(f"a {kind} is a share of at most 1, but saw {value}: 40 % are 40% or 0.4")
    return SamplePlan("budget" if kind == "budget" else "width", share)


def split_conditions(conditions: Conditions) -> tuple[Conditions, PhasedAttack]:
    """The conditions with the first member in the place of the one attack that has several, and the rest of it."""
    several = [(name, attack) for name, attack in conditions if isinstance(attack, Cascade) and len(attack.members) > 1]
    if len(several) != 1:
        raise ValueError(
            f"two phases need one attack of several members, such as autoattack or pgd20+square, but saw {len(several)}"
        )
    ((name, attack),) = several
    first = f"first-of-{name}"
    rest = attack.members[1:]
    later = PhasedAttack(name, first, rest[0] if len(rest) == 1 else Cascade(rest))
    return tuple((first, attack.members[0]) if one == name else (one, made) for one, made in conditions), later


def plan_sample(plan: SamplePlan, found: Evidence, phased: PhasedAttack) -> ClassCounts:
    """How many survivors of each class the second phase attacks."""
    images, survivors = count_classes(found, np.ones(len(found.ids), dtype=bool)), count_survivors(found, phased)
    if plan.kind == "width":
        return sample_for_width(plan.value, survivors, images, confidence=CONFIDENCE)
    record, each = found.conditions[phased.first], phased.later.cost(found.k)
    if each is None or phased.later.gives_up:
        raise ValueError(f"nobody knows what {phased.name} costs: plan its two phases for a width, such as width:10%")
    before, after = record.forwards + record.backwards, each.forwards + each.backwards
    most = images_for_budget(plan.value, before, after, survivors=int(survivors.sum()))
    return sample_for_budget(most, survivors, images, confidence=CONFIDENCE)


def draw_sample(found: Evidence, phased: PhasedAttack, drawn: ClassCounts, *, seed: int) -> "np.ndarray":
    """Ids of the images of the second phase: of each class's survivors the first ones of an order from the seed."""
    order = random_order(torch.from_numpy(found.ids.astype(np.int64)), seed, "two-phase").numpy()
    survived, labels = found.correct(phased.first)[order], found.labels[order]
    some = [found.ids[order[survived & (labels == c)][: drawn[c]]] for c in range(found.k)]
    return np.sort(np.concatenate(some))


def count_classes(found: Evidence, which: "np.ndarray") -> ClassCounts:
    return np.bincount(found.labels[which], minlength=found.k)


def count_survivors(found: Evidence, phased: PhasedAttack) -> ClassCounts:
    return count_classes(found, found.correct(phased.first))


def count_phases(found: Evidence, second: Evidence | None, phased: PhasedAttack) -> TwoPhaseCounts:
    """What both phases found; `second` is missing where nobody survived the first."""
    everyone = count_classes(found, np.ones(len(found.ids), dtype=bool))
    zeros = np.zeros_like(everyone)
    drawn = zeros if second is None else count_classes(second, np.ones(len(second.ids), dtype=bool))
    survived = zeros if second is None else count_classes(second, second.correct(phased.name))
    return TwoPhaseCounts(everyone, count_survivors(found, phased), drawn, survived)


def describe_phases(found: Evidence, second: Evidence | None, phased: PhasedAttack) -> dict[str, Any]:
    """What both phases found, ready to read by any program."""
    counts = count_phases(found, second, phased)
    low, high = counts.bounds()
    record = found.conditions[phased.first]
    first = record.forwards + record.backwards
    later = 0 if second is None else sum(r.forwards + r.backwards for r in second.conditions.values())
    drawn, survivors = int(counts.drawn.sum()), int(counts.survivors.sum())
    whole = first + later * survivors / max(1, drawn)
    worst = int(np.nanargmin(counts.accuracy))
    return {
        "schema": 1,
        "condition": phased.name,
        "first": phased.first,
        "confidence": CONFIDENCE,
        "classes": list(found.names),
        "images": counts.images.tolist(),
        "survivors": counts.survivors.tolist(),
        "drawn": counts.drawn.tolist(),
        "survived": counts.survived.tolist(),
        "accuracy": with_nulls(counts.accuracy.tolist()),
        "low": with_nulls(low.tolist()),
        "high": with_nulls(high.tolist()),
        "lowest": {"class": found.names[worst], "accuracy": float(counts.accuracy[worst])},
        "passes": {"first": first, "second": later, "of_a_full_audit": round((first + later) / whole, 4)},
        "ids": [] if second is None else second.ids.tolist(),
    }


def phases_sentence(told: dict[str, Any]) -> str:
    """What every output of such an audit repeats."""
    return (
        f"{told['condition']} was tried on {sum(told['drawn']):,} of {sum(told['survivors']):,} survivors of its first "
        f"member, drawn at random: its accuracies and their intervals are in two_phase.json, not among the conditions, "
        "and no test, gate or comparison is about them"
    )
