"""From what a user types to a Classifier: a function, a checkpoint, an exported program, a folder or an ONNX file."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from torch import nn

from leastwise.core.text import name_some
from leastwise.core.types import Shape
from leastwise.models.classifier import Classifier, wrap
from leastwise.models.foreign import ForeignNetwork, check_outputs
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.load.exported import load_exported
from leastwise.models.load.hf_config import CONFIG
from leastwise.models.load.huggingface import find_repository, is_timm_folder, load_huggingface
from leastwise.models.load.library import LIBRARIES, load_timm_folder
from leastwise.models.load.onnx import load_onnx
from leastwise.models.load.programs import open_program
from leastwise.models.output_check import MOST_SHOWN, describe_order, is_unnamed, match_names
from leastwise.models.reordered import Reordered
from leastwise.models.resized import LARGEST, Preparation, Resized

HUB = "hf"  # the prefix of folders and repositories in the form of Hugging Face
TRAINED = ("model.pt", "model.safetensors")  # what a training of ours leaves
UNFINISHED = "resume.pt"  # what it goes on from


def load_model(
    spec: str | Path | nn.Module | Callable[..., Any],
    shape: Shape | None = None,
    names: Sequence[str] = (),
    *,
    arch: str | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    trust: bool = False,
    mapping: Mapping[str, str] | None = None,
    resize: bool = True,
) -> Classifier:
    """`spec` as a Classifier for images of `shape` and the classes `names`; without these, for any that it takes.

    A model that says how it calls its outputs (Hugging Face, timm, torchvision, `classes` or `class_names` of a module,
    a file `NAME.classes.txt` beside a file NAME with a name per line) gets them in the order of `names`; `mapping`
    says, for names of the data, what the model calls them. One that says how it resizes images gets them so, unless
    `resize` is false.

    A function is code, and naming one is asking for it to run. Files run none, except what only `trust` opens:
    TorchScript and exported programs, pickled networks and folders that bring code.
    """
    data = DataFacts(shape, tuple(names), dict(mapping or {}), resize)
    if not isinstance(spec, str | Path):
        return fit_module(spec, data, mean=mean, std=std, what="the model")
    what = str(spec)
    place, _, name = what.rpartition(":")
    library, colon, inside = what.partition(":")
    path = Path(spec)
    if colon and library in (HUB, *LIBRARIES):
        refuse_arch(spec, arch)
        found = (
            load_hub(inside, data, normalised=bool(mean or std), trust=trust)
            if library == HUB
            else LIBRARIES[library](inside)
        )
        return fit_network(found, data, mean=mean, std=std, what=what)
    if place and name.isidentifier():
        refuse_arch(spec, arch)
        made = build_object(what, import_module_at(place), name)
        return fit_module(made, data, mean=mean, std=std, what=what)
    if path.is_dir():
        path = find_trained(path) or path
    if path.is_dir() or path.suffix in (".pt2", ".onnx"):
        refuse_arch(spec, arch)
        found = load_foreign(check_exists(path), data, normalised=bool(mean or std), trust=trust)
        return fit_network(found, data, mean=mean, std=std, what=what)
    if path.suffix == ".py":
        raise ValueError(f"{spec} is a Python file: say which function returns the network, as in {spec}:build")
    program = open_program(check_exists(path)) if trust and path.suffix != ".safetensors" else None
    if isinstance(program, nn.Module):
        refuse_arch(spec, arch)
        return fit_module(program, data, mean=mean, std=std, what=what, theirs=read_names_beside(path))
    k = len(names) or None
    model = load_checkpoint(check_exists(path), arch, shape, k=k, mean=mean, std=std, content=program)
    return fit_checkpoint(model, path, data, what=what)


class DataFacts(NamedTuple):
    """The images and classes that a model is to answer for, as far as they are known."""

    shape: Shape | None
    names: tuple[str, ...]
    mapping: Mapping[str, str]  # from names of the data to the model's
    resize: bool  # whether the model may resize images as it says


def fit_network(
    found: ForeignNetwork, data: DataFacts, *, mean: Sequence[float], std: Sequence[float], what: str
) -> Classifier:
    """A network of others for the data: resized, counted, its outputs in order."""
    net, notes = found.net, [*found.notes]
    told = ""
    if found.preparation is not None:
        net, told = fit_size(net, found.preparation, data, what=what)
    if mean and found.mean and tuple(mean) != found.mean:
        notes = [note for note in notes if not note.startswith("mean ")]
    notes += [told] if told else []
    model = Classifier(net, found.outputs or 0, mean or found.mean, std or found.std, notes=notes)
    return order_outputs(model, found.labels, data, what=what)


def fit_size(net: nn.Module, preparation: Preparation, data: DataFacts, *, what: str) -> tuple[nn.Module, str]:
    """The network with its resizing if images need it, and what to tell about that."""
    if data.shape is None:
        return (Resized(net, preparation) if data.resize else net), ""
    _, height, width = data.shape
    if preparation.leaves(height, width):
        return net, ""
    high, wide = preparation.target(height, width)
    if not data.resize:
        return net, f"{what} resizes images to {high} × {wide}; the data's {height} × {width} are used as they are"
    return Resized(net, preparation), (
        f"{what} resizes the data's {height} × {width} to {high} × {wide} ({preparation}), inside the network: eps is "
        "in the data's pixels (--no-resize leaves them as they are)"
    )


def fit_module(
    net: Any,
    data: DataFacts,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    what: str,
    theirs: Sequence[str] = (),
) -> Classifier:
    """A module or function for the data, its outputs in the order of the classes if it says how it calls them."""
    if isinstance(net, Classifier):
        return fit_classifier(wrap(net, net.k, mean=mean, std=std), data, what=what)
    said = getattr(net, "class_names", None) or getattr(net, "classes", None) if isinstance(net, nn.Module) else None
    listed = isinstance(said, list | tuple) and all(isinstance(name, str) for name in said)
    labels = list(theirs) or (list(said or ()) if listed else [])
    return order_outputs(wrap(net, 0, mean=mean, std=std), labels, data, what=what)


def fit_classifier(model: Classifier, data: DataFacts, *, what: str) -> Classifier:
    """A classifier that was made before the data were known."""
    if data.shape is not None and model.trained_on is not None:
        check_same_task(what, model, data.shape, names=data.names)
    if data.shape is None or model.trained_on is not None:
        return order_outputs(model, (), data, what=what)
    net, told = model.net, ""
    if isinstance(net, Resized):
        net, told = fit_size(net.net, net.preparation, data, what=what)
    if net is not model.net or told:
        names = model.class_names
        model = model.with_net(net, k=model.k, notes=(told,) if told else ())
        model.class_names = names
    return order_outputs(model, model.class_names, data, what=what)


def fit_checkpoint(model: Classifier, path: Path, data: DataFacts, *, what: str) -> Classifier:
    """A network out of a file of weights, compared with the data it was trained on if it says so."""
    if model.trained_on is None:
        return order_outputs(model, read_names_beside(path), data, what=what)
    if data.shape is not None:
        check_same_task(what, model, data.shape, names=data.names)
    return model


def read_names_beside(path: Path) -> list[str]:
    """The names that stand beside a model's file, a line each; none where there is no such file."""
    beside = path.with_name(f"{path.name}.classes.txt")
    return beside.read_text(errors="replace").splitlines() if beside.is_file() else []


