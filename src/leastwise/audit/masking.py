"""Signs that an attack failed and the model is not robust: comparisons between the conditions of one audit.

A stronger attack cannot do worse than a weaker one unless gradients mislead it (Athalye et al., ICML 2018; Carlini et
al. 2019). Masking may hit single classes, so every comparison is made class by class, on the same images, with a
one-sided exact sign test at 1 % shared among the classes; and it may be spread over classes with few images each, so
all of them together are tested at another 1 %.

Here too: points that did not fool the model when it was asked again, and what the check of survivors found.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
import torch
from scipy.special import bdtr

from leastwise.attacks.autoattack import RANDOMISED
from leastwise.attacks.base import Attack, ModelAccess, Passes
from leastwise.attacks.combine import Restarts
from leastwise.attacks.goals import CE, Margin
from leastwise.attacks.pgd import PGD
from leastwise.attacks.registry import class_of
from leastwise.attacks.square import Square
from leastwise.attacks.threats import L2, Ball, Linf
from leastwise.audit.auditor import Auditor, Conditions, group_by_ball
from leastwise.audit.evidence import MOST_NAMED, Evidence
from leastwise.audit.record import SurvivorCheck, find_suspect
from leastwise.core.noise import Noise, random_order
from leastwise.data.dataset import Batch, Dataset
from leastwise.models.classifier import Classifier
from leastwise.models.output_check import doubt_order

LEVEL = 0.01
# Of the points that fooled the model during an attack: if so many do not when it is asked again, it is random. A
# choice, to leave room for the rounding of another form of a network; not a measurement.
RANDOM_FROM = 0.02
FEWEST_UNCONFIRMED = 3  # points below which nothing is called random
STUCK = 0.02  # of the survivors: without a gradient so many say nothing of robustness
RESTARTS_MATTER = 0.02  # of the images of a class: random starts that change so many verdicts are not enough

StoredAttack = Mapping[str, Any]  # an attack as the recipe of an audit has it


@dataclass(frozen=True)
class Sign:
    """Under the stronger attack these classes, or all together, hold significantly more than under the weaker one."""

    weaker: str
    stronger: str
    classes: tuple[int, ...]
    gains: tuple[float, ...]  # accuracy under the stronger minus accuracy under the weaker
    why: str
    pooled: float | None = None  # the same over all images, where that is significant

    def sentence(self, names: tuple[str, ...]) -> str:
        by_class = list(zip(self.classes, self.gains, strict=True))[:MOST_NAMED]
        overall = [] if self.pooled is None else [f"over all classes {100 * self.pooled:+.1f}"]
        shown = ", ".join([*overall, *(f"{names[c]} {100 * gain:+.1f}" for c, gain in by_class)])
        more = ", …" if len(self.classes) > MOST_NAMED else ""
        return f"{self.stronger} left more standing than {self.weaker} ({shown}{more} points): {self.why}"


def find_signs(evidence: Evidence) -> tuple[Sign, ...]:
    """All signs of masking that the conditions of an audit can show."""
    attacks: dict[str, StoredAttack] = evidence.attacks
    return tuple(
        sign
        for weaker, stronger in permutations(attacks, 2)
        for why in reasons_to_expect(attacks[weaker], attacks[stronger])
        if (sign := compare_conditions(evidence, weaker, stronger, why=why)) is not None
    )


def reasons_to_expect(weaker: StoredAttack, stronger: StoredAttack) -> Iterator[str]:
    """Why the second should be at least as strong as the first, if it should."""
    asks = needs_of(weaker) in ("queries", "labels")
    if asks and needs_of(stronger) == "gradients" and is_same_ball(weaker, stronger):
        yield "an attack without gradients beats one with them, so the gradients mislead; do not trust the latter"
    if differ_only_in(weaker, stronger, "steps", how=lambda a, b: a < b):
        yield "more steps make the attack weaker, so its gradients mislead"
    if is_colder(weaker, stronger):
        yield "a lower temperature makes the attack weaker, so its gradients mislead; count the worst of both"
    if is_colder(stronger, weaker):
        yield "its loss saturates at the higher temperature, so its gradients vanish; count the worst of both"


def needs_of(attack: StoredAttack) -> ModelAccess | None:
    """What the attack asks of the model, or the one inside it; nothing is known of mixed ones and of users' own."""
    kind = class_of(attack["type"])
    if kind is None:
        return None
    return needs_of(attack["attack"]) if kind.needs is None and "attack" in attack else kind.needs


def ball_of(attack: StoredAttack) -> Any:
    """Of an attack, or of the one inside it, or of the first that a combined attack is made of."""
    if "ball" in attack:
        return attack["ball"]
    inner = attack["attack"] if "attack" in attack else next(iter(attack.get("members", ())), None)
    return None if inner is None else ball_of(inner)


def is_same_ball(a: StoredAttack, b: StoredAttack) -> bool:
    """Whether both attacks are known to have one ball."""
    return ball_of(a) is not None and ball_of(a) == ball_of(b)


