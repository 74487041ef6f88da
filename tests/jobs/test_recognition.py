"""A model is what it answers: an edit that only answers show is never given old numbers, nor mixed with them."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from leastwise.attacks.surrogate import make_surrogate
from leastwise.attacks.transfer import Transfer
from leastwise.audit.auditor import Conditions, make_auditor
from leastwise.audit.evidence import load_evidence
from leastwise.audit.race import RaceRecipe
from leastwise.jobs.audit_task import AuditTask, audit
from leastwise.jobs.events import Step
from leastwise.jobs.folder import CLAIM, SHARDS
from leastwise.jobs.race_task import RaceTask
from leastwise.models.classifier import Classifier, wrap
from leastwise.models.fast.prepare import Form
from tests.forked_commands import python
from tests.jobs.edited_models import AFTER, BEFORE, CONDITIONS, EDITS, VARIABLE, Edit, images, load_edited, task

OTHER = (
    r"holds (the audit of another model: .*differ|another audit \(clean, \w+\)).*: choose another folder, or .*--fresh"
)


@contextmanager
def edited(edit: Edit, folder: Path, value: str) -> Iterator[Classifier]:
    """The model after its files and its environment were written."""
    edit.write(folder, value)
    os.environ[VARIABLE] = value
    try:
        yield load_edited(folder)
    finally:
        del os.environ[VARIABLE]


class Cut(Exception):
    pass


def cut(event: object) -> None:
    if isinstance(event, Step) and event.fraction > 0.4:
        raise Cut


@pytest.mark.parametrize("cut_short", [False, True], ids=["between two runs", "while it was cut short"])
def test_no_edit_gets_the_numbers_of_the_model_before_it(
    cut_short: bool, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    unseen = 0
    for number, (name, edit) in enumerate(EDITS.items()):
        place, out = tmp_path / f"model{number}", tmp_path / f"audit{number}"
        with edited(edit, place, BEFORE) as model:
            first = task(model, out)
            if cut_short:
                with pytest.raises(Cut):
                    first.run(cut)
            else:
                old = first.run().read_bytes()
        with edited(edit, place, AFTER) as model:
            second = task(model, out)
            unseen += second.auditor.key == first.auditor.key
            assert not second.finished, f"stale: {name}"
            with pytest.raises(ValueError, match=OTHER):
                second.run()
            if cut_short:
                assert (out / SHARDS).is_dir(), name
            else:
                assert second.evidence.read_bytes() == old, name
            if number % 6 == 0:  # and the new numbers are those of the new model alone
                alone = task(model, None).attack().to_bytes()
                assert second.run(fresh=True).read_bytes() == alone and second.finished, f"mixed: {name}"
                assert cut_short or alone != old, name
    assert len(EDITS) >= 25 and unseen >= 25  # which the digest of weights and code takes for the same model
    record_property("edited", len(EDITS))


KILLED = """
import os, signal
from pathlib import Path
from leastwise.jobs.events import Step
from tests.jobs.edited_models import load_edited, task
def kill(event):
    if isinstance(event, Step) and event.fraction > 0.4:
        os.kill(os.getpid(), signal.SIGKILL)
