"""Downloading one official file: it goes on where it stopped, and is checked before anyone uses it."""

import errno
import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from leastwise.core.files import open_plain
from leastwise.data.download.archives import CHUNK, DownloadCallback, Readable
from leastwise.data.source import File

PATIENCE = 20  # seconds without an answer


class Unreachable(ValueError):
    """A source that cannot be used from here; the next one may be."""


def part_path(file: File, folder: Path) -> Path:
    """Where the part of a file that has come so far is kept."""
    return folder / f"{file.md5}-{file.name}.part"


def download(file: File, folder: Path, watch: DownloadCallback) -> Path:
    """The checked file; an interrupted download goes on where it stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    part = part_path(file, folder)
    have = file_size(part)
    if have < file.size:
        request = urllib.request.Request(file.address, headers={"Range": f"bytes={have}-"} if have else {})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                receive(answer, file, part, have=have, watch=lambda done: watch(file.name, done, file.size))
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            reason = repr(error) if isinstance(error, http.client.HTTPException) else getattr(error, "reason", error)
            raise Unreachable(f"{file.address} cannot be reached ({reason})") from None
    if file_size(part) < file.size:
        raise Unreachable(
            f"the connection ended after {file_size(part):,} of {file.size:,} bytes of {file.name} "
            "(the same command goes on from there)"
        )
    try:
        verify_checksum(part, file)
    except ValueError:
        part.unlink()  # or every later attempt would fail the same way
        raise
    return part


def file_size(path: Path) -> int:
    """The bytes that are there; 0 if there is no file."""
    return path.stat().st_size if path.exists() else 0


def receive(
    answer: http.client.HTTPResponse, file: File, part: Path, *, have: int, watch: Callable[[int], None]
) -> None:
    """Add an answer to the part, or begin it anew with one that holds the whole file; any other leaves it alone."""
    if answer.status == 206:
        start, total = parse_content_range(answer.headers.get("Content-Range", ""))
        if start != have:
            raise Unreachable(f"{file.address} answered with another part of the file than was asked for")
        refuse_other_size(total, file)
        with open_part(part, os.O_APPEND) as out:
            copy_chunks(answer, out, watch, done=have)
        return
    length = answer.headers.get("Content-Length", "")
    if length.isdecimal():
        refuse_other_size(int(length), file)
        with open_part(part, os.O_TRUNC) as out:
            copy_chunks(answer, out, watch)
        return
    # Of unknown size: only its end tells whether it was the file, and until then the part is worth more.
    unsure = part.with_suffix(".unsure")
    try:
        with open_part(unsure, os.O_TRUNC) as out:
            copy_chunks(answer, out, watch)
        refuse_other_size(file_size(unsure), file)
        unsure.replace(part)
    finally:
        unsure.unlink(missing_ok=True)


def open_part(path: Path, how: int) -> IO[bytes]:
    """A part to be written. Its name stays, so that a download can go on; a link of that name is not followed."""
    try:
        handle = open_plain(path, os.O_WRONLY | os.O_CREAT | how)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path} is a link, which leastwise never makes: look who did, and remove it") from None
        raise
    return os.fdopen(handle, "wb")


def parse_content_range(header: str) -> tuple[int, int]:
    """Where the bytes of a `Content-Range: bytes 5-9/10` begin, and the size of the whole; -1 where it is not one."""
    match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", header.strip())
    if match is None:
        return -1, -1
    return int(match[1]), int(match[2]) + 1 if match[3] == "*" else int(match[3])


def refuse_other_size(seen: int, file: File) -> None:
    """Refuse an answer that announces another size than the file is known to have."""
    if seen != file.size:
        raise Unreachable(
            f"{file.address} answered with {seen:,} bytes instead of {file.size:,}: is a login page in between?"
        )


def verify_checksum(path: Path, file: File) -> None:
    """Refuse a file whose MD5 sum is not the published one."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}: it should be what {file.address} gives")
    seen = hash_file(path, "md5")
    if seen != file.md5:
        raise ValueError(
            f"{path.name} is not the official file: its MD5 is {seen} instead of {file.md5}; nothing was unpacked"
        )


def hash_file(path: Path, kind: str) -> str:
    """The digest of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def copy_chunks(source: Readable, target: IO[bytes], watch: Callable[[int], None], *, done: int = 0) -> None:
    """Copy piece by piece, telling how many bytes are done, until all is on the disk."""
    while chunk := source.read(CHUNK):
        target.write(chunk)
        done += len(chunk)
        watch(done)
    target.flush()
    os.fsync(target.fileno())
