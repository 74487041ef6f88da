"""What a step of somebody's own loop is given, as the values that it works with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leastwise.data.dataset import Dataset
from leastwise.front.datasets import data as read_data
from leastwise.training.base import Policy
from leastwise.training.registry import find_policy


def read_policies(given: Any) -> tuple[Policy, ...]:
    """Policies, given as values or by name, one or several."""
    several = [given] if isinstance(given, Policy | str) else list(given)
    found = [find_policy(one) if isinstance(one, str) else one for one in several]
    for one in found:
        if not isinstance(one, Policy):
            raise ValueError(f"a policy is a value such as lw.CFA(), or a name such as 'cfa', but saw {one!r}")
    return tuple(found)


def read_classes(given: int | Sequence[str] | Dataset) -> tuple[tuple[str, ...], Tensor | None]:
    """The names of the classes, and how many training images each has, as far as that is said."""
    if isinstance(given, Dataset):
        return given.names, torch.from_numpy(given.counts)
    names = tuple(map(str, range(given))) if isinstance(given, int) else tuple(map(str, given))
    if len(set(names)) < max(2, len(names)):
        raise ValueError(f"classes are two or more different names, or their number, but saw {given!r}")
    return names, None


def read_valid(given: Any, names: Sequence[str]) -> Dataset:
    """Validation images of the same classes."""
    named = isinstance(given, Dataset | str | Path)
    valid = read_data(given) if named else read_data(given, names=names)
    if valid.k != len(names):
        raise ValueError(f"the validation images have {valid.k} classes, but there are {len(names)} to train")
    return valid