os.environ["{variable}"] = "{value}"
task(load_edited(Path("{place}")), Path("{out}")).run(kill)
"""


@pytest.mark.faults
def test_no_edit_between_a_kill_and_the_same_command_is_mixed(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    for number, (name, edit) in enumerate(EDITS.items()):
        place, out = tmp_path / f"model{number}", tmp_path / f"audit{number}"
        edit.write(place, BEFORE)
        ended = python(KILLED.format(variable=VARIABLE, value=BEFORE, place=place, out=out), cwd=Path.cwd())
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        pieces = {path.name: path.read_bytes() for path in (out / SHARDS).glob("*.safetensors")}
        assert pieces, name
        with edited(edit, place, AFTER) as model:
            with pytest.raises(ValueError, match=OTHER):
                task(model, out).run()
        assert pieces == {path.name: path.read_bytes() for path in (out / SHARDS).glob("*.safetensors")}
        with edited(edit, place, BEFORE) as model:  # put back, it goes on
            assert task(model, out).run().read_bytes() == task(model, None).attack().to_bytes(), name
    record_property("edited", len(EDITS))


@pytest.mark.parametrize(
    "name", ["a function of another file", "a deque", "a black box", "a function of autograd, backward"]
)
def test_the_same_model_is_found_whatever_surrounds_it(name: str, tmp_path: Path) -> None:
    edit, place, out = EDITS[name], tmp_path / "model", tmp_path / "audit"
    with edited(edit, place, BEFORE) as model:
        found = task(model, out).run().read_bytes()
    spaced = replace(
        edit, answer=f"(  # of the model\n        {edit.answer}\n    )", helper=f"# as it was\n\n{edit.helper}"
    )
    for one in (edit, spaced):
        with edited(one, place, BEFORE) as model:
            assert task(model, out).finished
            for batch in (1, 3, 24):
                assert task(model, out, batch).finished
            if model.gradients:
                assert task(model, out, form=Form(folded=True, channels_last=True)).finished
            threads = torch.get_num_threads()
            torch.set_num_threads(2)
            try:
                assert task(model, out).finished
            finally:
                torch.set_num_threads(threads)
            assert task(model, out).run().read_bytes() == found


def test_what_was_stored_before_answers_were_kept_is_found_and_margins_tell_models_apart(tmp_path: Path) -> None:
    edit, place, out = EDITS["a deque"], tmp_path / "model", tmp_path / "audit"
    with edited(edit, place, BEFORE) as model:
        task(model, out).run()
        claim = json.loads((out / CLAIM).read_text())
        (out / CLAIM).write_text(
            json.dumps({k: v for k, v in claim.items() if k != "answers"} | {"leastwise": "0.0.9"})
        )
        again = task(model, out)
        assert again.finished and "its margins on 24 images are the same" in again.likeness
        assert "before answers were kept" in again.likeness
    with edited(edit, place, AFTER) as model:
        other = task(model, out)
        assert other.auditor.key == claim["key"] and not other.finished
        with pytest.raises(ValueError, match="margins differ by up to"):
            other.run()


def test_a_race_and_the_networks_that_others_craft_on_are_recognised_too(tmp_path: Path) -> None:
    edit, place, data = EDITS["a deque"], tmp_path / "model", images()

    def race(model: Classifier) -> RaceTask:
        auditor = make_auditor(model, data, CONDITIONS[1:], batch_size=8)
        return RaceTask(auditor, data, tmp_path / "race", RaceRecipe(auditor.key, 2))

    def transfer(model: Classifier) -> AuditTask:
        crafted: Conditions = (("transfer", Transfer(CONDITIONS[1][1], (make_surrogate("theirs", model),))),)
        return AuditTask(make_auditor(steady, data, crafted, batch_size=8), data, tmp_path / "transfer")

    with edited(EDITS["a weight"], tmp_path / "steady", AFTER) as steady:
        pass
    with edited(edit, place, BEFORE) as model:
        race(model).run()
        transfer(model).run()
        assert race(model).finished and transfer(model).finished
    with edited(edit, place, AFTER) as model:
        assert not race(model).finished and not transfer(model).finished
        with pytest.raises(ValueError, match=r"holds the race of another model: .* logits differ"):
            race(model).run()
        with pytest.raises(ValueError, match=r"holds the audit of another surrogate theirs: .* logits differ"):
            transfer(model).run()


def test_a_random_model_is_compared_up_to_its_own_noise(tmp_path: Path) -> None:
    edit = Edit("z + 0.3 * torch.randn_like(z)")

    def forced(model: Classifier, out: Path) -> AuditTask:
        data = images()
        return AuditTask(make_auditor(model, data, CONDITIONS, batch_size=8, shard=8, force=True), data, out)

    with edited(edit, tmp_path / "model", BEFORE) as model:
        forced(model, tmp_path / "audit").run()
        for _ in range(3):
            again = forced(model, tmp_path / "audit")
            assert again.finished and "the model is random or depends on its batch (by up to" in again.likeness
    hidden = Edit("f(z) + 0.3 * torch.randn_like(z)", "from helper import f", helper="def f(z): return z + 9 * §")
    with edited(hidden, tmp_path / "model", BEFORE) as model:
        forced(model, tmp_path / "hidden").run()
    with edited(hidden, tmp_path / "model", AFTER) as model:
        with pytest.raises(ValueError, match=r"holds the audit of another model: .* logits differ"):
            forced(model, tmp_path / "hidden").run()


def test_a_worker_whose_model_answers_otherwise_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    from leastwise.jobs.dask.worker import check_inputs

    monkeypatch.setenv(VARIABLE, BEFORE)
    with edited(EDITS["a variable of the environment"], tmp_path / "model", BEFORE) as model:
        auditor, data = task(model, None).auditor, images()
        check_inputs(auditor, data)
        monkeypatch.setenv(VARIABLE, AFTER)  # another machine has another environment
        with pytest.raises(ValueError, match=r"on the worker \S+ the model answers otherwise \(logits differ by up to"):
            check_inputs(auditor, data)
        monkeypatch.delenv(VARIABLE)  # what fails there may succeed elsewhere
        with pytest.raises(RuntimeError, match="KeyError"):
            check_inputs(auditor, data)
        monkeypatch.setenv(VARIABLE, BEFORE)


def test_pieces_of_another_model_are_refused_even_under_a_claim_that_fits(tmp_path: Path) -> None:
    edit, place, out = EDITS["a deque"], tmp_path / "model", tmp_path / "audit"
    with edited(edit, place, BEFORE) as model, pytest.raises(Cut):
        task(model, out).run(cut)
    with edited(edit, place, AFTER) as model:
        (out / CLAIM).write_text(json.dumps(task(model, out).claim))
        with pytest.raises(
            ValueError, match=r"shards holds pieces of another model \(logits differ by up to .*--fresh"
        ):
            task(model, out).run()


def test_python_replaces_another_audit_only_when_told(tmp_path: Path) -> None:
    data, model = images(), wrap(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(144, 5)), 5)
    first = audit(model, data, CONDITIONS, out=tmp_path)
    with pytest.raises(ValueError, match=r"holds another audit \(clean, pgd2\): choose another folder"):
        audit(model, data, CONDITIONS, out=tmp_path, seed=1)
    assert load_evidence(tmp_path).to_bytes() == first.to_bytes()
    second = audit(model, data, CONDITIONS, out=tmp_path, seed=1, fresh=True)
    assert load_evidence(tmp_path).to_bytes() == second.to_bytes() != first.to_bytes()
