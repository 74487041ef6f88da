"""Which names in a state dict belong to a network, whatever it was wrapped in when it was saved.

Wrappers put their own part before every name: `module.` (DataParallel), `model.`, `net.`, `_orig_mod.` (torch.compile),
`1.` (a Sequential behind a normalising layer), and may store entries of their own beside the network. Each way of
reading the names is a View, and the first whose names and shapes are exactly those of the network is the right one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor
from torch.overrides import TorchFunctionMode

from leastwise.core.text import error_with_type, name_some
from leastwise.core.types import Shape
from leastwise.models.zoo.registry import Architecture, rename_state

StateDict = dict[str, Tensor]
Sizes = Mapping[str, Size]

WRAPPED = ("model", "net", "module", "network", "backbone", "1")  # where wrappers with other entries keep the network
TRANSPARENT = ("_orig_mod", "module")  # wrappers that may sit around a part of the network
DEPTH = 5  # wrappers around wrappers
# Where a normalising layer keeps its numbers: robustness (MadryLab), the usual layer, and buffers named by symbol.
NORMALISERS = (("new_mean", "new_std"), ("mean", "std"), ("mu", "sigma"))


class StateView(NamedTuple):
    """One way to read a state dict: names without `prefix`, and the entries that stand outside it."""

    state: StateDict
    prefix: str
    outside: StateDict


class Misfit(NamedTuple):
    """What keeps weights from fitting a network."""

    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    reshaped: tuple[str, ...] = ()
    outputs: int | None = None  # if only the number of classes differs: theirs

    @property
    def size(self) -> int:
        return len(self.missing) + len(self.unknown) + len(self.reshaped)

    def __str__(self) -> str:
        return "; ".join(
            f"{len(names)} {label}: {name_some(names)}"
            for label, names in (
                ("missing", self.missing),
                ("unknown", self.unknown),
                ("of another shape", self.reshaped),
            )
            if names
        )


def list_views(state: StateDict) -> list[StateView]:
    """Every way to read the names, the least changed first."""
    found = ring = [StateView(state, "", {})]
    for _ in range(DEPTH):
        ring = [new for view in ring for new in unwrap(view)]
        found = found + ring
    return found


def unwrap(view: StateView) -> Iterator[StateView]:
    """The state dict without a wrapper's prefix, for each wrapper that there may be."""
    heads = {name.split(".")[0] for name in view.state}
    for head in heads if len(heads) == 1 else [w for w in WRAPPED if w in heads]:
        start = f"{head}."
        inside = {name.removeprefix(start): value for name, value in view.state.items() if name.startswith(start)}
        outside = {name: value for name, value in view.state.items() if not name.startswith(start)}
        if inside:
            yield StateView(inside, view.prefix + start, {**view.outside, **outside})
    plain = {".".join(s for s in name.split(".") if s not in TRANSPARENT): value for name, value in view.state.items()}
    if plain.keys() != view.state.keys() and len(plain) == len(view.state):
        yield StateView(plain, view.prefix, view.outside)


def best_view(found: Sequence[StateView], made: Architecture, wanted: Sizes, *, k: int) -> tuple[StateView, Misfit]:
    """The first view that fits, in the architecture's own names, or else the one that comes closest."""
    named = [view._replace(state=rename_state(made, view.state)) for view in found]
    compared = [(view, find_misfit(view.state, wanted, k, optional=made.optional)) for view in named]
    fits = (entry for entry in compared if entry[1].size == 0)
    return next(fits, None) or min(compared, key=lambda entry: entry[1].size + len(entry[0].outside))


def find_misfit(state: StateDict, wanted: Sizes, k: int, *, optional: tuple[str, ...] = ()) -> Misfit:
    """What is missing in a state dict, unknown to the network, or of another shape."""
    # Checkpoints from before torch 0.4.1 have no batch counters, and evaluation does not use them.
    needed = [name for name in wanted if not name.endswith("num_batches_tracked") and not name.startswith(optional)]
    missing = [name for name in needed if name not in state]
    unknown = [name for name in state if name not in wanted]
    reshaped = [name for name, size in wanted.items() if name in state and state[name].shape != size]
    outputs = {count_other_classes(state[name].shape, wanted[name], k) for name in reshaped}
    only = outputs.pop() if len(outputs) == 1 and not missing and not unknown else None
    return Misfit(tuple(sorted(missing)), tuple(sorted(unknown)), tuple(sorted(reshaped)), only)


def count_other_classes(have: Size, want: Size, k: int) -> int | None:
    """The number of classes that `have` is for, if it differs from `want` in one axis of length k."""
    differing = [(h, w) for h, w in zip(have, want, strict=False) if h != w]
    return differing[0][0] if len(have) == len(want) and len(differing) == 1 and differing[0][1] == k else None


class Unfilled(TorchFunctionMode):
    """Leaves out random initial values: without memory they mean nothing, and forty networks take 1 s instead of 3."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return args[0] if func in (Tensor.normal_, Tensor.uniform_) else func(*args, **(kwargs or {}))


def sizes_of(made: Architecture, shape: Shape, k: int) -> dict[str, Size]:
    """The names and shapes of an architecture's weights; nothing is allocated."""
    try:
        with torch.device("meta"), Unfilled():
            return {key: value.shape for key, value in made.make(shape, k).state_dict().items()}
    except (RuntimeError, OverflowError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"no network of this kind takes images of {shape} ({error_with_type(error)})") from None


def is_wrapper(prefix: str) -> bool:
    """Whether a part of the prefix is a wrapper that may do something to the images."""
    return any(part not in TRANSPARENT for part in prefix.split(".") if part)


class StoredNormalisation(NamedTuple):
    """A mean and a std that were saved with a network, one number per channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    names: tuple[str, ...]  # of the entries it was found in


def find_normalisation(outside: StateDict, channels: int) -> StoredNormalisation | None:
    """Mean and std that a wrapper kept beside the network; several copies count if they agree."""
    found = set()
    names: list[str] = []
    for name, value in outside.items():
        parent, dot, last = name.rpartition(".")
        for mean, std in NORMALISERS:
            other = outside.get(parent + dot + std)
            if last == mean and other is not None and value.numel() == other.numel() == channels:
                found.add((tuple(value.flatten().tolist()), tuple(other.flatten().tolist())))
                names += [name, parent + dot + std]
    if len(found) != 1:
        return None
    shift, scale = found.pop()
    # Means of pixels in [0, 1]; anything else is some other pair of statistics.
    sensible = all(0 <= m <= 1 for m in shift) and all(s > 0 for s in scale)
    return StoredNormalisation(shift, scale, tuple(names)) if sensible else None
