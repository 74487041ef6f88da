"""From what a user types to a Classifier: `file.py:function`, `package.module:function` or a checkpoint."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from leastwise.models.architectures import Shape
from leastwise.models.checkpoint import load_checkpoint
from leastwise.models.classifier import Classifier, wrap


def resolve(
    spec: str,
    shape: Shape,
    names: Sequence[str],
    arch: str | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
) -> Classifier:
    """`spec` as a Classifier for images of `shape` and the classes `names`.

    A function is code, and naming one is asking for it to run; a checkpoint never runs any.
    """
    place, _, function = spec.rpartition(":")
    if place and function.isidentifier():
        if arch is not None:
            raise ValueError(f"{spec} builds its own network: leave --arch out")
        return wrap(call(spec, module_at(place), function), len(names), mean, std)
    path = Path(spec)
    if not path.is_file():
        raise ValueError(
            f"there is no model {spec!r}: give a checkpoint file, path/file.py:function or package.module:function"
        )
    if path.suffix == ".py":
        raise ValueError(f"{spec} is a Python file: say which function returns the network, as in {spec}:build")
    model = load_checkpoint(path, arch, shape, len(names), mean, std)
    check_same_task(spec, model, shape, names)
    return model


def check_same_task(spec: str, model: Classifier, shape: Shape, names: Sequence[str]) -> None:
    """A checkpoint knows what it was trained on; other classes in the same number would give a wrong table."""
    if model.trained_on is None:
        return
    unnamed = list(names) == [str(c) for c in range(len(names))]
    theirs = model.trained_on
    if list(theirs.names) != list(names) and not (unnamed and len(names) == len(theirs.names)):
        raise ValueError(
            f"{spec} was trained on the classes {', '.join(theirs.names)}, but the data has {', '.join(names)}: "
            "use data with the same classes in the same order"
        )
    if theirs.shape != shape:
        raise ValueError(f"{spec} was trained on images of shape {theirs.shape}, but the data has {shape}")


def module_at(place: str) -> ModuleType:
    if place.endswith(".py"):
        path = Path(place)
        if not path.is_file():
            raise ValueError(f"there is no file {place!r}: check the path before the colon")
        sys.path.insert(0, str(path.parent.resolve()))  # as `python file.py` does: it may import its neighbours
        name = f"leastwise_user_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        loader = spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and pickles inside the file look their module up by name
        guarded(place, lambda: loader.exec_module(module))
        return module
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does: the user's own modules are found
    try:
        return importlib.import_module(place)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"cannot import {place!r} ({reason}): check it, or give path/file.py:function") from error


def guarded(what: str, code: Callable[[], Any]) -> Any:
    """Run the user's code; if it fails, say so in their words."""
    try:
        return code()
    except Exception as error:
        raise ValueError(f"{what} failed with {type(error).__name__}: {error}") from error


def call(spec: str, module: ModuleType, function: str) -> nn.Module:
    build = getattr(module, function, None)
    if not callable(build):
        raise ValueError(f"{spec} names no function: define {function}() there, returning a torch.nn.Module")
    net = guarded(spec, build)
    if not isinstance(net, nn.Module):
        raise ValueError(f"{spec} must return a torch.nn.Module, but returned {type(net).__name__}")
    return net
