"""Checkpoints: weights plus the few facts that rebuild the network, readable without running code."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import torch
from safetensors.torch import save as save_safetensors
from torch import Tensor, nn

from leastwise.core.files import write_atomic
from leastwise.core.text import escape_unprintable, name_some, one_line
from leastwise.core.types import Shape
from leastwise.data.normalisations import IMAGENET
from leastwise.models.classifier import Classifier, TrainedOn
from leastwise.models.foreign import check_outputs, format_numbers
from leastwise.models.load.guess import advise_arch, find_fitting, guess_network
from leastwise.models.load.state_dict import (
    StateDict,
    StateView,
    best_view,
    find_normalisation,
    is_wrapper,
    list_views,
    sizes_of,
)
from leastwise.models.load.torch_file import DIGEST, OURS, digest_values, read_torch, write_torch
from leastwise.models.zoo.registry import find_architecture

FORMAT = 1
USED_THERE = "its mean 0.485,0.456,0.406 and std 0.229,0.224,0.225 are used; --mean and --std say otherwise"
NETWORKS = ("state_dict", "model_state_dict", "model", "net")  # what the network's weights are usually called
NESTING = 2  # entries of entries
SHARED = 4  # times the size of a file that its weights may take: some networks use one tensor in several places

HALF_LIMIT = 60_000.0  # just below the largest number of float16


def save_checkpoint(
    path: Path,
    model: Classifier,
    shape: Shape,
    *,
    names: Sequence[str],
    notes: Sequence[str] = (),
    half: bool = False,
) -> None:
    """Write what `load_checkpoint` needs; only tensors, numbers and strings, so `weights_only=True` loads it.

    A name that ends in `.safetensors` chooses that format. `notes` are told to whoever uses the model. `half` writes
    matrices and kernels in float16; the network computes in float32 all the same.
    """
    facts = {
        OURS: FORMAT,
        "arch": model.arch or "",  # none: the weights alone, for whoever has its code
        "shape": list(shape),
        "names": list(names),
        "mean": list(model.mean),
        "std": list(model.std),
        "notes": list(notes),
    }
    state = model.net.state_dict()
    if half:
        state = {name: value.half() if is_large(value) else value for name, value in state.items()}
    if path.suffix == ".safetensors":
        tensors = {name: value.detach().cpu().contiguous() for name, value in state.items()}
        facts[DIGEST] = digest_values(facts | {"state_dict": dict(sorted(tensors.items()))})
        write_atomic(path, save_safetensors(tensors, metadata={OURS: json.dumps(facts, ensure_ascii=False)}))
    else:
        write_torch(path, facts | {"state_dict": state})


def is_large(value: torch.Tensor) -> bool:
    """Matrices and kernels of float32: what weights are made of, and what float16 can hold."""
    return value.dtype == torch.float32 and value.dim() >= 2 and float(value.abs().max()) < HALF_LIMIT


def load_checkpoint(
    path: Path,
    arch: str | None = None,
    shape: Shape | None = None,
    *,
    k: int | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    content: dict[Any, Any] | None = None,
) -> Classifier:
    """Our own checkpoint, or anyone's state dict with its architecture, image shape and class count.

    What is not said is guessed from the layout of the weights where only one answer fits. `content` is what the file
    holds, if it was read before.
    """
    content = read_torch(path) if content is None else content
    trained_on: TrainedOn | None = None
    own_notes: tuple[str, ...] = ()
    if content.get(OURS) == FORMAT:
        if mean or std:
            raise ValueError(f"{path} carries its own normalisation: leave --mean and --std out")
        check_own(content, path)
        trained_on = TrainedOn(tuple(content["shape"]), tuple(content["names"]))
        arch, mean, std = (content["arch"] or None) if arch is None else arch, content["mean"], content["std"]
        shape, k = trained_on.shape, len(trained_on.names)
        own_notes = tuple(escape_unprintable(str(note)) for note in content.get("notes", ()))
    state, notes = find_state(content, path)
    arch, shape, k, guessed = guess_network(path, list_views(state), arch, shape=shape, k=k)
    net, view = restore_network(path, state, arch, shape=shape, k=k)
    mean, std, about_wrapper = read_wrapper(path, view, shape[0], mean=mean, std=std)
    if not mean and not std and is_akamaster(content, view, arch, shape=shape, k=k):
        mean, std = IMAGENET.mean, IMAGENET.std
        about_wrapper = (f"{path} is laid out as akamaster/pytorch_resnet_cifar10 writes it: {USED_THERE}",)
    beware = find_architecture(arch).beware
    known = trained_on is not None or not beware  # our own files say themselves what they are
    told = (*own_notes, *guessed, *notes, *about_wrapper, *(() if known else (beware,)))
    model = Classifier(net, k, mean, std, arch, told)
    model.trained_on = trained_on
    return model


def load_into(model: Classifier, path: Path) -> Classifier:
    """A network with the weights of a checkpoint that was made from it, whatever its architecture."""
    state, _ = find_state(read_torch(path), path)
    try:
        model.net.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(f"{path} does not hold the weights of this network ({one_line(error)})") from None
    return model


def is_akamaster(content: dict[Any, Any], view: StateView, arch: str, *, shape: Shape, k: int) -> bool:
    """Whether a file was written by akamaster/pytorch_resnet_cifar10, whose code has one normalisation for all."""
    thin = arch in ("resnet20", "resnet32", "resnet44", "resnet56", "resnet110")
    written = "state_dict" in content and "best_prec1" in content and view.prefix == "module."
    return thin and written and tuple(shape) == (3, 32, 32) and k == 10


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
    kinds = {"arch": str, "shape": list, "names": list, "mean": list, "std": list, "state_dict": dict, "notes": list}
    held = {"notes": []} | content  # the first checkpoints had none
    wrong = [key for key, kind in kinds.items() if not isinstance(held.get(key), kind)]
    items: dict[str, Any] = {"shape": int, "names": str, "mean": int | float, "std": int | float, "notes": str}
    wrong += [
        key
        for key in items
        if key not in wrong and not all(type(i) is not bool and isinstance(i, items[key]) for i in held[key])
    ]
    if wrong or len(content["shape"]) != 3 or min(content["shape"]) < 1:
        raise ValueError(f"{path} is not a whole checkpoint ({', '.join(wrong or ['shape'])} is wrong): train it again")


def restore_network(path: Path, state: StateDict, arch: str, *, shape: Shape, k: int) -> tuple[nn.Module, StateView]:
    """The network with the weights in it, and how their names were read."""
    made, found = find_architecture(arch), list_views(state)
    wanted = sizes_of(made, shape, k)  # no memory is asked for before the weights are known to fit
    view, misses = best_view(found, made, wanted, k=k)
    if misses.outputs is not None:
        check_outputs(path, misses.outputs, k)
    if misses.size:
        advice = advise_arch(*find_fitting(found, shape, k), k)
        raise ValueError(f"the weights in {path} do not fit {arch} ({misses}): {advice}")
    with torch.random.fork_rng(devices=[]):  # no global generator moves
        torch.default_generator.manual_seed(0)  # layers never used may keep these weights: the digest covers them
        net = made.make(shape, k)
    net.load_state_dict({name: value for name, value in view.state.items() if name in wanted}, strict=False)
    return net, view


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
        notes.append(f"{len(left)} entries of {path} outside {view.prefix!r} were left out: {name_some(left)}")
    return mean, std, tuple(notes)


def find_state(content: dict[Any, Any], path: Path) -> tuple[StateDict, tuple[str, ...]]:
    """The state dict itself, or the only one among the entries, or the one that is named like a network's."""
    found = {name: check_weights(state, path) for name, state in find_states(content)}
    usual = [name for name in NETWORKS if name in found]
    if len(found) == 1:
        return next(iter(found.values())), ()
    if usual:
        others = name_some([name for name in found if name != usual[0]])
        return found[usual[0]], (f"{path} holds several sets of weights: {usual[0]} is used, not {others}",)
    raise ValueError(
        f"{path} holds {len(found)} state dicts among {name_some([str(entry) for entry in content]) or 'nothing'}: "
        "save the network's alone with torch.save(model.state_dict(), path)"
    )


def check_weights(state: StateDict, path: Path) -> StateDict:
    """Refuse weights that are not plain numbers in memory, or that announce more numbers than the file holds."""
    for name, value in state.items():
        odd = describe_odd_weights(value)
        if odd:
            raise ValueError(
                f"{escape_unprintable(name)} in {path} holds {odd}, but a network here takes dense real numbers: "
                "convert the weights and save them anew"
            )
    announced = sum(value.numel() * value.element_size() for value in state.values())
    if announced > SHARED * path.stat().st_size:
        raise ValueError(
            f"{path} announces weights of {announced:,} bytes, but has {path.stat().st_size:,}: "
            "save a state_dict with torch.save(model.state_dict(), path)"
        )
    return state


def describe_odd_weights(value: Tensor) -> str:
    """What a tensor is if it is not a dense array of real numbers on this machine; empty if it is."""
    if value.is_nested:
        return "a nested tensor"
    if value.is_quantized:
        return "quantised numbers"
    if value.layout != torch.strided:
        return "a sparse tensor"
    if value.device.type == "meta":
        return "a shape without numbers"
    return "complex numbers, of which only the real part would be used" if value.is_complex() else ""


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
