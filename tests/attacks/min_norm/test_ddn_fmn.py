"""Searches for the nearest mistake: closed forms on linear models, plain references, the contract, class medians."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from leastwise.attacks.base import FLAT
from leastwise.attacks.min_norm.ddn_fmn import DDN, FMN, median_distance, survival
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.core.losses import margin
from tests.attacks.min_norm.searches import SEARCHES, short
from tests.attacks.networks_to_attack import mixed, noise_for
from tests.conftest import K, random_linear
from tests.oracles.linear_models import binary, grey


def nearest_l1(w: torch.Tensor, x: torch.Tensor, y: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
    """The L1 distance to w·x + b = 0 within the pixel box: the largest weights move first, each as far as it can."""
    distances = []
    for i in range(len(x)):
        direction = (w if y[i] == 1 else -w).sign()
        room = torch.where(direction > 0, 1 - x[i].flatten(), x[i].flatten())
        left, moved = float(gap[i]), 0.0
        for j in w.abs().argsort(descending=True).tolist():
            step = min(float(room[j]), left / float(w[j].abs()))
            left, moved = left - step * float(w[j].abs()), moved + step
            if left <= 1e-15:
                break
        distances.append(moved)
    return torch.tensor(distances, dtype=torch.float64)


@pytest.mark.parametrize("seed", [5, 6])
@pytest.mark.parametrize(
    ("attack", "dual", "excess"),
    [(FMN(Linf(0.1)), 1.0, 0.01), (FMN(L2(0.1)), 2.0, 0.01), (DDN(L2(0.1)), 2.0, 0.01)],
    ids=["FMN Linf", "FMN L2", "DDN"],
)
def test_p25_distances_are_those_of_the_boundary(attack: FMN | DDN, dual: float, excess: float, seed: int) -> None:
    model, w = binary(seed)
    x = grey(40, 9)
    y = model(x).argmax(1)
    needed = margin(model(x), y).detach() / w.norm(p=dual)
    found = attack.closest(model, x, y, noise_for(x))
    ratio = found.distance / needed
    assert float(ratio.min()) > 1 - 1e-9 and float(ratio.max()) < 1 + excess
    assert bool((model(found.x_adv).argmax(1) != y).all())
    assert torch.allclose(attack.ball.norm(found.x_adv - x), found.distance, rtol=1e-9)


@pytest.mark.parametrize("seed", [5, 6])
def test_p25_l1_distance_is_that_of_the_heaviest_pixels(seed: int) -> None:
    """Where one pixel has the room it is margin / |w|_inf, elsewhere the next ones follow."""
    model, w = binary(seed)
    with torch.no_grad():  # the boundary through the middle of the images, so that some are one pixel away
        model.net.bias[0] -= float((model(grey(200, 1)) @ torch.tensor([1.0, -1.0], dtype=torch.float64)).mean())
    x = grey(60, 9)
    y = model(x).argmax(1)
    gap = margin(model(x), y).detach()
    needed = nearest_l1(w, x, y, gap)
    one = gap / w.abs().max() < 0.45
    assert int(one.sum()) > 10
    assert torch.allclose(needed[one], gap[one] / w.abs().max())
    ratio = FMN(L1(1.0)).closest(model, x, y, noise_for(x)).distance / needed
    assert float(ratio.min()) > 1 - 1e-9 and float(ratio.max()) < 1.03


@pytest.mark.parametrize(("ball", "dual"), [(Linf(0.1), 1.0), (L2(0.1), 2.0)], ids=["Linf", "L2"])
def test_p25_with_five_classes_the_nearest_is_found(ball: Ball, dual: float) -> None:
    model = random_linear(5, seed=2)
    x = grey(60, 4)
    z = model(x).detach()
    y = z.argmax(1)
    weight = model.net.weight.detach()
    gap = z.gather(1, y[:, None]) - z
    needed = (gap / (weight[y][:, None] - weight[None]).norm(p=dual, dim=2).clamp_min(1e-9)).scatter(
        1, y[:, None], torch.inf
    )
    ratio = FMN(ball).closest(model, x, y, noise_for(x)).distance / needed.amin(1)
    assert float(ratio.min()) > 1 - 1e-9 and float(ratio.median()) < 1.001 and float(ratio.quantile(0.9)) < 1.02


@pytest.mark.parametrize("attack", [FMN(Linf(0.1)), FMN(L2(0.1)), FMN(L1(0.1)), DDN(L2(0.1))], ids=short)
def test_p25_more_steps_are_nearer(attack: FMN | DDN) -> None:
    """The schedule depends on the number of steps, so a single example may end farther; the mean does not."""
    model, x, y = mixed()
    means = []
    for steps in (6, 18, 54):
        found = replace(attack, steps=steps).closest(model, x[:12], y[:12], noise_for(x[:12])).distance
        means.append(float(found.mean()))
    assert means[0] > means[1] > means[2]


# A slow plain reference: one example, one step at a time, as the papers write them


def plain(attack: FMN | DDN, model: nn.Module, x: torch.Tensor, label: int) -> tuple[float, torch.Tensor]:
    order = {Linf: math.inf, L2: 2.0, L1: 1.0}[type(attack.ball)]
    dual = {math.inf: 1.0, 2.0: 2.0, 1.0: math.inf}[order]
    farthest = float(torch.linalg.vector_norm(torch.maximum(x, 1 - x), order))
    delta, best, nearest = torch.zeros_like(x), math.inf, x
    eps = attack.start if isinstance(attack, DDN) else 0.0
    for t in range(attack.steps + 1):
        at = (x + delta).requires_grad_()
        z = model(at[None])[0]
        others = torch.cat([z[:label], z[label + 1 :]])
        loss = others.max() - z[label] if isinstance(attack, FMN) else -z.log_softmax(0)[label]
        (gradient,) = torch.autograd.grad(loss, at)
        length = float(torch.linalg.vector_norm(delta, order))
        wrong = int(z.argmax()) != label
        if wrong and length < best:
            best, nearest = length, at.detach()
        if t == attack.steps or best == 0:
            break
        falling = (1 + math.cos(math.pi * t / attack.steps)) / 2
        if isinstance(attack, DDN):
            eps *= 1 - attack.gamma if wrong else 1 + attack.gamma
        else:
            gamma = 0.001 + (attack.gamma - 0.001) * falling
            if wrong:
                eps = min(eps * (1 - gamma), best)
            elif best < math.inf:
                eps *= 1 + gamma
            else:
                steepness = float(torch.linalg.vector_norm(gradient, dual))
                eps = max(eps * (1 + gamma), length + abs(loss.item()) / steepness)
        eps = min(eps, farthest)
        delta = delta + (0.01 + 0.99 * falling) * gradient / gradient.norm()
        if isinstance(attack, DDN):
            delta = delta * eps / delta.norm()
        elif order == math.inf:
            delta = delta.clamp(-eps, eps)
        elif order == 2:
            delta = delta * min(1.0, eps / float(delta.norm()))
        else:
            delta = attack.ball.at(eps).project(delta[None])[0]
        delta = (x + delta).clamp(0, 1) - x
    return best, nearest


@pytest.mark.parametrize("attack", SEARCHES, ids=short)
def test_the_batch_finds_what_a_plain_search_finds(attack: FMN | DDN) -> None:
    model, x, y = mixed()
    x, y = x[:8], y[:8]
    found = attack.closest(model, x, y, noise_for(x))
    for i in range(len(x)):
        distance, nearest = plain(attack, model, x[i], int(y[i]))
        assert float(found.distance[i]) == pytest.approx(distance, abs=1e-9)
        assert torch.allclose(found.x_adv[i], nearest, atol=1e-9)
    assert bool((found.distance == 0).any()) and bool((found.distance > 0).any())


class Plateau(nn.Module):
    """Flat up to L2 distance 0.3 from grey; the label is lost from 0.35 on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        radius = (x - 0.5).flatten(1).norm(dim=1)
        gap = 1 - 20 * (radius - 0.3).relu()
        return torch.stack([gap, torch.zeros_like(gap)], dim=1)


