"""The training loop: it learns, it is seeded, it resumes; the engine does each job once."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from leastwise import engine, evidence
from leastwise import train as trains
from leastwise.attacks import PGD, Clean
from leastwise.balls import Linf
from leastwise.data import Dataset, load
from leastwise.models import build, inference, load_checkpoint
from leastwise.objectives import PGDAT, Constant, Epoch, OneCycle, Standard
from leastwise.plan import Audit, Train
from leastwise.recipe import key
from leastwise.train import SGD, Training, fit

QUICK = Training(Standard(), epochs=3, batch_size=50, schedule=OneCycle(0.1))
JOB = Train("fashion-mini", "convnet", QUICK, per_class=10)
CHECK = Audit(JOB, "fashion-mini", (("clean", Clean()), ("pgd2", PGD(Linf(0.1), step=0.05, steps=2))), per_class=5)


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
    assert all(s.clean.n.tolist() == data.counts.tolist() and s.robust.n.sum() == 0 for s in seen)


def test_adversarial_training_counts_robust_accuracy() -> None:
    data = load("fashion-mini/train").take(10)
    objective = PGDAT(PGD(Linf(0.05), step=0.025, steps=2))
    _, seen = trained(Training(objective, 1, 50), data)
    assert seen[0].robust.n.tolist() == data.counts.tolist() and seen[0].clean.n.sum() == 0


def test_the_seed_decides_everything() -> None:
    data = load("fashion-mini/train").take(10)
    training = Training(PGDAT(PGD(Linf(0.05), step=0.025, steps=1)), 2, 50)
    before = torch.random.get_rng_state()
    assert trained(training, data)[0] == trained(training, data)[0]
    assert trained(training, data)[0] != trained(replace(training, seed=1), data)[0]
    assert torch.equal(torch.random.get_rng_state(), before)


def test_batches_are_even_and_every_epoch_has_its_own_order(unbalanced: Dataset) -> None:
    seen: list[list[int]] = []

    class Spy(Standard):
        def loss(self, model, x, y, s, noise):
            seen.append(noise.ids.tolist())
            return Standard.loss(self, model, x, y, s, noise)

    for _ in fit(build("convnet", unbalanced.shape, unbalanced.k), unbalanced, Training(Spy(), 2, 8)):
        pass
    assert [len(ids) for ids in seen] == [7, 7, 7, 6, 6] * 2
    first, second = ([i for ids in epoch for i in ids] for epoch in (seen[:5], seen[5:]))
    assert sorted(first) == sorted(second) == sorted(unbalanced.ids.tolist()) and first != second


def test_a_loss_that_is_not_finite_stops_with_the_step_and_ids(unbalanced: Dataset) -> None:
    model = build("convnet", unbalanced.shape, unbalanced.k)
    with pytest.raises(ValueError, match=r"the loss is (nan|inf) at step \d+ \(ids \["):
        list(fit(model, unbalanced, Training(Standard(), 20, 8, Constant(1e6))))


def files(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_the_engine_trains_and_audits_once(tmp_path: Path) -> None:
    events: list[object] = []
    checkpoint = engine.run(JOB, tmp_path / "m", watch=events.append)
    assert files(tmp_path / "m") == {"model.pt", "epochs.jsonl", "recipe.json", "run.json"}
    assert [e.number for e in events if isinstance(e, Epoch)] == [1, 2, 3]
    assert [e.fraction for e in events if isinstance(e, trains.Step)][-1] == 1
    lines = [json.loads(line) for line in (tmp_path / "m" / "epochs.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3] and sum(lines[0]["clean"]["n"]) == 100
    assert json.loads((tmp_path / "m" / "recipe.json").read_text())["key"] == key(JOB)

    found = engine.run(CHECK, tmp_path / "a", model=tmp_path / "m")
    loaded = evidence.load(found)
    assert loaded.tally("clean").n.tolist() == [5] * 10
    model = load_checkpoint(checkpoint)
    x, y, _ = load("fashion-mini/test").take(5).batch(np.arange(50))
    with inference(model):
        assert int((model(x).argmax(1) == y).sum()) == int(loaded.tally("clean").correct.sum())

    stamp = checkpoint.stat().st_mtime_ns
    before = len(events)
    assert engine.run(JOB, tmp_path / "m", watch=events.append) == checkpoint
    assert checkpoint.stat().st_mtime_ns == stamp and len(events) == before


def test_another_recipe_in_the_same_folder_starts_over(tmp_path: Path) -> None:
    a = load_checkpoint(engine.run(JOB, tmp_path)).digest()
    other = replace(JOB, training=replace(QUICK, seed=1, epochs=1))
    b = load_checkpoint(engine.run(other, tmp_path)).digest()
    assert a != b and not engine.finished(JOB, tmp_path) and engine.finished(other, tmp_path)
    assert len((tmp_path / "epochs.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("stop_after", [1, 2])
def test_an_interrupted_training_resumes_to_the_same_weights(stop_after: int, tmp_path: Path) -> None:
    whole = engine.run(JOB, tmp_path / "whole")

    def interrupt(event: object) -> None:
        if isinstance(event, trains.Step) and event.fraction > (stop_after + 0.4) / QUICK.epochs:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.run(JOB, tmp_path / "cut", watch=interrupt)
    assert "model.pt" not in files(tmp_path / "cut") and "resume.pt" in files(tmp_path / "cut")
    begun: list[int] = []
    again = engine.run(JOB, tmp_path / "cut", watch=lambda e: begun.append(e.number) if isinstance(e, Epoch) else None)
    assert begun == list(range(stop_after + 1, 4))
    assert load_checkpoint(again).digest() == load_checkpoint(whole).digest()
    assert (tmp_path / "cut" / "epochs.jsonl").read_text() == (tmp_path / "whole" / "epochs.jsonl").read_text()


def test_forget_removes_only_its_own_files(tmp_path: Path) -> None:
    engine.run(replace(JOB, training=replace(QUICK, epochs=1)), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    engine.forget(tmp_path)
    assert files(tmp_path) == {"notes.txt"}
