"""Methods as steps of one's own loop: the same as `leastwise train`, with refusals that name the fix."""

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import leastwise as lw
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.front.methods import RENAMED, StepMaker
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.zoo.registry import build
from leastwise.training.base import Epoch
from leastwise.training.batches import plan_batches
from leastwise.training.loop import fit
from leastwise.training.recipe import SGD, Training, Validation
from leastwise.training.registry import METHODS, POLICIES
from leastwise.training.schedules import OneCycle
from tests.forked_commands import leastwise
from tests.training.batches_and_losses import blobs, with_numbers

SHAPE = (3, 8, 6)
DATA = blobs((42, 27, 22, 12, 7), shape=SHAPE)
TRAIN, VALID = DATA.split(2)


def train_by_hand(
    step: lw.MethodStep, net: nn.Module, data: Dataset, *, epochs: int, batch: int = 20, peak: float = 0.1
) -> list[Epoch]:
    """A plain loop with the order of images, the schedule and the optimiser of `leastwise train`."""
    schedule, optimiser = OneCycle(peak), SGD().make(net, 0.0)
    seen = []
    for epoch in range(epochs):
        net.train()
        plans = plan_batches(data, batch, seed=step.seed, epoch=epoch)
        for place, plan in enumerate(plans):
            x, y, ids = plan.images(data, None)
            done, total = epoch * len(plans) + place, epochs * len(plans)
            for group in optimiser.param_groups:
                group["lr"] = schedule.rate((done + 1) / (total + 1))
            loss = step(net, x, y, ids)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        seen.append(step.end_epoch())
    return seen


def test_trades_and_cfa_by_hand_are_what_leastwise_train_makes_bit_for_bit(tmp_path: Path) -> None:
    """The network has BatchNorm, so that its folded copy, on which attacks are made, is the same too."""
    made = "train trades --fair cfa --model small --eps 0.1 --steps 2 --epochs 2 --batch-size 32 --seed 3 --out t"
    done = leastwise(*made.split(), "--per-class", "14", "--valid-per-class", "0", "--best-by", "last", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    theirs = load_checkpoint(tmp_path / "t" / "last.pt")
    lines = [json.loads(line) for line in (tmp_path / "t" / "epochs.jsonl").read_text().splitlines()]

    data = load("fashion-mini", "train").take(14)
    net = build("small", data.shape, data.k, seed=3)
    step = lw.TRADES(eps=0.1, steps=2, policy=lw.CFA(), classes=data, seed=3)
    seen = train_by_hand(step, net, data, epochs=2, batch=32, peak=0.2)
    ours, expected = net.state_dict(), theirs.state_dict()
    assert all(torch.equal(ours[name], value) for name, value in expected.items()) and len(ours) == len(expected)
    for epoch, line in zip(seen, lines, strict=True):
        assert epoch.loss == line["loss"]
        assert epoch.train.robust.correct.tolist() == line["attacked"]["correct"]
        assert epoch.states[0]["radius"].tolist() == line["policies"][0]["radius"]
    assert step.states[0]["radius"].tolist() != seen[-1].states[0]["radius"].tolist()


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_by_hand_is_that_of_the_loop(policy: str) -> None:
    """In float64, with the order that the step's sampler gives, which is the loop's."""
    chosen = with_numbers(POLICIES[policy].policy, 5)
    made = [METHODS[name].make(lw.Linf(0.1), 0.025, 2) for name in ("trades", "pgd-at", "rslad")]
    objective = next(one for one in made if not chosen.obstacle(one))
    if objective.needs_teacher:
        objective = objective.taught_by(build("convnet", SHAPE, 5, seed=4).double())
    there = build("convnet", SHAPE, 5, seed=3).double()
    training = Training(objective, 2, 20, OneCycle(0.1), policies=(chosen,), validation=Validation(2))
    *_, last = fit(there, DATA, training)

    here = build("convnet", SHAPE, 5, seed=3).double()
    step = lw.MethodStep(objective, policy=chosen, classes=TRAIN, epochs=2, valid=VALID)
    sampler, schedule, optimiser = step.sampler(TRAIN.labels, TRAIN.ids), OneCycle(0.1), SGD().make(here, 0.0)
    for epoch in range(2):
        here.train()
        batches = np.array_split(np.array(list(sampler)), 5)
        for place, rows in enumerate(batches):
            x, y, ids = TRAIN.batch(rows)
            drawn = None if chosen.sampling(step.states[0]) is not None else ids
            for group in optimiser.param_groups:
                group["lr"] = schedule.rate((epoch * 5 + place + 1) / 11)
            optimiser.zero_grad()
            step(here, x.double(), y, drawn).backward()
            optimiser.step()
        seen = step.end_epoch()
    assert all(torch.equal(a, b) for a, b in zip(here.parameters(), there.parameters(), strict=True))
    assert seen.train.confusion.tolist() == last.seen.train.confusion.tolist()
    assert all(torch.equal(step.states[0][name], value) for name, value in last.states[0].items())


def net_of(k: int = 5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(96, k))


def some(n: int = 15) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(1)), torch.arange(n) % 5


