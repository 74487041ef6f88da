"""A training in a folder: killed, interrupted, resumed, refused; best and last; what the files say."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from leastwise.data.loading import load
from leastwise.data.readers.arrays import save_npz
from leastwise.jobs.folder import CLAIM
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import TrainJob
from leastwise.jobs.train_task import prepare_training
from leastwise.models.fast.prepare import Form
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.training import resume as keeping
from leastwise.training.base import Epoch
from leastwise.training.loop import StepProgress
from leastwise.training.methods.standard import Standard
from leastwise.training.recipe import Training, Validation
from leastwise.training.resume import Course
from leastwise.training.schedules import Constant, OneCycle
from tests.training.killed_training import HEAVY, train_until

QUICK = Training(Standard(), epochs=3, batch_size=50, schedule=OneCycle(0.1), validation=Validation(2))
JOB = TrainJob(ImageSet("fashion-mini", per_class=20), "convnet", QUICK)


def digests(folder: Path) -> list[str]:
    return [load_checkpoint(folder / name).digest() for name in ("model.pt", "last.pt")]


@pytest.mark.medium
def test_killed_in_the_middle_of_epochs_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Four batches an epoch: killed in the second and in the third."""
    assert train_until(tmp_path / "whole", 0, "SIGKILL").returncode == 0
    for steps in (6, 3):
        assert train_until(tmp_path / "cut", steps, "SIGKILL").returncode == -signal.SIGKILL
        assert not (tmp_path / "cut" / "model.pt").exists()
    assert train_until(tmp_path / "cut", 0, "SIGKILL").returncode == 0
    assert digests(tmp_path / "cut") == digests(tmp_path / "whole")
    assert (tmp_path / "cut" / "epochs.jsonl").read_bytes() == (tmp_path / "whole" / "epochs.jsonl").read_bytes()


@pytest.mark.slow
def test_ctrl_c_keeps_the_finished_steps_and_the_same_command_goes_on(tmp_path: Path) -> None:
    assert train_until(tmp_path / "whole", 0, "SIGINT").returncode == 0
    stopped = train_until(tmp_path / "cut", 6, "SIGINT")
    assert "KeyboardInterrupt" in stopped.stderr
    held = torch.load(tmp_path / "cut" / "resume.pt", weights_only=True)
    assert (held["finished"], held["batch"]) == (1, 2)
    assert train_until(tmp_path / "cut", 0, "SIGINT").returncode == 0
    assert digests(tmp_path / "cut") == digests(tmp_path / "whole")
    assert (tmp_path / "cut" / "epochs.jsonl").read_bytes() == (tmp_path / "whole" / "epochs.jsonl").read_bytes()


class Cut(Exception):
    pass


def cut(after: int):
    def watch(event: object) -> None:
        if isinstance(event, Epoch) and event.number == after:
            raise Cut

    return watch


def test_other_threads_or_another_form_are_refused_on_going_on(tmp_path: Path) -> None:
    with pytest.raises(Cut):
        prepare_training(JOB, tmp_path, threads=1).run(cut(1))
    kept = json.loads((tmp_path / "manifest.json").read_text())
    assert kept["threads"] == 1 and kept["form"]["folded"] and kept["processes"] == 1
    with pytest.raises(ValueError, match="began with threads 1 and would not end with the same weights with 2"):
        prepare_training(JOB, tmp_path, threads=2).run()
    with pytest.raises(ValueError, match=r"began with form BatchNorm folded, channels last and .* with channels last"):
        prepare_training(JOB, tmp_path, form=Form(channels_last=True)).run()
    assert prepare_training(JOB, tmp_path).run().is_file()  # without a wish, what was written down
    assert torch.get_num_threads() == 1


def test_finished_before_the_last_file_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = prepare_training(JOB, tmp_path / "whole").run()

    def fail(*_: object) -> None:
        raise Cut

    with monkeypatch.context() as patched, pytest.raises(Cut):
        patched.setattr(Course, "finish", fail)
        prepare_training(JOB, tmp_path / "cut").run()
    steps: list[object] = []
    prepare_training(JOB, tmp_path / "cut").run(steps.append)
    assert steps == [] and digests(tmp_path / "cut") == digests(whole.parent)


def test_best_and_last_are_both_kept_and_best_is_what_the_rule_says(tmp_path: Path) -> None:
    """A rate that ruins the last epochs: the best one is an early one."""
    training = replace(QUICK, epochs=4, schedule=Constant(1.5), validation=Validation(5, "average"))
    weights: dict[int, str] = {}
    job = replace(JOB, training=training)
    task = prepare_training(job, tmp_path)
    task.run()
    lines = [json.loads(line) for line in (tmp_path / "epochs.jsonl").read_text().splitlines()]
    scores = [sum(line["valid"]["clean"]["correct"]) for line in lines]
    best = scores.index(max(scores)) + 1
    for epochs in (best, 4):
        # A constant rate: the first epochs of a shorter training are those of the longer one.
        other = replace(job, training=replace(training, epochs=epochs, validation=Validation(5, "last")))
        weights[epochs] = load_checkpoint(prepare_training(other, tmp_path / str(epochs)).run()).digest()
    assert digests(tmp_path) == [weights[best], weights[4]]


