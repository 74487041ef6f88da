"""Parsers under random and mutated input: an answer, or a ValueError or OSError that becomes one sentence."""

import os
import pickle
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from leastwise.attacks.threats import Linf
from leastwise.audit.evidence import load_evidence, parse_evidence
from leastwise.core.text import parse_number, parse_numbers, parse_seconds
from leastwise.data.classes import DIGITS
from leastwise.data.readers.arrays import read_npy, read_npz
from leastwise.data.readers.cifar import read_cifar10, read_cifar100
from leastwise.data.readers.image_folder import decode_file, examine_file
from leastwise.data.readers.mnist import read_idx_set
from leastwise.data.readers.svhn import read_svhn
from leastwise.jobs.audit_task import audit
from leastwise.jobs.shards import open_ledger
from leastwise.jobs.study import read_study
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.load.torch_file import read_torch
from leastwise.report.gate import read_result
from leastwise.statistics.gate.language import parse_term
from leastwise.training.registry import apply_settings, find_method
from tests.faults.killable_cluster import CONDITIONS, Trapped, images
from tests.hostile import files
from tests.hostile.files import checkpoint

FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def of(words: str, most: int = 12, between: str = "") -> st.SearchStrategy[str]:
    """Texts made of words that mean something, so that more than the first step of a parser is tried."""
    return st.lists(st.sampled_from(words.split(" ")), max_size=most).map(between.join)


GATES = """worst accuracy drop ( ) , ' " >= < % 0.25 nan 1e999 pgd20 __ \0"""
NUMBERS = "8 / 255 , - e9 inf m h"
SETTINGS = "beta = . schedule attack ball eps 6 nan none"
TOML = """methods = [ ] "trades" \n eps 0.1 seeds 1 , [train] [[audit]] { } \"\"\" inf 2020-01-01"""


@FEW
@given(st.text(max_size=60) | of(GATES))
def test_gates(text: str) -> None:
    with suppress(ValueError):
        term = parse_term(text)
        assert term.text == text.strip() and term.comparison in (">=", "<=", ">", "<")


@FEW
@given(st.text(max_size=30) | of(NUMBERS, 6))
def test_numbers(text: str) -> None:
    for parser in (lambda t: parse_number(t, "eps"), lambda t: parse_numbers(t, "mean"), parse_seconds):
        with suppress(ValueError):
            parser(text)


@FEW
@given(st.text(max_size=30) | of(SETTINGS, 6))
def test_settings(text: str) -> None:
    with suppress(ValueError):
        apply_settings({"method": find_method("trades").make(Linf(0.1), 0.02, 3)}, (text,))


@FEW
@given(st.text(max_size=80) | of(TOML, 20, " "))
def test_studies(text: str) -> None:
    with folder() as place:
        (place / "s.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
        with suppress(ValueError):
            read_study(place / "s.toml")


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def idx(place: Path) -> None:
    (place / "t10k-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, 4, 3, 3) + bytes(36))
    (place / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 4) + bytes(4))


def cifar_binary(place: Path) -> None:
    (place / "test_batch.bin").write_bytes(bytes(3073 * 2))


def cifar_pickle(place: Path) -> None:
    content = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]}
    (place / "test_batch").write_bytes(pickle.dumps(content, protocol=2))


def cifar100_binary(place: Path) -> None:
    (place / "test.bin").write_bytes(bytes(3074 * 2))


def mat(place: Path) -> None:
    scipy.io.savemat(
        place / "test_32x32.mat", {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.ones((2, 1), np.uint8)}
    )


def archive(place: Path) -> None:
    np.savez(
        place / "x.npz", images=np.zeros((4, 1, 3, 3), np.uint8), labels=np.arange(4), names=np.array(list("abcd"))
    )


def packed_archive(place: Path) -> None:
    np.savez_compressed(place / "x.npz", images=np.zeros((4, 1, 3, 3), np.uint8), labels=np.arange(4))


def array(place: Path) -> None:
    np.save(place / "images.npy", np.zeros((4, 1, 3, 3), np.uint8))
    np.save(place / "labels.npy", np.arange(4))


def weights(place: Path) -> None:
    checkpoint(place)


READERS: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
    "idx": (idx, lambda place: read_idx_set(place, "test", DIGITS)),
    "cifar10 binary": (cifar_binary, lambda place: read_cifar10(place, "test")),
    "cifar10 pickle": (cifar_pickle, lambda place: read_cifar10(place, "test")),
    "cifar100 binary": (cifar100_binary, lambda place: read_cifar100(place, "test")),
    "mat": (mat, lambda place: read_svhn(place, "test")),
    "npz": (archive, lambda place: read_npz(place / "x.npz")),
    "compressed npz": (packed_archive, lambda place: read_npz(place / "x.npz")),
    "npy": (array, lambda place: read_npy(place / "images.npy")),
    "checkpoint": (weights, lambda place: read_torch(place / "model.pt")),
}


