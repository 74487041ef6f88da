"""The training loop: it learns, it is seeded, it resumes; each job is done once."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from leastwise.attacks.base import Clean
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.audit.evidence import SUMMARY_FILE, load_evidence
from leastwise.core.recipe import recipe_key
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.jobs.audit_task import AuditTask
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import AuditJob, TrainJob
from leastwise.jobs.schedule import JobRunner
from leastwise.jobs.store import Store
from leastwise.jobs.train_task import TrainingTask, prepare_training
from leastwise.models.classifier import inference
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.zoo.registry import build
from leastwise.training.base import Epoch
from leastwise.training.loop import StepProgress, fit
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.standard import Standard
from leastwise.training.recipe import SGD, Training
from leastwise.training.schedules import Constant, OneCycle

QUICK = Training(Standard(), epochs=3, batch_size=50, schedule=OneCycle(0.1))
JOB = TrainJob(ImageSet("fashion-mini", per_class=10), "convnet", QUICK)
CONDITIONS = (("clean", Clean()), ("pgd2", PGD(Linf(0.1), step=0.05, steps=2)))
CHECK = AuditJob(JOB, ImageSet("fashion-mini", per_class=5), CONDITIONS)


def trained(training: Training, data: Dataset, seed: int = 0) -> tuple[str, list[Epoch]]:
    model = build("convnet", data.shape, data.k, seed=seed)
    seen = [snapshot.seen for snapshot in fit(model, data, training)]
    return model.digest(), seen


def test_one_step_is_sgds_update_by_hand(unbalanced: Dataset) -> None:
    """One batch: w - rate · (1 + mu) · (gradient + decay · w), which is what Nesterov's momentum mu first does."""
    model = build("convnet", unbalanced.shape, unbalanced.k)
    before = [p.detach().clone() for p in model.parameters()]
    x, y, _ = unbalanced.batch(np.arange(len(unbalanced)))
    gradients = torch.autograd.grad(torch.nn.functional.cross_entropy(model(x), y), list(model.parameters()))
    settings = SGD(momentum=0.9, nesterov=True, weight_decay=0.01)
    (snapshot,) = fit(model, unbalanced, Training(Standard(), 1, 100, Constant(0.3), settings))
    for old, gradient, new in zip(before, gradients, model.parameters(), strict=True):
        assert torch.allclose(new, old - 0.3 * 1.9 * (gradient + 0.01 * old), atol=1e-6)
    assert snapshot.seen.clean.n.tolist() == unbalanced.counts.tolist() and snapshot.seen.rate == 0.3


def test_training_learns_and_counts_every_example() -> None:
    data = load("fashion-mini/train").take(40)
    _, seen = trained(replace(QUICK, epochs=6, batch_size=10), data)
    assert [s.number for s in seen] == [1, 2, 3, 4, 5, 6]
    assert seen[-1].loss < 0.6 * seen[0].loss and seen[-1].clean.overall > 0.6
    assert all(s.clean.n.tolist() == data.counts.tolist() and s.attacked.n.sum() == 0 for s in seen)


def test_adversarial_training_counts_robust_accuracy() -> None:
    data = load("fashion-mini/train").take(10)
    objective = PGDAT(PGD(Linf(0.05), step=0.025, steps=2))
    _, seen = trained(Training(objective, 1, 50), data)
    assert seen[0].attacked.n.tolist() == data.counts.tolist() and seen[0].clean.n.sum() == 0


def test_the_seed_decides_everything() -> None:
    data = load("fashion-mini/train").take(10)
    training = Training(PGDAT(PGD(Linf(0.05), step=0.025, steps=1)), 2, 50)
    before = torch.random.get_rng_state()
    assert trained(training, data)[0] == trained(training, data)[0]
    assert trained(training, data)[0] != trained(replace(training, seed=1), data)[0]
    assert torch.equal(torch.random.get_rng_state(), before)


def test_batches_are_even_and_every_epoch_has_its_own_order(unbalanced: Dataset) -> None:
    seen: list[list[int]] = []
    starts: list[float] = []

    class Spy(Standard):
        def craft(self, model, x, y, noise):
            seen.append(noise.ids.tolist())
            starts.append(noise.pick(noise.ids.argmin()[None]).uniform((1,)).item())

    for _ in fit(build("convnet", unbalanced.shape, unbalanced.k), unbalanced, Training(Spy(), 2, 8)):
        pass
    assert [len(ids) for ids in seen] == [7, 7, 7, 6, 6] * 2
    assert len(set(starts)) == 10  # the same example draws other noise in another epoch
    first, second = ([i for ids in epoch for i in ids] for epoch in (seen[:5], seen[5:]))
    assert sorted(first) == sorted(second) == sorted(unbalanced.ids.tolist()) and first != second


def test_a_loss_that_is_not_finite_stops_with_the_step_and_ids(unbalanced: Dataset) -> None:
    model = build("convnet", unbalanced.shape, unbalanced.k)
    with pytest.raises(ValueError, match=r"the loss is (nan|inf) at step \d+ \(ids \d+, "):
        list(fit(model, unbalanced, Training(Standard(), 20, 8, Constant(1e6))))


def audit_of(job: AuditJob, folder: Path, trained: Path) -> AuditTask:
    """The audit of a network whose training lies in a folder."""
    assert isinstance(job.model, TrainJob)
    return JobRunner(Store(folder.parent, places={job: folder, job.model: trained})).prepare_audit(job)


