"""The order of the classes: of names that a model and its data share, and of predictions that look permuted."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int
from scipy.special import bdtr

from leastwise.core.text import name_some

FEWEST = 5  # images per class, on average, that can tell an order
CHANCE = 0.01  # of images going to the partners of their classes rather than to their own, if either is as likely
MOST_SHOWN = 6  # classes that a sentence names

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
