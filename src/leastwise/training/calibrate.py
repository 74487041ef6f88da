"""Per-class logit offsets, chosen on the validation images of a trained network: no retraining.

The prediction becomes argmax_c z_c + b_c. Offsets that help the worst class take from others; which ones is decided on
attacked validation images, and what it is worth is measured on the test set by attacking both networks afresh.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import nn

from leastwise.attacks.pgd import PGD
from leastwise.core.counts import Tally
from leastwise.core.noise import Noise
from leastwise.core.types import Labels, Logits, PerClass
from leastwise.data.dataset import Batch, Dataset
from leastwise.models.classifier import Classifier, inference
from leastwise.models.zoo.layers import last_layer
from leastwise.statistics.accuracy import OneRun
from leastwise.statistics.extremes import MinimumChange, PairedCounts, change_of_minimum
from leastwise.training.choices import CalibrationRule

BATCH = 250
FINEST = 1 / 64  # of the spread of the logits: the smallest step of the search
WORTH = 1e-9  # a smaller gain is rounding
ONE_SIDED = 0.9  # an interval whose lower end is missed in 5 % of cases: only a lift is asked for


@dataclass(frozen=True, eq=False)
class Calibration:
    """Offsets, and the attacked images they were chosen on before and after; the attacker knows the offsets."""

    offsets: PerClass
    before: Tally
    after: Tally
    rounds: int  # how often the validation images were attacked with new offsets


@dataclass(frozen=True, eq=False)
class CalibrationTrial:
    """What offsets did on images that they were not chosen on, and whether that is more than chance."""

    before: Tally
    after: Tally
    lift: MinimumChange  # of the worst class, whichever it is before and after

    @property
    def accepted(self) -> bool:
        """Whether the worst class was lifted, with 5 % of error."""
        return self.lift.low > 0


def score_tally(tally: Tally, rule: CalibrationRule) -> float:
    """The worst class, with the average to break ties; or their sum."""
    worst = min(a for a in tally.accuracy.tolist() if a == a)
    return worst + (1.0 if rule == "sum" else 1e-3) * tally.overall


def count_hits(z: Logits, y: Labels, offsets: PerClass) -> Tally:
    """How many of each class are right with the offsets added to the logits."""
    return Tally.count(y, (z + offsets).argmax(dim=1) == y, z.shape[1])


def best_offsets(z: Logits, y: Labels, rule: CalibrationRule) -> PerClass:
    """Coordinate ascent from zero with steps that shrink from the spread of the logits; the best single move each time.

    The score is a step function of the offsets, so there is no gradient to follow.
    """
    k = z.shape[1]
    offsets = torch.zeros(k, dtype=z.dtype)
    best = score_tally(count_hits(z, y, offsets), rule)
    spread = float(z.std())
    size = 1.0
    while size >= FINEST:
        moves = [(c, sign * size * spread) for c in range(k) for sign in (1, -1)]
        tried = [(score_tally(count_hits(z, y, move_offset(offsets, c, by)), rule), c, by) for c, by in moves]
        value, c, by = max(tried)
        if value > best + WORTH:
            best, offsets = value, move_offset(offsets, c, by)
        else:
            size /= 2
    return offsets - offsets.mean()


def move_offset(offsets: PerClass, c: int, by: float) -> PerClass:
    """The offsets with that of class c changed."""
    new = offsets.clone()
    new[c] += by
    return new


def choose_offsets(
    model: Classifier,
    valid: Dataset,
    attack: PGD,
    *,
    rule: CalibrationRule = "sum",
    rounds: int = 3,
    seed: int = 0,
    device: str = "cpu",
) -> Calibration:
    """Choose offsets on attacked images, attack the network with these offsets, and choose again from there.

    Kept are the offsets that did best when attacked afresh, or none at all if nothing did better.
    """
    none = torch.zeros(model.k, dtype=torch.float64)
    z, y = attacked_logits(model, valid, attack, seed=seed, device=device)
    before = count_hits(z, y, none)
    kept, after, offsets = none, before, none
    for _ in range(rounds):
        offsets = offsets + best_offsets(z, y, rule)
        z, y = attacked_logits(with_offsets(model, offsets), valid, attack, seed=seed, device=device)
        found = count_hits(z, y, none)
        if score_tally(found, rule) > score_tally(after, rule) + WORTH:
            kept, after = offsets, found
    return Calibration(kept, before, after, rounds)


def try_offsets(
    before: OneRun, after: OneRun, labels: Int[np.ndarray, " _"], *, k: int, weakest: int
) -> CalibrationTrial:
    """A paired test of the worst class on images that offsets were not chosen on; `weakest` was seen on others.

    The true minimum before is at most the accuracy of the class that looked worst on the other half, so the lift
    is at least what every class has after, less that: one comparison per class, and none of them chosen here.
    """
    first, second = (Tally.count(torch.from_numpy(labels), torch.from_numpy(hit), k) for hit in (before, after))
    both = PairedCounts.count(before, after, labels, k=k)
    return CalibrationTrial(first, second, change_of_minimum(both, confidence=ONE_SIDED, against=weakest))


def split_halves(data: Dataset) -> tuple[Dataset, Dataset]:
    """Every other image of each class, to choose on and to test on."""
    labels = np.asarray(data.labels)
    second = np.zeros(len(labels), dtype=bool)
    for c in np.unique(labels):
        second[np.flatnonzero(labels == c)[1::2]] = True
    return data.where(~second), data.where(second)


def measure_lift(
    model: Classifier,
    offsets: PerClass,
    data: Dataset,
    *,
    attack: PGD,
    weakest: int,
    seed: int = 0,
    device: str = "cpu",
) -> CalibrationTrial:
    """Attack the network with and without offsets on images that these were not chosen on."""
    hits = []
    for one in (model, with_offsets(model, offsets)):
        z, y = attacked_logits(one, data, attack, seed=seed, device=device)
        hits.append((z.argmax(dim=1) == y).numpy())
    return try_offsets(hits[0], hits[1], np.asarray(data.labels, dtype=np.int64), k=model.k, weakest=weakest)


def attacked_logits(
    model: Classifier, data: Dataset, attack: PGD, *, seed: int = 0, device: str = "cpu"
) -> tuple[Logits, Labels]:
    """The logits of attacked images and their labels, in float64 on the CPU, in the order of the data."""
    found: list[Logits] = []
    labels: list[Labels] = []
    dtype = next((p.dtype for p in model.parameters()), torch.float32)
    with inference(model.to(device)):
        for positions in np.array_split(np.arange(len(data)), -(-len(data) // BATCH)):
            x, y, ids = Batch(*(part.to(device) for part in data.batch(positions)))
            x_adv = attack.perturb(model, x.to(dtype), y, Noise(seed, ids, "/calibrate"))
            with torch.no_grad():
                found.append(model(x_adv).double().cpu())
            labels.append(y.cpu())
    return torch.cat(found), torch.cat(labels)


def with_offsets(model: Classifier, offsets: PerClass) -> Classifier:
    """A copy whose last layer has the offsets in its bias: an ordinary network of the same architecture."""
    changed = copy.deepcopy(model)
    _, last = last_layer(changed.net)
    if not isinstance(last, nn.Linear) or last.bias is None or last.out_features != model.k:
        raise ValueError("offsets go into the bias of a last linear layer, and this network has none: choose another")
    with torch.no_grad():
        last.bias.add_(offsets.to(last.bias.device, last.bias.dtype))
    return changed
