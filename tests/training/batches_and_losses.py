"""What the tests of training methods share: one batch in float64, small networks, and losses with gradients."""

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from leastwise.attacks.goals import CE, KL
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Gaussian, Linf
from leastwise.core.noise import Noise
from leastwise.data.dataset import Dataset
from leastwise.models.classifier import Classifier, inference
from leastwise.models.zoo.registry import build
from leastwise.training.base import Objective, Policy, PolicyStates, Terms
from leastwise.training.compose import adjust_logits, apply_terms, apply_to_attack
from leastwise.training.policies.fixed import ClassRadii, ClassWeights
from tests.conftest import SHAPE, B, K

ON_KL = PGD(Linf(0.1), KL(), step=0.05, steps=2, start=Gaussian(0.001))
ON_CE = PGD(Linf(0.1), CE(), step=0.05, steps=2)

LossAndGradient = tuple[torch.Tensor, list[torch.Tensor]]


def fresh(arch: str = "convnet", seed: int = 3, k: int = K) -> Classifier:
    return build(arch, SHAPE, k, seed=seed).double().train()


def batch(n: int = B, k: int = K, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor, Noise]:
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, *SHAPE, generator=g, dtype=torch.float64)
    return x, torch.randint(0, k, (n,), generator=g), Noise(0, torch.arange(n), "/train")


def terms_of(objective: Objective, model: nn.Module, n: int = B) -> Terms:
    x, y, noise = batch(n)
    with inference(model):
        crafted = objective.craft(model, x, y, noise)
    return objective.loss(model, x, y, crafted)


def under(
    objective: Objective, policy: Policy, model: nn.Module, state: dict[str, torch.Tensor] | None = None
) -> Terms:
    """The loss of a batch under one policy; `state` replaces parts of its first state."""
    _, y, _ = batch()
    s = {**policy.init(torch.bincount(y, minlength=K)), **(state or {})}
    return under_all(objective, ((policy, s),), model)


def under_all(objective: Objective, policies: PolicyStates, model: nn.Module) -> Terms:
    """The loss of a batch under some policies with their states."""
    x, y, noise = batch()
    ready = apply_to_attack(objective, policies, y, noise=noise)
    with inference(model):
        crafted = ready.craft(model, x, y, noise)
    return apply_terms(ready.loss(model, x, y, crafted, adjust=adjust_logits(policies, y)), policies, y)


def gradient(terms: Terms, model: nn.Module) -> LossAndGradient:
    return terms.per_example, list(torch.autograd.grad(terms.per_example.mean(), list(model.parameters())))


def agree(a: LossAndGradient, b: LossAndGradient, factor: float = 1.0, rtol: float = 1e-10) -> bool:
    """Whether losses and gradients of `a` are `factor` times those of `b`."""
    pairs = zip((a[0], *a[1]), (b[0], *b[1]), strict=True)
    return all(torch.allclose(p, factor * q, rtol=rtol, atol=1e-13) for p, q in pairs)


def blobs(
    sizes: tuple[int, ...], seed: int = 0, spread: float = 40.0, shape: tuple[int, int, int] = (1, 4, 4)
) -> Dataset:
    """Classes around one bright pixel pattern each; a class with a larger number lies nearer to its neighbours."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(60, 190, (len(sizes), *shape))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    images = centres[labels] + spread * rng.standard_normal((len(labels), *shape))
    order = rng.permutation(len(labels))
    return Dataset.of(images[order].clip(0, 255).astype(np.uint8), labels[order])


def with_numbers(policy: Policy, k: int = K) -> Policy:
    """The policy with a number for each class, if it is one of those that people have to give numbers."""
    numbers = tuple(0.5 + c / 4 for c in range(k))
    if isinstance(policy, ClassWeights):
        return replace(policy, weight=numbers)
    return replace(policy, factor=numbers) if isinstance(policy, ClassRadii) else policy
