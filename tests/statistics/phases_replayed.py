"""AutoAttack in two phases, replayed from evidence of the whole: which member fooled an image is stored with it."""

from typing import NamedTuple

import numpy as np

from leastwise.attacks.autoattack import make_autoattack
from leastwise.attacks.combine import Cascade
from leastwise.attacks.threats import Linf
from leastwise.audit.evidence import Evidence
from leastwise.statistics.accuracy import CONFIDENCE
from leastwise.statistics.two_phase import TwoPhaseCounts, images_for_budget, sample_for_budget

LITE = ("cifar10-small-me-at-9fc0d0ce", "cifar10-small-pgd-at-31563347", "cifar10-small-trades-8632880e")
NAME = "autoattack"


class Replayed(NamedTuple):
    """Of many replays: passes as a share of the whole, and how often all classes were inside their intervals."""

    cost: float
    inside: float
    width: float  # mean over classes and replays


def replay_autoattack(evidence: Evidence, *, budget: float, runs: int) -> Replayed:
    record, k = evidence.conditions[NAME], evidence.k
    labels, whole = evidence.labels, evidence.correct(NAME)
    after_first = (record.each & 1) == 0  # bit 0: fooled by APGD-CE
    assert not (whole & ~after_first).any()
    images, survivors, truth = (
        np.bincount(labels[some], minlength=k) for some in (np.ones(len(labels), bool), after_first, whole)
    )
    attack = make_autoattack(Linf(8 / 255))
    first, later = attack.members[0].cost(k), Cascade(attack.members[1:]).cost(k)
    assert first is not None and later is not None
    passes = record.forwards + record.backwards
    before = (first.forwards + first.backwards) * len(labels)  # at most: those that fall early take less
    each = (passes - before) / survivors.sum()
    planned = later.forwards + later.backwards
    most = images_for_budget(budget, before, planned, survivors=int(survivors.sum()))
    drawn = sample_for_budget(most, survivors, images, confidence=CONFIDENCE)
    rng = np.random.default_rng(0)
    inside, widths = [], []
    for _ in range(runs):
        survived = np.array([rng.hypergeometric(truth[c], survivors[c] - truth[c], drawn[c]) for c in range(k)])
        low, high = TwoPhaseCounts(images, survivors, drawn, survived).bounds()
        inside.append(bool(((low <= truth / images + 1e-12) & (truth / images <= high + 1e-12)).all()))
        widths.append(float((high - low).mean()))
    return Replayed((before + each * drawn.sum()) / passes, float(np.mean(inside)), float(np.mean(widths)))
