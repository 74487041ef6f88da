"""Taking the wanted files out of tar and zip archives."""

import gzip
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import Protocol, runtime_checkable

CHUNK = 1 << 20
# How a damaged archive shows itself; other OSErrors, such as a full disk, are not the archive's fault.
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError)

DownloadCallback = Callable[[str, int, int], None]  # what is going on, bytes done, bytes in all (0: unknown)


@runtime_checkable
class Readable(Protocol):
    """What can be read piece by piece: a file or a member of an archive."""

    def read(self, size: int = -1, /) -> bytes: ...


def unpack(path: Path, keep: tuple[str, ...], folder: Path, *, watch: DownloadCallback) -> None:
    """Take the wanted members of an archive; nothing is ever written outside `folder`.

    Members go by their last name, except with "*", which keeps the tree below the archive's top folder.
    """
    if not keep:
        name = path.name.removesuffix(".part").partition("-")[2] if path.suffix == ".part" else path.name
        shutil.copyfile(path, folder / name)
        return
    missing = set(keep) - {"*"}
    try:
        missing -= extract_wanted(path, keep, folder, watch=watch)
    except DAMAGE as error:
        reason = str(error).partition("\n")[0].rstrip(":")  # tarfile lists every method it tried
        raise ValueError(f"{path.name} cannot be unpacked ({reason}): it is cut off or not an archive") from None
    if missing:
        raise ValueError(f"{path.name} lacks {', '.join(sorted(missing))}: it is not the archive it should be")


def extract_wanted(path: Path, keep: tuple[str, ...], folder: Path, *, watch: DownloadCallback) -> set[str]:
    """Write the wanted members; what was taken."""
    taken, done = set(), 0
    for member, content, size in list_members(path):
        place = wanted_path(member, keep)
        if place is None:
            continue
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        with content() as source, target.open("wb") as out:
            shutil.copyfileobj(source, out, CHUNK)
        taken.add(place)
        done += size
        watch(f"unpacking {path.name.removesuffix('.part')}", done, 0)
    return taken


def wanted_path(member: str, keep: tuple[str, ...]) -> str | None:
    """Where a member goes, or None. Absolute names and names with `..` are never used."""
    parts = PurePosixPath(member).parts
    if "*" in keep:
        inside = parts[1:]
        return str(PurePosixPath(*inside)) if inside and not {"..", "/"} & set(parts) else None
    return parts[-1] if parts and parts[-1] in keep else None


def list_members(path: Path) -> Iterator[tuple[str, Callable[[], AbstractContextManager[Readable]], int]]:
    """The regular files of a tar or zip archive: name, how to open it, size. Links and devices are left out."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    yield entry.filename, lambda entry=entry: archive.open(entry), entry.file_size  # type: ignore[misc]
        return
    with tarfile.open(path) as archive:
        for info in archive:
            if info.isfile():
                yield info.name, lambda info=info: open_member(archive, info), info.size  # type: ignore[misc]


def open_member(archive: tarfile.TarFile, info: tarfile.TarInfo) -> AbstractContextManager[Readable]:
    """A regular file of a tar archive, opened."""
    content = archive.extractfile(info)
    assert content is not None, "only regular files are opened"
    return content
