"""What weights tell of their network: which architecture they fit, for which images and how many classes.

A guess is made only where one answer fits by every name and every shape; it is told to the user, who may say otherwise.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from leastwise.core.types import Shape
from leastwise.models.load.state_dict import StateView, best_view, sizes_of
from leastwise.models.zoo.registry import ARCHITECTURES, Architecture, find_architecture

PROBE = 7919  # a number of classes that nobody has: where only that differs from the weights, theirs is known
SIDES = {
    "cifar": (32, 28, 64, 96),
    "imagenet": (224, 299),
}  # of the images that networks are made for, usual ones first
GREY_SIDES = (28, 32)


class Guess(NamedTuple):
    """A network that weights fit, the images and classes they are for, and what to tell the user."""

    arch: str
    shape: Shape
    k: int
    notes: tuple[str, ...] = ()


def guess_network(
    path: Path, found: Sequence[StateView], arch: str | None, *, shape: Shape | None, k: int | None
) -> Guess:
    """The network that the weights of a file belong to, where some of that is not said."""
    if arch is not None and shape is not None and k is not None:
        return Guess(arch, shape, k)
    if arch is not None:
        return guess_task(path, found, arch, shape=shape, k=k)
    if shape is not None and k is not None:
        exact, other = find_fitting(found, shape, k)
        if len(exact) == 1:
            return Guess(exact[0], shape, k, (tell_guess(path, exact[0]),))
        raise ValueError(f"{path} does not say which network its weights belong to: {advise_arch(exact, other, k)}")
    fitting = [(name, task) for name in list_names(found) if (task := find_task(found, name, shape=shape, k=k))]
    if len(fitting) == 1:
        ((name, (size, classes)),) = fitting
        return Guess(name, size, classes, (tell_guess(path, name),))
    names = [name for name, _ in fitting]
    advice = advise_arch(names, {}, PROBE)
    raise ValueError(f"{path} does not say which network its weights belong to: {advice}")


def guess_task(path: Path, found: Sequence[StateView], arch: str, *, shape: Shape | None, k: int | None) -> Guess:
    """Images and classes of weights whose architecture is known."""
    task = find_task(found, arch, shape=shape, k=k)
    if task is None:
        raise ValueError(
            f"the weights in {path} do not fit {arch} for images of a usual size: name the data too, or check --arch"
        )
    return Guess(arch, *task)


def tell_guess(path: Path, arch: str) -> str:
    return f"{path} does not name its network; its weights fit {arch} and no other that is known here (--arch: another)"


def find_task(found: Sequence[StateView], arch: str, *, shape: Shape | None, k: int | None) -> tuple[Shape, int] | None:
    """Images and classes with which an architecture has just these weights; None if there are none."""
    made = find_architecture(arch)
    for size in (shape,) if shape is not None else usual_shapes(found, made):
        try:
            wanted = sizes_of(made, size, k or PROBE)
        except Exception:  # this one cannot take such images
            continue
        _, misses = best_view(found, made, wanted, k=k or PROBE)
        if misses.size == 0:
            return size, k or PROBE
        if k is None and misses.outputs is not None:
            return size, misses.outputs
    return None


def usual_shapes(found: Sequence[StateView], made: Architecture) -> Iterator[Shape]:
    """The images that weights may be for: channels as their first kernels have them, sides as networks are made for."""
    kernels = [value.shape[1] for value in found[0].state.values() if value.dim() == 4]
    channels = kernels[0] if kernels else 3
    sides = SIDES[made.size] if channels == 3 else (*GREY_SIDES, *SIDES[made.size])
    yield from ((channels, side, side) for side in dict.fromkeys(sides))


def find_fitting(found: Sequence[StateView], shape: Shape, k: int) -> tuple[list[str], dict[str, int]]:
    """The architectures that the weights fit, and those that they fit with another number of classes."""
    exact, other = [], {}
    for name in list_names(found):
        made = find_architecture(name)
        try:
            wanted = sizes_of(made, shape, k)
        except Exception:  # this one cannot take such images
            continue
        _, misses = best_view(found, made, wanted, k=k)
        if misses.size == 0:
            exact.append(name)
        elif misses.outputs is not None:
            other[name] = misses.outputs
    return exact, other


def list_names(found: Sequence[StateView]) -> list[str]:
    """The architectures to try: all of the table, and the wide ResNet whose blocks these would be."""
    wide = {name for view in found for name in name_wide_resnet(view)}
    return list(dict.fromkeys((*ARCHITECTURES, *sorted(wide))))


def name_wide_resnet(view: StateView) -> Iterator[str]:
    """`wrn-DEPTH-WIDTH` for weights that are laid out as one: 6 n + 4 layers of 16, 32 and 64 times the width."""
    blocks = {int(at[1]) for name in view.state if (at := re.fullmatch(r"block1\.layer\.(\d+)\.conv1\.weight", name))}
    first = view.state.get("block1.layer.0.conv1.weight")
    if first is not None and first.dim() == 4 and first.shape[0] % 16 == 0 and blocks == set(range(len(blocks))):
        yield f"wrn-{6 * len(blocks) + 4}-{first.shape[0] // 16}"


def advise_arch(exact: Sequence[str], other: dict[str, int], k: int) -> str:
    """A sentence on which --arch would fit the weights."""
    if exact:
        return f"they fit {' and '.join(exact)}: use --arch {' or '.join(exact)}"
    if other:
        arch, outputs = next(iter(other.items()))
        return f"they fit {arch}, which then has {outputs} outputs, but the data has {k} classes: use other data"
    return "choose an --arch that fits (`leastwise list models` shows them), or give path/file.py:function"
