"""Evidence: what is recorded is what the logits say; files round-trip, merge in any order and refuse damage."""

import json
import os
from dataclasses import fields, replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from leastwise.attacks.base import NEVER, Clean
from leastwise.attacks.naming import Threat
from leastwise.attacks.pgd import PGD
from leastwise.attacks.registry import make_attack
from leastwise.attacks.threats import Linf
from leastwise.audit.auditor import make_auditor
from leastwise.audit.evidence import EVIDENCE_FILE, Evidence, load_evidence, merge_evidence
from leastwise.audit.record import Record
from leastwise.core.noise import Noise
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import AuditTask, audit
from leastwise.jobs.events import AuditEvent, Meanwhile, Ready, Step
from leastwise.models.classifier import Classifier, wrap
from leastwise.models.fast.prepare import ORIGINAL
from leastwise.models.preflight import find_batch_sizes, measure_tensors
from leastwise.models.zoo.registry import build
from leastwise.report.summary import summarise
from tests.conftest import SHAPE, K

PGD5 = PGD(Linf(0.05), step=0.0125, steps=5, keep="fooled")
CONDITIONS = (("clean", Clean()), ("pgd5", PGD5))


@pytest.fixture
def model() -> Classifier:
    return build("convnet", SHAPE, K, seed=3)


@pytest.fixture
def evidence(model: Classifier, unbalanced: Dataset) -> Evidence:
    return audit(model, unbalanced, CONDITIONS, batch_size=8)


def test_records_say_what_the_logits_say(model: Classifier, unbalanced: Dataset, evidence: Evidence) -> None:
    order = np.argsort(unbalanced.ids)
    x, y, ids = unbalanced.batch(order)
    assert evidence.ids.tolist() == ids.tolist() and evidence.labels.tolist() == y.tolist()
    found = PGD5.run(model, x, y, Noise(0, ids, "/audit"))
    for name, points in (("clean", x), ("pgd5", found.x_adv)):
        r = evidence.conditions[name]
        z = model(points).detach()
        p = z.softmax(1).double().numpy()
        best = np.sort(p, axis=1)
        rows = np.arange(len(y))
        assert r.predicted.tolist() == z.argmax(1).tolist()
        assert r.runner_up.tolist() == z.topk(2).indices[:, 1].tolist()
        assert np.allclose(r.p_true, p[rows, y], atol=1e-5) and np.allclose(r.p_predicted, best[:, -1], atol=1e-5)
        assert np.allclose(r.p_runner_up, best[:, -2], atol=1e-5)
        assert np.allclose(r.p_squared, (p**2).sum(1), atol=1e-5)
        assert np.allclose(r.entropy, -(p * np.log(p)).sum(1), atol=1e-5)
        others = z.clone()
        others[rows, y] = -torch.inf
        assert np.allclose(r.margin, z[rows, y] - others.amax(1), atol=1e-5)
        moved = (points - x).flatten(1)
        assert np.allclose(r.linf, moved.abs().amax(1), atol=1e-6) and np.allclose(r.l2, moved.norm(dim=1), atol=1e-5)
        for c in range(K):
            assert np.allclose(r.logit_sum[c], z[y == c].double().sum(0), atol=1e-4)
            assert np.allclose(r.probability_sum[c], p[y == c].sum(0), atol=1e-4)
    attacked = evidence.conditions["pgd5"]
    assert ((attacked.step != NEVER) == (attacked.predicted != evidence.labels)).all()
    assert attacked.forwards > evidence.conditions["clean"].forwards == len(y)


def test_frame_and_tally_count_by_class(unbalanced: Dataset, evidence: Evidence) -> None:
    frame = evidence.frame()
    assert frame.conditions == ("clean", "pgd5") and frame.n[0].tolist() == unbalanced.counts.tolist()
    by_hand = [int((evidence.correct("pgd5") & (evidence.labels == c)).sum()) for c in range(K)]
    assert frame.correct[1].tolist() == by_hand == evidence.tally("pgd5").correct.tolist()


def test_the_same_seed_gives_identical_bytes_and_another_does_not(
    model: Classifier, unbalanced: Dataset, evidence: Evidence
) -> None:
    assert audit(model, unbalanced, CONDITIONS, batch_size=8).to_bytes() == evidence.to_bytes()
    other = audit(model, unbalanced, CONDITIONS, seed=1, batch_size=8)
    assert other.to_bytes() != evidence.to_bytes() and other.key != evidence.key
    assert not np.array_equal(other.conditions["pgd5"].margin, evidence.conditions["pgd5"].margin)


