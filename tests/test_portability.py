"""Systems that lack what POSIX has, such as Windows: what is missing there is taken away here."""

import ast
import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from leastwise.cli.main import main
from leastwise.core import files
from leastwise.core.files import LOCK, lock_folder, write_atomic
from leastwise.models.preflight import choose_device

PACKAGE = Path(files.__file__).parents[1]
ABSENT = ("fcntl", "resource", "termios")
NO_NAMES = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "pread", "pwrite", "uname", "sched_getaffinity", "fork")

WITHOUT_POSIX = f"""
import importlib, os, pkgutil, sys
import altair, distributed, filelock, jinja2, numpy, PIL.Image, rich.live, safetensors, scipy.stats, torch, tyro


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {ABSENT!r}:
            raise ImportError(name + " is not here")


for name in {ABSENT!r}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
for name in {NO_NAMES!r}:
    delattr(os, name)
import leastwise

for module in pkgutil.walk_packages(leastwise.__path__, "leastwise."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from leastwise.cli.main import main

made = "train pgd-at --per-class 12 --epochs 1 --steps 1 --model convnet --eps 0.1 --out t"
assert main(made.split()) == 0
assert main("audit t/model.pt --attack clean,pgd2 --eps 0.1 --per-class 4 --out a".split()) == 0
assert main("gate a overall(clean)>=0".split()) == 0
"""


@pytest.mark.medium
def test_every_module_and_the_first_verbs_work_without_what_windows_lacks(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_POSIX], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a" / "summary.json").is_file() and not list(tmp_path.rglob(LOCK))


def test_where_the_system_cannot_refuse_links_they_are_looked_for_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_NOFOLLOW")
    monkeypatch.setattr(files, "PLAIN", 0)
    (tmp_path / "victim").write_text("precious")
    (tmp_path / LOCK).symlink_to(tmp_path / "victim")
    with pytest.raises(ValueError, match="is a link or no plain file"), lock_folder(tmp_path):
        pass
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_lock_that_nobody_else_may_read_still_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows lets nobody read bytes that are locked: the holder is then unknown, and the sentence is still there."""

    def refuse(_handle: int, _n: int) -> bytes:
        raise OSError(errno.EACCES, "locked")

    with lock_folder(tmp_path):
        monkeypatch.setattr(os, "read", refuse)
        with pytest.raises(ValueError, match="another process is working in"), lock_folder(tmp_path):
            pass


def test_files_are_bytes_whatever_the_system_does_with_line_ends(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", b"one\r\ntwo\n\x1a")
    assert (tmp_path / "a").read_bytes() == b"one\r\ntwo\n\x1a"


def test_a_pipe_with_an_old_code_page_gets_question_marks_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252"))
    assert main(["list", "methods"]) == 0
    sys.stdout.flush()
    assert "trades" in written.getvalue().decode("cp1252")


def test_text_files_are_read_and_written_in_utf_8_whatever_the_system_prefers() -> None:
    """Windows takes an old code page unless told otherwise: `read_text("utf-8")`, `open(…, encoding="utf-8")`."""
    found = [
        f"{file.relative_to(PACKAGE)}:{node.lineno}"
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if (node.func.attr == "read_text" and not node.args and not node.keywords)
        or (node.func.attr == "write_text" and len(node.args) < 2 and not node.keywords)
    ]
    assert found == []


def test_the_device_is_the_accelerator_that_torch_finds_if_it_can_do_what_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert choose_device() == "cpu"
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cpu", 0))
    assert choose_device("auto") == "cpu:0"
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("meta"))  # has no values
    assert choose_device("auto") == "cpu"


def test_a_device_without_double_precision_is_one_sentence_and_never_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Apple's: `torch.zeros(1, device="mps", dtype=torch.float64)` is a TypeError there."""
    zeros = torch.zeros

    def without_doubles(*shape: int, device: str = "cpu", dtype: torch.dtype = torch.float32) -> torch.Tensor:
        if device.startswith("cpu:") and dtype == torch.float64:
            raise TypeError(
                "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
            )
        return zeros(*shape, dtype=dtype)

    monkeypatch.setattr(torch, "zeros", without_doubles)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cpu", 0))
    assert choose_device("auto") == "cpu"
    with pytest.raises(
        ValueError, match=r"the device 'cpu:0' cannot be used \(it has no double precision.*: choose cpu$"
    ):
        choose_device("cpu:0")
