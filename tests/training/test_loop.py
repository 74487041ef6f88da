"""The loop: modes while crafting, the folded copy, validation, sampling, extra data, averaging."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.core.noise import Noise
from leastwise.data.augment.registry import find_augmentation
from leastwise.data.dataset import Dataset
from leastwise.models.classifier import inference
from leastwise.models.fast.prepare import Form
from leastwise.models.zoo.registry import build
from leastwise.training.averaging import EMA, FAWA, SWA
from leastwise.training.batches import plan_batches
from leastwise.training.loop import Snapshot, fit
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.standard import Standard
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.cfa import CFA
from leastwise.training.policies.frl import FRL
from leastwise.training.policies.unbalanced import Balanced
from leastwise.training.policies.weighting import FairWeighting
from leastwise.training.recipe import Training, Validation, score_epoch
from leastwise.training.registry import METHODS
from leastwise.training.schedules import Constant, OneCycle
from leastwise.training.step import FOLDED
from leastwise.training.validate import measure_classes
from tests.training.batches_and_losses import ON_CE, ON_KL, blobs

SIZES = (42, 27, 22, 12, 7)
DATA = blobs(SIZES, shape=(3, 8, 6))
QUICK = Training(PGDAT(ON_CE), 2, 25, OneCycle(0.1))


def ended(training: Training, arch: str = "convnet", **settings: object) -> tuple[torch.nn.Module, Snapshot]:
    model = build(arch, DATA.shape, DATA.k, seed=3).double()
    *_, last = fit(model, DATA, training, **settings)
    return model, last


@pytest.mark.parametrize(
    ("objective", "forwards"), [(PGDAT(ON_CE), 1), (TRADES(ON_KL), 2), (TRADES(ON_KL, clean_passes=2), 3)]
)
def test_p18_crafting_mode_decides_whether_attacks_move_batchnorm(objective: PGDAT | TRADES, forwards: int) -> None:
    def counted(craft: str) -> int:
        model, _ = ended(replace(QUICK, objective=objective, epochs=1, batch_size=200, craft=craft), "small")
        assert model.training
        return int(next(b for name, b in model.named_buffers() if "num_batches" in name))

    assert counted("eval") == forwards
    looks = 2 + objective.attack.goal.clean_forwards
    assert counted("train") == forwards + looks


def test_p26_attacks_and_validation_leave_the_global_generators_alone() -> None:
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    ended(replace(QUICK, validation=Validation(2), augment=find_augmentation("cutout")))
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])


def test_validation_does_not_change_what_is_trained() -> None:
    train, valid = DATA.split(2)
    plain = build("small", DATA.shape, DATA.k).double()
    looked = build("small", DATA.shape, DATA.k).double()
    *_, a = fit(plain, train, QUICK)
    *_, b = fit(looked, DATA, replace(QUICK, validation=Validation(2)))
    assert all(torch.equal(p, q) for p, q in zip(plain.parameters(), looked.parameters(), strict=True))
    assert a.seen.valid is None and b.seen.valid.n.tolist() == [2] * 5 == valid.counts.tolist()


@pytest.mark.parametrize("arch", ["small", pytest.param("resnet20", marks=pytest.mark.medium)])
def test_crafting_on_the_folded_copy_is_crafting_on_the_model(arch: str) -> None:
    """After training steps the refreshed copy gives the same attack up to rounding, and so the same training."""
    training = replace(QUICK, objective=PGDAT(PGD(Linf(0.05), step=0.02, steps=3)), epochs=1, batch_size=40)
    found = {}
    for form in (Form(), FOLDED):
        model = build(arch, DATA.shape, DATA.k, seed=3).double()
        losses: list[float] = []
        *_, last = fit(model, DATA, training, form=form, watch=lambda step, losses=losses: losses.append(step.loss))
        found[form] = losses, last.seen.train.robust.correct.tolist()
    (a, counts_a), (b, counts_b) = found.values()
    assert a == pytest.approx(b, rel=1e-6) and counts_a == counts_b


def test_in_float32_the_folded_copy_attacks_within_rounding() -> None:
    from leastwise.models.fast.prepare import prepare

    model = build("small", DATA.shape, DATA.k, seed=3)
    for _ in fit(model, DATA, replace(QUICK, epochs=1)):
        pass
    x, y, ids = DATA.batch(np.arange(60))
    with inference(model):
        twin = prepare(model, x, FOLDED)
        assert twin.form == FOLDED
        a, b = (ON_CE.perturb(m, x, y, Noise(0, ids)) for m in (model, twin.model))
    assert float(((a - b).abs() < 1e-6).float().mean()) > 0.999


def test_measuring_counts_what_a_loop_by_hand_counts() -> None:
    model = build("convnet", DATA.shape, DATA.k, seed=3)
    seen = measure_classes(model, DATA, ON_CE, seed=5)
    x, y, ids = DATA.batch(np.arange(len(DATA)))
    with inference(model), torch.no_grad():
        clean = model(x).argmax(1) == y
        attacked = model(ON_CE.perturb(model, x, y, Noise(5, ids, "/valid"))).argmax(1) == y
    for c in range(5):
        assert seen.clean.correct[c] == clean[y == c].sum() and seen.robust.correct[c] == attacked[y == c].sum()
    assert seen.n.tolist() == list(SIZES) and seen.attacked.correct.tolist() == seen.robust.correct.tolist()


def test_what_an_epoch_saw_adds_up() -> None:
    _, last = ended(replace(QUICK, objective=TRADES(ON_KL)))
    seen = last.seen.train
    assert seen.n.tolist() == list(SIZES) == seen.clean.n.tolist() == seen.robust.n.tolist()
    assert torch.allclose(seen.probability.sum(1), seen.n.double())
    assert seen.confusion.diagonal().tolist() == seen.robust.correct.tolist()
    assert (seen.entropy <= seen.n * np.log(5) + 1e-9).all() and last.seen.loss > 0


def test_policies_that_follow_validation_say_when_there_is_none() -> None:
    for part in ({"policies": (FRL(),)}, {"averaging": FAWA()}):
        with pytest.raises(ValueError, match="follows the validation accuracy: give validation images"):
            ended(replace(QUICK, **part))


def test_frl_looks_before_its_first_epoch_and_others_do_not() -> None:
    training = replace(QUICK, objective=TRADES(ON_KL), validation=Validation(2), epochs=1)
    _, last = ended(replace(training, policies=(FRL(tau=0.0), FairWeighting())))
    first, fair = last.seen.states  # what the first epoch was trained with
    assert first["natural"].sum() > 0 and fair["weight"].tolist() == [1.0] * 5


def test_cfa_uses_in_an_epoch_what_the_one_before_saw() -> None:
    model = build("convnet", DATA.shape, DATA.k, seed=3).double()
    one, two, three = fit(model, DATA, replace(QUICK, epochs=3, policies=(CFA(),)))
    assert one.seen.states[0]["radius"].tolist() == [1.0] * 5
    for before, after in ((one, two), (two, three)):
        assert torch.equal(after.seen.states[0]["radius"], 0.5 + before.seen.attacked.accuracy)


def test_balanced_sampling_draws_classes_alike_and_the_same_every_time() -> None:
    shares = Balanced().init(torch.from_numpy(DATA.counts))["share"]
    data = DATA
    drawn = [plan_batches(data, 10, shares=shares, epoch=epoch) for epoch in range(60)]
    counts = sum(np.bincount(data.labels[p.rows], minlength=5) for epoch in drawn for p in epoch)
    assert counts.sum() == 60 * 110 and abs(counts / counts.sum() - 0.2).max() < 0.02
    again = plan_batches(data, 10, shares=shares, epoch=3)
    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(drawn[3], again, strict=True))
    assert not np.array_equal(drawn[3][0].rows, drawn[4][0].rows)
    # Within a class every image can come.
    met = {int(r) for epoch in drawn for p in epoch for r in p.rows}
    assert met == set(range(len(data)))


def test_a_class_without_a_share_is_never_drawn() -> None:
    shares = torch.tensor([0.5, 0.0, 0.25, 0.25, 0.0], dtype=torch.float64)
    rows = np.concatenate([p.rows for p in plan_batches(DATA, 10, shares=shares)])
    counts = np.bincount(DATA.labels[rows], minlength=5)
    assert counts[1] == counts[4] == 0 and counts[0] > counts[2] > 0


def test_extra_images_share_each_batch_and_are_not_counted() -> None:
    extra = blobs((30,) * 5, seed=9, shape=(3, 8, 6))
    batches = plan_batches(DATA, 20, extra=extra, extra_share=0.5)
    assert {len(p.rows) for p in batches} == {10} and {len(p.extra) for p in batches} == {10}
    assert len(batches) == 6 and len({int(i) for p in batches for i in p.noise_ids}) == 120  # no id is met twice
    _, last = ended(replace(QUICK, objective=TRADES(ON_KL), batch_size=20), extra=extra)
    _, alone = ended(replace(QUICK, objective=TRADES(ON_KL), batch_size=10))
    assert int(last.seen.train.n.sum()) == 60 and last.seen.loss != alone.seen.loss


def test_an_epoch_with_pseudo_labels_has_the_updates_of_rsts_code() -> None:
    """50,000 labelled images, batches of 256, half of them pseudo-labelled: 196 updates, which see half the images."""
    labels = np.arange(50_000) % 10
    data = Dataset.of(np.zeros((50_000, 1, 1, 1), np.uint8), labels)
    batches = plan_batches(data, 256, extra=data, extra_share=0.5)
    assert len(batches) == 196 and sum(len(p.rows) for p in batches) == 196 * 128


def test_the_average_is_that_of_the_weights_after_each_epoch() -> None:
    """Weights of every epoch are collected; EMA with its first a copy, SWA their mean."""
    training = replace(QUICK, epochs=4)
    for rule in (EMA(decay=0.7, start=0.5), SWA(start=0.5)):
        model = build("convnet", DATA.shape, DATA.k, seed=3).double()
        collected, snapshot = [], None
        for now in fit(model, DATA, replace(training, averaging=rule)):
            collected.append({n: v.clone() for n, v in model.state_dict().items()})
            snapshot = now
        for name, value in snapshot.average.items():
            two, three, four = (state[name] for state in collected[1:])
            wanted = (two + three + four) / 3 if isinstance(rule, SWA) else 0.7 * (0.7 * two + 0.3 * three) + 0.3 * four
            assert torch.allclose(value, wanted)
        assert snapshot.averaged == 3


def test_swa_measures_batchnorms_statistics_anew() -> None:
    model, last = ended(replace(QUICK, epochs=2, averaging=SWA(start=0.0)), "small")
    averaged = build("small", DATA.shape, DATA.k).double()
    averaged.load_state_dict(last.average)
    x = DATA.batch(np.arange(len(DATA))).x.double()
    stem = averaged.net[0](x)
    assert torch.allclose(averaged.net[1].bn1.running_mean, stem.mean((0, 2, 3)), atol=1e-9)
    assert not torch.allclose(model.net[1].bn1.running_mean, stem.mean((0, 2, 3)), atol=1e-4)


def test_averaging_does_not_disturb_the_training() -> None:
    plain, _ = ended(replace(QUICK, validation=Validation(2)), "small")
    averaged, last = ended(replace(QUICK, validation=Validation(2), averaging=SWA(start=0.0)), "small")
    assert all(
        torch.equal(a, b) for a, b in zip(plain.state_dict().values(), averaged.state_dict().values(), strict=True)
    )
    assert last.seen.averaged is not None and last.seen.chosen_by is last.seen.averaged


def test_rules_choose_by_the_validation_images() -> None:
    _, last = ended(replace(QUICK, validation=Validation(5)))
    accuracy = last.seen.valid.robust.accuracy
    overall = last.seen.valid.robust.overall
    assert score_epoch("average", last.seen) == overall and score_epoch("worst", last.seen) == accuracy.min().item()
    assert score_epoch("sum", last.seen) == overall + accuracy.min().item() and score_epoch("last", last.seen) == 2
    assert score_epoch("sum", replace(last.seen, valid=None)) is None


def test_validation_every_other_epoch_includes_the_last() -> None:
    model = build("convnet", DATA.shape, DATA.k)
    seen = [
        s.seen.valid is not None for s in fit(model, DATA, replace(QUICK, epochs=5, validation=Validation(2, every=2)))
    ]
    assert seen == [False, True, False, True, True]


def test_the_test_set_is_looked_at_when_asked_and_changes_nothing() -> None:
    test = blobs((4,) * 5, seed=8, shape=(3, 8, 6))
    plain, _ = ended(QUICK)
    model = build("convnet", DATA.shape, DATA.k, seed=3).double()
    one, two = fit(model, DATA, replace(QUICK, test_at=(2,)), test=test)
    assert one.seen.test is None and two.seen.test.n.tolist() == [4] * 5
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), model.parameters(), strict=True))


def test_augmentation_and_half_precision_run() -> None:
    """A smoke test: bfloat16 learns about as well, and its weights stay in full precision."""
    training = replace(
        QUICK, objective=Standard(), epochs=6, schedule=Constant(0.05), augment=find_augmentation("crop-flip")
    )
    model = build("convnet", DATA.shape, DATA.k, seed=3)
    *_, full = fit(build("convnet", DATA.shape, DATA.k, seed=3), DATA, training)
    *_, half = fit(model, DATA, replace(training, precision="bfloat16"))
    assert next(model.parameters()).dtype == torch.float32 and abs(half.seen.loss - full.seen.loss) < 0.1


@pytest.mark.parametrize("at", [1, 3, 7])
def test_a_pause_in_the_middle_of_an_epoch_changes_nothing(at: int) -> None:
    training = replace(
        QUICK, objective=METHODS["trades"].make(Linf(0.1), 0.05, 1), policies=(CFA(),), validation=Validation(2),
        averaging=EMA(start=0.0, every="step"), batch_size=25, epochs=2,
    )  # fmt: skip
    whole, last = ended(training, "small")
    model = build("small", DATA.shape, DATA.k, seed=3).double()
    steps: list[float] = []
    run = fit(model, DATA, training, watch=lambda step: steps.append(step.loss), pause=lambda: len(steps) == at)
    paused = next(s for s in run if not s.whole)
    assert (paused.finished, paused.batch) == divmod(at, 4)
    held = {name: value.clone() for name, value in model.state_dict().items()}
    other = build("small", DATA.shape, DATA.k, seed=9).double()
    other.load_state_dict(held)
    *_, again = fit(other, DATA, training, after=paused)
    assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), other.state_dict().values(), strict=True))
    assert all(torch.equal(last.average[name], again.average[name]) for name in last.average)
    assert again.seen.train.robust.correct.tolist() == last.seen.train.robust.correct.tolist()
    assert again.seen.loss == last.seen.loss