def differ_only_in(a: StoredAttack, b: StoredAttack, field: str, *, how: Callable[[Any, Any], bool]) -> bool:
    """Two attacks alike in everything but one setting, which is as it should be."""
    if field not in a or field not in b or not how(a[field], b[field]):
        return False
    return {k: v for k, v in a.items() if k != field} == {k: v for k, v in b.items() if k != field}


def is_colder(a: StoredAttack, b: StoredAttack) -> bool:
    """The same attack on cross-entropy, the second with a larger 1/T."""
    goals = a.get("goal", {}), b.get("goal", {})
    if any(goal.get("type") != CE.recipe_name for goal in goals):
        return False
    rest = [{k: v for k, v in attack.items() if k != "goal"} for attack in (a, b)]
    return rest[0] == rest[1] and goals[0]["inverse_temperature"] < goals[1]["inverse_temperature"]


def compare_conditions(evidence: Evidence, weaker: str, stronger: str, *, why: str) -> Sign | None:
    """The classes that hold significantly more under the stronger attack, if there are any."""
    a, b, y = evidence.correct(weaker), evidence.correct(stronger), evidence.labels
    n = np.bincount(y, minlength=evidence.k)
    only_b, only_a = (np.bincount(y[mask], minlength=evidence.k) for mask in (b & ~a, a & ~b))
    # The chance of so many images that only the weaker attack breaks, if either were as likely to.
    p = np.where(only_a + only_b > 0, bdtr(only_a, only_a + only_b, 0.5), 1.0)
    lost, gained = int(only_a.sum()), int(only_b.sum())
    pooled = (gained - lost) / len(y) if gained > lost and bdtr(lost, lost + gained, 0.5) < LEVEL else None
    present = n > 0
    found = np.flatnonzero(present & (only_b > only_a) & (p < LEVEL / max(1, int(present.sum()))))
    gains = (only_b - only_a)[found] / n[found]
    order = np.argsort(-gains)
    if not len(found) and pooled is None:
        return None
    return Sign(weaker, stronger, tuple(found[order].tolist()), tuple(gains[order].tolist()), why, pooled)


def restart_sentences(evidence: Evidence) -> tuple[str, ...]:
    """Sentences on attacks whose random starts decide many verdicts of a class."""
    said = []
    attacks: dict[str, StoredAttack] = evidence.attacks
    for name, attack in attacks.items():
        if attack["type"] != Restarts.recipe_name:
            continue
        r = evidence.conditions[name]
        later = (r.predicted != evidence.labels) & (r.by > 0)
        n = np.bincount(evidence.labels, minlength=evidence.k)
        share = np.bincount(evidence.labels[later], minlength=evidence.k) / np.maximum(n, 1)
        worst = [c for c in np.argsort(-share) if share[c] >= RESTARTS_MATTER]
        if worst:
            shown = ", ".join(f"{evidence.names[c]} {100 * share[c]:.1f} %" for c in worst[:MOST_NAMED])
            said.append(
                f"under {name} restarts after the first broke many images ({shown}): one random start is not enough"
            )
    return tuple(said)


def describe_unconfirmed(evidence: Evidence, condition: str) -> tuple[str, bool]:
    """A sentence on points that did not fool twice, empty if all did; and whether the model must be random."""
    lost = evidence.unconfirmed(condition)
    total = int(lost.sum())
    if not total:
        return "", False
    fooled = len(evidence.labels) - int(evidence.correct(condition).sum()) + total  # when the attack looked
    most = sorted(np.flatnonzero(lost), key=lambda c: -lost[c])
    shown = ", ".join(f"{evidence.names[c]} {lost[c]}" for c in most[:MOST_NAMED])
    shown += ", …" if len(most) > MOST_NAMED else ""
    what = (
        f"under {condition} {total} of {fooled} points that fooled the model did not when it was asked again ({shown})"
    )
    if total < FEWEST_UNCONFIRMED or total < RANDOM_FROM * fooled:
        return f"{what}; they count as robust", False
    return (
        f"{what}: the model is random, or attacks see another one than is judged, and robustness is overstated; audit "
        f"with {RANDOMISED.spelling}, which averages gradients over draws",
        True,
    )


def order_sentences(evidence: Evidence) -> tuple[str, ...]:
    """A sentence if the mistakes on clean images look like another order of the classes."""
    if "clean" not in evidence.conditions:
        return ()
    told = doubt_order(evidence.labels, evidence.conditions["clean"].predicted, evidence.names)
    return (told,) if told else ()


def masking_sentences(evidence: Evidence) -> tuple[str, ...]:
    """What an audit shows of masking, in sentences; what the check of survivors found stands first."""
    unconfirmed = (describe_unconfirmed(evidence, name) for name in evidence.conditions)
    return (
        *(check.sentence(evidence.names) for check in evidence.checks if check.fires),
        *(said for said, random in unconfirmed if random),
        *(sign.sentence(evidence.names) for sign in find_signs(evidence)),
        *restart_sentences(evidence),
    )


