"""What surrounds a loss: averaging, weight perturbation, schedules, optimisers, settings as text."""

import copy
import math
from dataclasses import replace

import pytest
import torch

from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.core.counts import Tally
from leastwise.models.zoo.layers import gate_parameters
from leastwise.training.averaging import EMA, FAWA, SWA, find_averaging, worst_tenth
from leastwise.training.awp import AWP
from leastwise.training.base import Epoch, Seen
from leastwise.training.loop import fit
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.cfa import CFA
from leastwise.training.recipe import SGD, Adam, Training, Validation, find_optimiser
from leastwise.training.registry import METHODS, POLICIES, apply_settings, find_policy, settings_text
from leastwise.training.schedules import SCHEDULES, Constant, Cosine, Cyclic, OneCycle, Piecewise, Steps, find_schedule
from tests.training.batches_and_losses import ON_CE, ON_KL, agree, batch, blobs, fresh, gradient, terms_of


def run(rule: EMA | SWA | FAWA, values: list[float], tails: list[float]) -> list[float | None]:
    """The average of a single number along a training, epoch by epoch."""
    held: float | None = None
    count, found = 0, []
    for i, value in enumerate(values):
        share = rule.share(count, (i + 1) / len(values), tuple(tails[: i + 1]))
        if share is not None:
            held = value if held is None else held + share * (value - held)
            count += 1
        found.append(held)
    return found


def test_p9_fawa_with_threshold_zero_is_ema_and_above_one_never_begins() -> None:
    values, tails = [3.0, 1.0, 4.0, 1.0, 5.0], [0.1, 0.3, 0.2, 0.4, 0.2]
    assert run(FAWA(0.85, threshold=0.0, start=0.0), values, tails) == run(EMA(0.85, start=0.0), values, tails)
    assert run(FAWA(0.85, threshold=1.1, start=0.0), values, tails) == [None] * 5
    assert run(FAWA(0.0, threshold=0.25, start=0.0), values, tails) == [
        None,
        1.0,
        1.0,
        1.0,
        1.0,
    ]  # the last that passed
    assert run(FAWA(1.0, threshold=0.0, start=0.0), values, tails) == [3.0] * 5  # frozen


def test_the_first_average_is_a_copy_and_equal_models_stay() -> None:
    assert run(EMA(0.5, start=0.0), [2.0, 4.0], [0.0] * 2) == [2.0, 3.0]
    assert run(EMA(0.9, start=0.0), [7.0] * 6, [0.0] * 6) == [7.0] * 6
    assert run(SWA(start=0.5), [1.0, 2.0, 3.0, 4.0], [0.0] * 4) == [None, 2.0, 2.5, 3.0]


