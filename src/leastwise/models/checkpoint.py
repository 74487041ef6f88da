"""Checkpoints: weights plus the few facts that rebuild the network, readable without running code."""

import io
import pickle
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from torch import Tensor, nn

from leastwise.models.architectures import ARCHITECTURES, Shape, architecture
from leastwise.models.classifier import Classifier, TrainedOn
from leastwise.store import write_atomic

FORMAT = 1
PREFIXES = ("module.", "model.", "net.")  # left by DataParallel and by wrappers

UNREADABLE = (
    pickle.UnpicklingError,
    SafetensorError,
    RuntimeError,
    EOFError,
    ValueError,
    LookupError,
    AttributeError,
    TypeError,
)


def save_checkpoint(path: Path, model: Classifier, shape: Shape, names: Sequence[str]) -> None:
    """Write what `load_checkpoint` needs; only tensors, numbers and strings, so `weights_only=True` loads it."""
    assert model.arch is not None, "only networks built by name can be rebuilt from a checkpoint"
    content = {
        "leastwise": FORMAT,
        "arch": model.arch,
        "shape": list(shape),
        "names": list(names),
        "mean": list(model.mean),
        "std": list(model.std),
        "state_dict": model.net.state_dict(),
    }
    write_torch(path, content)


def write_torch(path: Path, content: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_atomic(path, buffer.getvalue())


def read_torch(path: Path) -> dict[Any, Any]:
    """A file of tensors and plain values; anything that would need code to load is refused."""
    try:
        if path.suffix == ".safetensors":
            return load_safetensors(path.read_bytes())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about old file layouts; they load all the same
            content = torch.load(path, map_location="cpu", weights_only=True)
    except UNREADABLE as error:
        raise ValueError(
            f"{path} is not a checkpoint of plain weights ({type(error).__name__} while reading): "
            "save a state_dict with torch.save(model.state_dict(), path)"
        ) from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a state_dict, but holds {type(content).__name__}: save model.state_dict()")
    return content


def load_checkpoint(
    path: Path,
    arch: str | None = None,
    shape: Shape | None = None,
    k: int | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
) -> Classifier:
    """Our own checkpoint, or anyone's state dict with the name of its architecture, image shape and class count."""
    content = read_torch(path)
    trained_on = None
    if content.get("leastwise") == FORMAT:
        if mean or std:
            raise ValueError(f"{path} carries its own normalisation: leave --mean and --std out")
        try:
            trained_on = TrainedOn(tuple(content["shape"]), tuple(content["names"]))
            arch, mean, std = content["arch"] if arch is None else arch, content["mean"], content["std"]
            shape, k = trained_on.shape, len(trained_on.names)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a whole checkpoint ({error} is missing): train it again") from None
    if arch is None or shape is None or k is None:
        raise ValueError(f"{path} does not say which network it belongs to: add --arch ({', '.join(ARCHITECTURES)})")
    net = architecture(arch).make(shape, k)
    load_state(net, strip_prefixes(find_state(content, path)), path, arch)
    model = Classifier(net, k, mean, std, arch)
    model.trained_on = trained_on
    return model


def find_state(content: dict[Any, Any], path: Path) -> dict[str, Tensor]:
    """The state dict itself, or the only one among the entries (`state_dict` or `model` beside an epoch)."""
    found = [value for value in (content, *content.values()) if is_state(value)]
    if len(found) != 1:
        raise ValueError(
            f"{path} holds {len(found)} state dicts among {', '.join(map(str, content)) or 'nothing'}: "
            "save the network's alone with torch.save(model.state_dict(), path)"
        )
    return found[0]


def is_state(value: object) -> bool:
    return (
        isinstance(value, dict)
        and len(value) > 0
        and all(isinstance(name, str) and isinstance(entry, Tensor) for name, entry in value.items())
    )


def strip_prefixes(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Drop a wrapper's prefix where every name carries it."""
    for prefix in PREFIXES:
        if all(name.startswith(prefix) for name in state):
            state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def load_state(net: nn.Module, state: dict[str, Tensor], path: Path, arch: str) -> None:
    wanted = net.state_dict()
    missing, extra = sorted(wanted.keys() - state.keys()), sorted(state.keys() - wanted.keys())
    shapes = sorted(name for name in wanted.keys() & state.keys() if wanted[name].shape != state[name].shape)
    if missing or extra or shapes:
        facts = [
            f"{label}: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
            for label, names in (("missing", missing), ("unknown", extra), ("of another shape", shapes))
            if names
        ]
        raise ValueError(f"the weights in {path} do not fit {arch} ({'; '.join(facts)}): choose another --arch")
    net.load_state_dict(state)
