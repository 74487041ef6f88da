"""The check of survivors: a few images of every class that no gradient attack broke, attacked from answers alone."""

from collections.abc import Iterator

import numpy as np
import torch

from leastwise.attacks.base import Attack, Passes
from leastwise.attacks.goals import Margin
from leastwise.attacks.pgd import PGD
from leastwise.attacks.square import Square
from leastwise.attacks.threats import L2, Ball, Linf
from leastwise.attacks.transfer import craft_elsewhere
from leastwise.audit.auditor import Auditor, Conditions
from leastwise.audit.balls import group_by_ball
from leastwise.audit.check import SurvivorCheck
from leastwise.audit.evidence import Evidence
from leastwise.core.noise import Noise, random_order
from leastwise.data.dataset import Batch, Dataset
from leastwise.models.classifier import Classifier

MOST_SAMPLED, QUERIES = 50, 120
# Of a large audit the check may take so much, but a sample of thirty at least: of these six must fall for the test to
# fire. An audit of fewer images may spend seconds on it whatever it costs itself.
LARGE, SHARE, FEWEST_SAMPLED = 2000, 0.035, 30
TRANSFER_STEPS = 10


def make_second_attacks(ball: Ball) -> Iterator[tuple[str, Attack]]:
    """What survivors are attacked with, and how it is called; nothing for a ball that no such attack knows.

    The second is crafted on the copy that attacks use and asked of the model. Its margin does not depend on the size of
    the logits, which cross-entropy does.
    """
    assert isinstance(ball.eps, float), "only balls of one radius are checked"
    if isinstance(ball, Linf | L2):
        yield f"square with {QUERIES} queries", Square(ball, queries=QUERIES, rescale=True)
        attack = PGD(ball, Margin(kappa=1e9), ball.eps / 4, TRANSFER_STEPS, keep="last")
        yield f"a transfer of {TRANSFER_STEPS} steps", attack


def cost_of_one(ball: Ball, k: int) -> Passes:
    """The most passes that the check of one image takes."""
    total = Passes(0)
    for _, attack in make_second_attacks(ball):
        cost = attack.cost(k)
        assert cost is not None, "both know their costs"
        total = total + cost + Passes(1 + int(isinstance(attack, PGD)))  # asked afresh, and where it was transferred to
    return total


def limit_sample(images: int, passes: int, each: Passes) -> int:
    """How many survivors are attacked again in an audit of so many images that took so many passes."""
    if images < LARGE:
        return MOST_SAMPLED
    fit = int(SHARE * passes / max(1, each.forwards + each.backwards))
    return max(FEWEST_SAMPLED, min(MOST_SAMPLED, fit))


def cost_of_check(conditions: Conditions, k: int) -> Passes:
    """The most passes of single images that the check of an audit takes."""
    return sum((cost_of_one(ball, k) * MOST_SAMPLED for ball, _ in group_by_ball(conditions)), start=Passes(0))


def check_survivors(
    auditor: Auditor, data: Dataset, evidence: Evidence, *, crafted_on: Classifier
) -> tuple[SurvivorCheck, ...]:
    """One check for every ball that gradients were used in."""
    return tuple(
        check_one(auditor, data, evidence, ball=ball, names=names, crafted_on=crafted_on)
        for ball, names in group_by_ball(auditor.recipe.conditions)
    )


def check_one(
    auditor: Auditor,
    data: Dataset,
    evidence: Evidence,
    *,
    ball: Ball,
    names: tuple[str, ...],
    crafted_on: Classifier,
) -> SurvivorCheck:
    """Attack a sample of what survived all conditions of one ball; what one attack broke is spared the next."""
    survived = np.logical_and.reduce([evidence.correct(name) for name in names])
    passes = sum(evidence.conditions[name].forwards + evidence.conditions[name].backwards for name in names)
    most = limit_sample(len(evidence.ids), passes, cost_of_one(ball, evidence.k))
    chosen = sample_by_class(evidence, survived, auditor.recipe.seed, most=most)
    attacks = list(make_second_attacks(ball))
    called = " and ".join(name for name, _ in attacks)
    found = SurvivorCheck(names, str(ball), called, int(survived.sum()))
    if not len(chosen) or not attacks:
        return found
    order = np.argsort(data.ids)
    positions = order[np.searchsorted(data.ids[order], evidence.ids[chosen])]
    broken, spent = [], Passes(0)
    for batch in data.batches(auditor.batch_size, positions):
        x, y, ids = Batch(*(part.to(auditor.device) for part in batch))
        fell = torch.zeros(len(y), dtype=torch.bool, device=x.device)
        for _, attack in attacks:
            rows = torch.nonzero(~fell).squeeze(1)
            if not len(rows):
                break
            noise = Noise(auditor.recipe.seed, ids[rows], "/check")
            if isinstance(attack, PGD):
                outcome = craft_elsewhere(attack, auditor.model, x[rows], y[rows], noise, substitute=crafted_on)
            else:
                outcome = attack.run(auditor.model, x[rows], y[rows], noise)
            with torch.no_grad():  # asked afresh, as every verdict
                fell[rows] = auditor.model(outcome.x_adv).argmax(dim=1) != y[rows]
            spent = spent + Passes(outcome.forwards + len(rows), outcome.backwards)
        broken.append(fell.cpu().numpy())
    hit = np.concatenate(broken)
    labels = evidence.labels[chosen]
    present = np.unique(labels)
    return SurvivorCheck(
        names,
        str(ball),
        called,
        int(survived.sum()),
        tuple(present.tolist()),
        tuple(int((labels == c).sum()) for c in present),
        tuple(int(hit[labels == c].sum()) for c in present),
        spent.forwards,
        spent.backwards,
    )


def sample_by_class(evidence: Evidence, survived: "np.ndarray", seed: int, *, most: int = MOST_SAMPLED) -> "np.ndarray":
    """Rows of the evidence: as many survivors of every class as there is room for, drawn by the seed."""
    order = random_order(torch.from_numpy(evidence.ids.astype(np.int64)), seed, "check").numpy()
    order = order[survived[order]]
    labels = evidence.labels[order]
    rank = np.zeros(len(order), dtype=np.int64)  # how many of its class come before it
    for c in np.unique(labels):
        rank[labels == c] = np.arange(int((labels == c).sum()))
    first = np.argsort(rank, kind="stable")[:most]
    return np.sort(order[first])
