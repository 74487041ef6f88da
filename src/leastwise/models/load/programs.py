"""Networks that are code: TorchScript programs and pickled modules. Opening one may run what is inside.

Nothing here is called without the user's trust; what a file holds is told from its table of contents.
"""

import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from leastwise.core.text import error_with_type, name_some
from leastwise.models.foreign import silence_libraries
from leastwise.models.load.torch_file import is_script, list_objects, unpickle

NETWORKS = ("model", "net", "network", "module", "model_ema", "ema")  # where a pickled table keeps its network


def open_program(path: Path) -> nn.Module | dict[Any, Any] | None:
    """The network that a trusted file holds as code, or a table without a network; None for plain weights."""
    if is_script(path):
        return open_script(path)
    if zipfile.is_zipfile(path) and not list_objects(path):
        return None
    held = unpickle(path)
    if isinstance(held, nn.Module):
        return held
    if not isinstance(held, dict):
        raise ValueError(f"{path} holds {type(held).__name__}, but a network is wanted: save it with torch.save")
    return find_network(held) or held


def open_script(path: Path) -> nn.Module:
    """A TorchScript program on the CPU."""
    try:
        with silence_libraries():
            return torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:
        raise ValueError(
            f"{path} is not a TorchScript program that this torch can load ({error_with_type(error)}): export it anew, "
            "with torch.export.save"
        ) from None


def find_network(held: dict[Any, Any]) -> nn.Module | None:
    """The network in a table: the only one, or the one that is called like one."""
    modules = {str(name): one for name, one in held.items() if isinstance(one, nn.Module)}
    if len(modules) == 1:
        return next(iter(modules.values()))
    for name in NETWORKS:
        if name in modules:
            return modules[name]
    if modules:
        raise ValueError(
            f"there are {len(modules)} networks in it, {name_some(list(modules))}: save one alone with "
            "torch.save(model, path)"
        )
    return None