def order_outputs(model: Classifier, theirs: Sequence[str], data: DataFacts, *, what: str) -> Classifier:
    """The model with its outputs in the order of the data's names, and a note on it; counted in any case."""
    names = data.names
    if not names:
        model.class_names = tuple(theirs) or model.class_names
        return model
    if data.mapping and not theirs:
        raise ValueError(f"{what} does not say how it calls its classes, so --map means nothing: leave it out")
    order = match_names(theirs, names, data.mapping, what=what) if theirs else []
    if order:
        note = describe_order(order, theirs, names, what=what)
        return model.with_net(Reordered(model.net, order), k=len(names), notes=(note,))
    if model.k:
        check_outputs(what, model.k, len(names))
    notes = []
    if theirs and is_unnamed(names) and not is_unnamed(theirs):
        shown, ours = (name_some(list(some), MOST_SHOWN) for some in (theirs, names))
        notes = [f"{what} calls its classes {shown}, the data {ours}: check that they are in the same order"]
    return model.with_net(model.net, k=len(names), notes=notes) if notes or not model.k else model


def load_hub(name: str, data: DataFacts, *, normalised: bool, trust: bool) -> ForeignNetwork:
    """A folder, or a repository of the hub that was fetched before."""
    folder = Path(name) if Path(name).is_dir() else find_repository(name)
    return load_foreign(folder, data, normalised=normalised, trust=trust)


def load_foreign(path: Path, data: DataFacts, *, normalised: bool, trust: bool) -> ForeignNetwork:
    """The network in another project's file or folder, by its suffix."""
    k = len(data.names) or None
    if path.suffix in (".pt2", ".onnx") and path.is_file():
        read = partial(load_exported, trust=trust) if path.suffix == ".pt2" else load_onnx
        return read(path, data.shape, k)._replace(labels=tuple(read_names_beside(path)))
    if (path / CONFIG).is_file():
        if is_timm_folder(path):
            return load_timm_folder(path)
        return load_huggingface(path, data.shape and data.shape[0], normalised=normalised, trust=trust)
    inside = sorted(p.name for p in path.glob("*.pt"))
    hint = f"did you mean {path / inside[0]}?" if inside else "give a checkpoint file or a Hugging Face model's folder"
    raise ValueError(f"there is no model {str(path)!r}, it is a folder without {CONFIG}: {hint}")


def read_side(model: Classifier) -> int | None:
    """The side of the square images that a model says it takes, where it was made without data."""
    if model.trained_on is not None:
        _, height, width = model.trained_on.shape
    elif isinstance(model.net, Resized):
        height, width = model.net.preparation.target(LARGEST, LARGEST)
    else:
        return None
    return height if height == width else None


def find_trained(folder: Path) -> Path | None:
    """The network of a training of ours, if that is what a folder is; one that is unfinished has none yet."""
    if (folder / CONFIG).is_file():
        return None
    for name in TRAINED:
        if (folder / name).is_file():
            return folder / name
    if (folder / UNFINISHED).is_file():
        raise ValueError(f"the training in {folder} is not finished, so it has no network yet: let it go on to its end")
    return None


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