def test_a_plain_module_is_trained_as_the_classifier_around_it() -> None:
    x, y = some()
    x = x.double()
    a = lw.TRADES(eps=0.1, steps=2, classes=5)(net_of().double(), x, y)
    b = lw.TRADES(eps=0.1, steps=2, classes=5, folded=False)(lw.model(net_of().double(), DATA), x, y)
    folded = lw.TRADES(eps=0.1, steps=2, classes=5)(lw.model(net_of().double(), DATA), x, y)
    assert torch.equal(a, b) and folded.item() == pytest.approx(a.item(), rel=1e-9)


def test_the_network_is_left_in_the_modes_that_it_had() -> None:
    x, y = some()
    net = net_of()
    net[1].eval()  # somebody who freezes BatchNorm
    lw.PGD_AT(eps=0.1, steps=2, classes=5)(net, x, y).backward()
    assert net.training and not net[1].training and int(net[1].num_batches_tracked) == 0
    assert all(p.grad is not None for p in net.parameters())


def test_gradients_accumulate_over_parts_of_a_batch() -> None:
    """Without BatchNorm, the mean of two halves' losses is the loss of the whole, given the ids."""
    x, y = some(20)
    ids = torch.arange(20)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 5)).double()
    whole = lw.TRADES(eps=0.1, steps=2, classes=5)(net, x.double(), y, ids)
    step = lw.TRADES(eps=0.1, steps=2, classes=5)
    halves = [step(net, x[part].double(), y[part], ids[part]) for part in (slice(10), slice(10, 20))]
    assert sum(half.item() for half in halves) / 2 == pytest.approx(whole.item(), rel=1e-12)
    assert step.end_epoch().train.n.tolist() == [4] * 5


def test_mixed_precision_crafts_and_trains_near_full_precision() -> None:
    x, y = some()
    full = lw.TRADES(eps=0.1, steps=2, classes=5)(net_of(), x, y)
    net = net_of()
    with torch.autocast("cpu", torch.bfloat16):
        half = lw.TRADES(eps=0.1, steps=2, classes=5)(net, x, y)
    assert half.item() != full.item() and half.item() == pytest.approx(full.item(), rel=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(half).backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in net.parameters())


