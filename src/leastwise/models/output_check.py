"""What logits of real images tell about a model: bounded, saturated, rounded, constant or one-sided outputs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from scipy.special import bdtr
from torch import Tensor, nn

from leastwise.core.text import name_some
from leastwise.core.types import Images, Labels, Logits
from leastwise.data.normalisations import Normalisation, list_candidates
from leastwise.models.classifier import Classifier


class Concern(NamedTuple):
    """Something doubtful, and whether the user may go on all the same."""

    text: str
    serious: bool  # refused unless forced


ENOUGH = 100  # images that can tell a model from guessing
SAME_SUM = 1e-4  # of the spread: sums of probabilities in float32
LAST_BITS = 8  # of the sums: what rounding leaves of them
COARSE = 1e-4  # of the spread of an image's logits: steps of their type beyond it move nothing
SPREAD = 1e-2  # between the largest and the smallest logit of an image; the probabilities then differ by 1 % at most
AT_THE_END = 0.05  # of all logits lie exactly at the largest or the smallest: a clamp, a ReLU or a tanh cut them off
FEW_VALUES, MOST_STEPS = 0.5, 1e4  # logits that are rounded share values, and all are multiples of one step
FEW_LOGITS = 100  # fewer cannot tell
ONE_ANSWER = 0.9  # of the images get the same answer


def doubt_logits(z: Logits, names: Sequence[str] = ()) -> Iterator[Concern]:
    """Concerns about the logits of a real batch as numbers."""
    if z.shape[1] < 2:
        return
    z = z.detach()
    yield from doubt_probabilities(z.float())
    spread = float((z.amax(1) - z.amin(1)).float().median())
    if spread < SPREAD:
        yield Concern(
            f"the logits of an image differ by {spread:.1g} only, so all classes look alike and attacks on the loss "
            "push in no direction in particular: multiply the logits, or remove a large temperature",
            serious=False,
        )
    step = torch.finfo(z.dtype).eps * float(z.abs().max())
    if z.element_size() >= 4 and spread > 0 and step > COARSE * spread:
        yield Concern(
            f"the logits lie near {float(z.float().median()):.2g} and those of an image differ by {spread:.2g} only: "
            "their last bits decide, small steps change nothing and robustness may be overstated; leave out what they "
            "have in common",
            serious=False,
        )
    constant = [c for c in range(z.shape[1]) if len(z) > 1 and bool((z[:, c] == z[0, c]).all())]
    if constant and len(z) >= 2:
        shown = name_some([names[c] if names else str(c) for c in constant], 5)
        yield Concern(
            f"the logit of {shown} is the same on all images: the class is dead or masked out, so its numbers mean "
            "little; check the last layer",
            serious=False,
        )
    live = z[:, [c for c in range(z.shape[1]) if c not in constant]].float()
    if live.numel() >= FEW_LOGITS:
        yield from doubt_resolution(live, exact=z.element_size() >= 4)


def doubt_probabilities(z: Logits) -> Iterator[Concern]:
    """A softmax row sums to 1 without negative entries; logits of a real batch do not, all at once."""
    sums = z.double().sum(1)
    # Large logits with something in common have nearly one sum too: their spread is what its changes are small beside.
    spread = (z.amax(1) - z.amin(1)).double().mean()
    rounding = LAST_BITS * torch.finfo(torch.float32).eps * sums.abs().mean()
    same = bool(((sums - sums.mean()).abs() <= torch.maximum(SAME_SUM * spread, rounding)).all())
    if bool((z >= 0).all()) and same and (len(z) > 1 or abs(float(sums[0]) - 1) < SAME_SUM):
        scaled = "" if abs(float(sums.mean()) - 1) < SAME_SUM else f", times {float(sums.mean()):.3g}"
        yield Concern(
            f"the model returns probabilities{scaled}: remove its softmax (or take the logarithm), attacks need logits",
            serious=True,
        )
    elif bool(((z >= 0) & (z <= 1)).all()):
        yield Concern("all outputs lie in [0, 1]: if the model ends in a sigmoid, remove it", serious=False)
    elif bool((z.logsumexp(1).abs() < 1e-4).all()):
        yield Concern(
            "the model returns log-probabilities: attacks and verdicts are the same as with logits, sums of logits not",
            serious=False,
        )


def doubt_resolution(z: Tensor, *, exact: bool) -> Iterator[Concern]:
    """Concerns about logits that are cut off at an end, or that take few values; half precision has few by itself."""
    ends = [float(end) for end in (z.min(), z.max()) if float((z == end).double().mean()) >= AT_THE_END]
    if ends:
        shown = " and ".join(f"{end:.4g}" for end in ends)
        yield Concern(
            f"many logits are exactly {shown}: they are saturated (cut off by a clamp, a ReLU or a tanh), where the "
            "gradient is zero and robustness may be overstated; return the logits as they were before",
            serious=False,
        )
        z = z[(z != z.min()) & (z != z.max())]
    values = torch.unique(z)
    if not exact or len(values) < 3 or len(values) > FEW_VALUES * z.numel():
        return
    gap = float((values[1:] - values[:-1]).min())
    steps = (values.double() - values[0].double()) / gap
    if float(steps.max()) < MOST_STEPS and float((steps - steps.round()).abs().max()) < 0.05:
        yield Concern(
            f"the logits take only {len(values)} values, all multiples of {gap:.3g}: they are rounded, so small steps "
            "change nothing and robustness may be overstated; return them unrounded",
            serious=False,
        )


def doubt_answers(z: Logits, y: Labels, names: Sequence[str] = (), *, ordered: bool = True) -> Iterator[Concern]:
    """Concerns about predictions beside the labels: guesses, one answer for all, and another order if that is asked."""
    n, k = z.shape
    if n < ENOUGH or k < 2:
        return
    predicted, y = z.argmax(dim=1).cpu(), y.cpu()
    called = list(names) or [str(c) for c in range(k)]
    pairs = torch.bincount(k * y + predicted, minlength=k * k).view(k, k)
    right, given = int(pairs.diagonal().sum()), pairs.sum(dim=0)
    most = int(given.argmax())
    order = describe_swapped(pairs.numpy(), called) if ordered else ""
    one = f"it answers {called[most]} for {int(given[most])} of them"
    collapsed = int(given[most]) >= ONE_ANSWER * n and 2 * int(pairs.sum(dim=1).max()) <= ONE_ANSWER * n
    # 2.33 standard deviations: a guesser exceeds this once in a hundred times.
    if right <= n / k + 2.33 * math.sqrt(n / k * (1 - 1 / k)):
        advice = order or "check --mean and --std, the order of the classes and of the channels"
        guess = f"the model is right on {right} of {n} images, no better than guessing"
        yield Concern(f"{guess}{f' ({one})' if collapsed else ''}: {advice}", serious=False)
    elif collapsed:
        yield Concern(
            f"the model is right on {right} of {n} images, but {one}: that class is a sink, or the inputs are not what "
            "the model was trained on",
            serious=False,
        )
    elif order:
        yield Concern(order, serious=False)


ENOUGH = 100  # images that can tell
FEW = 32  # images that every candidate is tried on; the best is tried on all
GAIN = 0.1  # of the images: less is not worth a word
CHANCE = 1e-3  # that so many more are right by luck


def doubt_normalisation(model: nn.Module, x: Images, y: Labels, *, right: int) -> Iterator[Concern]:
    """A concern if the network is far better with another normalisation than the one it has."""
    n = len(x)
    if n < ENOUGH or right > (1 - GAIN) * n or not isinstance(model, Classifier):
        return
    own = (model.mean, model.std)
    others = [one for one in list_candidates(x.shape[1]) if (one.mean, one.std) != own]
    few = [(int(count_right(model, x[:FEW], y[:FEW], with_=one).sum()), one) for one in others]
    best = max(few, key=lambda found: found[0])[1]
    # Images that only one of the two gets right: a fair coin if both are as good.
    mine = count_right(model, x, y, with_=Normalisation("own", *own))
    theirs = count_right(model, x, y, with_=best)
    gained, lost = int((theirs & ~mine).sum()), int((mine & ~theirs).sum())
    if gained - lost >= GAIN * n and float(bdtr(lost, gained + lost, 0.5)) < CHANCE:
        flags = (
            f"--mean {join_numbers(best.mean)} --std {join_numbers(best.std)}" if best.mean else "no --mean and --std"
        )
        used = (
            f"mean {join_numbers(model.mean)} and std {join_numbers(model.std)}" if model.mean else "no normalisation"
        )
        yield Concern(
            f"with {used} the model is right on {int(mine.sum())} of {n} images, but with {best.name} on "
            f"{int(theirs.sum())}: it seems to have been trained so; give {flags}",
            serious=False,
        )


def count_right(model: Classifier, x: Images, y: Labels, *, with_: Normalisation) -> torch.Tensor:
    """Which images are right if the network gets them normalised so."""
    twin = Classifier(model.net, model.k, with_.mean, with_.std).to(x.device)
    twin.training = model.training
    with torch.no_grad():
        return twin(x).argmax(dim=1) == y.to(x.device)


def join_numbers(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:.4g}" for value in values)


FEWEST = 5  # images per class, on average, that can tell an order
CHANCE = 0.01  # of images going to the partners of their classes rather than to their own, if either is as likely
MOST_SHOWN = 6  # classes that a sentence names
MOST_ORDERED = 1000  # classes whose order is looked at: 3,000 would take half a minute

Confusions = Int[np.ndarray, "k k"]  # row: true class; column: predicted


def find_swapped(counts: Confusions) -> dict[int, int]:
    """Which class the images of a class are taken for, if another order of the classes explains the mistakes.

    The order that agrees best with the counts is an assignment problem; it exchanges classes in cycles. A cycle counts
    if more than half of its images go where it says, and more than to their own classes beyond chance.
    """
    n = counts.sum(axis=1)
    if n.sum() < FEWEST * len(n):
        return {}
    from scipy.optimize import linear_sum_assignment

    _, taken = linear_sum_assignment(counts, maximize=True)
    moved: dict[int, int] = {}
    for cycle in list_cycles(taken.tolist()):
        there, own = (int(sum(counts[c, to] for c, to in pairs)) for pairs in (cycle.items(), ((c, c) for c in cycle)))
        most = 2 * there > n[list(cycle)].sum()
        if len(cycle) > 1 and most and float(bdtr(own, there + own, 0.5)) < CHANCE:
            moved |= cycle
    return moved


def list_cycles(order: Sequence[int]) -> list[dict[int, int]]:
    """The cycles of a permutation, each as what goes where."""
    found, seen = list[dict[int, int]](), set[int]()
    for first in range(len(order)):
        cycle, at = dict[int, int](), first
        while at not in seen:
            seen.add(at)
            cycle[at] = order[at]
            at = order[at]
        if cycle:
            found.append(cycle)
    return found


def describe_swapped(counts: Confusions, names: Sequence[str]) -> str:
    """A sentence on classes that look permuted; empty if none do."""
    moved = find_swapped(counts)
    if not moved:
        return ""
    pairs = [(c, to) for c, to in moved.items() if moved.get(to) == c and c < to]
    right, all_ = int(np.trace(counts)), int(counts.sum())
    better = right + sum(int(counts[c, to] - counts[c, c]) for c, to in moved.items())
    swapped = "; ".join(f"classes {names[c]} and {names[to]} look swapped" for c, to in pairs[:MOST_SHOWN])
    others = [f"{names[c]} is taken for {names[to]}" for c, to in moved.items() if moved.get(to) != c]
    order = f"the classes look to be in another order ({name_some(others, MOST_SHOWN)})" if others else ""
    what = "; ".join(part for part in (swapped, order) if part)
    return (
        f"{what}: with that order {better} of {all_} images would be right instead of {right}; "
        "check the order of the classes in the model and in the data"
    )


def doubt_order(labels: Int[np.ndarray, " n"], predicted: Int[np.ndarray, " n"], names: Sequence[str]) -> str:
    """The same sentence from predictions, where mistakes are enough for a pair of swapped classes."""
    k = len(names)
    # Two swapped classes of k lose 2/k of the images.
    if 4 * int((predicted != labels).sum()) < len(labels) / k or k > MOST_ORDERED:
        return ""
    pairs = np.bincount(k * labels.astype(np.int64) + predicted.astype(np.int64), minlength=k * k).reshape(k, k)
    return describe_swapped(pairs, names)


def parse_map(text: str) -> dict[str, str]:
    """`data class=model class,…` of the command line."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not equals or not a.strip() or not b.strip() for a, equals, b in pairs):
        raise ValueError(f"--map takes pairs such as car=automobile,ship=boat, but saw {text!r}")
    return {a.strip(): b.strip() for a, _, b in pairs}