def test_ddn_leaves_a_plateau_in_a_random_direction() -> None:
    x, y = 0.5 + 0 * grey(6) + 1e-9, torch.zeros(6, dtype=torch.int64)
    found = DDN(L2(1.0), start=0.1).closest(Plateau(), x, y, noise_for(x))
    assert found.distance.tolist() == pytest.approx([0.35] * 6, rel=0.01)
    directions = torch.nn.functional.normalize((found.x_adv - x).flatten(1))
    assert float((directions @ directions.T - torch.eye(6)).abs().max()) < 0.5  # to each its own
    stuck = FMN(L2(1.0)).closest(Plateau(), x, y, noise_for(x))
    assert stuck.trouble.tolist() == [FLAT] * 6 and bool(stuck.distance.isinf().all())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: DDN(Linf(0.1)), "measures distance in L2, but saw Linf"),
        (lambda: DDN(steps=0), "number of steps must be at least 1, but saw 0"),
        (lambda: DDN(start=0.0), "first radius must be a positive number"),
        (lambda: FMN(gamma=-0.1), "gamma must be a positive number"),
        (lambda: FMN(step=math.inf), "step must be a positive number"),
    ],
)
def test_settings_that_make_no_sense_are_refused(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_descriptions_say_budget_ball_and_what_counts() -> None:
    assert str(FMN()) == "FMN, 100 steps, Linf eps 0.03137, the nearest mistake of the whole search"
    ends = DDN(keep="fooled", target=torch.zeros(2, dtype=torch.int64))
    assert str(ends) == "DDN, 100 steps, L2 eps 0.5, the nearest point of a target class, until inside the ball"


def test_passes_are_counted() -> None:
    """One forward and backward per step, and one forward at the end, for all that are not misclassified at once."""
    model, x, y = mixed()
    right = int((model(x).argmax(1) == y).sum())
    wrong = len(x) - right
    for attack in SEARCHES:
        found = replace(attack, steps=4).closest(model, x, y, noise_for(x))
        assert (found.forwards, found.backwards) == (right * 5 + wrong, right * 4 + wrong)


def test_the_radius_it_leaves_at_does_not_change_the_search() -> None:
    model, x, y = mixed()
    small, large = (FMN(Linf(e), steps=10).closest(model, x, y, noise_for(x)) for e in (0.001, 0.5))
    assert torch.equal(small.distance, large.distance)


# What the distances say about classes


def test_median_distance_and_survival_against_numpy() -> None:
    g = torch.Generator().manual_seed(0)
    distance = torch.rand(50, generator=g, dtype=torch.float64)
    distance[torch.rand(50, generator=g) < 0.3] = torch.inf
    y = torch.randint(0, 4, (50,), generator=g)  # class 4 has no examples
    radii = (0.0, 0.25, 0.5, 2.0)
    medians, curve = median_distance(distance, y, K), survival(distance, y, K, radii=radii)
    assert curve.shape == (4, K)
    for c in range(4):
        own = distance[y == c].numpy()
        assert float(medians[c]) == np.median(own)
        assert curve[:, c].tolist() == pytest.approx([float((own > r).mean()) for r in radii])
    assert math.isnan(medians[4]) and bool(curve[:, 4].isnan().all())


def test_median_distance_by_hand() -> None:
    distance = torch.tensor([3.0, 1.0, math.inf, math.inf, 0.0, 4.0, math.inf, 2.0], dtype=torch.float64)
    y = torch.tensor([0, 0, 1, 1, 2, 2, 2, 0])
    assert median_distance(distance, y, 3).tolist() == [2.0, math.inf, 4.0]
    assert survival(distance, y, 3, radii=(2.0,)).tolist() == [[pytest.approx(1 / 3), 1.0, pytest.approx(2 / 3)]]
