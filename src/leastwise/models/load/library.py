"""Networks by name out of libraries that the user has: timm, torchvision, RobustBench.

Nothing is fetched: weights are those that a library fetched before, read here as plain tensors, so that nothing in them
runs. Normalisation, size and class names are the library's own.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlparse

import torch
from torch import nn

from leastwise.core.text import did_you_mean, error_with_type
from leastwise.models.foreign import ForeignNetwork, format_numbers, import_optional, silence_libraries
from leastwise.models.load.hf_config import CONFIG, read_json
from leastwise.models.load.torch_file import read_torch
from leastwise.models.resized import Interpolation, Preparation

WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # in a repository of timm
INTERPOLATIONS: dict[str, Interpolation] = {"nearest": "nearest", "bilinear": "bilinear"}  # anything else is bicubic


def load_timm(name: str) -> ForeignNetwork:
    """`resnet18.a1_in1k`: a network of timm with the weights that timm fetched before."""
    timm = import_optional("timm", "", f"the model timm:{name}")
    kind = name.partition(".")[0]
    if not timm.is_model(kind):
        raise ValueError(f"timm has no model {name!r}: {did_you_mean(kind, timm.list_models())}")
    try:
        described = timm.get_pretrained_cfg(name)
    except RuntimeError:  # what is behind the point is no set of weights
        described = None
    if described is None:
        raise ValueError(f"timm has no weights {name!r}: timm.list_models({kind + '*'!r}, pretrained=True) has a list")
    overlay = {"state_dict": read_torch(find_timm_weights(name, described))}
    net: Any = make_with(
        f"timm:{name}", lambda: timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay)
    )
    net.pretrained_cfg.pop("state_dict", None)  # else the network would hold its weights twice
    return describe_timm(f"timm:{name}", net, net.pretrained_cfg)


def find_timm_weights(name: str, described: Any) -> Path:
    """The file that timm fetched from the hub or from an address; a sentence on how to fetch it if it is not there."""
    if described.hf_hub_id:
        hub = import_optional("huggingface_hub", "hf", f"the model timm:{name}")
        wanted = (described.hf_hub_filename,) if described.hf_hub_filename else WEIGHTS
        for file in wanted:
            found = hub.try_to_load_from_cache(described.hf_hub_id, file)
            if isinstance(found, str):
                return Path(found)
    if described.url:
        found = cached_download(described.url)
        if found.is_file():
            return found
    raise refuse_absent(f"timm:{name}", f"import timm; timm.create_model({name!r}, pretrained=True)")


def load_timm_folder(folder: Path) -> ForeignNetwork:
    """A folder that timm wrote for the hub: a description of its own, and weights."""
    timm = import_optional("timm", "", f"the timm model in {folder}")
    described = read_json(folder / CONFIG)
    stated = described.get("pretrained_cfg")
    facts = dict(stated) if isinstance(stated, dict) else {}
    arguments = described.get("model_args")
    held = [folder / file for file in WEIGHTS if (folder / file).is_file()]
    if not held:
        raise ValueError(f"{folder} describes a network of timm, but holds no {' or '.join(WEIGHTS)}: save it again")
    state = read_torch(held[0])
    kind, count = str(described["architecture"]), described.get("num_classes", facts.get("num_classes"))
    if not timm.is_model(kind):
        raise ValueError(f"{folder} describes a network {kind!r}, which this timm does not know: update timm")
    net = make_with(
        str(folder),
        lambda: timm.create_model(
            kind, pretrained=False, num_classes=count, **(arguments if isinstance(arguments, dict) else {})
        ),
    )
    fill(net, state, str(folder))
    facts |= {key: described[key] for key in ("label_names",) if key in described}
    return describe_timm(str(folder), net, facts)


def describe_timm(what: str, net: nn.Module, facts: Mapping[str, Any]) -> ForeignNetwork:
    """A network with the normalisation and size that timm states beside it."""
    mean, std = (tuple(map(float, facts.get(key) or ())) for key in ("mean", "std"))
    _, height, width = facts.get("input_size") or (3, 224, 224)
    share = float(facts.get("crop_pct") or 0.875)
    method = INTERPOLATIONS.get(str(facts.get("interpolation")), "bicubic")
    squash = str(facts.get("crop_mode")) == "squash" or height != width
    resize = (int(height / share), int(width / share)) if squash else (int(height / share),)
    labels = facts.get("label_names") or ()
    return ForeignNetwork(
        net,
        mean,
        std,
        (tell_normalisation(what, mean, std),),
        facts.get("num_classes"),
        tuple(map(str, labels)) if isinstance(labels, list | tuple) else (),
        Preparation(resize, (height, width), method).check(what),
    )


def load_torchvision(name: str) -> ForeignNetwork:
    """`resnet50` or `resnet50/IMAGENET1K_V1`: a network of torchvision with weights that it fetched before."""
    vision = import_optional("torchvision", "", f"the model torchvision:{name}")
    called, _, wanted = name.partition("/")
    known = vision.models.list_models()
    if called not in known:
        raise ValueError(f"torchvision has no model {called!r}: {did_you_mean(called, known)}")
    offered = vision.models.get_model_weights(called)
    named = {one.name: one for one in offered}
    if wanted and wanted not in named:
        raise ValueError(f"torchvision has no weights {wanted!r} for {called}: choose {' or '.join(named)}")
    chosen = named[wanted] if wanted else offered.DEFAULT
    file = cached_download(chosen.url)
    if not file.is_file():
        code = f"import torchvision; torchvision.models.get_model({called!r}, weights={chosen.name!r})"
        raise refuse_absent(f"torchvision:{name}", code)
    read_torch(file)  # the library may unpickle it, which is harmless for what can be read as plain weights
    net = make_with(f"torchvision:{name}", lambda: vision.models.get_model(called, weights=chosen))
    preset = chosen.transforms()
    labels = tuple(map(str, chosen.meta.get("categories", ())))
    mean, std = tuple(preset.mean), tuple(preset.std)
    crop, method = preset.crop_size[0], str(getattr(preset.interpolation, "value", "bilinear"))
    notes = (f"torchvision:{name} uses the weights {chosen.name}", tell_normalisation(f"torchvision:{name}", mean, std))
    preparation = Preparation(tuple(preset.resize_size), (crop, crop), INTERPOLATIONS.get(method, "bicubic"))
    return ForeignNetwork(net, mean, std, notes, len(labels) or None, labels, preparation.check(f"torchvision:{name}"))


class BenchEntry(NamedTuple):
    """A network of RobustBench: the data set and threat model that its name stands under."""

    dataset: str
    threat: str
    name: str
    weights: int | None  # files it comes in: one without a number, several with one; None where timm fetches it


def load_robustbench(name: str) -> ForeignNetwork:
    """`Carmon2019Unlabeled` or `cifar10/Linf/Carmon2019Unlabeled`, with its weights below ./models."""
    bench = import_optional("robustbench.utils", "", f"the model robustbench:{name}")
    entry = find_bench_entry(name, import_optional("robustbench.model_zoo", "", f"robustbench:{name}").model_dicts)
    code = (
        f"from robustbench.utils import load_model; load_model({entry.name!r}, dataset={entry.dataset!r}, "
        f"threat_model={entry.threat!r})"
    )
    if entry.weights is None:
        raise ValueError(
            f"RobustBench fetches {entry.name} through timm each time: put `{code}` into a function and give "
            "path/file.py:function"
        )
    for file in list_bench_files(entry):
        if not file.is_file():
            raise refuse_absent(f"robustbench:{name} ({file})", code)
        read_torch(file)  # the library may unpickle it, which is harmless for what can be read as plain weights
    net = make_with(
        f"robustbench:{name}",
        lambda: bench.load_model(entry.name, model_dir="./models", dataset=entry.dataset, threat_model=entry.threat),
    )
    place = f"robustbench:{entry.dataset}/{entry.threat}/{entry.name}"
    notes = (f"{place} takes pixels in [0, 1]: its normalisation, if any, is inside",)
    preparation = Preparation((256,), (224, 224)) if entry.dataset == "imagenet" else None
    return ForeignNetwork(net, notes=notes, preparation=preparation)


def find_bench_entry(name: str, zoo: Mapping[Any, Mapping[Any, Mapping[str, Any]]]) -> BenchEntry:
    """The only network of that name; of several, the user says which."""
    *place, called = name.split("/")
    found = [
        BenchEntry(plain(data), plain(threat), called, count_weights(models[called]))
        for data, threats in zoo.items()
        for threat, models in threats.items()
        if called in models and all(part in (plain(data), plain(threat)) for part in place)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        choices = " or ".join(f"robustbench:{one.dataset}/{one.threat}/{called}" for one in found)
        raise ValueError(f"RobustBench has {len(found)} models {called!r}: write {choices}")
    names = [one for threats in zoo.values() for models in threats.values() for one in models]
    raise ValueError(f"RobustBench has no model {name!r}: {did_you_mean(called, dict.fromkeys(names))}")


def plain(value: Any) -> str:
    """The value of an enumeration, or a text itself."""
    return str(getattr(value, "value", value))


def count_weights(entry: Mapping[str, Any]) -> int | None:
    address = entry.get("gdrive_id")
    return None if address is None else len(address) if isinstance(address, list | tuple) else 1


def list_bench_files(entry: BenchEntry) -> list[Path]:
    """Where RobustBench keeps the weights of a network."""
    file = Path("models") / entry.dataset / entry.threat / f"{entry.name}.pt"
    assert entry.weights is not None, "there are files to look for"
    return [file] if entry.weights == 1 else [Path(f"{file}_m{i}.pt") for i in range(entry.weights)]


def cached_download(address: str) -> Path:
    """Where torch keeps what it fetched from an address."""
    return Path(torch.hub.get_dir()) / "checkpoints" / Path(urlparse(address).path).name


def refuse_absent(what: str, code: str) -> ValueError:
    return ValueError(
        f'{what} has no weights on this machine, and nothing is fetched unasked: python -c "{code}" does it'
    )


def make_with(what: str, make: Callable[[], nn.Module]) -> nn.Module:
    """The network that a library makes, in evaluation mode; a sentence if the library fails."""
    try:
        with silence_libraries():
            return make().eval()
    except Exception as error:  # libraries raise whatever their parts raise
        raise ValueError(
            f"{what} could not be made by its library ({error_with_type(error)}): check its version, or give "
            "path/file.py:function"
        ) from None


def fill(net: nn.Module, state: Mapping[str, Any], what: str) -> None:
    """Put weights into a network that they have to fit exactly."""
    try:
        net.load_state_dict(dict(state), strict=True)
    except RuntimeError as error:
        raise ValueError(f"the weights of {what} do not fit its description ({error_with_type(error)})") from None


def tell_normalisation(what: str, mean: tuple[float, ...], std: tuple[float, ...]) -> str:
    return f"mean {format_numbers(mean)} and std {format_numbers(std)} are those of {what}"


LIBRARIES: dict[str, Callable[[str], ForeignNetwork]] = {
    "timm": load_timm,
    "torchvision": load_torchvision,
    "robustbench": load_robustbench,
}
