"""Objectives: identities, closed forms and slow references of every loss."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from leastwise.attacks.goals import CE, Toward
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Gaussian, Linf
from leastwise.core.losses import ce, entropy, kl, smooth_labels, soft_ce
from leastwise.models.classifier import inference
from leastwise.models.zoo.registry import build
from leastwise.training.base import Objective
from leastwise.training.methods.avmixup import AVmixup
from leastwise.training.methods.bat import BAT, above_uniform
from leastwise.training.methods.hypersphere import HE, margin_ce
from leastwise.training.methods.mart import MART, boosted_ce
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.single_class import SingleClassAT, TargetedAT
from leastwise.training.methods.standard import Standard
from leastwise.training.methods.trades import TRADES
from leastwise.training.registry import METHODS
from tests.conftest import B, K
from tests.training.batches_and_losses import ON_CE, ON_KL, agree, batch, fresh, gradient, terms_of


def same(a: Objective, b: Objective, arch: str = "convnet") -> bool:
    model = fresh(arch)
    return agree(gradient(terms_of(a, model), model), gradient(terms_of(b, model), model))


@pytest.mark.parametrize("convention", ["all", "others"])
def test_p7_label_smoothing_of_zero_is_cross_entropy_and_both_conventions_are_kept(convention: str) -> None:
    assert same(Standard(smoothing=0.0, convention=convention), Standard())
    model = fresh()
    _, y, _ = batch()
    terms = terms_of(Standard(smoothing=0.1, convention=convention), model)
    assert torch.allclose(
        terms.label, soft_ce(terms.clean, smooth_labels(y, K, 0.1, convention=convention, dtype=torch.float64))
    )
    on_label = smooth_labels(y, 10, 0.1, convention=convention)[0, y[0]].item()
    assert on_label == pytest.approx({"all": 0.91, "others": 0.90}[convention])


def test_p7_the_entropy_bonus_is_a_divergence_from_uniform() -> None:
    model = fresh()
    terms = terms_of(Standard(entropy=2.0), model)
    _, y, _ = batch()
    p = terms.clean.softmax(1)
    divergence = (p * (p * K).log()).sum(1)
    assert torch.allclose(math.log(K) - entropy(terms.clean), divergence) and (divergence >= 0).all()
    assert torch.allclose(terms.label, ce(terms.clean, y) + 2 * divergence - 2 * math.log(K))
    assert same(Standard(entropy=0.0), Standard())


def test_p6_maximum_entropy_of_zero_is_the_method_itself() -> None:
    assert same(PGDAT(ON_CE, entropy=0.0), PGDAT(ON_CE))
    assert same(TRADES(ON_KL, entropy=0.0), TRADES(ON_KL))


def test_p6_both_forms_of_me_trades_agree_in_value_and_gradient() -> None:
    """CE + λ·KL - β·H  =  CE - (λ + β)·H(p(x)) - λ·Σ p(x) log p(x')."""
    model = fresh()
    _, y, _ = batch()
    ours = terms_of(TRADES(ON_KL, beta=15.0, entropy=1.0), model)
    clean, adversarial = ours.clean, ours.adversarial
    cross = -(clean.softmax(1) * adversarial.log_softmax(1)).sum(1)
    other = ours._replace(label=ce(clean, y) - 16 * entropy(clean) + 15 * cross, divergence=None)
    parameters = list(model.parameters())
    a, b = (torch.autograd.grad(t.per_example.mean(), parameters, retain_graph=True) for t in (ours, other))
    assert torch.allclose(ours.per_example, other.per_example, rtol=1e-9)
    assert all(torch.allclose(p, q, atol=1e-10) for p, q in zip(a, b, strict=True))


def test_p19_detaching_the_clean_branch_would_remove_the_entropy_gradient() -> None:
    """What a detached p(x) would lose is exactly the gradient of -λH(p) - λΣ p log p' with p' held fixed."""
    model = fresh()
    terms = terms_of(TRADES(ON_KL, beta=6.0), model)
    clean = terms.clean.detach().requires_grad_()
    adversarial = terms.adversarial.detach()
    (lost,) = torch.autograd.grad(6 * kl(clean, adversarial).sum(), clean)
    fixed = -6 * entropy(clean) - 6 * (clean.softmax(1) * adversarial.log_softmax(1)).sum(1)
    (wanted,) = torch.autograd.grad(fixed.sum(), clean)
    assert torch.allclose(lost, wanted, atol=1e-12) and lost.abs().max() > 1e-4


@pytest.mark.parametrize("objective", [TRADES(ON_KL), TRADES(ON_KL, entropy=1.0), MART(ON_CE)], ids=str)
def test_p19_gradients_reach_clean_logits_and_never_the_adversarial_image(objective: Objective) -> None:
    x, y, noise = batch()
    model = fresh()
    with inference(model):
        crafted = objective.craft(model, x, y, noise)
    assert not crafted.requires_grad and crafted.grad_fn is None
    terms = objective.loss(model, x, y, crafted)
    clean, adversarial = torch.autograd.grad(terms.per_example.sum(), (terms.clean, terms.adversarial))
    assert clean.abs().max() > 0 and adversarial.abs().max() > 0


def test_p12_mart_with_beta_zero_is_its_boosted_cross_entropy() -> None:
    model = fresh()
    _, y, _ = batch()
    terms = terms_of(MART(ON_CE, beta=0.0), model)
    p = terms.adversarial.softmax(1)
    runner_up = p.scatter(1, y[:, None], -1).amax(1)
    slow = -p.gather(1, y[:, None]).squeeze(1).log() - (1 - runner_up).log()
    assert torch.allclose(terms.per_example, slow, rtol=1e-10)


def test_p12_mart_with_two_classes_is_twice_cross_entropy_and_forgets_sure_examples() -> None:
    z, y = torch.randn(B, 2, dtype=torch.float64), torch.arange(B) % 2
    assert torch.allclose(boosted_ce(z, y), 2 * ce(z, y), rtol=1e-10)
    # Perfectly confident clean predictions leave the divergence no weight, whatever it is.
    model = fresh()
    terms = terms_of(MART(ON_CE), model)
    unsure = 1 - terms.clean.softmax(1).gather(1, batch()[1][:, None]).squeeze(1)
    assert torch.allclose(terms.divergence, kl(terms.clean, terms.adversarial) * unsure)


def test_p12_hypersphere_logits_are_cosines_and_without_margin_it_is_scaled_cross_entropy() -> None:
    model = fresh("convnet+cosine")
    _, y, _ = batch()
    terms = terms_of(HE(ON_CE, scale=10.0, margin=0.0), model)
    assert (terms.adversarial.abs() <= 10 + 1e-9).all()
    assert torch.allclose(terms.label, ce(terms.adversarial, y))
    cosine = terms.adversarial / 10
    by_hand = torch.stack(
        [
            -torch.log(
                torch.exp(15 * (c[t] - 0.2))
                / (torch.exp(15 * (c[t] - 0.2)) + sum(torch.exp(15 * c[j]) for j in range(K) if j != t))
            )
            for c, t in zip(cosine, y.tolist(), strict=True)
        ]
    )
    assert torch.allclose(margin_ce(cosine, y, scale=15.0, margin=0.2), by_hand)


def test_hypersphere_attacks_what_the_loss_sees_and_needs_cosines() -> None:
    x, y, noise = batch()
    model = fresh("convnet+cosine")
    with inference(model):
        ours = HE(ON_CE, scale=10.0).craft(model, x, y, noise)
        sharpened = replace(ON_CE, goal=CE(inverse_temperature=10.0)).perturb(model, x, y, noise)
    assert torch.equal(ours, sharpened)
    HE(ON_CE).check_network(model)
    for arch in ("convnet", "lenet5", "small"):  # whose first logits may well lie between -1 and 1
        with pytest.raises(
            ValueError, match=r"its last layer is a Linear: use a cosine head, such as --model small\+cosine"
        ):
            HE(ON_CE).check_network(build(arch, (3, 32, 32), K))
    with pytest.raises(ValueError, match="climbs the KL"):
        HE(ON_CE, beta=6.0)


def test_p10_avmixup_at_its_ends_is_standard_training_and_pgd_at() -> None:
    x, y, noise = batch()
    model = fresh()
    with inference(model):
        x_adv = ON_CE.perturb(model, x, y, noise)
    whole, none = torch.ones(B, dtype=torch.float64), torch.zeros(B, dtype=torch.float64)
    clean = AVmixup(ON_CE, clean=1.0).loss(model, x, y, (x_adv, whole))
    vertex = AVmixup(ON_CE, gamma=1.0, vertex=1.0).loss(model, x, y, (x_adv, none))
    assert torch.allclose(clean.label, ce(model(x), y)) and torch.allclose(vertex.label, ce(model(x_adv), y))


@pytest.mark.parametrize(("k", "true", "other"), [(10, 0.1, 0.1), (100, 0.1, 0.9 / 99)])
def test_g11_avmixups_vertex_label(k: int, true: float, other: float) -> None:
    from leastwise.data.augment.avmixup import soften_labels

    q = soften_labels(torch.tensor([3]), k, 0.1)[0]
    assert q[3].item() == pytest.approx(true) and q[0].item() == pytest.approx(other, abs=1e-7)


def test_p13_single_class_training_of_none_is_standard_and_of_all_is_pgd_at() -> None:
    model = fresh()
    none = gradient(terms_of(SingleClassAT(ON_CE, classes=()), model), model)
    assert agree(none, gradient(terms_of(Standard(), model), model))
    everyone = gradient(terms_of(SingleClassAT(ON_CE, classes=tuple(range(K))), model), model)
    assert agree(everyone, gradient(terms_of(PGDAT(ON_CE), model), model))


def test_single_class_training_attacks_that_class_alone_as_pgd_at_would() -> None:
    x, y, noise = batch()
    model = fresh()
    with inference(model):
        ours = SingleClassAT(ON_CE, classes=(2,)).craft(model, x, y, noise)
        everyone = ON_CE.perturb(model, x, y, noise)
    assert torch.allclose(ours[y == 2], everyone[y == 2]) and torch.equal(ours[y != 2], x[y != 2])
    assert (y == 2).any()


def test_targeted_training_goes_towards_its_class() -> None:
    x, y, noise = batch()
    model = fresh()
    with inference(model):
        ours = TargetedAT(ON_CE, target=1).craft(model, x, y, noise)
        toward = replace(ON_CE, goal=Toward(1)).perturb(model, x, y, noise)
        before, after = (model(v).softmax(1)[y != 1, 1].mean() for v in (x, ours))
    assert torch.allclose(ours[y != 1], toward[y != 1]) and torch.equal(ours[y == 1], x[y == 1]) and after > before


def test_p20_bats_uniform_terms_are_the_missing_entropy() -> None:
    z = torch.randn(B, K, dtype=torch.float64)
    p = z.softmax(1)
    assert torch.allclose(above_uniform(z), (p * (p / (1 / K)).log()).sum(1))


@pytest.mark.parametrize("patience", [0, 1, 3])
def test_bat_takes_the_points_around_the_first_mistake(patience: int) -> None:
    """Against a loop over examples that keeps every iterate."""
    x, y, noise = batch(40)
    model = fresh(seed=5)
    attack = PGD(Linf(0.3), ON_KL.goal, step=0.03, steps=6, start=Gaussian(0.001))
    with inference(model):
        right, wrong = BAT(attack, patience=patience).craft(model, x, y, noise)
        iterates = [replace(attack, steps=t).perturb(model, x, y, noise) for t in range(7)]
        verdicts = [(model(at).argmax(1) != y).tolist() for at in iterates]
    kinds = set()
    for i in range(len(y)):
        first = next((t for t in range(7) if verdicts[t][i]), None)
        kinds.add("never" if first is None else "start" if first == 0 else "later")
        before = iterates[6][i] if first is None else x[i] if first == 0 else iterates[first - 1][i]
        after = iterates[6][i] if first is None else iterates[min(first + patience, 6)][i]
        assert torch.equal(right[i], before) and torch.equal(wrong[i], after)
    assert "start" in kinds and len(kinds) > 1


def test_friendly_training_stops_after_the_first_mistake() -> None:
    x, y, noise = batch()
    model = fresh()
    made = METHODS["fat"].make(Linf(0.1), 0.02, 10)
    with inference(model):
        ours = made.craft(model, x, y, noise)
        whole = METHODS["pgd-at"].make(Linf(0.1), 0.02, 10).craft(model, x, y, noise)
        assert (ce(model(ours), y) <= ce(model(whole), y) + 1e-9).double().mean() > 0.7
    assert (ours - x).abs().max() <= 0.1 + 1e-12


class Permuted(nn.Module):
    """A network whose outputs come in another order."""

    def __init__(self, net: nn.Module, order: torch.Tensor) -> None:
        super().__init__()
        self.net, self.order = net, order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)[:, self.order]


