"""Students of a robust teacher, and the two policies that make such lessons fair, against their formulas."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Gaussian, Linf
from leastwise.core.recipe import recipe_key
from leastwise.models.classifier import Classifier, inference
from leastwise.training.base import Epoch, NetworkLook, Seen, TeacherTemperatures
from leastwise.training.compose import apply_temperatures, check_policies
from leastwise.training.loop import fit
from leastwise.training.methods.distillation import Distillation
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.distilling import ABSLD, LOSSES, SURVIVED, FairARD, weights_by_survival
from leastwise.training.policies.margins import MR2, SPREAD
from leastwise.training.recipe import Training, Validation
from leastwise.training.registry import METHODS
from leastwise.training.schedules import OneCycle
from tests.conftest import B, K
from tests.training.batches_and_losses import ON_KL, batch, blobs, fresh, terms_of, under

START = PGD(Linf(0.1), step=0.05, steps=2, start=Gaussian(0.001))


def teacher() -> Classifier:
    return fresh(seed=9)


def divergence(p: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """KL from a distribution to the softmax of logits, by torch's own function."""
    return F.kl_div(z.log_softmax(1), p, reduction="none").sum(1)


def climbed(student: nn.Module, target: torch.Tensor, x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Two steps of 0.05 up KL(target || S(x')) in the ball of 0.1: the loop that released code has."""
    at = start
    for _ in range(2):
        at = at.detach().requires_grad_()
        (g,) = torch.autograd.grad(divergence(target, student(at)).sum(), at)
        at = (x + (at.detach() + 0.05 * g.sign() - x).clamp(-0.1, 0.1)).clamp(0, 1)
    return at.detach()


def test_rslad_written_out() -> None:
    x, _, noise = batch()
    student, t = fresh(), teacher()
    with inference(student), torch.no_grad():
        soft = t.eval()(x).softmax(1)
    start = (x + 0.001 * noise.fork("start").normal(x.shape[1:], torch.float64).clamp(-100, 100)).clamp(0, 1)
    with inference(student):
        x_adv = climbed(student, soft, x, start)
    terms = terms_of(Distillation(START).taught_by(t), student)
    wanted = divergence(soft, student(x)) / 6 + 5 / 6 * divergence(soft, student(x_adv))
    assert torch.allclose(terms.per_example, wanted, rtol=1e-8)


def test_ard_is_the_scaled_divergence_at_its_temperature_on_points_of_cross_entropy() -> None:
    x, y, noise = batch()
    student, t = fresh(), teacher()
    method = METHODS["ard"].make(Linf(0.1), 0.05, 2).taught_by(t)
    with inference(student), torch.no_grad():
        soft = (t.eval()(x) / 30).softmax(1)
    with inference(student):
        x_adv = method.attack.perturb(student, x, y, noise)
    assert torch.allclose(terms_of(method, student).per_example, 900 * divergence(soft, student(x_adv) / 30), rtol=1e-8)


def test_a_student_that_is_its_teacher_has_nothing_to_learn_on_clean_images() -> None:
    x, y, _ = batch()
    t = teacher().eval()
    lesson = Distillation(START, share=0.0).taught_by(t)
    assert lesson.loss(t, x, y, lesson.craft(t, x, y, batch()[2])).per_example.abs().max() < 1e-12


def test_the_teacher_stays_as_it_is_and_is_no_part_of_the_key() -> None:
    t = teacher()
    before = {name: value.clone() for name, value in t.state_dict().items()}
    data = blobs((30, 30, 30), shape=(3, 8, 6))
    model, t3 = fresh(k=3), fresh(k=3, seed=4)
    base = Training(Distillation(START).taught_by(t3), 1, 30, OneCycle(0.1), validation=Validation(2))
    *_, last = fit(model, data, base)
    assert last.seen.train.robust.n.sum() > 0 and not any(p.requires_grad for p in t3.parameters())
    terms_of(Distillation(START).taught_by(t), fresh())
    assert all(torch.equal(before[name], value) for name, value in t.state_dict().items())
    assert recipe_key(Distillation(START)) == recipe_key(Distillation(START).taught_by(t))


def test_a_method_without_its_teacher_and_a_teacher_without_a_use_are_refused() -> None:
    with pytest.raises(ValueError, match="give its checkpoint with --teacher"):
        next(fit(fresh(k=3), blobs((9, 9, 9), shape=(3, 8, 6)), Training(Distillation(START), 1, 9, OneCycle(0.1))))
    with pytest.raises(ValueError, match="TRADES has no use for a teacher"):
        TRADES(ON_KL).taught_by(teacher())
    with pytest.raises(ValueError, match="TRADES has none: use rslad or ard"):
        check_policies(TRADES(ON_KL), (ABSLD(),))


# ABSLD.


def test_absld_divides_the_teachers_logits_class_by_class() -> None:
    x, y, noise = batch()
    student, t = fresh(), teacher()
    hot, cold = torch.linspace(0.5, 2.0, K).double(), torch.linspace(3.0, 0.6, K).double()
    terms = under(Distillation(START).taught_by(t), ABSLD(), student, {"adversarial": hot, "clean": cold})
    with torch.no_grad():
        said = t.eval()(x)
    for_adversarial, for_clean = (said / hot[y][:, None]).softmax(1), (said / cold[y][:, None]).softmax(1)
    start = (x + 0.001 * noise.fork("start").normal(x.shape[1:], torch.float64)).clamp(0, 1)
    with inference(student):
        x_adv = climbed(student, for_adversarial, x, start)
    wanted = divergence(for_clean, student(x)) / 6 + 5 / 6 * divergence(for_adversarial, student(x_adv))
    assert torch.allclose(terms.per_example, wanted, rtol=1e-8)


def test_absld_moves_temperatures_down_where_the_loss_is_high_and_keeps_them_in_bounds() -> None:
    loss = torch.tensor([1.0, 3.0, 2.0, torch.nan, 2.0], dtype=torch.float64)
    policy = ABSLD(rate=0.2)
    seen = Epoch(1, 9, 0.1, Seen.empty(K), observed={LOSSES[0]: loss, LOSSES[1]: torch.full((K,), 2.0).double()})
    s = policy.update(policy.init(torch.ones(K, dtype=torch.int64)), seen)
    assert s["adversarial"].tolist() == pytest.approx([1.2, 0.8, 1.0, 1.0, 1.0]) and s["clean"].tolist() == [1.0] * K
    for _ in range(40):
        s = policy.update(s, seen)
    assert s["adversarial"].tolist() == pytest.approx([5.0, 0.5, 1.0, 1.0, 1.0])


# What policies look at after an epoch.


def look_at(model: Classifier, objective: Distillation | TRADES, sizes: tuple[int, ...]) -> NetworkLook:
    return NetworkLook(model, objective, blobs(sizes, shape=(3, 8, 6)), 0, "cpu")


def test_fair_ard_counts_the_points_at_which_images_are_still_right() -> None:
    model = fresh()
    look = look_at(model, TRADES(replace(ON_KL, steps=4)), (7, 5, 0, 6, 9))
    with inference(model):
        kappa = FairARD().observe(look, {})[SURVIVED]
        slow = torch.zeros(K).double()
        for x, y, noise in look.batches():
            for steps in range(4):  # the point after so many steps
                at = replace(ON_KL, steps=steps).perturb(model, x, y, noise)
                slow.index_add_(0, y, (model(at).argmax(1) == y).double())
    n = torch.tensor([7, 5, 0, 6, 9])
    assert torch.allclose(kappa[n > 0], slow[n > 0] / n[n > 0]) and kappa[2].isnan()


def test_fair_ards_weights_are_the_codes() -> None:
    kappa = torch.tensor([9.5, 2.0, 6.0, 8.0, 5.0], dtype=torch.float64)
    raw = (1 / kappa) ** 2
    s = FairARD().update({}, Epoch(1, 9, 0.1, Seen.empty(K), observed={SURVIVED: kappa}))
    assert torch.allclose(s["weight"], (raw * K / raw.sum()).clamp(5 / 6, 5 / 2), rtol=1e-4)
    never = weights_by_survival(torch.tensor([0.0, 3.0, torch.nan]).double(), 2.0)
    assert never.isfinite().all() and never[2] == 1 and never[0] > 1.99


def test_fair_ard_looks_through_the_attack_away_from_the_teacher() -> None:
    model, objective = fresh(), Distillation(START).taught_by(teacher())
    with inference(model):
        with_teacher = FairARD().observe(look_at(model, objective, (7, 5, 3, 6, 9)), {})[SURVIVED]
    assert with_teacher.isfinite().all() and (with_teacher <= 2).all()


def test_absld_looks_at_both_losses_through_the_present_temperatures() -> None:
    model, t = fresh(), teacher()
    objective, policy = Distillation(START).taught_by(t), ABSLD()
    look = look_at(model, objective, (7, 5, 0, 6, 9))
    state = {"adversarial": torch.linspace(0.5, 3, K).double(), "clean": torch.ones(K).double()}
    with inference(model):
        found = policy.observe(look, state)
        for x, y, noise in look.batches():  # one batch
            held = apply_temperatures(objective, ((policy, state),), y)
            assert held.temperatures is not None and torch.equal(held.temperatures.adversarial, state["adversarial"][y])
            x_adv = held.attack_on(x).perturb(model, x, y, noise)
            for name, image in zip(LOSSES, (x_adv, x), strict=True):
                by_hand = [F.cross_entropy(model(image)[y == c], y[y == c]).item() for c in (0, 1, 3, 4)]
                assert found[name][[0, 1, 3, 4]].tolist() == pytest.approx(by_hand) and found[name][2].isnan()


def test_mr2s_margins_follow_the_cube_root_of_the_spread() -> None:
    model, policy = fresh(), MR2(scale=2.0)
    look = look_at(model, TRADES(ON_KL), (7, 5, 0, 6, 9))
    with inference(model):
        spread = policy.observe(look, {})[SPREAD]
        x, y, _ = next(look.batches())
        f = model.features(x)
    by_hand = [
        f[y == c].mean(0).square().sum() + (f[y == c] - f[y == c].mean(0)).square().sum(1).mean() for c in (0, 1, 3, 4)
    ]
    assert torch.allclose(spread[[0, 1, 3, 4]], torch.stack(by_hand)) and spread[2].isnan()
    s = policy.update({}, Epoch(1, 9, 0.1, Seen.empty(K), observed={SPREAD: spread}))
    roots = torch.stack(by_hand) ** (1 / 3)
    assert torch.allclose(s["margin"][[0, 1, 3, 4]], 2 * 4 * roots / roots.sum()) and s["margin"][2] == 2


def test_mr2_changes_the_labels_loss_alone() -> None:
    _, y, _ = batch()
    model, margin = fresh(), torch.linspace(0.5, 1.5, K).double()
    terms, plain = under(TRADES(ON_KL), MR2(), model, {"margin": margin}), terms_of(TRADES(ON_KL), model)
    z = plain.clean / margin[y][:, None]
    assert torch.allclose(terms.label, F.cross_entropy(z, y, reduction="none"))
    assert torch.allclose(terms.divergence, plain.divergence)


@pytest.mark.parametrize("policy", [FairARD(), MR2(), ABSLD()], ids=lambda p: p.recipe_name)
def test_a_training_with_a_look_goes_on_as_if_it_had_not_been_stopped(policy: FairARD | MR2 | ABSLD) -> None:
    data = blobs((30, 30, 12), shape=(3, 8, 6))
    objective = Distillation(START).taught_by(fresh(k=3, seed=4))
    training = Training(objective, 3, 20, OneCycle(0.1), policies=(policy,), validation=Validation(2))
    model = fresh(k=3)
    snapshots, weights = [], []
    for now in fit(model, data, training):
        snapshots.append(now)
        weights.append({name: value.clone() for name, value in model.state_dict().items()})
    again = fresh(k=3, seed=77)
    again.load_state_dict(weights[0])
    *_, last = fit(again, data, training, after=snapshots[0])
    assert all(torch.equal(weights[-1][name], value) for name, value in again.state_dict().items())
    moved = [
        not torch.equal(value, policy.init(torch.ones(3, dtype=torch.int64))[name])
        for name, value in last.states[0].items()
    ]
    assert any(moved)


def test_temperatures_of_several_policies_would_multiply() -> None:
    _, y, _ = batch()
    s = {"adversarial": torch.full((K,), 2.0).double(), "clean": torch.full((K,), 3.0).double()}
    objective = Distillation(START).taught_by(teacher())
    both = apply_temperatures(objective, ((ABSLD(), s), (ABSLD(), s)), y)
    assert isinstance(both.temperatures, TeacherTemperatures)
    assert both.temperatures.adversarial.tolist() == [4.0] * B and both.temperatures.clean.tolist() == [9.0] * B