def test_epoch_lines_hold_classes_policies_and_entropy(tmp_path: Path) -> None:
    prepare_training(HEAVY, tmp_path).run()
    lines = [json.loads(line) for line in (tmp_path / "epochs.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    for line in lines:
        assert line["valid"]["robust"]["n"] == [2] * 10 and line["averaged"]["robust"]["n"] == [2] * 10
        assert len(line["entropy"]) == 10 and all(0 <= e <= np.log(10) for e in line["entropy"])
        assert line["policies"][0]["policy"] == "CFA" and len(line["policies"][0]["radius"]) == 10
    assert lines[0]["policies"][0]["radius"] == [1.0] * 10 != lines[1]["policies"][0]["radius"]


def test_choosing_on_the_test_set_is_said_everywhere(tmp_path: Path) -> None:
    job = replace(JOB, training=replace(QUICK, validation=Validation(0, on_test=True)))
    model = load_checkpoint(prepare_training(job, tmp_path).run())
    assert any("chosen on the test set" in note for note in model.notes)
    lines = [json.loads(line) for line in (tmp_path / "epochs.jsonl").read_text().splitlines()]
    assert all("chosen on the test set" in line["warning"] for line in lines)
    assert sum(lines[0]["valid"]["clean"]["n"]) == len(load("fashion-mini/test"))


def test_validation_images_are_never_trained_on(tmp_path: Path) -> None:
    prepare_training(JOB, tmp_path).run()
    line = json.loads((tmp_path / "epochs.jsonl").read_text().splitlines()[0])
    assert line["clean"]["n"] == [18] * 10 and line["valid"]["clean"]["n"] == [2] * 10


def test_a_warm_start_begins_with_those_weights_and_changes_the_claim(tmp_path: Path) -> None:
    first = prepare_training(JOB, tmp_path / "first").run()
    still = replace(JOB, start=str(first), training=replace(QUICK, epochs=1, schedule=Constant(1e-12)))
    task = prepare_training(still, tmp_path / "second")
    assert "start" in task.claim
    a, b = load_checkpoint(first), load_checkpoint(task.run())
    assert all(torch.allclose(p, q, atol=1e-6) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    with pytest.raises(ValueError, match="do not fit small"):
        prepare_training(replace(still, arch="small"), tmp_path / "third")
    claim = tmp_path / "second" / CLAIM
    told = json.loads(claim.read_text())
    claim.write_text(json.dumps({name: part for name, part in told.items() if name != "answers"}))
    assert prepare_training(still, tmp_path / "second").finished  # from before answers were kept
    claim.write_text(json.dumps(told))
    prepare_training(replace(JOB, training=replace(QUICK, seed=1)), tmp_path / "first").run(fresh=True)
    other = prepare_training(still, tmp_path / "second")
    assert not other.finished
    with pytest.raises(ValueError, match=r"holds the training of another network to start from: .*logits differ by up"):
        other.run()


def test_two_classes_become_the_only_ones(tmp_path: Path) -> None:
    names = load("fashion-mini/train").names
    job = replace(JOB, only=(names[6], names[0]))
    model = load_checkpoint(prepare_training(job, tmp_path).run())
    assert model.k == 2 and model.trained_on.names == (names[6], names[0])
    with pytest.raises(ValueError, match="choose two different classes or more"):
        prepare_training(replace(JOB, only=("0",)), tmp_path / "one")


def test_pseudo_labelled_images_must_be_of_the_same_task(tmp_path: Path) -> None:
    data = load("fashion-mini/train")
    save_npz(tmp_path / "extra.npz", data.take(5))
    job = replace(JOB, extra=str(tmp_path / "extra.npz"))
    task = prepare_training(job, tmp_path / "out")
    assert "extra" in task.claim and task.run().is_file()
    save_npz(tmp_path / "other.npz", data.only([0, 1]).relabel({0: 0, 1: 1}, ["a", "b"]))
    with pytest.raises(ValueError, match="pseudo-labelled images need the shape"):
        prepare_training(replace(JOB, extra=str(tmp_path / "other.npz")), tmp_path / "no")


def test_snapshots_within_an_epoch_are_saved_as_time_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "SAVE_EVERY", 0.0)
    held: list[tuple[int, int]] = []

    def watch(event: object) -> None:
        if isinstance(event, StepProgress) and (tmp_path / "resume.pt").exists():
            content = torch.load(tmp_path / "resume.pt", weights_only=True)
            held.append((content["finished"], content["batch"]))

    prepare_training(JOB, tmp_path).run(watch)
    assert (0, 1) in held and (2, 2) in held
    assert not (tmp_path / "resume.pt").exists()
