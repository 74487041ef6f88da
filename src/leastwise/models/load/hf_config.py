"""What a Hugging Face folder says of its network, looked at before transformers builds anything of it.

A description of a few bytes may name code to fetch and run, or ten million layers. Code needs the user's trust; a
network has to be about as large as the weights beside it.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from leastwise.core.text import error_with_type, escape_unprintable
from leastwise.models.load.torch_file import read_torch

CONFIG = "config.json"
HARMLESS = (None, "eager", "sdpa")  # ways to compute attention that come with torch; others are fetched and run
CODE = re.compile(r"auto_map|quantization_config|use_kernels|kernel_config")
LAYERS = re.compile(r"layer|depth|block|stage|repeat")
FEW_LAYERS, SMALL_NUMBER = 1000, 1_000_000  # that any description may name


class Unfinished(ValueError):
    """A folder whose weights are not those of the network that it describes."""


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file of the folder, or a sentence on why there is none."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not readable JSON ({error_with_type(error)}): save the model again") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold an object, but holds {type(content).__name__}: save the model again")
    return content


def list_settings(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every plain value of a description with the name of the setting that it belongs to."""
    yield name, value
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from list_settings(entry, key)
    elif isinstance(value, list):
        for entry in value:
            yield from list_settings(entry, name)


def check_config(folder: Path, trust: bool) -> None:
    """Refuse a description that brings code, unless it is trusted, and one that is too large for its weights."""
    settings = list(list_settings(read_json(folder / CONFIG)))
    for name, value in settings:
        if CODE.fullmatch(name) and value and not trust:
            raise ValueError(f"{folder} brings its own code ({name} in {CONFIG}): add --trust if you trust it")
        if name.endswith("implementation") and value not in HARMLESS and not isinstance(value, dict) and not trust:
            shown = escape_unprintable(str(value))
            raise ValueError(f"{folder} asks for the code {shown} ({name} in {CONFIG}): add --trust if you trust it")
    tensors, numbers = count_weights(folder)
    for name, value in settings:
        most = max(FEW_LAYERS, 2 * tensors) if LAYERS.search(name) else max(SMALL_NUMBER, numbers)
        if isinstance(value, int) and abs(value) > most:
            raise ValueError(
                f"{folder} describes a network with {name} {value:,} in {CONFIG}, but holds {tensors:,} weights of "
                f"{numbers:,} numbers: save the model again"
            )


def count_weights(folder: Path) -> tuple[int, int]:
    """How many tensors the folder holds, and how many numbers in them."""
    files = sorted(folder.glob("model*.safetensors"))
    sizes = [size for path in files for size in read_sizes_in(path)]
    for path in () if files else sorted(folder.glob("pytorch_model*.bin")):
        content = read_torch(path)  # refuses what would need code to load
        sizes += [value.numel() for value in content.values() if isinstance(value, torch.Tensor)]
    return len(sizes), sum(sizes)


def read_sizes_in(path: Path) -> list[int]:
    """The number of numbers in each tensor of a safetensors file; none for what its reader will refuse."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, path.stat().st_size)))
        return [
            (end - start) // 2 + 1  # two bytes for a number at least
            for start, end in (one["data_offsets"] for name, one in header.items() if name != "__metadata__")
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def check_size(folder: Path, net: Any) -> None:
    """Refuse a network, built without memory, that is much larger than the weights in its folder."""
    wanted = sum(part.numel() for part in net.parameters())
    _, held = count_weights(folder)
    if wanted > 2 * held + SMALL_NUMBER:
        raise Unfinished(
            f"{folder} describes a network of {wanted:,} numbers, but holds {held:,}: it is not a finished classifier"
        )
