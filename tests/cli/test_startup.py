"""Verbs that need no network answer at once: they import none of what takes seconds to import."""

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from scripts.listing import listing_text

from leastwise.audit.evidence import EVIDENCE_FILE
from leastwise.cli.list import Topic
from leastwise.cli.listing import FILE, read_listing
from leastwise.core.files import write_json
from leastwise.report.summary import summarise
from tests.report.evidence_made_up import evidence

HEAVY = ("torch", "scipy.stats", "altair", "transformers", "vl_convert", "distributed")
SMALL = {
    **{f"list {topic}": ["list", topic] for topic in get_args(Topic)},
    "data list": ["data", "list"],
    "power": ["power", "3%"],
    "power between classes": ["power", "3%", "--between", "classes"],
}


def imported_by(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a verb in a process of its own; the last line of its output says which heavy modules it imported."""
    code = (
        "import sys; from leastwise.cli.main import main\n"
        f"code = main({arguments!r})\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules]); sys.exit(code)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("verb", SMALL)
def test_a_small_verb_imports_nothing_heavy(verb: str) -> None:
    shown = imported_by(SMALL[verb])
    assert shown.returncode == 0, shown.stderr
    assert len(shown.stdout.splitlines()) > 1 and shown.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("what", ["folder", "summary"])
def test_a_gate_imports_nothing_heavy(what: str, tmp_path: Path) -> None:
    found = evidence(10, 20)
    if what == "folder":
        found.save(tmp_path / EVIDENCE_FILE)
    write_json(tmp_path / "summary.json", summarise(found))  # without one all signs of masking are looked for again
    demands = ["worst(pgd20) >= 1%", "gap(pgd20) <= 99%", "cv(pgd20) <= 0.25", f"drop(pgd20, {tmp_path}) <= 50%"]
    shown = imported_by(["gate", str(tmp_path), *demands])
    assert shown.returncode in (0, 3), shown.stderr
    assert len(shown.stdout.splitlines()) == 5 and shown.stdout.splitlines()[-1] == "[]"


def test_the_listing_is_what_the_registries_say() -> None:
    assert FILE.read_text("utf-8") == listing_text(), (
        f"{FILE.name} is older than the registries: run `make listing`, or `python -m scripts.listing`"
    )


def test_the_topics_of_list_are_those_of_the_listing() -> None:
    assert get_args(Topic) == ("all", *read_listing())
