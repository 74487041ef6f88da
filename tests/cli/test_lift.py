"""`leastwise lift` as a user meets it."""

import json
from pathlib import Path

import pytest

from tests.forked_commands import leastwise

FEW = ("--model", "convnet", "--per-class", "200", "--epochs", "2", "--steps", "2", "--eps", "0.1")
QUICK = ("--eps", "0.1", "--attack", "pgd3", "--verify", "pgd10", "--verify-per-class", "5", "--per-class", "20")


@pytest.mark.slow
def test_a_trained_folder_is_lifted_or_not_and_the_exit_code_says_so(tmp_path: Path) -> None:
    leastwise("train", "pgd-at", *FEW, "--out", str(tmp_path / "net"))
    shown = leastwise("lift", str(tmp_path / "net"), *QUICK, "--budget", "1s", "--out", str(tmp_path / "lift"))
    told = json.loads((tmp_path / "lift" / "lift.json").read_text())
    codes = {"lifted": 0, "not lifted": 1, "nothing to lift": 1, "undecided": 3}
    assert shown.returncode == codes[told["outcome"]], shown.stderr
    assert "which the network may have been trained on" in " ".join(shown.stdout.split())
    assert {"norms50", "offsets"} <= {one["name"] for one in told["tried"]}
    again = leastwise("lift", str(tmp_path / "net"), *QUICK, "--budget", "1s", "--out", str(tmp_path / "lift"))
    assert (
        again.returncode == shown.returncode
        and json.loads((tmp_path / "lift" / "lift.json").read_text())["chosen"] == told["chosen"]
    )
    other = leastwise("lift", str(tmp_path / "net"), *QUICK, "--budget", "2s", "--out", str(tmp_path / "lift"))
    assert other.returncode == 2 and "--fresh" in other.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "soon"), "--budget must be like 90s, 20m or 1.5h"),
        (("--attack", "pdg20"), "there is no attack 'pdg20'"),
        (("--give-up", "some"), "--give-up"),
    ],
)
def test_mistakes_are_found_before_anything_is_read(words: tuple[str, str], said: str, tmp_path: Path) -> None:
    shown = leastwise("lift", "nowhere.pt", *words, "--out", str(tmp_path / "x"))
    assert shown.returncode == 2 and said in " ".join(shown.stderr.split()) and not (tmp_path / "x").exists()
