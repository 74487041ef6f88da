"""PMA: every iterate against the recipe written plainly for one image, its directions, and closed forms."""

import math

import pytest
import torch
from torch import nn

from leastwise.attacks.base import NEVER, slope
from leastwise.attacks.goals import CE, Goal, Probability, ProbabilityMargin
from leastwise.attacks.pgd import PGD
from leastwise.attacks.pma import PMA
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.core.losses import margin
from tests.attacks.contract import check_contract
from tests.attacks.networks_to_attack import Watched, linear, mixed, noise_for, thirty_mixed
from tests.conftest import SHAPE, K, random_linear
from tests.oracles.linear_models import binary, grey


def plain_loss(model: nn.Module, x: torch.Tensor, y: int, what: str) -> torch.Tensor:
    p = model(x[None])[0].softmax(0)
    rival = max(p[j] for j in range(len(p)) if j != y)
    return {"toward": p[y], "away": -p[y], "rival": rival, "margin": rival - p[y]}[what]


def plain_run(
    model: nn.Module, x: torch.Tensor, y: int, at: torch.Tensor, ball: Ball, steps: int, second: bool
) -> list[torch.Tensor]:
    """The points of one run for one image, from its start."""
    points, h = [at], steps // 2
    for t in range(steps):
        what = "margin" if t >= h else "toward" if t == 0 else "rival" if second else "away"
        here = points[-1].clone().requires_grad_()
        (g,) = torch.autograd.grad(plain_loss(model, here, y, what), here)
        turn = math.pi * (t / h if t < h else (t - h) / (steps - h))
        move = 2 * float(ball.eps) * 0.5 * (1 + math.cos(turn)) * (g.sign() if isinstance(ball, Linf) else g / g.norm())
        d = points[-1] + move - x
        d = d.clamp(-ball.eps, ball.eps) if isinstance(ball, Linf) else d * min(1.0, float(ball.eps / d.norm()))
        points.append((x + d).clamp(0, 1))
    return points


@pytest.mark.parametrize("steps", [8, 7])
@pytest.mark.parametrize("ball", [Linf(0.01), L2(0.08)], ids=str)
def test_every_iterate_is_that_of_the_recipe(ball: Ball, steps: int) -> None:
    model, x, y = thirty_mixed()
    shown = Watched(model)
    found = PMA(ball, steps, keep="last").run(shown, x, y, noise_for(x))
    first, second = shown.shown[: steps + 1], shown.shown[steps + 1 :]
    wrong = [model(batch).argmax(1) != y[: len(batch)] for batch in first]
    survived = (~wrong[-1]).nonzero().squeeze(1)
    assert len(second) == steps + 1 and len(second[0]) == len(survived) > 0
    for i in range(0, len(x), 4):
        points = plain_run(model, x[i], int(y[i]), first[0][i], ball, steps, second=False)
        assert torch.allclose(torch.stack([batch[i] for batch in first]), torch.stack(points), atol=1e-9)
    for place in range(0, len(survived), 4):
        i = int(survived[place])
        points = plain_run(model, x[i], int(y[i]), second[0][place], ball, steps, second=True)
        assert torch.allclose(torch.stack([batch[place] for batch in second]), torch.stack(points), atol=1e-9)
        fell = bool(model(points[-1][None]).argmax() != y[i])
        assert int(found.step[i]) == (2 * steps if fell else NEVER)
    starts = (first[0][survived] - second[0]).abs().amax(dim=(1, 2, 3))
    assert bool((starts > 0).all())  # the second run has starts of its own
    assert (found.forwards, found.backwards) == (
        (len(x) + len(survived)) * (steps + 1),
        (len(x) + len(survived)) * steps,
    )


def test_the_directions_are_those_of_the_probabilities() -> None:
    """Where float64 can still tell: the goals climb as the probabilities themselves do."""
    model, x, y = thirty_mixed()
    goals: dict[str, Goal] = {
        "toward": Probability("label"),
        "away": CE(),
        "rival": Probability("rival"),
        "margin": ProbabilityMargin(),
    }
    for what, goal in goals.items():
        seen = slope(model, goal, x, bound=goal.bind(model, x, y))
        for i in range(0, len(x), 3):
            here = x[i].clone().requires_grad_()
            loss = plain_loss(model, here, int(y[i]), what)
            (g,) = torch.autograd.grad(loss, here)
            assert torch.allclose(seen.gradient[i] / seen.gradient[i].norm(), g / g.norm(), atol=1e-9)
            if what == "margin":
                assert torch.allclose(seen.score[i], loss.detach())


