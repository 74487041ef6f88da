"""What an audit found doubtful reaches the verbs that read it: no gate passes on it, and no comparison is silent."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from leastwise.audit.evidence import EVIDENCE_FILE, SUMMARY_FILE, Evidence, load_evidence
from leastwise.audit.masking import cautions, doubted_conditions
from leastwise.audit.record import SurvivorCheck
from tests.cli.results_put import lost, put, run
from tests.report.evidence_made_up import evidence

FIRED = SurvivorCheck(("pgd20",), "Linf eps 0.03", "square", 99, (0, 1), (20, 20), (15, 9), stood=(50, 49), images=2000)
HIGH = "the robust accuracy under pgd20 is too high"


def doubtful(shift: float = 0.0) -> Evidence:
    """An audit whose survivors fell in the check, of another network than the sound one."""
    found = evidence(10, 200, shift)
    return replace(found, checks=(FIRED,), recipe=found.recipe.replace('"model":"', '"model":"masked '))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("doubts")
    sound, masked = evidence(10, 200, 0.3), doubtful()
    assert doubted_conditions(sound) == frozenset() and doubted_conditions(masked) == {"pgd20"}
    made = {"sound": put(place / "sound", sound), "masked": put(place / "masked", masked)}
    bare = place / "bare"  # without a summary, as a Python function leaves it
    masked.save(bare / EVIDENCE_FILE)
    edited = put(place / "edited", masked)
    summary = json.loads((place / "edited" / SUMMARY_FILE).read_text())
    (place / "edited" / SUMMARY_FILE).write_text(json.dumps(summary | {"warnings": [], "doubted": []}))
    older = {name: value for name, value in summary.items() if name not in ("doubted", "checks")}
    (place / "older.json").write_text(json.dumps(older))
    (place / "newer.json").write_text(json.dumps(summary))
    kept = str(place / "kept.json")
    assert run_quietly("gate", made["masked"], "--keep", kept) == 0
    more = {"bare": str(bare), "edited": edited, "older": str(place / "older.json"), "kept": kept}
    return made | more | {"newer": str(place / "newer.json")}


def run_quietly(*arguments: str) -> int:
    from leastwise.cli.main import main

    return main(arguments)


@pytest.mark.parametrize("name", ["masked", "bare", "edited", "older", "newer", "kept"])
def test_no_gate_passes_on_an_attack_that_failed(
    name: str, folders: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = run(capsys, "gate", folders[name], "worst(pgd20) >= 0.1")
    assert code == 3 and "pgd20 seems to have failed" in said
    assert name == "kept" or HIGH in said
    assert run(capsys, "gate", folders[name], "worst(pgd20) >= 0.9")[0] == 1  # lower accuracies fail all the more
    assert run(capsys, "gate", folders[name], "worst(pgd20) <= 0.9")[0] == 0
    for open_now in ("gap(pgd20) <= 0.99", "gap(pgd20) <= 0.01", "cv(pgd20) <= 0.2", "accuracy(cat, pgd20) <= 1%"):
        assert run(capsys, "gate", folders[name], open_now)[0] == 3, open_now
    assert run(capsys, "gate", folders[name], "worst(clean) >= 0.1")[0] == 0  # nobody doubts what was not attacked


def test_a_drop_is_doubted_on_either_side(folders: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for result, base in (("masked", "sound"), ("sound", "masked"), ("sound", "kept")):
        code, said, _ = run(capsys, "gate", folders[result], f"drop(pgd20, {folders[base]}) <= 0.9")
        assert code == 3 and "seems to have failed" in said
    assert run(capsys, "gate", folders["sound"], f"drop(clean, {folders['masked']}) <= 0.9")[0] == 0


def test_a_drop_is_not_paired_with_other_images_that_have_the_same_numbers(
    folders: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As those of a corrupted test set: same ids and labels, and another digest."""
    sound = load_evidence(Path(folders["sound"]))
    other = replace(lost(sound, sound.ids < 0), recipe=sound.recipe.replace('"data":"', '"data":"foggy '))
    base = put(tmp_path / "foggy", other)
    code, _, said = run(capsys, "gate", folders["sound"], f"drop(clean, {base}) <= 0.9")
    assert code == 2 and "is about other images than the result" in said


def test_comparisons_and_their_files_repeat_the_warnings(
    folders: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "changes.json"
    code, said, _ = run(capsys, "compare", folders["sound"], folders["masked"], "--out", str(out))
    assert code == 0 and said.index(HIGH) < said.index("class ")
    made = json.loads(out.read_text())["warnings"]
    assert made == {"sound": [], "masked": list(cautions(doubtful()))}