def test_fawa_without_a_threshold_works_where_the_worst_class_is_near_zero() -> None:
    """The published thresholds never pass on CIFAR-100; the relative rule takes about half of the epochs."""
    tails = [0.0, 0.01, 0.0, 0.02, 0.015, 0.03, 0.01]
    assert run(FAWA(threshold=0.2, start=0.0), [1.0] * 7, tails) == [None] * 7
    passed = [FAWA(start=0.0).share(1, 1.0, tuple(tails[: i + 1])) is not None for i in range(7)]
    assert passed == [tails[i] >= sorted(tails[: i + 1])[i // 2] for i in range(7)]
    assert passed == [True, True, True, True, True, True, True]
    assert FAWA(start=0.0).share(1, 1.0, (*tails, 0.0)) is None


def test_the_tail_is_the_worst_class_of_ten_and_the_worst_tenth_of_a_hundred() -> None:
    def seen(k: int) -> Epoch:
        right = torch.arange(k)
        confusion = torch.diag(right)
        confusion[:, 0] += k - right
        confusion[0] = torch.eye(k, dtype=torch.int64)[1] * k
        one = replace(Seen.empty(k), confusion=confusion, robust=Tally(torch.full((k,), k), right))
        return Epoch(1, 1, 0.1, one, one)

    assert worst_tenth(seen(10)) == 0.0 and worst_tenth(seen(100)) == pytest.approx(sum(range(10)) / 1000)
    assert math.isnan(worst_tenth(replace(seen(10), valid=None)))


def test_awp_of_zero_is_the_method_and_its_gradient_falls_on_the_weights() -> None:
    model = fresh()
    before = [p.detach().clone() for p in model.parameters()]
    x, y, noise = batch()
    objective = TRADES(ON_KL)
    crafted = objective.craft(model, x, y, noise)

    def loss(at: torch.nn.Module) -> torch.Tensor:
        return objective.loss(at, x, y, crafted).per_example.mean()

    still = AWP(gamma=0.0).perturb(model, loss, lambda tensors: None)
    plain = torch.autograd.grad(loss(model), list(model.parameters()))
    ours = torch.autograd.grad(loss(still), list(model.parameters()))
    assert all(torch.allclose(a, b, atol=1e-14) for a, b in zip(plain, ours, strict=True))
    # Against the usual way: move a copy, take its gradient, move back.
    moved = AWP(gamma=0.01).perturb(model, loss, lambda tensors: None)
    ours = torch.autograd.grad(loss(moved), list(model.parameters()))
    proxy = copy.deepcopy(model)
    with torch.no_grad():
        for w, g in zip(proxy.parameters(), plain, strict=True):
            if w.dim() >= 2:
                w += 0.01 * w.norm() * g / g.norm()
    usual = torch.autograd.grad(loss(proxy), list(proxy.parameters()))
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(ours, usual, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert loss(moved) > loss(model)


def test_awp_leaves_batchnorm_alone_on_its_way_up() -> None:
    model = fresh("small")
    x, y, _ = batch()
    objective = PGDAT(ON_CE)
    buffers = [b.clone() for b in model.buffers()]
    AWP().perturb(model, lambda at: objective.loss(at, x, y, x).per_example.mean(), lambda tensors: None)
    assert all(torch.equal(a, b) for a, b in zip(buffers, model.buffers(), strict=True))


def test_schedules_at_known_points() -> None:
    assert [Cosine(0.2).rate(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([0.2, 0.1, 0])
    assert [Steps(0.1, (0.5, 0.75)).rate(p) for p in (0.0, 0.49, 0.5, 0.75)] == pytest.approx([0.1, 0.1, 0.01, 0.001])
    assert [Cyclic(0.2, 0.0, 2).rate(p) for p in (0.0, 0.25, 0.5, 0.625)] == pytest.approx([0, 0.2, 0, 0.1])
    lines = Piecewise(((0.0, 0.0), (0.5, 0.4), (1.0, 0.0)))
    assert [lines.rate(p) for p in (0.0, 0.25, 0.5, 0.75, 1.0)] == pytest.approx([0, 0.2, 0.4, 0.2, 0])
    assert all(find_schedule(name).rate(0.3) > 0 for name in SCHEDULES)
    with pytest.raises(ValueError, match="no schedule 'twice': choose one-cycle"):
        find_schedule("twice")


def test_drops_fall_on_the_first_step_of_an_epoch() -> None:
    rates = [s.seen.rate for s in fit(fresh().float(), blobs((8, 8, 8, 8, 8), shape=(3, 8, 6)), Training(
        epochs=4, batch_size=10, schedule=Steps(0.1, (0.5, 0.75))))]  # fmt: skip
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.001])


def test_gates_get_ten_times_the_rate_and_no_decay() -> None:
    model = fresh("small+bin")
    for kind in (SGD(weight_decay=0.1), Adam(weight_decay=0.1)):
        groups = kind.make(model, 0.1).param_groups
        assert [g["factor"] for g in groups] == [1.0, 10.0] and [g["weight_decay"] for g in groups] == [0.1, 0.0]
        assert len(groups[1]["params"]) == len(gate_parameters(model))
    assert len(SGD().make(fresh(), 0.1).param_groups) == 1


def test_p24_gates_are_within_zero_and_one_after_every_step() -> None:
    model = fresh("small+bin").float()
    data = blobs((10, 10, 10, 10, 10), shape=(3, 8, 6))
    for _ in fit(model, data, Training(epochs=2, batch_size=10, schedule=Constant(1.0))):
        gates = torch.cat(gate_parameters(model))
        assert gates.min() >= 0 and gates.max() <= 1
    assert gates.min() < 1


PARTS = {"method": TRADES(ON_KL), "cfa": CFA(), "schedule": OneCycle(), "validation": Validation()}


def test_settings_reach_every_part() -> None:
    found = apply_settings(
        PARTS,
        ("beta=4", "entropy=1/2", "cfa.lambda1=0.3", "cfa.margin=false", "schedule.peak=0.1", "validation.every=5",
         "attack.steps=7", "validation.per_class=none", "validation.rule=worst"),
    )  # fmt: skip
    assert found["method"] == TRADES(replace(ON_KL, steps=7), beta=4.0, entropy=0.5)
    assert found["cfa"] == CFA(lambda1=0.3, margin=False) and found["schedule"] == OneCycle(peak=0.1)
    assert found["validation"] == Validation(None, "worst", every=5)
    assert apply_settings(PARTS, ("beta=1,2,3",))["method"].beta == (1.0, 2.0, 3.0)
    assert apply_settings({"method": FAWA()}, ("threshold=0.2",))["method"].threshold == 0.2


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("bta=4", r"TRADES has no setting 'bta': did you mean beta\?"),
        ("lambda1=4", r"TRADES has no setting 'lambda1': did you mean cfa.lambda1\?"),
        ("cfa.lamda1=4", "CFA has no setting 'lamda1'"),
        ("beta", "a setting is written NAME=VALUE"),
        ("beta=much", "beta must be a number such as 0.1"),
        ("cfa.begin=1.5", "cfa.begin must be a whole number"),
        ("cfa.margin=maybe", "must be true or false"),
        ("validation.rule=best", "must be sum or average or worst or last"),
        ("attack=3", "attack has settings of its own: write attack.ball"),
    ],
)
def test_a_mistaken_setting_is_answered_with_the_right_name(text: str, answer: str) -> None:
    with pytest.raises(ValueError, match=answer):
        apply_settings(PARTS, (text,))


def test_every_default_that_is_listed_can_be_set() -> None:
    values = [row.make(Linf(0.1), 0.02, 5) for row in METHODS.values()] + [row.policy for row in POLICIES.values()]
    values += [find_averaging(name) for name in ("ema", "swa", "fawa")]
    values += [find_optimiser(name) for name in ("sgd", "adam", "nesterov")]
    values += [find_schedule(name) for name in SCHEDULES if name != "fast-imagenet"]
    for value in values:
        listed = [word for word in settings_text(value).split() if not word.endswith("=none")]
        again = apply_settings({"method": value}, tuple(listed))["method"]
        assert type(again) is type(value) and settings_text(again) == settings_text(value)


def test_unknown_names_are_answered() -> None:
    with pytest.raises(ValueError, match=r"no class-wise policy 'cfaa': did you mean cfa\?"):
        find_policy("cfaa")
    with pytest.raises(ValueError, match="no averaging 'mean': choose ema, swa, fawa"):
        find_averaging("mean")
    with pytest.raises(ValueError, match="no optimiser 'lion': choose sgd, nesterov, adam"):
        find_optimiser("lion")


def test_an_l2_method_is_the_same_method_in_another_ball() -> None:
    from leastwise.attacks.threats import L2

    made = METHODS["pgd-at"].make(L2(0.5), 0.1, 3)
    model = fresh()
    x, y, noise = batch()
    x_adv = made.craft(model, x, y, noise)
    assert ((x_adv - x).flatten(1).norm(dim=1) <= 0.5 + 1e-9).all()
    assert made.attack == PGD(L2(0.5), PGD().goal, 0.1, 3)
    assert agree(gradient(terms_of(made, model), model), gradient(terms_of(PGDAT(made.attack), model), model))