@pytest.mark.parametrize("stop", [3, 5, 8])
def test_a_saved_state_goes_on_as_if_nothing_had_happened(stop: int, tmp_path: Path) -> None:
    """Stopped in the first epoch, at its end, and in the second; ids are not given."""
    x, y = some(50)

    def begin() -> tuple[nn.Module, torch.optim.Optimizer, lw.MethodStep]:
        net = net_of()
        step = lw.TRADES(eps=0.1, steps=2, policy=[lw.CFA(), "fair-weighting"], classes=5)
        return net, torch.optim.SGD(net.parameters(), 0.1), step

    def work(parts: Any, steps: range) -> None:
        net, optimiser, step = parts
        for number in steps:
            rows = slice(number % 5 * 10, number % 5 * 10 + 10)
            optimiser.zero_grad()
            step(net, x[rows], y[rows]).backward()
            optimiser.step()
            if number % 5 == 4:
                step.end_epoch()

    straight = begin()
    work(straight, range(10))
    first = begin()
    work(first, range(stop))
    torch.save([part.state_dict() for part in first], tmp_path / "s.pt")
    second = begin()
    for part, state in zip(second, torch.load(tmp_path / "s.pt", weights_only=True), strict=True):
        part.load_state_dict(state)
    work(second, range(stop, 10))
    assert all(torch.equal(a, b) for a, b in zip(straight[0].parameters(), second[0].parameters(), strict=True))
    assert repr(straight[2].meter) == repr(second[2].meter)
    assert straight[2].meter.rows() == second[2].meter.rows() and len(second[2].meter.history) == 2


def test_validation_images_may_be_a_pair_of_tensors() -> None:
    x, y = some()
    step = lw.TRADES(eps=0.1, steps=2, policy=lw.WAT(), classes=["ant", "bee", "cat", "dog", "emu"], valid=(x, y))
    step(net_of(), x, y)
    seen = step.end_epoch()
    assert (
        seen.valid is not None
        and seen.valid.robust.n.tolist() == [3] * 5
        and step.meter.last.main == ("valid", "robust")
    )


def test_the_meter_counts_what_the_network_answered() -> None:
    x, y = some(30)
    net = net_of()
    step = lw.STANDARD(classes=["ant", "bee", "cat", "dog", "emu"])
    with torch.no_grad():
        expected = torch.bincount(y[net(x).argmax(1) == y], minlength=5)
    step(net, x[:30], y)
    assert step.end_epoch().train.clean.correct.tolist() == expected.tolist()
    rows = step.meter.rows()
    assert [(row["class"], row["n"], row["correct"]) for row in rows] == [
        (name, 6, int(right)) for name, right in zip(step.names, expected, strict=True)
    ]
    assert len(repr(step.meter).splitlines()) <= 10 and repr(step.meter).count("<- worst") == 1


def test_a_thousand_classes_print_ten_lines() -> None:
    step = lw.STANDARD(classes=1000)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 1000))
    step(net, torch.rand(2000, *SHAPE), torch.arange(2000) % 1000)
    step.end_epoch()
    assert len(repr(step.meter).splitlines()) == 10 and "and 992 more classes" in repr(step.meter)


def test_listeners_hear_what_an_epoch_saw() -> None:
    heard: list[tuple[int, tuple[str, ...]]] = []
    step = lw.STANDARD(classes=5, listen=[lambda seen, names: heard.append((seen.number, tuple(names)))])
    step(net_of(), *some())
    step.end_epoch()
    assert heard == [(1, ("0", "1", "2", "3", "4"))]


def test_every_method_has_a_name_with_its_settings() -> None:
    for name, row in METHODS.items():
        maker = getattr(lw, name.upper().replace("-", "_"))
        assert isinstance(maker, StepMaker) and maker.name == name and row.equation in str(inspect.getdoc(maker))
        known = inspect.signature(maker).parameters
        made = row.make(lw.Linf(8 / 255), 2 / 255, 10)
        for field in vars(made):
            assert RENAMED.get(field, field) in known or field in ("attack", "temperatures")
        further = {
            "single-class-at": {"attacked_classes": [1, 2]},
            "rslad": {"teacher": net_of()},
            "ard": {"teacher": net_of()},
        }
        assert type(maker(classes=5, **further.get(name, {})).objective) is type(made)