def match_names(theirs: Sequence[str], names: Sequence[str], mapping: Mapping[str, str], *, what: str) -> list[int]:
    """The model's output for each class of the data; empty if nothing has to be changed.

    Equal sets of names are matched, in any spelling of spaces and capitals; several names of one class may be separated
    by commas, as ImageNet's are. Where names differ, `mapping` says which of the model's names a class of the data has.
    """
    if unknown := [name for name in mapping if name not in names]:
        raise ValueError(f"--map names {name_some(unknown)}, but the data has {name_some(names, MOST_SHOWN)}")
    if not mapping and (is_unnamed(theirs) or is_unnamed(names)):
        return []
    places = {plain_name(part): c for c, name in enumerate(theirs) for part in (name, *name.split(",")) if part.strip()}
    found = [places.get(plain_name(mapping.get(name, name))) for name in names]
    whole = len(theirs) == len(names) or bool(mapping)
    order = [place for place in found if place is not None]
    if len(order) == len(names) == len(set(order)) and whole:
        return [] if order == list(range(len(theirs))) else order
    absent = [name for name, place in zip(names, found, strict=True) if place is None]
    raise ValueError(
        f"{what} calls its {len(theirs)} classes {name_some(list(theirs), MOST_SHOWN)}, the data its {len(names)} "
        f"{name_some(list(names), MOST_SHOWN)}"
        + (f"; it has no {name_some(absent)}" if absent else "")
        + ": say which are the same with --map 'data class=model class,…', or use data with the same classes"
    )


def is_unnamed(names: Sequence[str]) -> bool:
    """Whether names say nothing: numbers, or what Hugging Face writes where nobody gave any."""
    numbers = [int(name) for name in names if name.isdecimal()]
    counted = len(numbers) == len(names) and numbers == sorted(set(numbers))
    return counted or list(names) == [f"LABEL_{c}" for c in range(len(names))]


def plain_name(name: str) -> str:
    """A name without capitals and without the ways to write a space."""
    return " ".join(name.lower().replace("_", " ").replace("-", " ").split())


def describe_order(order: Sequence[int], theirs: Sequence[str], names: Sequence[str], *, what: str) -> str:
    """What to tell the user about outputs that were put into the data's order."""
    pairs = [f"{name} is {what}'s {theirs[c]}, output {c}" for name, c in zip(names, order, strict=True)]
    left = len(theirs) - len(order)
    rest = f"; {left} other outputs are left out, so it cannot answer with them" if left else ""
    return f"the outputs of {what} were put into the order of the data's classes by name ({name_some(pairs)}){rest}"
