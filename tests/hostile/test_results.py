"""Results of strangers: evidence, summaries, ledgers and folders of trainings whose digests fit, but which lie."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from leastwise.audit.evidence import EVIDENCE_FILE, Evidence, digest_content, load_evidence, parse_evidence, save_arrays
from leastwise.audit.record import Record
from leastwise.cli.main import main
from leastwise.jobs.audit_task import audit
from leastwise.jobs.shards import LEDGER, open_ledger
from leastwise.training.resume import read_manifest
from tests.faults.killable_cluster import CONDITIONS, Trapped, images
from tests.hostile import files


@pytest.fixture(scope="module")
def good() -> Evidence:
    return audit(Trapped(), images(), CONDITIONS, force=True)


Parts = tuple[dict[str, "np.ndarray"], dict[str, Any]]


def taken_apart(found: Evidence) -> Parts:
    content = found.to_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    from safetensors.numpy import load

    about = json.loads(header["__metadata__"]["leastwise"])
    del about["digest"]
    return load(content), about


def put_together(arrays: dict[str, "np.ndarray"], about: dict[str, Any]) -> bytes:
    about["digest"] = digest_content(arrays, about)
    return save_arrays(arrays, metadata={"leastwise": json.dumps(about)})


def first(about: dict[str, Any]) -> str:
    return next(iter(about["conditions"]))


def column(name: str, change: Callable[["np.ndarray"], "np.ndarray"]) -> Callable[[Parts], None]:
    def apply(parts: Parts) -> None:
        arrays, about = parts
        key = name if name in arrays else f"{first(about)}.{name}"
        arrays[key] = np.ascontiguousarray(change(arrays[key]))

    return apply


def words(**changes: object) -> Callable[[Parts], None]:
    return lambda parts: parts[1].update(changes)


def recipe(change: Callable[[dict[str, Any]], object]) -> Callable[[Parts], None]:
    def apply(parts: Parts) -> None:
        said = json.loads(parts[1]["recipe"])
        made = change(said)
        parts[1]["recipe"] = json.dumps(said if made is None else made)

    return apply


def renamed(name: str) -> Callable[[Parts], None]:
    def apply(parts: Parts) -> None:
        arrays, about = parts
        old = first(about)
        about["conditions"] = {name if c == old else c: v for c, v in about["conditions"].items()}
        for key in [key for key in arrays if key.startswith(f"{old}.")]:
            arrays[name + key.removeprefix(old)] = arrays.pop(key)

    return apply


LIES: dict[str, Callable[[Parts], None]] = {
    "float labels": column("labels", lambda v: v.astype(np.float32)),
    "float ids": column("ids", lambda v: v.astype(np.float64)),
    "labels of two dimensions": column("labels", lambda v: v[:, None]),
    "float predictions": column("predicted", lambda v: v.astype(np.float32)),
    "predictions outside": column("predicted", lambda v: v + 99),
    "runners-up outside": column("runner_up", lambda v: v - 99),
    "whole margins": column("margin", lambda v: v.astype(np.int32)),
    "margins that are no numbers": column("margin", lambda v: v * np.nan),
    "probabilities that are no numbers": column("p_true", lambda v: v * np.nan),
    "negative sizes": column("l2", lambda v: v - 9),
    "sums of another size": column("logit_sum", lambda v: v[:, :1]),
    "no examples": lambda parts: [column(n, lambda v: v[:0])(parts) for n in ("ids", "labels")] and None,
    "names that are numbers": words(names=[1, 2, 3]),
    "no names": words(names=[]),
    "names twice": words(names=["a"] * 5),
    "warnings that are numbers": words(warnings=[1]),
    "warnings that are text": words(warnings="text"),
    "groups of numbers": words(groups=[1, 2]),
    "groups of classes that there are not": words(groups=[["g", [99]]]),
    "groups of texts": words(groups=[["g", ["a"]]]),
    "conditions that are a list": words(conditions=[]),
    "counts that are text": lambda parts: parts[1]["conditions"][first(parts[1])].update(forwards="x"),
    "counts beyond 64 bits": lambda parts: parts[1]["conditions"][first(parts[1])].update(forwards=10**30),
    "a condition without counts": lambda parts: parts[1]["conditions"].update({first(parts[1]): 5}),
    "a condition that commands": renamed("\x1b[2J"),
    "a condition of no recipe": renamed("other"),
    "a recipe that is a number": words(recipe=5),
    "a recipe that is no JSON": words(recipe="{"),
    "a recipe that is a list": words(recipe="[]"),
    "a recipe without a model": recipe(lambda said: said.pop("model") and None),
    "a recipe whose data is a list": recipe(lambda said: said.update(data=[])),
    "a recipe whose conditions are a number": recipe(lambda said: said.update(conditions=3)),
    "an attack that is text": recipe(lambda said: said["conditions"][0].__setitem__(1, "pgd")),
    "an attack without a name": recipe(lambda said: said["conditions"][0].__setitem__(1, {})),
    "a ball that is a number": recipe(lambda said: said["conditions"][0][1].update(ball=3)),
    "a radius that is text": recipe(lambda said: said["conditions"][0][1].update(ball={"type": "Linf", "eps": "x"})),
    "members that are text": recipe(lambda said: said["conditions"][0][1].update(members="x")),
    "a goal that is a list": recipe(lambda said: said["conditions"][0][1].update(goal=[])),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_evidence_that_lies_is_one_sentence(name: str, good: Evidence, tmp_path: Path) -> None:
    arrays, about = taken_apart(good)
    LIES[name]((arrays, about))
    with pytest.raises(ValueError, match=r"is not evidence|is damaged or was edited"):
        parse_evidence(put_together(arrays, about), tmp_path / "e")


def test_evidence_put_together_again_is_read(good: Evidence, tmp_path: Path) -> None:
    """So that the lies above are refused for what they change."""
    found = parse_evidence(put_together(*taken_apart(good)), tmp_path / "e")
    assert found.key == good.key and found.names == good.names


def test_evidence_of_many_classes_is_read_with_and_without_sums(good: Evidence, tmp_path: Path) -> None:
    """Older versions kept sums of any number of classes; of more than 1,000 there are none now."""
    from leastwise.insight.features import mean_logits

    name = next(iter(good.conditions))
    good.save(tmp_path / EVIDENCE_FILE)
    before = load_evidence(tmp_path)
    assert np.array_equal(mean_logits(before, name), mean_logits(good, name), equal_nan=True)
    without = {
        c: replace(r, logit_sum=np.zeros((0, 0)), probability_sum=np.zeros((0, 0))) for c, r in good.conditions.items()
    }
    found = parse_evidence(replace(good, conditions=without).to_bytes(), tmp_path / "e")
    for f in fields(Record):
        if not f.name.endswith("_sum"):
            assert np.array_equal(getattr(found.conditions[name], f.name), getattr(good.conditions[name], f.name))
    with pytest.raises(ValueError, match="sums of logits are kept for up to 1,000 classes"):
        mean_logits(found, name)


@pytest.mark.parametrize(
    "counts", ["[Infinity]", "[NaN]", "[99999999999999999999999]", "[1.5]", "[true]", '["1"]', "5", "null", "[-1]"]
)
def test_summaries_that_lie_are_one_sentence(counts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "summary.json"
    path.write_text(f'{{"classes": ["a"], "conditions": {{"clean": {{"correct": {counts}, "n": {counts}}}}}}}')
    assert main(["gate", str(path), "worst(clean) >= 0"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "is not a summary" in said[0]


STRANGE = (
    "create table pieces (name text, digest text, seconds real, more text not null)",
    "create table pieces (name text primary key)",
    "create view pieces as select 1 as name, 2 as digest, 3 as seconds",
    "create table pieces (name, digest, seconds); insert into pieces values (x'00', 5, 'never')",
    "create table pieces (name, digest, seconds); insert into pieces values ('000000-000.safetensors', 'x', 9e999)",
    "create table pieces (name text primary key, digest text not null, seconds real not null); "
    "create trigger t before insert on pieces begin select raise(abort, 'no'); end",
)


@pytest.mark.parametrize("text", STRANGE)
def test_a_strange_ledger_begins_anew(text: str, tmp_path: Path) -> None:
    lines = sqlite3.connect(tmp_path / LEDGER)
    lines.executescript(text)
    lines.close()
    with open_ledger(tmp_path) as ledger:
        assert ledger is not None and ledger.read("000000-000.safetensors") is None
        ledger.commit("piece", b"content", 1.5)
    with open_ledger(tmp_path) as ledger:
        assert ledger is not None and ledger.read("piece") == b"content" and ledger.seconds("piece") == 1.5


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"threads": "x"}', '{"threads": 1e999, "processes": 1, "form": {}}', "nul"]
)
def test_a_strange_manifest_of_a_training_is_one_sentence(content: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(ValueError, match="start anew with --fresh"):
        read_manifest(tmp_path)


ALONE = os.environ | {"OMP_NUM_THREADS": "1"}
STUDY = 'methods = ["pgd-at"]\nmodels = ["convnet"]\neps = ["0.1"]\nseeds = [0, 1]\nattack = "clean"\n'
STUDY += "[train]\nepochs = 1\nper_class = 20\nbatch_size = 200\nvalid_per_class = 0\n[audit]\nper_class = 2\n"


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_study_that_is_interrupted_in_a_last_step_stops(number: int, tmp_path: Path) -> None:
    """One step is all that each training has, so that the signal comes in its last one."""
    (tmp_path / "s.toml").write_text(STUDY.replace("epochs = 1", 'epochs = 1\nset = ["attack.steps=400"]'))
    run = subprocess.Popen(
        [sys.executable, "-m", "leastwise", "study", "s.toml", "--out", "o"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ALONE,
    )  # fmt: skip
    end = time.monotonic() + 120
    while not list(tmp_path.glob("o/train-*/manifest.json")) and time.monotonic() < end:
        time.sleep(0.05)
    begun = time.monotonic()
    run.send_signal(number)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130 and "interrupted" in said and time.monotonic() - begun < 15
    assert len(list(tmp_path.glob("o/train-*"))) == 1  # the second training was never begun


@pytest.mark.faults
def test_a_process_that_cannot_hear_ends_all_the_same(tmp_path: Path) -> None:
    """One call that takes minutes and never comes back to Python, as a large product of matrices is."""
    (tmp_path / "net.py").write_text(
        "import time, torch\nfrom torch import nn\nclass Deaf(nn.Module):\n    def forward(self, x):\n"
        "        print('DEAF', flush=True)\n        a = torch.rand(12000, 12000)\n        a @ a\n"
        "        return x.flatten(1)[:, :10]\ndef build():\n    return Deaf()\n"
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        run = subprocess.Popen(
            [sys.executable, "-u", "-m", "leastwise", "audit", "net.py:build", "--per-class", "1", "--attack", "clean"],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ALONE,
        )  # fmt: skip
        assert run.stdout is not None
        lines = iter(run.stdout.readline, "")
        assert "reading fashion-mini and net.py:build" in next(lines)  # before any of it is done
        assert any("DEAF" in line for line in lines)
        time.sleep(3)
        begun = time.monotonic()
        run.send_signal(number)
        assert run.wait(timeout=30) == 130 and time.monotonic() - begun < 12
        run.communicate()


def test_changed_weights_in_a_snapshot_are_noticed(tmp_path: Path) -> None:
    from leastwise.models.load.torch_file import read_torch, write_torch

    write_torch(
        tmp_path / "resume.pt", {"weights": {"w": torch.zeros(3)}, "best": 0.5, "states": [{"a": torch.ones(2)}]}
    )
    assert read_torch(tmp_path / "resume.pt")["best"] == 0.5
    content = torch.load(tmp_path / "resume.pt", weights_only=True)
    content["weights"]["w"][1] = 1e-3
    torch.save(content, tmp_path / "resume.pt")
    with pytest.raises(ValueError, match="damaged or was edited"):
        read_torch(tmp_path / "resume.pt")


def test_the_helper_makes_summaries_that_pass(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(files.summary())
    assert main(["gate", str(tmp_path / "summary.json"), "worst(clean) >= 0"]) in (0, 3)
