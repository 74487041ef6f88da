"""Files of tensors and plain values: writing them, and reading those of strangers.

Nothing in them is run, and what they would cost is looked at first: compressed or overlapping parts of an archive, and
pickles whose keys take for ever to hash, are refused before torch sees them. Files of ours carry a digest of their
content, so that a flipped bit is noticed; it shows damage, and is no signature.
"""

import errno
import io
import json
import pickle
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors

from leastwise.core.files import sha256, write_atomic
from leastwise.core.pickles import check_pickle
from leastwise.core.text import error_with_type, name_some

OURS = "leastwise"  # the entry of a file's metadata that says what it is
DIGEST = "leastwise.digest"  # the entry with the digest of all others
ZIP = b"PK\x03\x04"
LEGACY_PICKLES = 5  # of torch's format before 1.6: a number, a version, the system, the content, the names of storages

UNREADABLE = (
    pickle.UnpicklingError,
    SafetensorError,
    zipfile.BadZipFile,
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


def write_torch(path: Path, content: dict[str, Any]) -> None:
    """Write tensors and plain values in torch's format, whole or not at all, with a digest of them."""
    buffer = io.BytesIO()
    torch.save(content | {DIGEST: digest_values(content)}, buffer)
    write_atomic(path, buffer.getvalue())


def read_torch(path: Path) -> dict[Any, Any]:
    """A file of tensors and plain values; anything that would need code to load is refused."""
    check_file(path)
    try:
        content = read_safetensors(path.read_bytes()) if path.suffix == ".safetensors" else read_pickled(path)
    except (*UNREADABLE, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # that one is a jump to a place beyond the end
            raise
        if is_script(path):
            raise ValueError(
                f"{path} is a TorchScript program, which is code: add --trust if you trust where it comes from"
            ) from None
        objects = list_objects(path)
        seen = f"it holds {name_some(objects)}" if objects else f"{type(error).__name__} while reading"
        fix = ", or add --trust if you trust where it comes from" if objects else ""
        raise ValueError(
            f"{path} is not a checkpoint of plain weights ({seen}): "
            f"save a state_dict with torch.save(model.state_dict(), path){fix}"
        ) from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a state_dict, but holds {type(content).__name__}: save model.state_dict()")
    stated = content.pop(DIGEST, None)
    if stated is not None and stated != digest_values(content):
        raise ValueError(
            f"{path} is damaged or was edited (its digest does not match its content): train it again, "
            f"or remove its entry {DIGEST} if the change is yours"
        )
    return content


def read_pickled(path: Path) -> Any:
    """The content of a file that torch.save wrote, in its present or its older form."""
    check_pickles(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about old file layouts; they load all the same
        return torch.load(path, map_location="cpu", weights_only=True)


def unpickle(path: Path) -> Any:
    """Whatever a trusted file holds: this runs the code that it names."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:
        raise ValueError(
            f"{path} cannot be unpickled ({error_with_type(error)}): its classes have to be importable where you are, "
            "or give path/file.py:function"
        ) from None


def is_script(path: Path) -> bool:
    """Whether a file is a TorchScript program, by its table of contents."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False
    return any(name.endswith("constants.pkl") for name in names) and any("/code/" in name for name in names)


def list_objects(path: Path) -> list[str]:
    """The classes and functions that reading a file would look up beside torch's plain ones; none are looked up."""
    try:
        return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(str(path)))
    except (*UNREADABLE, OSError):
        return []


def check_pickles(path: Path) -> None:
    """Refuse pickles that would take too long: the one of an archive, or those that an older file begins with."""
    with path.open("rb") as file:
        if file.read(len(ZIP)) != ZIP:
            file.seek(0)
            for _ in range(LEGACY_PICKLES):
                check_pickle(file)
            return
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".pkl"):
                with archive.open(name) as part:
                    check_pickle(part)


def digest_values(value: Any) -> str:
    """A digest of tensors and plain values at any depth, types and order included."""
    return sha256(*value_parts(value))


def value_parts(value: Any) -> Iterator[bytes]:
    """Everything that a value consists of, as bytes."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().cpu().contiguous().flatten()
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        yield plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    elif isinstance(value, dict):
        yield f"dict {len(value)}".encode()
        for key, entry in value.items():
            yield repr(key).encode()
            yield from value_parts(entry)
    elif isinstance(value, list | tuple):
        yield f"{type(value).__name__} {len(value)}".encode()
        for entry in value:
            yield from value_parts(entry)
    else:
        yield repr(value).encode("utf-8", "backslashreplace")


def read_safetensors(content: bytes) -> dict[Any, Any]:
    """The tensors of a safetensors file, and beside them what we wrote into its metadata, if it is ours."""
    tensors = load_safetensors(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    about = header.get("__metadata__", {}).get(OURS)
    return tensors if about is None else dict(json.loads(about)) | {"state_dict": dict(sorted(tensors.items()))}


def check_file(path: Path) -> None:
    """A pipe or a device would be read for ever; what torch writes is never compressed, so it is no bomb."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file that can be read: give a checkpoint")
    try:
        with zipfile.ZipFile(path) as archive:
            # Code is packed in TorchScript programs, which are refused without reading it.
            entries = [one for one in archive.infolist() if "/code/" not in one.filename]
            packed = any(one.compress_type != zipfile.ZIP_STORED for one in entries)
            held, names = sum(one.file_size for one in entries), {one.filename for one in entries}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return  # an older layout, or damage that the reader will find
    if packed:
        raise ValueError(
            f"{path} is a compressed archive, which torch.save does not write: give the checkpoint inside it"
        )
    if held > path.stat().st_size or len(names) < len(entries):
        raise ValueError(
            f"{path} is not a checkpoint of plain weights (several of its {len(entries)} entries share bytes): "
            "save a state_dict with torch.save(model.state_dict(), path)"
        )