def test_a_network_that_is_sure_has_a_direction_all_the_same() -> None:
    """Logits 400 apart: in float32 the probabilities are 0 and 1, and their gradients are zero."""
    model = random_linear(K, torch.float32, seed=1)
    x = torch.rand(5, *SHAPE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        z = model(x)
        scale = 400 / float((z.amax(1) - z.median(1).values).min())
        model.net.weight *= scale
        model.net.bias *= scale
    y = model(x).argmax(1)
    for goal in (Probability("label"), Probability("rival"), ProbabilityMargin()):
        seen = slope(model, goal, x, bound=(y,))
        assert not bool(seen.trouble.any()) and bool(seen.score.isfinite().all())


@pytest.mark.parametrize(("ball", "dual"), [(Linf(0.034), 1), (L2(0.33), 2)])
def test_p25_pma_succeeds_exactly_when_eps_exceeds_margin_over_the_dual_norm(ball: Linf | L2, dual: int) -> None:
    model, w = binary(seed=4)
    x = grey(40)
    y = model(x).argmax(1)
    needed = margin(model(x), y).detach() / torch.linalg.vector_norm(w, dual)
    found = PMA(ball, steps=12, keep="fooled").run(model, x, y, noise_for(x))
    clear = (needed / ball.eps - 1).abs() > 1e-4
    assert torch.equal(found.fooled[clear], (needed < ball.eps)[clear]) and 5 < int(found.fooled.sum()) < 40


def test_the_fooled_leave_and_the_others_do_not_notice() -> None:
    model, x, y = mixed()
    attack = PMA(Linf(0.008), steps=4, keep="fooled")
    together = attack.run(model, x, y, noise_for(x))
    assert torch.equal(together.fooled, model(together.x_adv).argmax(1) != y)
    assert together.forwards < len(x) * attack.cost(K).forwards and 0 < int(together.fooled.sum()) < len(x)
    assert int(together.step.max()) > 4  # one fell in the second run: steps count through both
    for rows in torch.randperm(len(x), generator=torch.Generator().manual_seed(0)).split(17):
        alone = attack.run(model, x[rows], y[rows], noise_for(x).pick(rows))
        assert torch.allclose(alone.x_adv, together.x_adv[rows], atol=1e-9)
        assert torch.equal(alone.step, together.step[rows])


def test_both_runs_are_needed_somewhere_and_pma_beats_pgd_of_as_many_steps() -> None:
    model, x, _ = thirty_mixed()
    y = model(x).argmax(1)
    found = PMA(Linf(0.01), steps=20, keep="fooled").run(model, x, y, noise_for(x))
    pgd = PGD(Linf(0.01), step=0.0025, steps=40, keep="fooled").run(model, x, y, noise_for(x))
    assert int(found.fooled.sum()) >= int(pgd.fooled.sum())


@pytest.mark.parametrize("keep", ["fooled", "last"])
@pytest.mark.parametrize("ball", [Linf(0.1), L2(0.5), L1(3.0)], ids=str)
def test_it_keeps_the_contract(ball: Ball, keep: str) -> None:
    for seed, k in enumerate((2, 3, 7)):
        check_contract(PMA(ball, steps=5, keep=keep), k, 6, (3, 5, 4), seed)


def test_a_radius_per_example_is_each_examples_own() -> None:
    model, x = linear(SHAPE, K, 3, torch.float64), torch.full((6, *SHAPE), 0.5, dtype=torch.float64)
    y = model(x).argmax(1)
    eps = torch.linspace(0.01, 0.1, 6, dtype=torch.float64)
    found = PMA(Linf(0.03), steps=6).at(eps).run(model, x, y, noise_for(x))
    assert torch.allclose((found.x_adv - x).abs().amax(dim=(1, 2, 3)), eps)


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="two halves of at least one step, but saw 1"):
        PMA(steps=1)
