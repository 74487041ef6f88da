"""Policies that came after DAFA, against their formulas written out and slow references."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leastwise.attacks.goals import CE, KL, SomeTargeted, Targeted
from leastwise.core.losses import ce, kl
from leastwise.core.noise import Noise
from leastwise.models.classifier import inference
from leastwise.training.base import Epoch, Objective, Policy, Seen
from leastwise.training.compose import apply_radii, apply_targets, check_policies
from leastwise.training.methods.bat import BAT
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.standard import Standard
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.aiming import TRIX, FairTAT, draw_targets
from leastwise.training.policies.confusion import CSR, SyFAR, spectral_costs
from leastwise.training.policies.dafa import class_weights
from tests.conftest import B, K
from tests.training.batches_and_losses import ON_CE, ON_KL, agree, batch, fresh, gradient, terms_of, under

W = torch.tensor([1.3, 0.8, 1.1, 0.7, 1.1], dtype=torch.float64)


def seen_with(confusion: torch.Tensor, probability: torch.Tensor | None = None) -> Seen:
    """What an epoch saw that made these mistakes, label by prediction."""
    return replace(
        Seen.empty(K), confusion=confusion, probability=confusion.double() if probability is None else probability
    )


def some_mistakes(seed: int = 0) -> torch.Tensor:
    return torch.randint(1, 60, (K, K), generator=torch.Generator().manual_seed(seed))


# A goal for the images that have a target, and another one for the rest.


def test_with_some_targets_each_image_climbs_what_it_would_climb_alone() -> None:
    x, y, noise = batch()
    model, target = fresh(), torch.tensor([(t + 1) % K if i % 2 else -1 for i, t in enumerate(y.tolist())])
    with inference(model):
        mixed = replace(ON_CE, goal=SomeTargeted(CE(), target)).perturb(model, x, y, noise)
        plain = ON_CE.perturb(model, x, y, noise)
        aimed = replace(ON_CE, goal=Targeted(target.clamp_min(0))).perturb(model, x, y, noise)
    some = (target >= 0)[:, None, None, None]
    assert torch.equal(mixed, torch.where(some, aimed, plain)) and not torch.equal(mixed, plain)


# TRIX.


def test_trix_is_dafa_with_strong_classes_attacked_toward_another_class() -> None:
    x, y, noise = batch()
    model, policy = fresh(), TRIX()
    terms = under(TRADES(ON_KL), policy, model, {"weight": W})
    w = W[y]
    strong = [bool(v < w.mean()) for v in w]
    present = (torch.bincount(y, minlength=K) > 0).double().expand(K, K)
    target = draw_targets(present, y, noise.fork("targets"))
    assert any(strong) and not all(strong)
    crafted = x.clone()
    with inference(model):
        for i, goes in enumerate(strong):  # each image alone, by the plain attack with its own radius and step
            one, attack = slice(i, i + 1), ON_KL.at(0.1 * w[i].item(), 0.05 * w[i].item())
            attack = replace(attack, goal=Targeted(target[one]) if goes else KL())
            crafted[one] = attack.perturb(model, x[one], y[one], Noise(0, torch.tensor([i]), "/train"))
    clean, adversarial = model(x), model(crafted)
    assert torch.allclose(terms.per_example, w * ce(clean, y) + 6 * kl(clean, adversarial), rtol=1e-9)


def test_trix_learns_dafas_weights_at_the_end_of_its_warm_up() -> None:
    policy = TRIX(scale=1.5, warmup=0.5)
    s, p = policy.init(torch.tensor([20, 3, 5, 9, 1])), torch.rand(K, K, dtype=torch.float64).softmax(1)
    seen = seen_with(torch.full((K, K), 20), 100 * p)
    assert policy.update(s, Epoch(4, 10, 0.1, seen)) is s
    assert torch.allclose(policy.update(s, Epoch(5, 10, 0.1, seen))["weight"], class_weights(p, 1.5))


def test_before_its_warm_up_trix_is_the_plain_method() -> None:
    model = fresh()
    assert agree(gradient(under(TRADES(ON_KL), TRIX(), model), model), gradient(terms_of(TRADES(ON_KL), model), model))


# FAIR-TAT.


def test_fair_tat_goes_where_others_are_taken_for() -> None:
    confusion = some_mistakes()
    s = FairTAT().update(FairTAT().init(torch.ones(K, dtype=torch.int64)), Epoch(1, 10, 0.1, seen_with(confusion)))
    n = confusion.sum(1).numpy()
    by_hand = [sum(int(confusion[i, j]) for i in range(K) if i != j) / (n.sum() - n[j]) for j in range(K)]
    assert s["score"].tolist() == pytest.approx(by_hand)
    y = torch.full((40_000,), 2)
    drawn = FairTAT().targets(y, s, Noise(0, torch.arange(len(y))))
    wanted = np.array([0 if j == 2 else by_hand[j] for j in range(K)])
    assert np.bincount(drawn.numpy(), minlength=K) / len(y) == pytest.approx(wanted / wanted.sum(), abs=0.01)


def test_targets_are_never_the_label_nor_a_class_without_images() -> None:
    s = FairTAT().init(torch.tensor([20, 0, 5, 9, 1]))
    y = torch.arange(K).repeat(200)
    drawn = FairTAT().targets(y, s, Noise(1, torch.arange(len(y))))
    assert (drawn != y).all() and set(drawn.tolist()) == {0, 2, 3, 4}
    alone = draw_targets(torch.eye(K, dtype=torch.float64), y, Noise(1, torch.arange(len(y))))
    assert (alone == -1).all()


def test_an_images_target_does_not_depend_on_its_batch() -> None:
    _, y, noise = batch()
    s = {"score": torch.tensor([0.3, 0.1, 0.2, 0.2, 0.4], dtype=torch.float64)}
    whole = FairTAT().targets(y, s, noise)
    assert torch.equal(FairTAT().targets(y[3:7], s, noise.pick(torch.arange(3, 7))), whole[3:7])


# CSR.


def test_csrs_costs_are_the_slope_of_the_spectral_norm() -> None:
    counts = some_mistakes()
    g = spectral_costs(counts, 0.0, 1.0)
    free = counts.double().fill_diagonal_(0).requires_grad_()
    torch.linalg.matrix_norm(free, 2).backward()
    slope = free.grad
    assert torch.allclose(g, (slope - slope.min()) / (slope.max() - slope.min()))
    stretched = spectral_costs(counts, 0.01, 2.01)
    assert stretched.min().item() == pytest.approx(0.01) and stretched.max().item() == pytest.approx(2.01)
    assert torch.equal(spectral_costs(torch.diag(torch.arange(K)), 0.01, 2.01), torch.ones(K, K).double())


def test_csr_written_out() -> None:
    model, cost = fresh(), torch.rand(K, K, dtype=torch.float64)
    _, y, _ = batch()
    terms, plain = under(TRADES(ON_KL), CSR(), model, {"cost": cost}), terms_of(TRADES(ON_KL), model)
    answers = plain.adversarial.argmax(1)
    rows = [
        0.7 * plain.label[i] + 6 * plain.divergence[i] + 0.3 * cost[answers[i], y[i]] * ce(plain.adversarial, y)[i]
        for i in range(B)
    ]
    assert torch.allclose(terms.per_example, torch.stack(rows))


def test_csr_looks_at_validation_first_and_at_training_later() -> None:
    valid, train = seen_with(some_mistakes(1)), seen_with(some_mistakes(2))
    first = CSR().update(CSR().init(torch.ones(K, dtype=torch.int64)), Epoch(0, 2, 0.0, Seen.empty(K), valid))
    later = CSR().update(first, Epoch(1, 2, 0.001, train, valid))
    assert torch.equal(first["cost"], spectral_costs(valid.confusion.T, 0.01, 2.01))
    assert torch.equal(later["cost"], spectral_costs(train.confusion.T, 0.01, 2.01))


# Sy-FAR.


def test_sy_far_written_out() -> None:
    model = fresh()
    _, y, _ = batch()
    terms, plain = under(PGDAT(ON_CE), SyFAR(2.0), model), terms_of(PGDAT(ON_CE), model)
    p, classes = plain.adversarial.softmax(1), sorted(set(y.tolist()))
    mean = {i: p[y == i].mean(0) for i in classes}
    total = sum((mean[i][j] - mean[j][i]) ** 2 for i in classes for j in classes if i < j)
    assert torch.allclose(terms.per_example, plain.per_example + 2 * total)


@pytest.mark.parametrize("policy", [TRIX(), FairTAT(), CSR(), SyFAR()], ids=lambda p: p.recipe_name)
@pytest.mark.parametrize("base", [Standard(), BAT(ON_CE)], ids=lambda o: type(o).__name__)
def test_they_are_refused_where_they_cannot_act(policy: Policy, base: Objective) -> None:
    if isinstance(policy, CSR | SyFAR) and isinstance(base, BAT):
        return check_policies(base, (policy,))
    with pytest.raises(ValueError, match="trades"):
        check_policies(base, (policy,))
    return None


def test_two_policies_do_not_aim_the_same_attack() -> None:
    with pytest.raises(ValueError, match="TRIX and FAIR-TAT both aim attacks: choose one"):
        check_policies(TRADES(ON_KL), (TRIX(), FairTAT()))


def test_radii_and_targets_meet_in_one_attack() -> None:
    _, y, noise = batch()
    held = ((TRIX(), {**TRIX().init(torch.ones(K, dtype=torch.int64)), "weight": W}),)
    attack = apply_targets(apply_radii(TRADES(ON_KL), held, y), held, y, noise=noise).attack
    assert torch.allclose(attack.ball.eps, 0.1 * W[y]) and isinstance(attack.goal, SomeTargeted)
