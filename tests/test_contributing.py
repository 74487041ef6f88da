"""CONTRIBUTING.md is true: the files it names are there, and its diffs apply to this revision."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "leastwise"
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
ORDER = "core data models statistics attacks audit training insight jobs report papers front cli"
ADDITIONS = ("An attack", "A policy", "A training method", "A chart", "A claim")


def section(title: str) -> str:
    """The text below a heading, up to the next one."""
    (found,) = re.findall(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", PAGE, re.M | re.S)
    return str(found)


def rows() -> list[list[str]]:
    """The cells of the table of changes."""
    lines = [line for line in section("To change X, go to Y").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def paths(text: str) -> list[str]:
    """Files and folders that a text names."""
    return [name for name in re.findall(r"`([^` ]+)`", text) if "/" in name]


def is_there(path: str) -> bool:
    return (PACKAGE / path).exists() or (ROOT / path).exists()


def test_the_table_of_changes_is_long_and_every_file_in_it_is_there() -> None:
    assert len(rows()) >= 20 and len({row[0] for row in rows()}) == len(rows())
    assert [row for row in rows() if len(row) != 3 or not paths(row[1])] == []
    assert [path for row in rows() for cell in row for path in paths(cell) if not is_there(path)] == []


def test_every_file_of_the_flows_is_there_and_has_what_is_said_of_it() -> None:
    text = section("Four flows")
    found = [path for held in re.findall(r"\[([^\]]+)\]", text) for path in held.split(", ")]
    assert len(found) > 30
    assert [path for path in found if not (PACKAGE / path).exists()] == []
    named = re.findall(r"(\w+)(?:\(\.\.\.\))? \[([\w/]+\.py)\]", text)
    assert len(named) > 20
    plain = {"train", "audit", "table3", "scale", "drawings", "rules", "ours", "travel", "home"}  # words, not names
    wanting = [(name, path) for name, path in named if name not in plain and name not in (PACKAGE / path).read_text()]
    assert wanting == []


def test_every_other_file_that_is_named_is_there() -> None:
    prose = re.sub(r"^```.*?^```", "", PAGE, flags=re.M | re.S)
    assert [path for path in paths(prose) if not is_there(path)] == []


def test_the_tree_is_the_order_in_which_packages_may_import() -> None:
    shown = re.findall(r"^  (\w+)/ ", section("Thirteen packages"), re.M)
    assert " ".join(shown) == ORDER and all((PACKAGE / name / "__init__.py").is_file() for name in shown)
    settings = (ROOT / "pyproject.toml").read_text()
    assert re.findall(r'^  "(\w+)",$', settings.partition("\nlayers = [")[2], re.M)[:13] == shown[::-1]


@pytest.mark.parametrize("title", ADDITIONS)
def test_an_addition_is_at_most_two_files_besides_its_test_and_applies(title: str) -> None:
    (diff,) = re.findall(r"^```diff\n(.*?)^```", section(title), re.M | re.S)
    changed = re.findall(r"^\+\+\+ b/(\S+)", diff, re.M)
    assert len([path for path in changed if path.startswith("src/")]) <= 2
    assert all(path.startswith(("src/", "tests/")) for path in changed)
    assert any(path.startswith("tests/") for path in changed)
    if shutil.which("git") is None:
        pytest.skip("git is not here")
    done = subprocess.run(["git", "apply", "--check", "-"], input=diff, text=True, cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stderr
