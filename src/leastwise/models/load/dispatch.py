"""From what a user types to a Classifier: a function, a checkpoint, an exported program, a folder or an ONNX file."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from leastwise.core.types import Shape
from leastwise.models.classifier import Classifier, wrap
from leastwise.models.foreign import ForeignNetwork
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.load.exported import load_exported
from leastwise.models.load.hf_config import CONFIG
from leastwise.models.load.huggingface import load_huggingface
from leastwise.models.load.onnx import load_onnx
from leastwise.models.output_check import describe_order, match_names
from leastwise.models.reordered import Reordered


def load_model(
    spec: str | Path | nn.Module | Callable[..., Any],
    shape: Shape,
    names: Sequence[str],
    *,
    arch: str | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    trust: bool = False,
    mapping: Mapping[str, str] | None = None,
) -> Classifier:
    """`spec` as a Classifier for images of `shape` and the classes `names`.

    A model that says how it calls its outputs (a Hugging Face folder, `classes` or `class_names` of a module, a file
    `NAME.classes.txt` beside a file NAME with a name per line) gets them in the order of `names`; `mapping` says, for
    names of the data, what the model calls them.

    A function is code, and naming one is asking for it to run. Files run none, except what only `trust` opens:
    exported programs and folders that bring code.
    """
    if not isinstance(spec, str | Path):
        return wrap_named(spec, names, mapping or {}, mean=mean, std=std, what="the model")
    place, _, name = str(spec).rpartition(":")
    path = Path(spec)
    if place and name.isidentifier():
        refuse_arch(spec, arch)
        made = build_object(str(spec), import_module_at(place), name)
        return wrap_named(made, names, mapping or {}, mean=mean, std=std, what=str(spec))
    if path.is_dir() or path.suffix in (".pt2", ".onnx"):
        refuse_arch(spec, arch)
        normalised = bool(mean or std)
        found = load_foreign(check_exists(path), shape, names, normalised=normalised, trust=trust, mapping=mapping)
        model = Classifier(found.net, len(names), mean or found.mean, std or found.std, notes=found.notes)
        return (
            model
            if path.is_dir()
            else order_outputs(model, read_names_beside(path), names, mapping=mapping or {}, what=str(spec))
        )
    if path.suffix == ".py":
        raise ValueError(f"{spec} is a Python file: say which function returns the network, as in {spec}:build")
    model = load_checkpoint(check_exists(path), arch, shape, k=len(names), mean=mean, std=std)
    check_same_task(str(spec), model, shape, names=names)
    if model.trained_on is not None:
        return model
    return order_outputs(model, read_names_beside(path), names, mapping=mapping or {}, what=str(spec))


def wrap_named(
    net: Any,
    names: Sequence[str],
    mapping: Mapping[str, str],
    *,
    mean: Sequence[float],
    std: Sequence[float],
    what: str,
) -> Classifier:
    """A network as a Classifier, its outputs in the order of the data if it says how it calls them."""
    said = getattr(net, "class_names", None) or getattr(net, "classes", None) if isinstance(net, nn.Module) else None
    listed = isinstance(said, list | tuple) and all(isinstance(name, str) for name in said)
    theirs = list(said or ()) if listed else []
    return order_outputs(wrap(net, len(names), mean=mean, std=std), theirs, names, mapping=mapping, what=what)


def read_names_beside(path: Path) -> list[str]:
    """The names that stand beside a model's file, a line each; none where there is no such file."""
    beside = path.with_name(f"{path.name}.classes.txt")
    return beside.read_text(errors="replace").splitlines() if beside.is_file() else []


def order_outputs(
    model: Classifier, theirs: Sequence[str], names: Sequence[str], *, mapping: Mapping[str, str], what: str
) -> Classifier:
    """The model with its outputs in the order of the data's names, and a note on it."""
    if mapping and not theirs:
        raise ValueError(f"{what} does not say how it calls its classes, so --map means nothing: leave it out")
    order = match_names(theirs, names, mapping, what=what) if theirs else []
    if not order:
        return model
    note = describe_order(order, theirs, names, what=what)
    net, notes = Reordered(model.net, order), (*model.notes, note)
    made = Classifier(net, len(names), model.mean, model.std, model.arch, notes)
    made.trained_on = model.trained_on
    return made