@pytest.mark.parametrize("name", METHODS)
def test_p17_relabelling_the_classes_permutes_every_method(name: str) -> None:
    import copy

    x, y, noise = batch()
    order = torch.tensor([2, 4, 1, 0, 3])  # new class i is old class order[i]
    model = fresh("convnet+cosine" if name.endswith("-he") else "convnet")
    renamed = copy.deepcopy(model)
    last = renamed.net[-1]
    with torch.no_grad():
        for part in last.parameters():
            part.copy_(part[order])
    objective = METHODS[name].make(Linf(0.1), 0.05, 2)
    other = objective
    if isinstance(objective, SingleClassAT):
        objective, other = replace(objective, classes=(2,)), replace(objective, classes=(0,))
    if isinstance(objective, TargetedAT):
        objective, other = replace(objective, target=2), replace(objective, target=0)
    if objective.needs_teacher:
        objective, other = objective.taught_by(fresh(seed=8)), other.taught_by(Permuted(fresh(seed=8), order))
    new = order.argsort()[y]
    with inference(model), inference(renamed):
        a = objective.loss(model, x, y, objective.craft(model, x, y, noise)).per_example
        b = other.loss(renamed, x, new, other.craft(renamed, x, new, noise)).per_example
    assert torch.allclose(a, b, rtol=1e-8)
