"""Checkpoints: weights plus the few facts that rebuild the network, readable without running code."""

import errno
import io
import json
import pickle
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor, nn

from leastwise.core.files import write_atomic
from leastwise.core.text import name_some
from leastwise.core.types import Shape
from leastwise.models.classifier import Classifier, TrainedOn
from leastwise.models.foreign import check_outputs, format_numbers
from leastwise.models.load.state_dict import (
    StateDict,
    StateView,
    best_view,
    find_fitting,
    find_normalisation,
    is_wrapper,
    list_views,
)
from leastwise.models.zoo.registry import find_architecture

FORMAT = 1
OURS = "leastwise"  # the entry of a file's metadata that says what it is
NETWORKS = ("state_dict", "model_state_dict", "model", "net")  # what the network's weights are usually called
NESTING = 2  # entries of entries

UNREADABLE = (
    pickle.UnpicklingError,
    SafetensorError,
    RuntimeError,
    EOFError,
    ValueError,
    LookupError,
    AttributeError,
    TypeError,
    RecursionError,
    OverflowError,
    MemoryError,
)


def save_checkpoint(
    path: Path, model: Classifier, shape: Shape, *, names: Sequence[str], notes: Sequence[str] = ()
) -> None:
    """Write what `load_checkpoint` needs; only tensors, numbers and strings, so `weights_only=True` loads it.

    A name that ends in `.safetensors` chooses that format. `notes` are told to whoever uses the model.
    """
    assert model.arch is not None, "only networks built by name can be rebuilt from a checkpoint"
    facts = {
        OURS: FORMAT,
        "arch": model.arch,
        "shape": list(shape),
        "names": list(names),
        "mean": list(model.mean),
        "std": list(model.std),
        "notes": list(notes),
    }
    state = model.net.state_dict()
    if path.suffix == ".safetensors":
        tensors = {name: value.detach().cpu().contiguous() for name, value in state.items()}
        write_atomic(path, save_safetensors(tensors, metadata={OURS: json.dumps(facts, ensure_ascii=False)}))
    else:
        write_torch(path, facts | {"state_dict": state})


def write_torch(path: Path, content: dict[str, Any]) -> None:
    """Write tensors and plain values in torch's format, whole or not at all."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_atomic(path, buffer.getvalue())


def read_torch(path: Path) -> dict[Any, Any]:
    """A file of tensors and plain values; anything that would need code to load is refused."""
    check_file(path)
    try:
        if path.suffix == ".safetensors":
            return read_safetensors(path.read_bytes())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about old file layouts; they load all the same
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (*UNREADABLE, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # that one is a jump to a place beyond the end
            raise
        if "TorchScript" in str(error):
            raise ValueError(
                f"{path} is a TorchScript program, which is code: load it in a function and give path/file.py:function"
            ) from None
        raise ValueError(
            f"{path} is not a checkpoint of plain weights ({type(error).__name__} while reading): "
            "save a state_dict with torch.save(model.state_dict(), path)"
        ) from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a state_dict, but holds {type(content).__name__}: save model.state_dict()")
    return content


def read_safetensors(content: bytes) -> dict[Any, Any]:
    """The tensors of a safetensors file, and beside them what we wrote into its metadata, if it is ours."""
    tensors = load_safetensors(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    about = header.get("__metadata__", {}).get(OURS)
    return tensors if about is None else dict(json.loads(about)) | {"state_dict": tensors}


def check_file(path: Path) -> None:
    """A pipe or a device would be read for ever; what torch writes is never compressed, so it is no bomb."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file that can be read: give a checkpoint")
    try:
        with zipfile.ZipFile(path) as archive:
            # Code is packed in TorchScript programs, which are refused without reading it.
            entries = [one for one in archive.infolist() if "/code/" not in one.filename]
            packed = any(one.compress_type != zipfile.ZIP_STORED for one in entries)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return  # an older layout, or damage that the reader will find
    if packed:
        raise ValueError(
            f"{path} is a compressed archive, which torch.save does not write: give the checkpoint inside it"
        )


def load_checkpoint(
    path: Path,
    arch: str | None = None,
    shape: Shape | None = None,
    *,
    k: int | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
) -> Classifier:
    """Our own checkpoint, or anyone's state dict with the name of its architecture, image shape and class count."""
    content = read_torch(path)
    trained_on: TrainedOn | None = None
    own_notes: tuple[str, ...] = ()
    if content.get(OURS) == FORMAT:
        if mean or std:
            raise ValueError(f"{path} carries its own normalisation: leave --mean and --std out")
        check_own(content, path)
        trained_on = TrainedOn(tuple(content["shape"]), tuple(content["names"]))
        arch, mean, std = content["arch"] if arch is None else arch, content["mean"], content["std"]
        shape, k = trained_on.shape, len(trained_on.names)
        own_notes = tuple(map(str, content.get("notes", ())))
    state, notes = find_state(content, path)
    if shape is None or k is None:
        raise ValueError(f"{path} does not say which images and classes it is for: give their shape and number")
    if arch is None:
        raise ValueError(
            f"{path} does not say which network its weights belong to: {advise_arch(list_views(state), shape, k)}"
        )
    net, view = restore_network(path, state, arch, shape=shape, k=k)
    mean, std, about_wrapper = read_wrapper(path, view, shape[0], mean=mean, std=std)
    beware = find_architecture(arch).beware
    known = trained_on is not None or not beware  # our own files say themselves what they are
    model = Classifier(net, k, mean, std, arch, (*own_notes, *notes, *about_wrapper, *(() if known else (beware,))))
    model.trained_on = trained_on
    return model


