"""Files that are either whole or absent: write to a temporary neighbour, fsync, rename. Folders for one at a time."""

import errno
import hashlib
import json
import math
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from filelock import lock_descriptor

from leastwise.core.text import one_line

LOCK = ".leastwise.lock"
# What some systems lack is left out: Windows needs to be told that bytes are bytes, others that links are not followed.
PLAIN = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def write_atomic(path: Path, content: bytes) -> None:
    """Replace `path` by `content`; a crash at any moment leaves the old file or the new one."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` when all of it is on the disk; if anything fails, nothing is left.

    Its name cannot be guessed and it is opened only if nothing has that name, so that no link of others is followed.
    The system gives it the permissions that any new file of the user's has.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = open_plain(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(path)  # or a full disk would be told without saying what did not fit
        raise
    sync_folder(path.parent)


def check_writable(folder: Path) -> None:
    """Say now, not after an hour of work, that results cannot be written; creates nothing."""
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise ValueError(f"{folder} cannot be the folder of the results, because {nearest} is a file: choose another")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"{folder} cannot be the folder of the results, because {nearest} is not writable")


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """A folder for one process at a time; whoever comes second is told who is there.

    The system lets go of the lock when a process dies, so what a dead one left of it is taken over.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    handle = open_lock(path)
    try:
        if not lock_descriptor(handle, blocking=False):
            holder = read_holder(handle) or "another process"
            raise ValueError(f"{holder} is working in {folder}: wait for it, or choose another folder")
        if not is_still_there(path, handle):  # its last holder removed it between our two steps
            raise ValueError(f"another process was working in {folder} until now: give the same command again")
        with suppress(OSError):  # a full disk: the lock holds all the same
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
        try:
            yield
        finally:
            if os.name == "posix":
                path.unlink(missing_ok=True)  # while we hold it, so that nobody can hold a file that is gone
    finally:
        os.close(handle)
        if os.name != "posix":  # Windows removes no open file: nor one that somebody has opened meanwhile
            with suppress(OSError):
                path.unlink()


def read_holder(handle: int) -> str:
    """Who holds a lock; empty where the system lets nobody else read what is locked."""
    with suppress(OSError):
        return one_line(os.read(handle, 200).decode(errors="replace"))
    return ""


def open_plain(path: Path, how: int) -> int:
    """Open a file of our own, and never what a link of that name leads to; OSError (ELOOP) if it is one."""
    if not hasattr(os, "O_NOFOLLOW") and path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return os.open(path, how | PLAIN, 0o666)


def open_lock(path: Path) -> int:
    """Open a lock, or make it. A link is not followed: what is behind it would be cut to nothing."""
    refusal = f"{path} is a link or no plain file, which leastwise never makes: look who did, and remove it"
    try:
        handle = open_plain(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise ValueError(refusal) from None
        raise
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
        os.close(handle)
        raise ValueError(refusal)
    return handle


def is_locked(folder: Path) -> bool:
    """Whether some process works in a folder right now."""
    try:
        handle = open_plain(folder / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        return not lock_descriptor(handle, blocking=False)
    finally:
        os.close(handle)


def is_still_there(path: Path, handle: int) -> bool:
    """Whether the path still leads to the file that was opened."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def sync_folder(folder: Path) -> None:
    """Make a rename durable: the folder's own entry has to reach the disk too."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Replace a file by a value as JSON, whole or not at all; NaN is refused."""
    write_atomic(path, (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def parse_json(text: str | bytes) -> Any:
    """The value that JSON describes; what only Python's own reader takes for JSON (NaN, Infinity) is refused."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def sha256(*parts: bytes) -> str:
    """Digest of the parts, each preceded by its length so that no two lists share one."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def finite_or_none(value: float) -> float | None:
    """The number, or None where it is missing (NaN) or infinite."""
    return value if math.isfinite(value) else None


def with_nulls(value: Any) -> Any:
    """A JSON value with None for whatever number in it, at any depth, is not finite."""
    match value:
        case dict():
            return {name: with_nulls(part) for name, part in value.items()}
        case list() | tuple():
            return [with_nulls(part) for part in value]
        case float():
            return finite_or_none(value)
    return value