def test_what_determines_the_evidence_is_in_its_key(model: Classifier, unbalanced: Dataset, evidence: Evidence) -> None:
    others = [
        audit(build("convnet", SHAPE, K, seed=4), unbalanced, CONDITIONS),
        audit(model, unbalanced.take(2), CONDITIONS),
        audit(model, unbalanced, CONDITIONS[:1]),
    ]
    assert len({e.key for e in [evidence, *others]}) == 4
    assert audit(model, unbalanced, CONDITIONS, batch_size=5).key == evidence.key


def test_batch_size_does_not_change_what_is_found(model: Classifier, unbalanced: Dataset) -> None:
    a, b = (audit(model.double(), as_double(unbalanced), CONDITIONS, batch_size=size) for size in (1, 33))
    for name in a.conditions:
        assert np.array_equal(a.conditions[name].predicted, b.conditions[name].predicted)
        assert np.allclose(a.conditions[name].margin, b.conditions[name].margin, atol=1e-6)


class as_double(Dataset):
    def __init__(self, data: Dataset) -> None:
        for f in fields(Dataset):
            object.__setattr__(self, f.name, getattr(data, f.name))

    def batch(self, positions: np.ndarray):
        x, y, ids = Dataset.batch(self, positions)
        return type(Dataset.batch(self, positions))(x.double(), y, ids)


def equal(a: Evidence, b: Evidence) -> bool:
    return a.to_bytes() == b.to_bytes()


def test_save_and_load_round_trip(evidence: Evidence, tmp_path: Path) -> None:
    evidence.save(tmp_path / EVIDENCE_FILE)
    assert equal(load_evidence(tmp_path / EVIDENCE_FILE), evidence) and equal(load_evidence(tmp_path), evidence)
    load_evidence(tmp_path).verify()


def shards(model: Classifier, data: Dataset) -> list[Evidence]:
    """Three disjoint parts of one audit, interleaved, as workers would make them."""
    whole = make_auditor(model, data, CONDITIONS, batch_size=8)
    return [AuditTask(whole, data.where(np.arange(len(data)) % 3 == i), None).attack() for i in range(3)]


def test_merging_shards_in_any_order_gives_the_whole(
    model: Classifier, unbalanced: Dataset, evidence: Evidence
) -> None:
    parts = shards(model, unbalanced)
    whole = merge_evidence(parts)
    whole.verify()
    assert np.array_equal(whole.ids, evidence.ids) and np.array_equal(whole.labels, evidence.labels)
    assert whole.recipe == evidence.recipe
    for name, r in evidence.conditions.items():
        assert np.array_equal(whole.conditions[name].predicted, r.predicted)
        assert np.allclose(whole.conditions[name].margin, r.margin, atol=1e-5)
        assert np.allclose(whole.conditions[name].logit_sum, r.logit_sum, atol=1e-4)
        assert whole.conditions[name].forwards == r.forwards and whole.conditions[name].backwards == r.backwards
    assert all(equal(merge_evidence([parts[i] for i in order]), whole) for order in permutations(range(3)))
    assert np.array_equal((parts[2] + parts[0]).ids, merge_evidence([parts[0], parts[2]]).ids)


def test_merging_refuses_the_same_examples_and_other_recipes(model: Classifier, unbalanced: Dataset) -> None:
    first, second, _ = shards(model, unbalanced)
    with pytest.raises(ValueError, match="same examples"):
        first + first
    with pytest.raises(ValueError, match="different recipes"):
        first + replace(second, recipe="{}")


def test_a_damaged_or_edited_file_is_refused(evidence: Evidence, tmp_path: Path) -> None:
    path = tmp_path / EVIDENCE_FILE
    content = evidence.to_bytes()
    rng = np.random.default_rng(0)
    for position in [8, 9, len(content) - 1, *rng.integers(0, len(content), 40).tolist()]:
        changed = bytearray(content)
        changed[position] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(ValueError, match=r"not evidence|damaged or was edited"):
            load_evidence(path)
    for size in (0, 7, 100, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"not evidence|damaged or was edited"):
            load_evidence(path)
    with pytest.raises(ValueError, match="there is no evidence at"):
        load_evidence(tmp_path / "nowhere")


def cut(r: Record) -> Record:
    """One example short, everywhere."""
    values = {f.name: getattr(r, f.name) for f in fields(Record)}
    return Record(**{n: v[1:] if isinstance(v, np.ndarray) and v.ndim == 1 else v for n, v in values.items()})