def read_own_classes(path: Path) -> tuple[str, ...]:
    """The classes that a checkpoint of ours was trained on; none for any other file."""
    try:
        content = read_torch(path)
        if content.get(OURS) != FORMAT:
            return ()
        check_own(content, path)
    except ValueError:
        return ()
    return tuple(content["names"])


def check_own(content: dict[Any, Any], path: Path) -> None:
    """Our own files say what they are; one that was cut or edited is not trusted to."""
    kinds = {"arch": str, "shape": list, "names": list, "mean": list, "std": list, "state_dict": dict}
    wrong = [key for key, kind in kinds.items() if not isinstance(content.get(key), kind)]
    items: dict[str, Any] = {"shape": int, "names": str, "mean": int | float, "std": int | float}
    wrong += [key for key in items if key not in wrong and not all(isinstance(i, items[key]) for i in content[key])]
    if wrong or len(content["shape"]) != 3:
        raise ValueError(f"{path} is not a whole checkpoint ({', '.join(wrong or ['shape'])} is wrong): train it again")


def restore_network(path: Path, state: StateDict, arch: str, *, shape: Shape, k: int) -> tuple[nn.Module, StateView]:
    """The network with the weights in it, and how their names were read."""
    made = find_architecture(arch)
    with torch.random.fork_rng(devices=[]):  # no global generator moves
        torch.manual_seed(0)  # layers that are never used may keep these weights, and the digest covers them
        net = made.make(shape, k)
    wanted = {name: value.shape for name, value in net.state_dict().items()}
    found = list_views(state)
    view, misses = best_view(found, made, wanted, k=k)
    if misses.outputs is not None:
        check_outputs(path, misses.outputs, k)
    if misses.size:
        raise ValueError(f"the weights in {path} do not fit {arch} ({misses}): {advise_arch(found, shape, k)}")
    net.load_state_dict({name: value for name, value in view.state.items() if name in wanted}, strict=False)
    return net, view


def advise_arch(found: Sequence[StateView], shape: Shape, k: int) -> str:
    """A sentence on which --arch would fit the weights."""
    exact, other = find_fitting(found, shape, k)
    if exact:
        return f"they fit {' and '.join(exact)}: use --arch {' or '.join(exact)}"
    if other:
        arch, outputs = next(iter(other.items()))
        return f"they fit {arch}, which then has {outputs} outputs, but the data has {k} classes: use other data"
    return "choose an --arch that fits (`leastwise list models` shows them), or give path/file.py:function"


def read_wrapper(
    path: Path, view: StateView, channels: int, *, mean: Sequence[float], std: Sequence[float]
) -> tuple[Sequence[float], Sequence[float], tuple[str, ...]]:
    """The normalisation to use, and what to tell the user about the wrapper that the network was saved in."""
    notes = []
    found = find_normalisation(view.outside, channels)
    if not mean and not std and found is not None:
        mean, std = found.mean, found.std
        notes.append(
            f"mean {format_numbers(mean)} and std {format_numbers(std)} were saved beside the network in {path}"
        )
    elif not mean and not std and is_wrapper(view.prefix):
        notes.append(
            f"names in {path} begin with {view.prefix!r}: if that wrapper normalised the images, give --mean and --std"
        )
    left = sorted(view.outside.keys() - (found.names if found else ()))
    if left:
        some = f"{', '.join(left[:3])}{' …' if len(left) > 3 else ''}"
        notes.append(f"{len(left)} entries of {path} outside {view.prefix!r} were left out: {some}")
    return mean, std, tuple(notes)


def find_state(content: dict[Any, Any], path: Path) -> tuple[StateDict, tuple[str, ...]]:
    """The state dict itself, or the only one among the entries, or the one that is named like a network's."""
    found = dict(find_states(content))
    usual = [name for name in NETWORKS if name in found]
    if len(found) == 1:
        return next(iter(found.values())), ()
    if usual:
        others = ", ".join(name for name in found if name != usual[0])
        return found[usual[0]], (f"{path} holds several sets of weights: {usual[0]} is used, not {others}",)
    raise ValueError(
        f"{path} holds {len(found)} state dicts among {name_some([str(entry) for entry in content]) or 'nothing'}: "
        "save the network's alone with torch.save(model.state_dict(), path)"
    )


def find_states(value: object, name: str = "", nesting: int = NESTING) -> Iterator[tuple[str, StateDict]]:
    """Every state dict inside, with the names of the entries that lead to it."""
    if looks_like_state(value):
        yield name, {key: entry for key, entry in value.items() if isinstance(entry, Tensor)}
    elif isinstance(value, dict | list | tuple) and nesting:
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from find_states(entry, f"{name}.{key}" if name else str(key), nesting - 1)


def looks_like_state(value: object) -> TypeGuard[dict[str, Any]]:
    """Named tensors, weights among them; an epoch or some extra state may stand between them, other tables may not."""
    return (
        isinstance(value, dict)
        and all(isinstance(name, str) and not isinstance(entry, dict | list) for name, entry in value.items())
        and any(isinstance(entry, Tensor) and entry.dim() > 0 for entry in value.values())
    )
