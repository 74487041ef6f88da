"""Files from strangers: each function writes one into a folder and returns its name."""

import json
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from leastwise.data.loading import load
from leastwise.models.load.checkpoint import save_checkpoint
from leastwise.models.load.torch_file import DIGEST
from leastwise.models.zoo.registry import build

CANARY = "EXECUTED"
NAMES = tuple(load("fashion-mini").names)


class Payload:
    """Unpickling it with Python's own loader makes a folder."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (CANARY,)


def checkpoint(folder: Path, fill: float | None = None, names: tuple[str, ...] = NAMES, **changes: object) -> str:
    """A good one, or one with weights of one value, or with other entries."""
    model = build("convnet", (1, 28, 28), len(names), seed=1)
    if fill is not None:
        with torch.no_grad():
            next(model.parameters()).fill_(fill)
    save_checkpoint(folder / "model.pt", model, (1, 28, 28), names=names)
    if changes:
        content = torch.load(folder / "model.pt", weights_only=True) | changes
        content.pop(DIGEST, None)  # or the digest alone would refuse it
        torch.save(content, folder / "model.pt")
    return "model.pt"


def written(folder: Path, name: str, content: bytes | str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def raw_pickle(folder: Path, name: str = "model.pt") -> str:
    return written(folder, name, pickle.dumps(Payload()))


def torch_pickle(folder: Path, name: str = "model.pt") -> str:
    torch.save({"state_dict": {"weight": torch.zeros(2), "extra": Payload()}}, folder / name)
    return name


def packed_checkpoint(folder: Path) -> str:
    with zipfile.ZipFile(folder / "model.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(1 << 22))
        archive.writestr("archive/version", b"3")
    return "model.pt"


def safetensors(folder: Path, header: bytes, length: int | None = None) -> str:
    return written(folder, "model.safetensors", struct.pack("<Q", len(header) if length is None else length) + header)


def pipe(folder: Path) -> str:
    os.mkfifo(folder / "model.pt")
    return "model.pt"


def linked(folder: Path, to: str) -> str:
    (folder / "model.pt").symlink_to(to)
    return "model.pt"


def npz(folder: Path, **arrays: object) -> str:
    good = {"images": np.zeros((20, 1, 28, 28), np.uint8), "labels": np.arange(20) % 10}
    np.savez(folder / "set.npz", **{k: v for k, v in (good | arrays).items() if v is not None})  # type: ignore[arg-type]
    return "set.npz"


def npz_bomb(folder: Path) -> str:
    """64 MB of zeros in 64 kB."""
    head = {"descr": "|u1", "fortran_order": False, "shape": (85600, 1, 28, 28)}
    with zipfile.ZipFile(folder / "set.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("images.npy", "w") as file:
            np.lib.format.write_array_header_1_0(file, head)
            for _ in range(856):
                file.write(bytes(78400))
        with archive.open("labels.npy", "w") as file:
            np.lib.format.write_array(file, np.arange(85600) % 10)
    return "set.npz"


def npz_members(folder: Path, *names: str) -> str:
    with zipfile.ZipFile(folder / "set.npz", "w") as archive:
        for name in names:
            archive.writestr(name, b"owned")
    return "set.npz"


def npz_promise(folder: Path, shape: str) -> str:
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(100)
    with zipfile.ZipFile(folder / "set.npz", "w") as archive:
        archive.writestr("images.npy", content)
        archive.writestr("labels.npy", content)
    return "set.npz"


def npy(folder: Path) -> str:
    np.save(folder / "images.npy", np.array([Payload()], dtype=object), allow_pickle=True)
    np.save(folder / "labels.npy", np.zeros(1, int))
    return "images.npy"


def pictures(folder: Path, *sizes: tuple[int, int], name: str = "set") -> str:
    for number, size in enumerate(sizes):
        place = folder / name / f"class{number % 2}" / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size).save(place)
    return name


def picture_bomb(folder: Path) -> str:
    """A PNG of a few bytes that says it has ten billion pixels."""
    import zlib

    head = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + head
    content = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(head)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    for part in ("a", "b"):
        written(folder, f"set/{part}/bomb.png", content)
    return "set"


def folder_of(folder: Path, files: dict[str, bytes | str]) -> str:
    (folder / "set").mkdir()
    for name, content in files.items():
        written(folder, f"set/{name}", content)
    return "set"


def cifar(folder: Path) -> str:
    written(folder, "d/cifar-10-batches-py/test_batch", pickle.dumps({b"data": Payload(), b"labels": [0]}))
    return "d"


def nested(depth: int = 200_000, brackets: str = "[]") -> str:
    return brackets[0] * depth + brackets[1] * depth


def summary(**changes: object) -> str:
    row = {"correct": [1] * 10, "n": [2] * 10}
    return json.dumps({"classes": list(NAMES), "conditions": {"clean": row}} | changes)