def test_verify_notices_contradictions(evidence: Evidence) -> None:
    r = evidence.conditions["clean"]
    bad = {
        "predictions": replace(r, predicted=r.predicted + K),
        "probabilities": replace(r, p_true=r.p_true + 2),
        "margins": replace(r, margin=-r.margin),
        "entropies": replace(r, entropy=r.entropy + 9),
        "wrong size": cut(r),
    }
    for message, record in bad.items():
        with pytest.raises(ValueError, match=message):
            replace(evidence, conditions={"clean": record}).verify()
    with pytest.raises(ValueError, match="ids"):
        replace(evidence, ids=evidence.ids[::-1]).verify()


def test_an_audit_leaves_the_model_as_it_was(model: Classifier, unbalanced: Dataset) -> None:
    model.train()
    before = model.digest()
    audit(model, unbalanced, CONDITIONS)
    assert model.training and model.digest() == before and all(p.grad is None for p in model.parameters())


def test_an_audit_reports_progress(model: Classifier, unbalanced: Dataset) -> None:
    events: list[AuditEvent] = []
    evidence = audit(model, unbalanced, CONDITIONS, batch_size=8, listen=events.append)
    ready, steps = events[0], [event for event in events if isinstance(event, Step)]
    assert isinstance(ready, Ready) and ready.prepared.form == ORIGINAL  # too little to do for a trial
    fractions = [s.fraction for s in steps]
    assert len(steps) == 10 and fractions == sorted(fractions) and fractions[-1] == 1
    assert steps[-1].so_far.correct.tolist() == evidence.tally("pgd5").correct.tolist()


