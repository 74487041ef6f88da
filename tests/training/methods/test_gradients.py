"""Training losses: identities, where gradients flow, and what is equivariant."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from leastwise.attacks.goals import CE, KL
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Gaussian, Linf
from leastwise.core.losses import ce, entropy, kl
from leastwise.core.noise import Noise
from leastwise.models.classifier import Classifier, inference
from leastwise.models.zoo.registry import build
from leastwise.training.base import Objective
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.standard import Standard
from leastwise.training.methods.trades import TRADES
from leastwise.training.registry import METHODS, find_method
from leastwise.training.schedules import OneCycle
from tests.conftest import SHAPE, B, K

INNER = PGD(Linf(0.1), KL(), step=0.05, steps=2, start=Gaussian(0.001))


def fresh(arch: str = "convnet", seed: int = 3) -> Classifier:
    return build(arch, SHAPE, K, seed=seed).double().train()


@pytest.fixture
def example() -> tuple[torch.Tensor, torch.Tensor, Noise]:
    g = torch.Generator().manual_seed(1)
    x = torch.rand(B, *SHAPE, generator=g, dtype=torch.float64)
    return x, torch.randint(0, K, (B,), generator=g), Noise(0, torch.arange(B), "/train")


LossAndGradient = tuple[torch.Tensor, list[torch.Tensor]]


def loss_and_gradient(objective: Objective, model: nn.Module, example: tuple) -> LossAndGradient:
    x, y, noise = example
    with inference(model):
        crafted = objective.craft(model, x, y, noise)
    per_example = objective.loss(model, x, y, crafted).per_example
    return per_example, list(torch.autograd.grad(per_example.mean(), list(model.parameters())))


def same(a: LossAndGradient, b: LossAndGradient) -> bool:
    return torch.equal(a[0], b[0]) and all(torch.equal(p, q) for p, q in zip(a[1], b[1], strict=True))


def test_p5_trades_with_a_constant_beta_vector_is_scalar_trades(example: tuple) -> None:
    model = fresh()
    scalar, vector = TRADES(INNER, beta=6.0), TRADES(INNER, beta=(6.0,) * K)
    assert same(loss_and_gradient(scalar, model, example), loss_and_gradient(vector, model, example))


def test_p5_trades_with_beta_zero_is_standard_training(example: tuple) -> None:
    model = fresh()
    a, b = (loss_and_gradient(objective, model, example) for objective in (TRADES(INNER, beta=0.0), Standard()))
    assert torch.allclose(a[0], b[0], rtol=1e-14)
    assert all(torch.allclose(p, q, atol=1e-15) for p, q in zip(a[1], b[1], strict=True))


def test_t1_trades_smooths_the_label_of_its_cross_entropy_and_nothing_else(example: tuple) -> None:
    model = fresh()
    for convention in ("all", "others"):
        smooth = TRADES(INNER, beta=0.0, smoothing=0.1, convention=convention)
        alone = Standard(smoothing=0.1, convention=convention)
        a, b = (loss_and_gradient(objective, model, example)[0] for objective in (smooth, alone))
        assert torch.allclose(a, b, rtol=1e-14)
    plain, one = (loss_and_gradient(TRADES(INNER, beta), model, example)[0] for beta in (0.0, 1.0))
    both = loss_and_gradient(replace(smooth, beta=1.0), model, example)[0]
    assert torch.allclose(both - a, one - plain, rtol=1e-9)
    assert same(
        loss_and_gradient(TRADES(INNER, smoothing=0.0), model, example),
        loss_and_gradient(TRADES(INNER), model, example),
    )


def test_t4_an_examples_loss_is_linear_in_the_beta_of_its_class(example: tuple) -> None:
    y = example[1]
    model = fresh()
    betas = torch.tensor([0.5, 1.0, 2.0, 4.0, 8.0], dtype=torch.float64)
    none, one, mixed = (
        loss_and_gradient(TRADES(INNER, beta), model, example)[0] for beta in (0.0, 1.0, tuple(betas.tolist()))
    )
    assert torch.allclose(mixed - none, betas[y] * (one - none), rtol=1e-9)


def test_t4_beta_needs_one_number_per_class(example: tuple) -> None:
    with pytest.raises(ValueError, match=r"one number per class \(5\), but has 3"):
        loss_and_gradient(TRADES(INNER, beta=(1.0, 2.0, 3.0)), fresh(), example)


def test_t3_trades_by_hand_with_the_entropy_decomposition(example: tuple) -> None:
    """L = CE - beta·H(p(x)) - beta·sum p(x) log p(x')."""
    x, y, noise = example
    model = fresh()
    x_adv = INNER.run(model, x, y, noise).x_adv
    clean, adversarial = model(x), model(x_adv)
    ours = loss_and_gradient(TRADES(INNER, beta=6.0), model, example)[0]
    cross = -(clean.softmax(1) * adversarial.log_softmax(1)).sum(1)
    assert torch.allclose(ours, ce(clean, y) - 6 * entropy(clean) + 6 * cross, rtol=1e-12)


class Recording(nn.Module):
    """Remembers its outputs so that a test can ask which of them a gradient reaches."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, [], []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.model(x)
        self.inputs.append(x)
        if z.requires_grad:
            z.retain_grad()
        self.outputs.append(z)
        return z


def test_p19_trades_gradients_reach_the_clean_logits_and_never_the_adversarial_image(example: tuple) -> None:
    x, y, noise = example
    model = Recording(fresh())
    method = TRADES(INNER, beta=6.0)
    loss = method.loss(model, x, y, method.craft(model, x, y, noise))
    clean, adversarial = model.outputs[-2:]
    x_adv = model.inputs[-1]
    assert not x_adv.requires_grad and x_adv.grad_fn is None
    loss.per_example.mean().backward()
    assert clean.grad is not None and adversarial.grad is not None
    # The clean logits get the divergence's gradient too, not the cross-entropy's alone.
    a = clean.detach().requires_grad_()
    (wanted,) = torch.autograd.grad((ce(a, y) + 6 * kl(a, adversarial.detach())).mean(), a)
    assert torch.allclose(clean.grad, wanted, atol=1e-14)
    (ce_only,) = torch.autograd.grad(ce(a, y).mean(), a)
    assert not torch.allclose(clean.grad, ce_only, atol=1e-6)


def test_p19_pgd_at_trains_on_a_detached_image(example: tuple) -> None:
    x, y, noise = example
    model = Recording(fresh())
    attack = PGD(Linf(0.1), step=0.05, steps=2)
    method = PGDAT(attack)
    loss = method.loss(model, x, y, method.craft(model, x, y, noise))
    assert not model.inputs[-1].requires_grad
    assert torch.equal(loss.per_example, ce(model.outputs[-1], y)) and loss.clean is None
    assert torch.equal(model.inputs[-1], attack.run(model, x, y, noise).x_adv)


@pytest.mark.parametrize(
    "objective", [Standard(), PGDAT(replace(INNER, goal=CE())), TRADES(INNER)], ids=lambda o: type(o).__name__
)
def test_p17_relabelling_the_classes_permutes_the_method(objective: Objective, example: tuple) -> None:
    x, y, noise = example
    order = torch.tensor([2, 4, 1, 0, 3])  # new class i is old class order[i]
    model = fresh()
    renamed = copy.deepcopy(model)
    last = renamed.net[-1]
    with torch.no_grad():
        last.weight.copy_(last.weight[order])
        last.bias.copy_(last.bias[order])
    if isinstance(objective, TRADES):
        objective = replace(objective, beta=(0.5, 1.0, 2.0, 4.0, 8.0))
    a = objective.loss(model, x, y, objective.craft(model, x, y, noise)).per_example
    if isinstance(objective, TRADES):
        objective = replace(objective, beta=tuple(torch.tensor(objective.beta)[order].tolist()))
    y = order.argsort()[y]
    b = objective.loss(renamed, x, y, objective.craft(renamed, x, y, noise)).per_example
    assert torch.allclose(a, b, rtol=1e-9)


class Still(PGD):
    """An attack that returns the image."""

    def perturb(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor, noise: Noise) -> torch.Tensor:
        return x


def test_trades_without_a_perturbation_is_standard(example: tuple) -> None:
    a = loss_and_gradient(TRADES(Still()), fresh(), example)[0]
    b = loss_and_gradient(Standard(), fresh(), example)[0]
    assert torch.allclose(a, b, rtol=1e-12)


def test_the_method_table_builds_what_it_says() -> None:
    made = {name: row.make(Linf(0.1), 0.025, 7) for name, row in METHODS.items()}
    assert made["standard"] == Standard()
    assert made["pgd-at"] == PGDAT(PGD(Linf(0.1), PGD().goal, 0.025, 7))
    assert made["trades"] == TRADES(PGD(Linf(0.1), KL(), 0.025, 7, Gaussian(0.001)), beta=6.0)
    assert made["fgsm-rs"] == PGDAT(PGD(Linf(0.1), CE(), 0.125, 1))
    with pytest.raises(ValueError, match=r"no training method 'marts': did you mean mart\?"):
        find_method("marts")
    with pytest.raises(ValueError, match="train trades --fair cfa"):
        find_method("cfa")
    with pytest.raises(ValueError, match="train trades --average fawa"):
        find_method("fawa")


def test_one_cycle_rises_and_falls_linearly() -> None:
    schedule = OneCycle(peak=0.2, warmup=0.25)
    rates = [schedule.rate(p) for p in (0.0, 0.125, 0.25, 0.625, 1.0)]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.1, 0.0])
