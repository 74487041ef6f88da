"""Each method moves a small problem in the direction that its paper reports.

Four classes of 16 pixels: 0 and 1 are far from everything, 2 and 3 near each other, and 3 has few images, so plain
training gives it up.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from leastwise.attacks.goals import KL
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Gaussian, Linf
from leastwise.core.noise import Noise
from leastwise.data.dataset import Dataset
from leastwise.models.classifier import Classifier
from leastwise.training.base import Epoch, Policy
from leastwise.training.compose import apply_targets
from leastwise.training.loop import fit
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.standard import Standard
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.aiming import TRIX, FairTAT
from leastwise.training.policies.cfa import CFA
from leastwise.training.policies.cfol import CFOL
from leastwise.training.policies.confusion import CSR, SyFAR
from leastwise.training.policies.dafa import DAFA
from leastwise.training.policies.faal import FAAL
from leastwise.training.policies.frl import FRL
from leastwise.training.policies.unbalanced import Balanced, EffectiveNumber
from leastwise.training.policies.wat import WAT
from leastwise.training.policies.weighting import FairWeighting, ImportantClass
from leastwise.training.recipe import Training, Validation
from leastwise.training.schedules import OneCycle
from leastwise.training.validate import measure_classes

ATTACK = PGD(Linf(8 / 255), step=4 / 255, steps=3)
KL_ATTACK = replace(ATTACK, goal=KL(), start=Gaussian(0.001))
EASY, HARD = [0, 1], [2, 3]


def problem(sizes: tuple[int, ...], seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    half = np.where(np.arange(16).reshape(1, 4, 4) < 8, 1.0, -1.0)
    stripes = np.where(np.arange(16).reshape(1, 4, 4) % 2, 1.0, -1.0)
    centres = 128 + np.stack([60 * half, -60 * half, 14 * stripes, -14 * stripes])
    labels = np.repeat(np.arange(4), sizes)
    images = centres[labels] + 30 * rng.standard_normal((len(labels), 1, 4, 4))
    return Dataset.of(images.clip(0, 255).astype(np.uint8), labels)


TRAIN, TEST = problem((120, 120, 120, 40), 0), problem((150,) * 4, 1)
BASE = Training(PGDAT(ATTACK), 10, 40, OneCycle(0.5), validation=Validation(10))


def trained(training: Training) -> tuple[Epoch, torch.Tensor]:
    """The last epoch, and the robust accuracy of each class on fresh images."""
    model = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(16, 4)), 4)
    nn.init.zeros_(model.net[1].weight)
    nn.init.zeros_(model.net[1].bias)
    *_, last = fit(model, TRAIN, training)
    return last.seen, measure_classes(model, TEST, ATTACK).robust.accuracy


@pytest.fixture(scope="module")
def plain() -> tuple[Epoch, torch.Tensor]:
    return trained(BASE)


def spread(accuracy: torch.Tensor) -> float:
    return float(accuracy.max() - accuracy.min())


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [FairWeighting(alpha=0.3), ImportantClass(3, 3.0), Balanced(), EffectiveNumber(0.99), CFOL(eta=1.0), WAT(eta=0.5)],
    ids=lambda p: type(p).__name__,
)
def test_weights_and_draws_for_weak_classes_lift_the_worst_and_narrow_the_spread(policy: Policy, plain: tuple) -> None:
    _, fair = trained(replace(BASE, policies=(policy,)))
    assert int(plain[1].argmin()) == 3
    assert fair.min() > plain[1].min() + 0.05 and spread(fair) < spread(plain[1]) - 0.05


@pytest.mark.slow
def test_faal_fine_tuning_lifts_the_worst_class(plain: tuple) -> None:
    _, fair = trained(replace(BASE, policies=(FAAL(radius=0.5),)))
    assert fair.min() > plain[1].min() + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("base", [Standard(), PGDAT(ATTACK)], ids=["standard", "pgd-at"])
def test_maximum_entropy_raises_the_entropy(base: Standard | PGDAT) -> None:
    found = []
    for weight in (0.0, 0.5, 1.0):
        seen, _ = trained(replace(BASE, objective=replace(base, entropy=weight)))
        found.append(float(seen.train.entropy.sum() / seen.train.n.sum()))
    assert found[0] < found[1] < found[2] <= np.log(4)


@pytest.mark.slow
def test_cfas_radii_move_towards_easy_classes() -> None:
    seen, _ = trained(replace(BASE, policies=(CFA(),)))
    radius = seen.states[0]["radius"]
    assert radius[EASY].min() > 1 > radius[3] and radius[EASY].min() > radius[HARD].max()


@pytest.mark.slow
def test_dafa_moves_weight_from_easy_to_hard() -> None:
    training = replace(BASE, objective=TRADES(KL_ATTACK), policies=(DAFA(warmup=0.5),))
    seen, _ = trained(training)
    weight = seen.states[0]["weight"]
    assert weight[3] > 1 and weight.sum().item() == pytest.approx(4, abs=1e-9)
    assert weight[3] > weight[2] and weight[HARD].sum() > weight[EASY].sum()


@pytest.mark.slow
def test_frls_multipliers_respond_to_the_classes_above_their_bound() -> None:
    training = replace(
        BASE, objective=TRADES(KL_ATTACK, beta=1.5), policies=(FRL(tau=0.05, rate=0.2, margin_rate=0.2),)
    )
    seen, _ = trained(training)
    state = seen.states[0]
    assert state["natural"][3] > 0 and state["natural"][EASY].sum() == 0
    assert state["margin"][EASY].max() < 0  # satisfied classes wind down


@pytest.mark.slow
@pytest.mark.parametrize("policy", [TRIX(warmup=0.3), CSR()], ids=lambda p: p.recipe_name)
def test_newer_policies_for_weak_classes_lift_the_worst_class_of_trades(policy: Policy) -> None:
    base = replace(BASE, objective=TRADES(KL_ATTACK))
    (_, plain), (_, fair) = trained(base), trained(replace(base, policies=(policy,)))
    assert fair.min() > plain.min()


@pytest.mark.slow
def test_sy_far_makes_mistakes_more_symmetric(plain: tuple) -> None:
    def asymmetry(seen: Epoch) -> float:
        c = seen.train.probability / seen.train.n[:, None]
        return float(torch.triu(c - c.T).square().sum())

    fair, _ = trained(replace(BASE, policies=(SyFAR(5.0),)))
    assert asymmetry(fair) < 0.7 * asymmetry(plain[0])


@pytest.mark.slow
def test_fair_tat_learns_whom_others_are_taken_for_and_attacks_more_weakly() -> None:
    """Its authors give weaker attacks as the reason for what it gains."""
    objective = PGDAT(ATTACK)
    model = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(16, 4)), 4)
    *_, last = fit(model, TRAIN, replace(BASE, objective=objective, policies=(FairTAT(),)))
    state = last.seen.states[0]
    assert int(state["score"].argmax()) == 2
    x, y, ids = TEST.batch(np.arange(len(TEST)))
    noise, held = Noise(0, ids), ((FairTAT(), state),)
    aimed = apply_targets(objective, held, y, noise=noise)
    fooled = [float((model(o.craft(model, x, y, noise)).argmax(1) != y).double().mean()) for o in (objective, aimed)]
    assert fooled[1] < fooled[0]