def doubted_conditions(evidence: Evidence) -> frozenset[str]:
    """The conditions that seem to have failed, so that accuracies under them are too high."""
    found = {name for check in evidence.checks if check.fires for name in check.conditions}
    found |= {name for name in evidence.conditions if describe_unconfirmed(evidence, name)[1]}
    found |= {sign.stronger for sign in find_signs(evidence)}
    attacks: dict[str, StoredAttack] = evidence.attacks
    for name in evidence.conditions:
        stuck = int(evidence.stuck(name).sum())
        if (
            stuck >= STUCK * max(1, int(evidence.correct(name).sum()))
            and stuck
            and needs_of(attacks[name]) != "queries"
        ):
            found.add(name)
    return frozenset(found)


def cautions(evidence: Evidence) -> tuple[str, ...]:
    """Everything a reader of an audit should know before its numbers: every output repeats it."""
    return tuple(dict.fromkeys((*masking_sentences(evidence), *evidence.cautions(), *order_sentences(evidence))))


def check_remarks(evidence: Evidence) -> tuple[str, ...]:
    """What the checks of an audit found where that is no reason for caution."""
    unconfirmed = (describe_unconfirmed(evidence, name) for name in evidence.conditions)
    return (
        *(check.sentence(evidence.names) for check in evidence.checks if not check.fires),
        *(said for said, random in unconfirmed if said and not random),
    )


MOST_SAMPLED, QUERIES = 50, 120
# Of a large audit the check may take so much, but a sample of thirty at least: of these six must fall for the test to
# fire. An audit of fewer images may spend seconds on it whatever it costs itself.
LARGE, SHARE, FEWEST_SAMPLED = 2000, 0.035, 30
TRANSFER_STEPS = 10
FOLLOWED = 0.2  # of the sample are of the class that looks worst after the others, if one looks bad


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
        total = total + cost + Passes(1)  # asked afresh
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
    """One check for every ball that gradients were used in, of what survived all its conditions."""
    order, found = np.argsort(data.ids), []
    for ball, names in group_by_ball(auditor.recipe.conditions):
        survived = np.logical_and.reduce([evidence.correct(name) for name in names])
        stood = order[np.searchsorted(data.ids[order], evidence.ids[survived])]
        passes = sum(evidence.conditions[name].forwards + evidence.conditions[name].backwards for name in names)
        most = limit_sample(len(evidence.ids), passes, cost_of_one(ball, evidence.k))
        checked = check_some(auditor, data, stood, ball=ball, names=names, crafted_on=crafted_on, most=most)
        found.append(replace(checked, images=len(evidence.ids)))
    return tuple(found)


def check_some(
    auditor: Auditor,
    data: Dataset,
    stood: "np.ndarray",
    *,
    ball: Ball,
    names: tuple[str, ...],
    crafted_on: Classifier,
    most: int,
) -> SurvivorCheck:
    """Attack a sample of the survivors at some positions; the last part of it is of the class that looks worst by then.

    What one attack broke is spared the next.
    """
    attacks = list(make_second_attacks(ball))
    found = SurvivorCheck(names, str(ball), " and ".join(name for name, _ in attacks), len(stood))
    if not len(stood) or not attacks:
        return found
    left, chosen = order_survivors(data, stood, auditor.recipe.seed), np.zeros(0, dtype=np.int64)
    hit, spent = np.zeros(0, dtype=bool), Passes(0)
    for size in (most - int(FOLLOWED * most), most):
        left = left[np.argsort(data.labels[left] != find_suspect(data.labels[chosen], hit), kind="stable")]
        more, left = np.split(left, [size - len(chosen)])
        for batch in data.batches(auditor.batch_size, more):
            x, y, ids = Batch(*(part.to(auditor.device) for part in batch))
            fell = torch.zeros(len(y), dtype=torch.bool, device=x.device)
            for _, attack in attacks:
                rows = torch.nonzero(~fell).squeeze(1)
                if not len(rows):
                    break
                on = crafted_on if attack.gradients else auditor.model
                outcome = attack.run(on, x[rows], y[rows], Noise(auditor.recipe.seed, ids[rows], "/check"))
                with torch.no_grad():  # asked afresh, as every verdict
                    fell[rows] = auditor.model(outcome.x_adv).argmax(dim=1) != y[rows]
                spent = spent + Passes(outcome.forwards + len(rows), outcome.backwards)
            hit = np.concatenate([hit, fell.cpu().numpy()])
        chosen = np.concatenate([chosen, more])
    labels = data.labels[chosen]
    present = np.unique(labels).tolist()
    attacked, broken, each = (
        tuple(int((values == c).sum()) for c in present) for values in (labels, labels[hit], data.labels[stood])
    )
    told = replace(found, classes=tuple(present), attacked=attacked, broken=broken, stood=each)
    return replace(told, forwards=spent.forwards, backwards=spent.backwards)


def order_survivors(data: Dataset, stood: "np.ndarray", seed: int) -> "np.ndarray":
    """Survivors in an order drawn by the seed, one of every class before the second of any."""
    order = random_order(torch.from_numpy(data.ids[stood]), seed, "check").numpy()
    labels = data.labels[stood[order]]
    by_class = np.argsort(labels, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)  # how many of its class come before it
    rank[by_class] = np.arange(len(order)) - np.searchsorted(labels[by_class], labels[by_class])
    return stood[order[np.argsort(rank, kind="stable")]]
