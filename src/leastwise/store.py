"""Files that are either whole or absent: write to a temporary neighbour, fsync, rename."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write_atomic(path: Path, content: bytes) -> None:
    """Replace `path` by `content`; a crash at any moment leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a result should be as readable as any other file of the user's.
        temporary.chmod(0o666 & ~current_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def check_writable(folder: Path) -> None:
    """Say now, not after an hour of work, that results cannot be written; creates nothing."""
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise ValueError(f"{folder} cannot be the folder of the results, because {nearest} is a file: choose another")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"{folder} cannot be the folder of the results, because {nearest} is not writable")


def sync_folder(folder: Path) -> None:
    """Make a rename durable: the folder's own entry has to reach the disk too."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def sha256(*parts: bytes) -> str:
    """Digest of the parts, each preceded by its length so that no two lists share one."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