def files(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_jobs_are_trained_and_audited_once(tmp_path: Path) -> None:
    events: list[object] = []
    checkpoint = prepare_training(JOB, tmp_path / "m").run(events.append)
    assert files(tmp_path / "m") == {"model.pt", "last.pt", "epochs.jsonl", "recipe.json", "run.json", "manifest.json"}
    assert [e.number for e in events if isinstance(e, Epoch)] == [1, 2, 3]
    assert [e.fraction for e in events if isinstance(e, StepProgress)][-1] == 1
    lines = [json.loads(line) for line in (tmp_path / "m" / "epochs.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3] and sum(lines[0]["clean"]["n"]) == 100
    assert json.loads((tmp_path / "m" / "recipe.json").read_text())["key"] == recipe_key(JOB)

    found = audit_of(CHECK, tmp_path / "a", tmp_path / "m").run()
    loaded = load_evidence(found)
    assert loaded.tally("clean").n.tolist() == [5] * 10
    model = load_checkpoint(checkpoint)
    x, y, _ = load("fashion-mini/test").take(5).batch(np.arange(50))
    with inference(model):
        assert int((model(x).argmax(1) == y).sum()) == int(loaded.tally("clean").correct.sum())

    stamp = checkpoint.stat().st_mtime_ns
    before = len(events)
    assert prepare_training(JOB, tmp_path / "m").run(events.append) == checkpoint
    assert checkpoint.stat().st_mtime_ns == stamp and len(events) == before


OTHER = replace(JOB, training=replace(QUICK, seed=1, epochs=1))


def test_another_training_in_the_same_folder_is_refused_until_asked_for(tmp_path: Path) -> None:
    first = prepare_training(JOB, tmp_path)
    a = load_checkpoint(first.run()).digest()
    other = prepare_training(OTHER, tmp_path)
    with pytest.raises(ValueError, match="holds another training: choose another folder, or replace it with --fresh"):
        other.run()
    assert first.finished and load_checkpoint(tmp_path / "model.pt").digest() == a
    b = load_checkpoint(other.run(fresh=True)).digest()
    assert a != b and not prepare_training(JOB, tmp_path).finished and other.finished
    assert len((tmp_path / "epochs.jsonl").read_text().splitlines()) == 1


def test_files_of_others_are_never_touched(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(ValueError, match=r"holds model.pt of unknown origin: choose another folder"):
            prepare_training(JOB, tmp_path).run(fresh=fresh)
    assert files(tmp_path) == {"model.pt"} and (tmp_path / "model.pt").read_text() == "mine"


def test_an_audit_does_not_move_into_a_trainings_folder(tmp_path: Path) -> None:
    prepare_training(OTHER, tmp_path / "m").run()
    check = replace(CHECK, model=OTHER)
    with pytest.raises(ValueError, match="holds the results of another kind, training"):
        audit_of(check, tmp_path / "m", tmp_path / "m").run(fresh=True)
    first = audit_of(check, tmp_path / "a", tmp_path / "m")
    second = audit_of(replace(check, seed=1), tmp_path / "a", tmp_path / "m")
    one = first.run().read_bytes()
    (tmp_path / "a" / SUMMARY_FILE).write_text("of the first")
    with pytest.raises(ValueError, match=r"holds another audit \(clean, pgd2\): choose another folder, or .* --fresh"):
        second.run()
    assert first.finished and (tmp_path / "a" / SUMMARY_FILE).exists()
    assert one != second.run(fresh=True).read_bytes()
    assert not (tmp_path / "a" / SUMMARY_FILE).exists()
    assert not first.finished and second.finished


def test_changed_data_is_another_job(tmp_path: Path) -> None:
    data = load("fashion-mini/train").take(5)
    pixels = data.images[data.rows]

    def job() -> TrainingTask:
        return prepare_training(
            TrainJob(ImageSet(str(tmp_path / "set.npz")), "convnet", replace(QUICK, epochs=1)), tmp_path / "out"
        )

    np.savez(tmp_path / "set.npz", images=pixels, labels=data.labels)
    job().run()
    assert job().finished
    np.savez(tmp_path / "set.npz", images=255 - pixels, labels=data.labels)
    assert not job().finished


def test_a_folder_that_cannot_be_written_is_noticed_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    worked: list[object] = []
    with pytest.raises(ValueError, match="is a file: choose another"):
        prepare_training(JOB, tmp_path / "file" / "deeper").run(worked.append)
    assert worked == []


def test_snapshots_do_not_change_afterwards() -> None:
    data = load("fashion-mini/train").take(5)
    model = build("convnet", data.shape, data.k)
    momenta = []
    kept = []
    for snapshot in fit(model, data, replace(QUICK, epochs=2)):
        kept.append(snapshot)
        momenta.append(snapshot.optimiser["state"][0]["momentum_buffer"].clone())
    assert torch.equal(kept[0].optimiser["state"][0]["momentum_buffer"], momenta[0])
    assert not torch.equal(momenta[0], momenta[1])


@pytest.mark.parametrize("stop_after", [1, 2])
def test_an_interrupted_training_resumes_to_the_same_weights(stop_after: int, tmp_path: Path) -> None:
    whole = prepare_training(JOB, tmp_path / "whole").run()

    def interrupt(event: object) -> None:
        if isinstance(event, StepProgress) and event.fraction > (stop_after + 0.4) / QUICK.epochs:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_training(JOB, tmp_path / "cut").run(interrupt)
    assert "model.pt" not in files(tmp_path / "cut") and "resume.pt" in files(tmp_path / "cut")
    begun: list[int] = []
    cut = prepare_training(JOB, tmp_path / "cut")
    again = cut.run(lambda e: begun.append(e.number) if isinstance(e, Epoch) else None)
    assert begun == list(range(stop_after + 1, 4))
    assert load_checkpoint(again).digest() == load_checkpoint(whole).digest()
    assert (tmp_path / "cut" / "epochs.jsonl").read_text() == (tmp_path / "whole" / "epochs.jsonl").read_text()