def test_settings_go_by_the_letters_of_the_papers() -> None:
    step = lw.TRADES(eps=0.1, steps=7, beta=[1.0, 2.0, 3.0], start="zero", goal="margin", norm="l2", classes=3)
    assert step.objective == lw.TRADES(attack=step.objective.attack, beta=(1.0, 2.0, 3.0), classes=3).objective
    assert str(step.objective.attack).startswith("7 steps of 0.025 on the margin with kappa = 50, L2 eps 0.1, from the")


X, Y = some()


def trades(**settings: Any) -> lw.MethodStep:
    return lw.TRADES(**({"classes": 5} | settings))


def ask(step: lw.MethodStep, x: torch.Tensor = X, y: torch.Tensor = Y, mode: bool = True) -> torch.Tensor:
    return step(net_of().train(mode), x, y)


REFUSED = {
    "an unknown setting": (lambda: trades(bta=4), "trades has no setting 'bta': did you mean beta?"),
    "no classes": (lambda: lw.TRADES(), "trades needs classes=…: their number, their names, or the training data"),
    "one class": (lambda: trades(classes=1), "classes are two or more different names, or their number, but saw 1"),
    "an unknown policy": (lambda: trades(policy="cfs"), "there is no class-wise policy 'cfs'"),
    "a type in place of a policy": (lambda: trades(policy=[lw.CFA]), "a policy is a value such as lw.CFA()"),
    "an unknown norm": (lambda: trades(norm="l3"), "there is no norm 'l3': choose linf, l2, l1"),
    "an unknown start": (lambda: trades(start="one"), "start must be zero or uniform or gaussian"),
    "counts missing": (lambda: trades(policy=lw.LDAM()), "LDAM goes by the number of training images of each class"),
    "epochs missing": (lambda: trades(policy=lw.DAFA()), "DAFA begins at a share of the training: give epochs=…"),
    "validation missing": (lambda: trades(policy=lw.WAT()), "WAT learns from validation images: give valid=…"),
    "validation of others": (lambda: trades(classes=4, valid=DATA), "have 5 classes, but there are 4 to train"),
    "a policy that cannot act": (lambda: lw.STANDARD(classes=5, policy=lw.CFA()), "CFA changes radii"),
    "AWP without a length": (lambda: trades(awp=0.005), "AWP begins at a share of the training: give epochs=…"),
    "a teacher missing": (lambda: lw.RSLAD(classes=5), "learns from a robust network: give teacher=net"),
    "a teacher in vain": (lambda: trades(teacher=net_of()), "TRADES has no use for a teacher"),
    "images missing": (lambda: trades(policy=lw.MR2()), "MR2 looks at training images after each epoch"),
    "the evaluation mode": (lambda: ask(trades(), mode=False), "call net.train() before step(net, x, y)"),
    "pixels of 0 to 255": (lambda: ask(trades(), 255 * X), "divide them by 255"),
    "whole numbers": (lambda: ask(trades(), (255 * X).byte()), "must be floats in [0, 1], but saw torch.uint8: divide"),
    "normalised pixels": (lambda: ask(trades(), X - 0.5), "put the normalisation into the model"),
    "a label out of range": (lambda: ask(trades(classes=4)), "labels must be 0 to 3, but saw 0 to 4"),
    "labels of another length": (lambda: ask(trades(), X, Y[:3]), "one whole number for each of 15 images"),
    "an epoch without batches": (lambda: trades().end_epoch(), "no batch was seen in this epoch"),
    "draws in vain": (lambda: ask(trades(policy=lw.Balanced())), "sampler=step.sampler(labels)"),
    "a state of another step": (
        lambda: trades().load_state_dict(trades(beta=4).state_dict()),
        "the state of another step: method.beta 4 and 6",
    ),
    "no state at all": (lambda: trades().load_state_dict({"epoch": 3}), "this is not the state of a step"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_mistake_is_one_sentence_with_the_fix(what: str) -> None:
    act, sentence = REFUSED[what]
    with pytest.raises(ValueError) as error:
        act()
    assert sentence in str(error.value) and "\n" not in str(error.value)
