"""Every command and every Python example of the README and the guide runs, in order, in an empty folder."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.forked_commands import leastwise, python

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.M | re.S)


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


WITH_CODE = [page for page in PAGES if blocks(page)]


@pytest.mark.medium
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_runs(page: Path, tmp_path: Path) -> None:
    for kind, code in blocks(page):
        if kind == "python":
            check(python(code, tmp_path))
        else:
            run_console(code, tmp_path)


def run_console(code: str, folder: Path) -> None:
    """`$` begins a command; what `$ cat FILE` shows is written to that file first."""
    for part in re.split(r"^\$ ", code, flags=re.M)[1:]:
        line, _, shown = part.partition("\n")
        command = shlex.split(line)
        if command[0] == "cat":
            (folder / command[1]).write_text(shown)
        else:
            assert command[0] == "leastwise", line
            check(leastwise(*command[1:], cwd=folder))


def check(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"


def test_the_readme_begins_with_exactly_the_two_commands() -> None:
    first = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first[1].splitlines()] == ["make demo", "make test"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert {"setup", "demo", "test", "check", "bench", "docs", "clean"} <= set(targets)


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    names = [str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]]
    assert [name for name in names if name not in navigation] == []


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)#]+)\)", prose):
            assert target.startswith("https://") or (page.parent / target).exists(), f"{page}: {target}"


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_examples_are_short() -> None:
    assert len(EXAMPLES) >= 5 and all(len(path.read_text().splitlines()) < 40 for path in EXAMPLES)


@pytest.mark.medium
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path: Path, tmp_path: Path) -> None:
    if "__main__" in path.read_text():
        check(python(path.read_text(), tmp_path))
    else:
        arguments = ["audit", f"{path}:build", "--attack", "clean", "--per-class", "2"]
        check(leastwise(*arguments, cwd=tmp_path))
