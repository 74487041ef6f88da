"""Studies: the grid, what is refused, what is done once, and the table at the end."""

from pathlib import Path

import pytest

from leastwise.audit.evidence import load_evidence
from leastwise.cli.main import main
from leastwise.cli.study import audit_job
from leastwise.jobs.job import TrainJob, order_jobs
from leastwise.jobs.study import StudyCell, read_study

SMALL = """
title = "<b>two</b> methods"
methods = ["standard", "pgd-at"]
eps = [0.05, "0.1"]
seeds = [0]
attack = "clean,pgd2"
models = ["convnet"]
[train]
epochs = 1
steps = 1
per_class = 4
batch_size = 20
valid_per_class = 0
[audit]
per_class = 2
"""


def written(folder: Path, text: str) -> Path:
    (folder / "s.toml").write_text(text)
    return folder / "s.toml"


def test_the_grid_and_what_it_shares(tmp_path: Path) -> None:
    plan = read_study(written(tmp_path, SMALL))
    cells = list(plan.cells)
    assert cells == [StudyCell("convnet", m, e, 0) for m in ("standard", "pgd-at") for e in ("0.05", "0.1")]
    jobs = [audit_job(plan, cell) for cell in cells]
    trainings = [job for job in order_jobs(jobs) if isinstance(job, TrainJob)]
    # A standard training knows no radius: it is done once for both.
    assert len(set(jobs)) == 4 and len(trainings) == 3
    assert trainings[0].training.epochs == 1 and trainings[0].data.per_class == 4 and jobs[0].data.per_class == 2


BAD = {
    "unknown key": ("method = ['trades']", "has a key 'method' that means nothing: did you mean methods?"),
    "unknown option": (
        "methods = ['trades']\n[train]\nepoch = 3",
        "[train] has a key 'epoch' that means nothing: did you",
    ),
    "unknown audit": ("methods = ['trades']\n[audit]\nper_clas = 3", "did you mean per_class?"),
    "in the wrong place": ("methods = ['trades']\n[train]\nseed = 3", "seed varies over a study"),
    "no method": ("seeds = [1]", "names no methods"),
    "a method nobody knows": ("methods = ['trads']", "there is no training method 'trads'"),
    "seeds of words": ("methods = ['trades']\nseeds = ['one']", "seeds must be a whole number, but saw 'one'"),
    "seeds that are true": ("methods = ['trades']\nseeds = [true]", "seeds must be a whole number"),
    "the same seed twice": ("methods = ['trades']\nseeds = [1, 1]", "a list of different values"),
    "no seeds": ("methods = ['trades']\nseeds = []", "a list of different values"),
    "too many": (f"methods = ['trades']\nseeds = {list(range(10001))}", "10,001 trainings, more than 10,000"),
    "eps of words": ("methods = ['trades']\neps = ['big']", "eps must be a number"),
    "eps in 255ths": ("methods = ['trades']\neps = [8]", "write 8/255"),
    "a table as eps": ("methods = ['trades']\neps = {a = 1}", "eps must be text"),
    "epochs of words": ("methods = ['trades']\n[train]\nepochs = 'many'", "train.epochs must be a whole number"),
    "an attack nobody knows": ("methods = ['trades']\nattack = 'magic'", "there is no attack 'magic'"),
    "not TOML": ("methods = [", "is not a TOML file"),
    "a key twice": ("methods = ['a']\nmethods = ['b']", "is not a TOML file"),
    "a bomb": ("methods = " + "[" * 100_000 + "]" * 100_000, ""),
    "code": ("methods = [__import__('os')]", "is not a TOML file"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_gets_one_sentence_and_exit_code_2(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, message = BAD[case]
    monkeypatch.chdir(tmp_path)
    written(tmp_path, text)
    assert main(["study", "s.toml"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and message in said[0], said
    assert [path.name for path in tmp_path.iterdir()] == ["s.toml"]


@pytest.mark.medium
def test_a_study_is_done_once_and_gives_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, SMALL)
    assert main(["study", "s.toml", "--out", "o", "--threads", "1"]) == 0
    said = capsys.readouterr().out
    assert "3 trainings and 4 audits" in said and "trained 3 of 3" in said
    table = (tmp_path / "o" / "study.csv").read_text()
    assert len(table.splitlines()) == 1 + 4 * 2
    folders = sorted((tmp_path / "o").glob("audit-*"))
    assert len(folders) == 4 and all(len(load_evidence(folder).ids) == 20 for folder in folders)
    shown = (tmp_path / "o" / "index.html").read_text()
    assert "&lt;b&gt;two&lt;/b&gt; methods" in shown and "eps 0.05" in shown
    stamps = {folder: (folder / "evidence.safetensors").stat().st_mtime_ns for folder in folders}
    assert main(["study", "s.toml", "--out", "o", "--threads", "1"]) == 0
    assert {folder: (folder / "evidence.safetensors").stat().st_mtime_ns for folder in folders} == stamps
    assert (tmp_path / "o" / "study.csv").read_text() == table
