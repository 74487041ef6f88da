"""P25: on a linear model the best perturbation is known, so an attack that silently weakens fails here."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leastwise.attacks.base import Outcome
from leastwise.attacks.goals import CE, Goal, Margin
from leastwise.attacks.one_step import fgsm
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import L2, Ball, Linf, Zero
from leastwise.core.losses import margin
from leastwise.core.noise import Noise
from leastwise.models.classifier import Classifier
from tests.conftest import random_linear
from tests.oracles.linear_models import binary, grey

GOALS: tuple[Goal, ...] = (CE(), CE(inverse_temperature=50.0), Margin(kappa=1e9))


def run(attack: PGD, model: Classifier, x: torch.Tensor, y: torch.Tensor) -> Outcome:
    return attack.run(model, x, y, Noise(0, torch.arange(len(x)), "/test"))


@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize(("ball", "dual"), [(Linf, 1), (L2, 2)], ids=["Linf", "L2"])
@given(seed=st.integers(0, 10_000), eps=st.floats(1e-4, 0.3))
@settings(max_examples=25, deadline=None)
def test_p25_margin_falls_by_eps_times_the_dual_norm(
    goal: Goal, ball: type[Linf] | type[L2], dual: int, seed: int, eps: float
) -> None:
    model, w = binary(seed)
    x = grey(6, seed)
    y = model(x).argmax(1)
    attack = PGD(ball(eps), goal, step=eps / 4, steps=40, start=Zero())
    fall = margin(model(x), y) - margin(model(run(attack, model, x, y).x_adv), y)
    assert fall.tolist() == pytest.approx([eps * float(w.norm(p=dual))] * len(x), rel=1e-5)


@pytest.mark.parametrize("keep", ["last", "fooled"])
@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_p25_pgd_succeeds_exactly_when_eps_exceeds_margin_over_the_l1_norm(goal: Goal, keep: str) -> None:
    model, w = binary(5)
    x = grey(200, 9)
    y = model(x).argmax(1)
    needed = margin(model(x), y).detach() / w.norm(p=1)
    for quantile in (0.1, 0.5, 0.9):
        eps = float(needed.quantile(quantile))
        found = run(PGD(Linf(eps), goal, eps / 4, 40, keep=keep), model, x, y)
        assert found.fooled.tolist() == (needed < eps).tolist()
        assert 0 < int(found.fooled.sum()) < len(x)


def test_p25_a_radius_per_example_is_each_examples_own() -> None:
    """At 1.001 of its own distance every example falls, at 0.999 none does."""
    model, w = binary(6)
    x = grey(50, 3)
    y = model(x).argmax(1)
    needed = margin(model(x), y).detach() / w.norm(p=1)
    attack = PGD(Linf(0.1), Margin(), steps=40, keep="fooled")
    assert bool(run(attack.at(1.001 * needed, step=needed / 4), model, x, y).fooled.all())
    assert not bool(run(attack.at(0.999 * needed, step=needed / 4), model, x, y).fooled.any())


def test_p25_the_untargeted_attack_finds_the_nearest_of_several_classes() -> None:
    """With k classes the distance is the smallest over the others; the margin goal reaches within a percent of it."""
    model = random_linear(5, seed=2)
    x = grey(60, 4)
    z = model(x).detach()
    y = z.argmax(1)
    weight = model.net.weight.detach()
    distance = (z.gather(1, y[:, None]) - z) / (weight[y][:, None] - weight[None]).norm(p=1, dim=2).clamp_min(1e-9)
    nearest = distance.scatter(1, y[:, None], torch.inf).amin(1)
    attack = PGD(Linf(0.1), Margin(), steps=100, keep="fooled")
    assert not bool(run(attack.at(0.999 * nearest, step=nearest / 10), model, x, y).fooled.any())
    share = run(attack.at(1.05 * nearest, step=nearest / 10), model, x, y).fooled.double().mean()
    assert share > 0.95


@pytest.mark.parametrize("ball", [Linf(0.07), L2(0.5)], ids=str)
def test_a1_fgsm_is_pgd_with_one_step_of_eps(ball: Ball) -> None:
    model, _ = binary(8)
    x, y = grey(9), torch.zeros(9, dtype=torch.int64)
    one = PGD(ball, step=ball.eps, steps=1, start=Zero())
    assert torch.equal(run(fgsm(ball), model, x, y).x_adv, run(one, model, x, y).x_adv)
