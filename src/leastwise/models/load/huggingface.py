"""A folder that `save_pretrained` wrote for an image classifier. Its weights are read without running code."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leastwise.core.text import error_with_type, name_some, one_line
from leastwise.core.types import Images
from leastwise.models.foreign import ForeignNetwork, format_numbers, import_optional, silence_libraries
from leastwise.models.load.hf_config import CONFIG, Unfinished, check_config, check_size, read_json
from leastwise.models.resized import Interpolation, Preparation

# Where the folder was and who wrote it: not part of what the network computes.
CIRCUMSTANCES = ("_name_or_path", "transformers_version")


class HuggingFace(nn.Module):
    """Images to the `.logits` of a transformers model; `settings` puts its configuration into the digest."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        for module in net.modules():
            if hasattr(module, "name_or_path"):
                module.name_or_path = ""  # else the digest would change with the folder's place
        self.net = net
        self.settings = json.dumps(
            {key: value for key, value in net.config.to_dict().items() if key not in CIRCUMSTANCES},
            sort_keys=True,
            default=str,
        )

    def forward(self, x: Images) -> Tensor:
        return self.net(x).logits


def load_huggingface(folder: Path, channels: int | None, *, normalised: bool, trust: bool) -> ForeignNetwork:
    """The classifier in `folder`; `normalised` says that the user states mean and std, so the folder's are not used."""
    check_config(folder, trust)
    net, unused = load_pretrained(folder, trust)
    processor = read_processing(folder)
    count = channels or int(getattr(net.config, "num_channels", 3))
    mean, std = ((), ()) if normalised else read_normalisation(processor, count)
    notes = []
    if mean:
        notes.append(f"mean {format_numbers(mean)} and std {format_numbers(std)} are those of {folder}'s preprocessor")
    elif not normalised:
        notes.append(f"{folder} states no normalisation: if it was trained with one, give --mean and --std")
    if unused:
        notes.append(f"{len(unused)} weights in {folder} are not used: {name_some(unused)}")
    return ForeignNetwork(
        HuggingFace(net),
        mean,
        std,
        tuple(notes),
        net.config.num_labels,
        tuple(list_labels(net.config.id2label)),
        read_preparation(processor, f"{folder}'s preprocessor"),
    )


def list_labels(labels: Mapping[int, str]) -> list[str]:
    """The class names in the order of the outputs."""
    return [str(labels[c]) for c in sorted(labels)]


def find_repository(name: str) -> Path:
    """The folder of a model that was fetched from the hub before: `owner/name`, or `owner/name@revision`."""
    hub = import_optional("huggingface_hub", "hf", f"the model hf:{name}")
    repository, _, revision = name.partition("@")
    try:
        with silence_libraries():
            found = hub.snapshot_download(repository, revision=revision or None, local_files_only=True)
    except Exception as error:  # names that cannot be, and models that are not there
        fetch = f"hf download {repository}" + (f" --revision {revision}" if revision else "")
        raise ValueError(
            f"hf:{name} is neither a folder nor a model that was fetched before ({type(error).__name__}), and nothing "
            f"is fetched unasked: `{fetch}` does it"
        ) from None
    return Path(found)


def is_timm_folder(folder: Path) -> bool:
    """Whether a folder's description is one of timm, which transformers does not read."""
    described = read_json(folder / CONFIG)
    return "architecture" in described and "model_type" not in described


def load_pretrained(folder: Path, trust: bool) -> tuple[Any, list[str]]:
    """The model with all its weights, and the names of weights that it has no use for."""
    transformers = import_optional("transformers", "hf", f"the Hugging Face model in {folder}")
    safe = any(folder.glob("model*.safetensors"))
    bar = transformers.utils.logging
    shows_progress = bar.is_progress_bar_enabled()
    bar.disable_progress_bar()
    try:
        with silence_libraries():
            config = transformers.AutoConfig.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=trust
            )
            with torch.device("meta"):
                described = transformers.AutoModelForImageClassification.from_config(config, trust_remote_code=trust)
            check_size(folder, described)
            net, report = transformers.AutoModelForImageClassification.from_pretrained(
                str(folder),
                local_files_only=True,
                trust_remote_code=trust,
                use_safetensors=safe,
                weights_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are reported, and refused below
                dtype=torch.float32,
            )
    except Unfinished:
        raise
    except Exception as error:  # the library raises whatever its parts raise
        raise ValueError(
            f"{folder} is not an image classifier that transformers can load ({error_with_type(error)}): "
            "check the folder, or give path/file.py:function"
        ) from None
    finally:
        if shows_progress:
            bar.enable_progress_bar()
    reshaped = [name if isinstance(name, str) else name[0] for name in report["mismatched_keys"]]
    absent = sorted({*report["missing_keys"], *reshaped})
    if absent:
        raise ValueError(
            f"{folder} has no weights that fit {name_some(absent)}, which would be random: "
            "it is not a finished classifier, fine-tune it first"
        )
    return net, sorted(report["unexpected_keys"])