def load_foreign(
    path: Path,
    shape: Shape,
    names: Sequence[str],
    *,
    normalised: bool,
    trust: bool,
    mapping: Mapping[str, str] | None,
) -> ForeignNetwork:
    """The network in another project's file or folder, by its suffix."""
    if path.suffix == ".pt2":
        return load_exported(path, shape, len(names), trust=trust)
    if path.suffix == ".onnx":
        return load_onnx(path, shape, len(names))
    if (path / CONFIG).is_file():
        return load_huggingface(path, shape, names, normalised=normalised, trust=trust, mapping=mapping)
    inside = sorted(p.name for p in path.glob("*.pt"))
    hint = f"did you mean {path / inside[0]}?" if inside else "give a checkpoint file or a Hugging Face model's folder"
    raise ValueError(f"there is no model {str(path)!r}, it is a folder without {CONFIG}: {hint}")


def check_exists(path: Path) -> Path:
    """The path, or a sentence with what may be given instead."""
    if not path.exists():
        raise ValueError(
            f"there is no model {str(path)!r}: give a checkpoint, a Hugging Face folder, an .onnx or .pt2 file, "
            "path/file.py:function or package.module:function"
        )
    return path


def refuse_arch(spec: str | Path, arch: str | None) -> None:
    """Refuse `--arch` for what brings its own network."""
    if arch is not None:
        raise ValueError(f"{spec} brings its own network: leave --arch out")


def check_same_task(spec: str, model: Classifier, shape: Shape, *, names: Sequence[str]) -> None:
    """A checkpoint knows what it was trained on; other classes in the same number would give a wrong table."""
    if model.trained_on is None:
        return
    unnamed = list(names) == [str(c) for c in range(len(names))]
    theirs = model.trained_on
    if list(theirs.names) != list(names) and not (unnamed and len(names) == len(theirs.names)):
        fewer = set(theirs.names) < set(names)
        fix = f"add --only {','.join(theirs.names)}" if fewer else "use data with the same classes in the same order"
        raise ValueError(
            f"{spec} was trained on the classes {', '.join(theirs.names)}, but the data has {', '.join(names)}: {fix}"
        )
    if theirs.shape != shape:
        raise ValueError(f"{spec} was trained on images of shape {theirs.shape}, but the data has {shape}")


def import_module_at(place: str) -> ModuleType:
    """The Python module in a file, or of that name."""
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
        run_user_code(place, lambda: loader.exec_module(module))
        return module
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does: the user's own modules are found
    try:
        return importlib.import_module(place)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"cannot import {place!r} ({reason}): check it, or give path/file.py:function") from error


def run_user_code(what: str, code: Callable[[], Any]) -> Any:
    """Run the user's code; if it fails, say so in their words."""
    try:
        return code()
    except (Exception, SystemExit) as error:
        raise ValueError(f"{what} failed with {type(error).__name__}: {error}") from error


def needs_one_argument(function: Callable[..., Any]) -> bool:
    """Whether a function has to be given exactly one argument, as a function of images has."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins do not say
        return False
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) == 1


def build_object(spec: str, module: ModuleType, name: str) -> Any:
    """A module or function: the object of that name, or what it returns when called without arguments."""
    named = getattr(module, name, None)
    if isinstance(named, nn.Module):
        return named
    if not callable(named):
        raise ValueError(f"{spec} names no function: define {name}() there, returning a torch.nn.Module")
    if not isinstance(named, type) and needs_one_argument(named):
        return named  # a function from images to logits
    made = run_user_code(spec, named)
    if isinstance(made, type) or not callable(made):
        raise ValueError(
            f"{spec} must return a torch.nn.Module or a function from images to logits, "
            f"but returned {type(made).__name__}"
        )
    return made
