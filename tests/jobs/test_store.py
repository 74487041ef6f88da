"""Results are shared: a training that one verb made is found by every other, by the key of its job."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from leastwise import __version__
from leastwise.audit.evidence import EVIDENCE_FILE
from leastwise.cli.main import main
from leastwise.cli.train import Train
from leastwise.core.files import write_json
from leastwise.core.recipe import recipe_key
from leastwise.jobs.folder import CLAIM, job_key, read_claim
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import AuditJob, TrainJob, needed_jobs, order_jobs
from leastwise.jobs.store import Store, is_finished
from leastwise.papers.jobs import make_job
from leastwise.papers.recipes import Measured, Trained
from leastwise.papers.reproduce import do_work, list_work
from leastwise.papers.stored import PaperStore

DECLARED = Trained(
    ImageSet("fashion-mini", per_class=4),
    "convnet",
    epochs=1,
    batch_size=20,
    augment="none",
    rate=0.1,
    schedule="one-cycle",
    weight_decay=0.0005,
    scale="smoke",
)
OPTIONS = {"model": "convnet", "epochs": 1, "batch_size": 20, "per_class": 4, "rate": 0.1, "augment": "none"}
OPTIONS |= {"optimiser": "sgd", "valid_per_class": 0, "best_by": "last"}
COMMAND = ["train", "standard", "--threads", "1", "--device", "cpu"]
COMMAND += [word for name, value in OPTIONS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
STUDY = """
title = "one training"
methods = ["standard"]
models = ["convnet"]
attack = "clean"
[train]
epochs = 1
batch_size = 20
per_class = 4
rate = 0.1
augment = "none"
optimiser = "sgd"
valid_per_class = 0
best_by = "last"
[audit]
per_class = 2
"""


def test_a_paper_and_the_command_line_mean_the_same_job() -> None:
    typed = Train("standard", **OPTIONS).job()  # type: ignore[arg-type]
    declared = make_job(DECLARED)
    assert typed == declared and recipe_key(typed) == recipe_key(declared)
    assert recipe_key(make_job(replace(DECLARED, rate=0.2))) != recipe_key(declared)


@pytest.mark.parametrize("first", ["train", "reproduce", "study"])
def test_a_training_made_by_one_verb_is_found_by_the_others(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.toml").write_text(STUDY)
    study = ["study", "one.toml", "--threads", "1", "--device", "cpu"]

    def store() -> PaperStore:
        return PaperStore(Path("results"), "smoke")

    if first == "train":
        assert main(COMMAND) == 0
    elif first == "reproduce":
        assert do_work(list_work([DECLARED], store()), store(), threads=1) == {}
    else:
        assert main(study) == 0
    (weights,) = Path("results").rglob("model.*t*")
    stamp = weights.stat().st_mtime_ns
    capsys.readouterr()

    assert store().has(DECLARED) and list_work([DECLARED], store()) == ()
    audit = Measured(DECLARED, replace(DECLARED.data, per_class=2), scale="smoke")
    assert list_work([audit], store()) == (audit,)
    assert main(COMMAND) == 0
    assert f"done before, in {weights.parent}" in capsys.readouterr().out
    assert main(study) == 0
    said = capsys.readouterr().out
    assert "trained 1 of 1" not in said and "worst class" in said
    assert do_work([audit], store(), threads=1) == {} and store().has(audit)
    assert list(Path("results").rglob("model.*t*")) == [weights] and weights.stat().st_mtime_ns == stamp


def test_a_place_that_the_user_names_is_a_place_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(COMMAND) == 0 and main([*COMMAND, "--out", "mine"]) == 0
    assert "done before" not in capsys.readouterr().out
    assert (Path("mine") / "model.pt").read_bytes() == next(Path("results").rglob("model.pt")).read_bytes()


def test_folders_of_version_0_1_are_adopted_by_what_they_declared(tmp_path: Path) -> None:
    """There the claim has the key of the declaration and not that of the job, and the folder is named after it."""
    new, old = PaperStore(tmp_path / "new", "smoke"), PaperStore(tmp_path / "old", "smoke")
    assert do_work([DECLARED], new, threads=1) == {}
    folder = tmp_path / "old" / "smoke" / "trainings" / f"fashion-mini-convnet-standard-{recipe_key(DECLARED)[:8]}"
    folder.parent.mkdir(parents=True)
    new.folder(DECLARED).rename(folder)
    claim = read_claim(folder)
    assert claim is not None
    key = recipe_key(DECLARED)
    (folder / CLAIM).write_text(json.dumps(claim | {"key": key, "declared": key}))
    assert not old.has(DECLARED) and old.adopt([replace(DECLARED, seed=1)]) == 0
    assert PaperStore(old.results, "smoke").adopt([DECLARED]) == 1
    again = PaperStore(old.results, "smoke")
    assert again.has(DECLARED) and again.folder(DECLARED) == folder and again.adopt([DECLARED]) == 0
    kept = read_claim(folder)
    assert kept is not None and job_key(kept) == recipe_key(make_job(DECLARED))


def test_needs_come_first_and_everything_once(tmp_path: Path) -> None:
    job = make_job(DECLARED)
    assert isinstance(job, TrainJob)
    later = replace(job, start=job)
    audits = [AuditJob(model, job.data, ()) for model in (later, job)]
    assert needed_jobs(later) == (job,) and order_jobs([*audits, later]) == (job, later, *audits)
    store = Store(tmp_path)
    assert not store.has(job) and not store.has_begun(job) and store.find_weights(job) is None


@pytest.mark.parametrize(
    ("here", "done"), [(["target", "surrogate"], True), (["surrogate"], True), ([], True), (["another"], False)]
)
def test_an_audit_stays_done_when_one_of_its_networks_lets_go_of_its_weights(
    here: list[str], done: bool, tmp_path: Path
) -> None:
    claim = {"kind": "audit", "key": "1", "leastwise": __version__, "networks": ["target", "surrogate"]}
    write_json(tmp_path / CLAIM, claim)
    (tmp_path / EVIDENCE_FILE).touch()
    assert is_finished(tmp_path, "1", [], networks=here) is done