def read_processing(folder: Path) -> dict[str, Any]:
    """How the images were prepared, if the folder says; newer versions put it into a file of another name."""
    if (folder / "preprocessor_config.json").is_file():
        return read_json(folder / "preprocessor_config.json")
    if (folder / "processor_config.json").is_file():
        held = read_json(folder / "processor_config.json").get("image_processor", {})
        return held if isinstance(held, dict) else {}
    return {}


def read_normalisation(processor: dict[str, Any], channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and std for pixels in [0, 1], one per channel; empty if the network takes the pixels as they are.

    The processor maps a byte p to (p·scale - offset - mean) / std; with x = p / 255 that is
    (x - (mean + offset) / (255·scale)) / (std / (255·scale)).
    """
    mean, std = processor.get("image_mean"), processor.get("image_std")
    factor = processor.get("rescale_factor", 1 / 255)
    for name, value in (("image_mean", mean), ("image_std", std), ("rescale_factor", factor)):
        numbers = value if isinstance(value, list) else [value]
        if not all(v is None or (type(v) in (int, float) and math.isfinite(v)) for v in numbers) or factor == 0:
            raise ValueError(
                f"the preprocessor's {name} must be finite numbers, but is {one_line(value)[:80]}: mend it"
            )
    if mean is None or std is None or not processor.get("do_normalize", True):
        mean, std = 0.0, 1.0
    rescales = processor.get("do_rescale", True)
    scale = 255 * factor if rescales else 255.0
    offset = 1.0 if rescales and processor.get("rescale_offset", False) else 0.0
    means = [(m + offset) / scale for m in (mean if isinstance(mean, list) else [mean] * channels)]
    stds = [s / scale for s in (std if isinstance(std, list) else [std] * channels)]
    unchanged = all(abs(m) < 1e-9 for m in means) and all(abs(s - 1) < 1e-9 for s in stds)
    return ((), ()) if unchanged else (tuple(means), tuple(stds))


# Pillow's numbers of what it interpolates with; Lanczos and Hamming are not had on tensors, and are near to these.
METHODS: dict[object, Interpolation] = {0: "nearest", 1: "bicubic", 2: "bilinear", 3: "bicubic", 5: "bilinear"}
CROPPED_BELOW = 384  # pixels: preprocessors with a share to crop (ConvNeXt's) resize smaller sizes by more, and cut


def read_preparation(processor: dict[str, Any], what: str) -> Preparation | None:
    """How images are resized and cut; None if they are not, or if it is not said."""
    size = read_sides(processor.get("size")) if processor.get("do_resize", True) else ()
    crop = read_sides(processor.get("crop_size")) if processor.get("do_center_crop", False) else ()
    if not size:
        return None
    share = processor.get("crop_pct")
    if len(size) == 1 and isinstance(share, int | float) and 0 < share <= 1 and size[0] < CROPPED_BELOW:
        size, crop = (int(size[0] / share),), size
    square = (*crop, *crop)[:2]
    number = processor.get("resample", 2)
    method = METHODS.get(number, "bilinear") if isinstance(number, int) else "bilinear"
    return Preparation(size, (square[0], square[1]) if square else None, method).check(what)


def read_sides(size: object) -> tuple[int, ...]:
    """Height and width, or the shorter side alone, as a processor says it; empty for what says nothing."""
    if isinstance(size, dict):
        keys = ("height", "width") if "height" in size and "width" in size else ("shortest_edge",)
        size = [size.get(key) for key in keys]
    sides = tuple(size) if isinstance(size, list | tuple) else (size,)
    return sides if sides and all(type(side) is int for side in sides) else ()