def test_a_batch_that_takes_long_is_told_about_meanwhile(
    model: Classifier, unbalanced: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leastwise.audit.auditor.TELL_EVERY", 0.0)
    events: list[AuditEvent] = []
    evidence = audit(model, unbalanced, CONDITIONS, listen=events.append)  # one batch per condition
    told = [event.fraction for event in events if isinstance(event, Step | Meanwhile)]
    assert told == sorted(told) and told[-1] == 1
    within = [event for event in events if isinstance(event, Meanwhile) and event.condition == "pgd5"]
    # Of the most passes that PGD-5 makes, one for each image that is left in the batch, from the first on.
    most = PGD5.cost(unbalanced.k)
    assert most is not None and len(within) > 1
    assert within[0].fraction == pytest.approx(0.5 + 0.5 / most.forwards) and within[-1].fraction <= 1
    assert audit(model, unbalanced, CONDITIONS).to_bytes() == evidence.to_bytes()
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_an_audit_refuses_nothing_to_audit_and_logits_that_overflow(model: Classifier, unbalanced: Dataset) -> None:
    with pytest.raises(ValueError, match="nothing to audit"):
        audit(model, unbalanced.only(["cow"]), CONDITIONS)
    with pytest.raises(ValueError, match="at least two classes"):
        audit(model, unbalanced.only([0]).relabel({0: 0}, names=("ant",)), CONDITIONS)
    with pytest.raises(ValueError, match="conditions with different names, but saw clean, clean"):
        audit(model, unbalanced, (CONDITIONS[0], CONDITIONS[0]))

    class Breaks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = model(x)
            # Breaks only where an attack has moved the image off the grid of 8-bit pixels.
            off_grid = ((255 * x - (255 * x).round()).abs() > 1e-3).flatten(1).any(1)
            return torch.where(off_grid[:, None], torch.nan, z)

    look_only = (("noise", replace(PGD5, steps=0)),)
    with pytest.raises(ValueError, match="under noise the model gives logits or gradients that are not finite on"):
        audit(Breaks(), unbalanced, look_only)
    with pytest.raises(ValueError, match=r"under pgd5 .* finite on 33 of 33 images \(ant 20, bee 3, dog 9, elk 1\)"):
        audit(Breaks(), unbalanced, (("pgd5", replace(PGD5, keep="last")),))


def test_survivors_without_a_gradient_are_named_class_by_class(model: Classifier, unbalanced: Dataset) -> None:
    class Rounded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return model((4 * x).round() / 4) + 0 * x.sum()

    found = audit(Rounded(), unbalanced, (("pgd5", replace(PGD5, ball=Linf(0.02))),), force=True)
    stuck = found.correct("pgd5")
    (sentence,) = [note for note in found.cautions() if "gradient of zero" in note]
    counts = {name: int(n) for name, n in zip(found.names, np.bincount(found.labels[stuck], minlength=K), strict=True)}
    assert sentence.startswith(f"under pgd5 {stuck.sum()} of {stuck.sum()} survivors")
    assert stuck.any() and all(f"{name} {n}" in sentence for name, n in counts.items() if n)
    assert sentence in summarise(found)["warnings"]


def test_a_grid_is_reported_member_by_member(model: Classifier, unbalanced: Dataset) -> None:
    threat = Threat(Linf(0.1), 0.025)
    names = [f"tpgd3@{t}" for t in (2, 5, 10, 50)]
    found = audit(
        model, unbalanced, (("grid", make_attack("tpgd3-grid", threat)), *((n, make_attack(n, threat)) for n in names))
    )
    assert found.members("grid") == ("1/T = 2", "1/T = 5", "1/T = 10", "1/T = 50") and found.members("tpgd3@2") == ()
    for number, name in enumerate(names):
        assert torch.equal(found.against("grid", number).correct, found.tally(name).correct)
    worst = np.logical_and.reduce([found.correct(name) for name in names])
    assert np.array_equal(found.correct("grid"), worst)
    told = summarise(found)["conditions"]["grid"]["members"]["1/T = 10"]
    assert told["correct"] == found.tally("tpgd3@10").correct.tolist()
    assert "members" not in summarise(found)["conditions"]["tpgd3@2"]


def test_an_attack_that_leaves_its_ball_is_a_fault(model: Classifier, unbalanced: Dataset) -> None:
    class Cheats(PGD):
        def run(self, model, x, y, noise):
            return PGD.run(self, model, x, y, noise)._replace(x_adv=x + 0.2)

    with pytest.raises(RuntimeError, match="cheat left its threat model"):
        audit(model, unbalanced, (("cheat", Cheats(Linf(0.1))),))


def test_no_more_memory_than_a_few_dozen_bytes_per_example(evidence: Evidence) -> None:
    per_example = sum(
        getattr(r, f.name).nbytes
        for r in evidence.conditions.values()
        for f in fields(Record)
        if isinstance(getattr(r, f.name), np.ndarray) and getattr(r, f.name).ndim == 1
    ) / len(evidence.ids)
    assert per_example / len(evidence.conditions) <= 60


def test_the_file_holds_no_code(evidence: Evidence, tmp_path: Path) -> None:
    """A header that names other files or functions is only text."""
    evidence.save(tmp_path / EVIDENCE_FILE)
    content = (tmp_path / EVIDENCE_FILE).read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    assert set(header["__metadata__"]) == {"leastwise"} and os.sep not in header["__metadata__"]["leastwise"]


def test_a_batch_fits_into_a_gigabyte_and_its_tensors_into_the_allocator() -> None:
    """Convolution and ReLU keep their input and output for the gradient, the linear layer the ReLU's output again."""
    net = nn.Sequential(nn.Conv2d(3, 5000, 1), nn.ReLU(), nn.Flatten(), nn.Linear(5000 * 100, 2))
    model, images = wrap(net, 2), torch.rand(2, 3, 10, 10)
    largest = 4 * 5000 * 100
    each = 4 * 3 * 100 + largest
    assert measure_tensors(model, images) == (2 * each, 2 * largest)
    assert find_batch_sizes(model, images) == ((1 << 30) // each, 16)  # 8 would fill the tensors, and are too few
    narrow = wrap(nn.Sequential(nn.Conv2d(3, 250, 1), nn.ReLU(), nn.Flatten(), nn.Linear(250 * 100, 2)), 2)
    assert find_batch_sizes(narrow, images) == (1000, (16 << 20) // (4 * 250 * 100))
    black_box = wrap(lambda x: x.mean(dim=(2, 3))[:, :2], 2)  # keeps nothing
    assert find_batch_sizes(black_box, images) == (1000, 500)


def test_the_size_of_shards_does_not_follow_the_batch() -> None:
    """It is part of the key: results of versions with another rule for batches are still found."""
    data = Dataset.of(np.zeros((3, 3, 10, 10), np.uint8), np.array([0, 1, 1]))
    net = nn.Sequential(nn.Conv2d(3, 250, 1), nn.ReLU(), nn.Flatten(), nn.Linear(250 * 100, 2))
    auditor = make_auditor(net, data, (("clean", Clean()),), force=True)
    assert auditor.batch_size == 167 and auditor.recipe.shard == 1000