@pytest.mark.parametrize("name", READERS)
def test_mutated_files(name: str, record_property: Callable[[str, object], None]) -> None:
    """Bytes changed, inserted, removed, or the rest cut off; the numbers are fixed, so a failure comes back."""
    make, read = READERS[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    answers = errors = 0
    with folder() as place:
        make(place)
        good = {path: path.read_bytes() for path in sorted(place.iterdir()) if path.is_file()}
        for _ in range(80):
            for path, content in good.items():
                path.write_bytes(content)
            victim = list(good)[int(rng.integers(len(good)))]
            victim.write_bytes(mutated(good[victim], rng))
            try:
                read(place)
                answers += 1
            except (ValueError, OSError):
                errors += 1
    assert answers + errors == 80 and errors > 0
    record_property("mutants", answers + errors)


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    found = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        # Headers and directories stand at the ends, and that is where a change matters.
        reach = min(len(found), 256)
        at = int(rng.integers(reach)) if rng.random() < 0.5 else len(found) - 1 - int(rng.integers(reach))
        kind = int(rng.integers(4))
        if kind == 0:
            found[at] = int(rng.integers(256))
        elif kind == 1:
            found[at:at] = rng.bytes(int(rng.integers(1, 9)))
        elif kind == 2:
            del found[at : at + int(rng.integers(1, 9))]
        elif rng.random() < 0.2:
            del found[at:]
        if not found:
            break
    return bytes(found)


def test_mutated_evidence_is_refused(tmp_path: Path) -> None:
    content = audit(Trapped(), images(), CONDITIONS, force=True).to_bytes()
    rng = np.random.default_rng(3)
    for _ in range(100):
        changed_content = mutated(content, rng)
        if changed_content != content:
            with pytest.raises(ValueError, match=r"is not evidence|is damaged or was edited"):
                parse_evidence(changed_content, tmp_path / "e")


def test_random_bytes_everywhere(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    for number_of_bytes in (0, 1, 7, 8, 9, 100, 5000):
        content = rng.bytes(number_of_bytes)
        for name, (make, read) in READERS.items():
            place = tmp_path / f"{name} {number_of_bytes}"
            place.mkdir()
            make(place)
            for path in place.iterdir():
                path.write_bytes(content)
            with suppress(ValueError, OSError):
                read(place)
        with suppress(ValueError):
            parse_evidence(content, tmp_path / "e")


SECONDS = float(os.environ.get("LEASTWISE_FUZZ_SECONDS", "2"))  # for each reader below


def summary_file(place: Path) -> None:
    (place / "summary.json").write_text(files.summary())


def ledger_file(place: Path) -> None:
    with open_ledger(place) as ledger:
        assert ledger is not None
        for number in range(20):
            ledger.commit(f"piece{number}", bytes([number]), 0.5)
    (place / ".kept").mkdir()


def use_ledger(place: Path) -> None:
    with open_ledger(place) as ledger:
        assert ledger is not None
        for number in range(20):
            content = ledger.read(f"piece{number}")
            assert content in (None, bytes([number])) or (place / f"piece{number}").read_bytes() != bytes([number])
            ledger.seconds(f"piece{number}")
        ledger.commit("new", b"x", 1.0)


def study_file(place: Path) -> None:
    (place / "s.toml").write_text('methods = ["trades"]\neps = ["0.1"]\nseeds = [0, 1]\n[train]\nepochs = 3\n')


def picture_files(place: Path) -> None:
    for kind in ("png", "jpg", "gif", "bmp", "tif", "webp", "ppm"):
        Image.fromarray(np.arange(300, dtype=np.uint8).reshape(10, 10, 3)).save(place / f"x.{kind}")


def read_pictures(place: Path) -> None:
    for path in sorted(place.glob("x.*")):
        one = examine_file(path, {})
        if not one.fault:
            decode_file(path, None)


def evidence_file(place: Path) -> None:
    (place / "evidence.safetensors").write_bytes(audit(Trapped(), images(), CONDITIONS, force=True).to_bytes())


FUZZED: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
    "checkpoint": (weights, lambda place: load_checkpoint(place / "model.pt")),
    "evidence": (evidence_file, lambda place: load_evidence(place)),
    "summary": (summary_file, lambda place: read_result(place / "summary.json")),
    "ledger": (ledger_file, use_ledger),
    "study": (study_file, lambda place: read_study(place / "s.toml")),
    "images": (picture_files, read_pictures),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUZZED)
def test_readers_hold_for_as_long_as_one_likes(name: str, record_property: Callable[[str, object], None]) -> None:
    """LEASTWISE_FUZZ_SECONDS says how long for each; counts are printed. No file takes longer than ten seconds."""
    make, read = FUZZED[name]
    rng = np.random.default_rng(len(name))
    answers = errors = 0
    with folder() as place:
        make(place)
        good = {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}
        victims = [path for path in good if not path.name.startswith("piece")]
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or answers + errors < 5:
            for path, content in good.items():
                path.write_bytes(content)
            victim = victims[int(rng.integers(len(victims)))]
            victim.write_bytes(mutated(good[victim], rng))
            begun = time.monotonic()
            try:
                read(place)
                answers += 1
            except (ValueError, OSError, RecursionError, MemoryError):  # what the front door makes one sentence of
                errors += 1
            assert time.monotonic() - begun < 10
    print(f"{name}: {answers + errors} files, {answers} answers, {errors} sentences")
    record_property("mutants", answers + errors)
