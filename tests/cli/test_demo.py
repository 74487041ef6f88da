"""The demo: its story at full size, its behaviour at a small one, and from a wheel in an empty environment."""

import io
import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from rich.console import Console

from leastwise.audit.evidence import EVIDENCE_FILE, load_evidence
from leastwise.cli.demo_story import NAMES, demo

ROOT = Path(__file__).parent.parent.parent


def run(out: Path, **settings: object) -> str:
    console = Console(file=io.StringIO(), width=80)
    demo(console, out, **settings)
    return console.file.getvalue()


@pytest.mark.medium
def test_a_small_demo_says_everything_once_and_is_reused(tmp_path: Path) -> None:
    first = run(tmp_path, per_class=10)
    for word in (
        "standard, eps 0.1",
        "pgd-at, eps 0.1",
        "faal, eps 0.1",
        "worst class",
        "as measured",
        "CV (points²)",
        "MCD (points)",
    ):
        assert first.count(word) == (1 if "eps" in word else 3)
    assert "An attacker would pick" in first and "On the same 100 images pgd-at changes accuracy" in first
    assert "On the same 100 images faal changes accuracy" in first
    for name in NAMES:
        summary = json.loads((tmp_path / name / "summary.json").read_text())
        assert (
            list(summary["conditions"]) == ["clean", "pgd20", "tpgd20"]
            and summary["key"] == load_evidence(tmp_path / name).key
        )
    second = run(tmp_path, per_class=10)
    assert second.count("done before") == 6 and second.split("\n\n", 1)[1] == first.split("\n\n", 1)[1]


@pytest.mark.slow
def test_a_seed_makes_the_same_demo_again_and_another_seed_another(tmp_path: Path) -> None:
    run(tmp_path, per_class=10)
    evidence = (tmp_path / "pgd-at" / EVIDENCE_FILE).read_bytes()
    again = run(tmp_path, per_class=10, fresh=True)
    assert "done before" not in again and (tmp_path / "pgd-at" / EVIDENCE_FILE).read_bytes() == evidence
    other = run(tmp_path, per_class=10, seed=1)
    assert "done before" not in other and (tmp_path / "pgd-at" / EVIDENCE_FILE).read_bytes() != evidence


@pytest.mark.slow
def test_the_demos_networks_are_real(tmp_path: Path) -> None:
    """Standard above 80 % clean and below 20 % under PGD-20; PGD-AT above 60 % under PGD-20, with a class far below.

    FAAL lifts that class by more than chance, and costs little of the average.
    """
    run(tmp_path)
    standard, robust, fair = (
        json.loads((tmp_path / name / "summary.json").read_text())["conditions"] for name in NAMES
    )
    assert standard["clean"]["overall"] > 0.8 and standard["pgd20"]["overall"] < 0.2
    assert robust["pgd20"]["overall"] > 0.6
    assert robust["pgd20"]["worst"]["class"] == "Shirt" and robust["pgd20"]["mcd"] > 60
    shirt = load_evidence(tmp_path / "faal").names.index("Shirt")
    assert fair["pgd20"]["low"][shirt] > robust["pgd20"]["high"][shirt]
    assert fair["pgd20"]["overall"] > robust["pgd20"]["overall"] - 0.05


@pytest.mark.slow
def test_a_wheel_in_an_empty_environment_runs_the_demo(tmp_path: Path) -> None:
    def command(*arguments: str | Path) -> str:
        done = subprocess.run(list(map(str, arguments)), cwd=tmp_path, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    command(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("leastwise-*.whl")
    venv.create(tmp_path / "empty", with_pip=True)
    binaries = tmp_path / "empty" / "bin"
    command(binaries / "pip", "install", "--constraint", ROOT / "constraints.txt", wheel)
    assert "Evidence and summaries" in command(binaries / "leastwise", "demo")
