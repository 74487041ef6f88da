"""Which classes an example can be sent to."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import nn

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.base import BROKEN, FINE, NEVER
from leastwise.attacks.combine import Cascade
from leastwise.attacks.goals import CE, Margin, Targeted
from leastwise.attacks.pgd import PGD
from leastwise.attacks.reachability import Everywhere, Reach, reach, reach_matrix, worst_target
from leastwise.attacks.threats import L2, Ball, Linf, Zero
from leastwise.audit.auditor import make_record
from leastwise.audit.evidence import Evidence, parse_evidence
from leastwise.audit.record import join_records
from leastwise.core.noise import Noise
from leastwise.models.classifier import Classifier
from tests.attacks.networks_to_attack import mixed, noise_for
from tests.conftest import SHAPE, K, random_linear

ATTACK = PGD(Linf(0.1), step=0.025, steps=5)


def grey(b: int, seed: int = 0) -> torch.Tensor:
    return 0.5 + 0.1 * (torch.rand(b, *SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 0.5)


def one_by_one(
    model: nn.Module, x: torch.Tensor, y: torch.Tensor, attack: PGD | APGD, noise: Noise
) -> tuple[torch.Tensor, torch.Tensor]:
    """A separate attack for every target: what was hit, and every class that any of the returned points has."""
    k = model(x).shape[1]
    hit, ended = torch.zeros(len(x), k, dtype=torch.bool), torch.zeros(len(x), k, dtype=torch.bool)
    every = torch.arange(len(x))
    ended[every, model(x).argmax(1)] = True
    for target in range(k):
        aimed = replace(attack, goal=Targeted(torch.full_like(y, target)), keep="fooled")
        found = aimed.run(model, x, y, noise)
        hit[:, target] = found.fooled
        others = y != target
        ended[every[others], model(found.x_adv[others]).argmax(1)] = True
    return hit, ended


# Linear models: the answer is known


@pytest.mark.parametrize(("ball", "dual"), [(Linf, 1), (L2, 2)], ids=["Linf", "L2"])
def test_with_two_classes_the_other_is_reached_exactly_when_eps_exceeds_the_distance(
    ball: type[Linf] | type[L2], dual: int
) -> None:
    model = random_linear(2, seed=5)
    x = grey(100, 9)
    z = model(x).detach()
    y = z.argmax(1)
    weight = model.net.weight.detach()
    needed = (z[:, 0] - z[:, 1]).abs() / (weight[0] - weight[1]).norm(p=dual)
    eps = float(needed.median())
    found = reach(model, x, y, attack=PGD(ball(eps), step=eps / 4, steps=40), noise=noise_for(x), batch=30)
    assert torch.equal(found.reached.gather(1, 1 - y[:, None]).squeeze(1), needed < eps)
    assert torch.equal(found.tried, torch.nn.functional.one_hot(1 - y, 2).bool())
    untargeted = PGD(ball(eps), step=eps / 4, steps=40, keep="fooled").run(model, x, y, noise_for(x))
    assert torch.equal((found.reached & found.tried).any(1), untargeted.fooled)


def room(model: Classifier, x: torch.Tensor, eps: float) -> torch.Tensor:
    """By linear programming: how far the logit of each class can get above all others, within eps and [0, 1]."""
    weight, bias = (p.detach().numpy() for p in (model.net.weight, model.net.bias))
    k, room = len(weight), np.empty((len(x), len(weight)))
    for row, image in enumerate(x.flatten(1).numpy()):
        low, high = np.maximum(image - eps, 0), np.minimum(image + eps, 1)
        for target in range(k):
            others = [j for j in range(k) if j != target]
            # Largest s with (w_t - w_j)·x' + b_t - b_j >= s for all j.
            sides = np.c_[weight[others] - weight[target], np.ones(k - 1)]
            limits = bias[target] - bias[others]
            bounds = [*zip(low, high, strict=True), (None, None)]
            best = linprog(np.r_[np.zeros(len(image)), -1.0], A_ub=sides, b_ub=limits, bounds=bounds)
            assert best.status == 0
            room[row, target] = -best.fun
    return torch.from_numpy(room)


@pytest.mark.parametrize("k", [3, 5])
def test_on_linear_models_a_pair_is_reached_exactly_when_the_linear_program_says_so(k: int) -> None:
    model = random_linear(k, seed=2)
    x = torch.rand(10, *SHAPE, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    y, eps = model(x).argmax(1), 0.06
    found = reach(model, x, y, attack=PGD(Linf(eps), step=eps / 25, steps=100, start=Zero()), noise=noise_for(x))
    possible = room(model, x, eps) > 0
    assert torch.equal(found.reached[found.tried], possible[found.tried])
    assert 0.1 < float(possible[found.tried].double().mean()) < 0.9


# Networks


@cache
def shared(ball: Ball, steps: int, batch: int) -> tuple[Reach, torch.Tensor, torch.Tensor]:
    model, x, y = mixed()
    attack = PGD(ball, step=float(ball.eps) / 4, steps=steps)
    found = reach(model, x, y, attack=attack, noise=noise_for(x), batch=batch)
    return found, *one_by_one(model, x, y, attack, noise_for(x))


@pytest.mark.parametrize("ball", [Linf(0.05), L2(0.5)], ids=str)
def test_sharing_batches_finds_what_separate_attacks_find(ball: Ball) -> None:
    found, hit, ended = shared(ball, 6, 256)
    assert not bool((hit & found.tried & ~found.reached).any())  # nothing is lost
    assert not bool((found.reached & ~ended).any())  # and nothing is made up: each was seen at a point
    assert 0.1 < float(found.reached[found.tried].double().mean()) < 0.9


def test_points_that_miss_their_target_count_for_the_class_they_end_in() -> None:
    found, hit, _ = shared(Linf(0.05), 6, 256)
    model, x, y = mixed()
    assert bool((found.reached & ~hit).any())
    # With no steps at all, only the start and the image are seen.
    still = reach(model, x, y, attack=replace(ATTACK, steps=0), noise=noise_for(x))
    seen = torch.zeros_like(still.reached)
    every = torch.arange(len(x))
    for at in (x, replace(ATTACK, steps=0).run(model, x, y, noise_for(x)).x_adv):
        seen[every, model(at).argmax(1)] = True
    assert torch.equal(still.reached, seen)


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_what_is_found_does_not_depend_on_the_batch(batch: int) -> None:
    model, x, y = mixed()
    whole, _, _ = shared(Linf(0.05), 6, 256)
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[: 4 if batch == 1 else 25]
    attack = PGD(Linf(0.05), step=0.0125, steps=6)
    part = reach(model, x[rows], y[rows], attack=attack, noise=noise_for(x).pick(rows), batch=batch)
    assert torch.equal(part.reached, whole.reached[rows]) and torch.equal(part.tried, whole.tried[rows])


def test_a_reached_target_is_a_mistake_so_robust_accuracy_is_bounded() -> None:
    model, x, y = mixed()
    attack = PGD(Linf(0.05), step=0.0125, steps=6, keep="fooled")
    found, _, _ = shared(Linf(0.05), 6, 256)
    some = (found.reached & found.tried).any(1)
    # The worst case over separate targeted attacks, each of which counts its mistakes.
    targeted = Cascade(tuple(replace(attack, goal=Targeted((y + shift) % K)) for shift in range(1, K)))
    by_hand = torch.zeros_like(some)
    for member in targeted.members:
        by_hand |= (y != model(member.run(model, x, y, noise_for(x)).x_adv).argmax(1)) | (model(x).argmax(1) != y)
    assert torch.equal(some, by_hand)
    untargeted = attack.run(model, x, y, noise_for(x))
    # Targets of the untargeted kind agree but for rare examples of either sort.
    assert int((some != untargeted.fooled).sum()) <= 4 and bool(some[untargeted.step == 0].any())


def test_no_batch_is_larger_than_asked_and_passes_are_counted() -> None:
    model, x, y = mixed()
    sizes: list[int] = []

    class Watched(nn.Module):
        def forward(self, at: torch.Tensor) -> torch.Tensor:
            sizes.append(len(at))
            return model(at)

    found = reach(Watched(), x, y, attack=ATTACK, noise=noise_for(x), batch=13)
    assert max(sizes) == 13 and found.forwards == sum(sizes) and 0 < found.backwards < found.forwards
    # Pairs that are reached, or seen at another's point, cost less than separate attacks to the end.
    assert found.backwards < 0.9 * int(found.tried.sum()) * ATTACK.steps


@pytest.mark.parametrize("goal", [CE(), Margin()], ids=str)
def test_radii_go_with_their_examples(goal: object) -> None:
    model, x, y = mixed()
    eps = torch.linspace(0, 0.2, len(x), dtype=x.dtype)
    attack = replace(ATTACK, goal=goal).at(eps, step=eps / 4)
    found = reach(model, x, y, attack=attack, noise=noise_for(x), batch=50)
    for row in (0, 39, 79):
        only = torch.tensor([row])
        alone = attack.at(eps[only], step=eps[only] / 4)
        assert torch.equal(
            reach(model, x[only], y[only], attack=alone, noise=noise_for(x).pick(only)).reached, found.reached[only]
        )
    counts = found.reached.sum(1).double()
    assert float(counts[:20].mean()) + 1 < float(counts[-20:].mean())
    assert found.reached[0].nonzero().tolist() == [[int(model(x[:1]).argmax())]]


def test_only_the_classes_asked_for_are_tried() -> None:
    model, x, y = mixed()
    some = reach(model, x, y, attack=ATTACK, noise=noise_for(x), classes=(1, 3))
    assert some.tried[:, [0, 2, 4]].sum() == 0
    assert torch.equal(some.tried[:, [1, 3]], torch.stack([y != 1, y != 3], 1))
    whole, hit, _ = (
        reach(model, x, y, attack=ATTACK, noise=noise_for(x)),
        *one_by_one(model, x, y, ATTACK, noise_for(x)),
    )
    assert some.backwards < whole.backwards
    assert bool((some.reached >= hit)[some.tried].all())


def test_numbers_that_are_not_finite_are_never_safety() -> None:
    model, x, y = mixed()

    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return model(x) * torch.nan

    found = reach(Broken(), x[:5], y[:5], attack=ATTACK, noise=noise_for(x[:5]))
    assert not bool(found.reached.any())
    assert torch.equal(found.trouble, torch.where(found.tried, BROKEN, FINE))
    fine = reach(model, x, y, attack=ATTACK, noise=noise_for(x))
    assert bool((fine.trouble == FINE).all())


def test_adaptive_pgd_goes_to_our_targets_and_not_to_its_own() -> None:
    model, x, y = mixed()
    few = slice(0, 20)
    found = reach(model, x[few], y[few], attack=APGD(Linf(0.05), steps=5, targets=9), noise=noise_for(x[few]))
    same = reach(model, x[few], y[few], attack=APGD(Linf(0.05), steps=5), noise=noise_for(x[few]))
    assert torch.equal(found.reached, same.reached) and found.backwards == same.backwards
    hit, ended = one_by_one(model, x[few], y[few], APGD(Linf(0.05), steps=5), noise_for(x[few]))
    assert bool((found.reached >= hit)[found.tried].all()) and not bool((found.reached & ~ended).any())


# The matrix


def test_the_matrix_has_the_share_of_each_class_that_reaches_each_other() -> None:
    reached = torch.tensor([[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 1, 1], [0, 0, 1, 0]], dtype=torch.bool)
    y = torch.tensor([0, 0, 2, 2])
    tried = ~torch.nn.functional.one_hot(y, 4).bool()
    found = Reach(reached, tried, torch.zeros(4, 4, dtype=torch.int64), torch.zeros(4, *SHAPE), y, 0, 0)
    nan = float("nan")
    wanted = [[nan, 0.5, 0.5, 0], [nan] * 4, [0, 0, nan, 0.5], [nan] * 4]
    assert torch.equal(reach_matrix(found, y).nan_to_num(-1), torch.tensor(wanted, dtype=torch.float64).nan_to_num(-1))
    assert worst_target(reach_matrix(found, y)).tolist() == [1, NEVER, 3, NEVER]
    without = reach_matrix(found._replace(tried=tried & torch.tensor([True, False, True, True])), y)
    assert bool(without[:, 1].isnan().all()) and worst_target(without).tolist() == [2, NEVER, 3, NEVER]


def test_the_matrix_of_a_network_is_counted_pair_by_pair() -> None:
    found, _, _ = shared(Linf(0.05), 6, 256)
    _, _, y = mixed()
    shares = reach_matrix(found, y)
    for i in range(K):
        for j in range(K):
            own = found.reached[y == i, j].double()
            same = bool(shares[i, j].isnan()) if i == j or len(own) == 0 else bool(shares[i, j] == own.mean())
            assert same


def test_mistakes_are_refused_in_one_sentence() -> None:
    model, x, y = mixed()
    with pytest.raises(ValueError, match="an attack with a goal, such as PGD, but saw Cascade"):
        reach(model, x, y, attack=Cascade((ATTACK,)), noise=noise_for(x))
    with pytest.raises(ValueError, match=r"classes 0 to 4, but saw the targets \(1, 5\)"):
        reach(model, x, y, attack=ATTACK, noise=noise_for(x), classes=(1, 5))
    with pytest.raises(ValueError, match="at least one pair, but saw 0"):
        reach(model, x, y, attack=ATTACK, noise=noise_for(x), batch=0)


# As a condition of an audit

SMALL = PGD(Linf(0.01), step=0.005, steps=5, keep="fooled")


def test_toward_every_class_is_wrong_exactly_where_some_other_class_is_reached() -> None:
    model, x, y = mixed()
    condition = Everywhere(SMALL)
    made = condition.run(model, x, y, noise_for(x))
    found = reach(model, x, y, attack=SMALL, noise=noise_for(x))
    assert made.reached is not None and torch.equal(made.reached, found.reached & found.tried)
    assert torch.equal(made.fooled, made.reached.any(1)) and torch.equal(made.fooled, model(made.x_adv).argmax(1) != y)
    assert torch.equal(made.step == NEVER, ~made.fooled) and torch.equal(made.step == 0, model(x).argmax(1) != y)
    assert bool(condition.allows(x, made.x_adv).all()) and 0 < int(made.fooled.sum()) < len(x)
    assert torch.equal(made.x_adv[~made.fooled], x[~made.fooled])


def test_evidence_counts_the_pairs_and_merges_them() -> None:
    model, x, y = mixed()
    condition = Everywhere(SMALL)
    made = condition.run(model, x, y, noise_for(x))
    k = model(x).shape[1]
    half = len(x) // 2
    parts = [
        make_record(
            model(made.x_adv[rows]).detach(),
            y[rows],
            x[rows],
            outcome=condition.run(model, x[rows], y[rows], noise_for(x).pick(rows)),
        )
        for rows in (torch.arange(half), torch.arange(half, len(x)))
    ]
    assert made.reached is not None
    counts = torch.stack([made.reached[y == c].sum(0) for c in range(k)])
    assert np.array_equal(join_records(parts, len(x)).reached, counts.numpy())
    names = tuple(map(str, range(k)))
    found = Evidence(
        np.arange(len(x), dtype=np.int32),
        y.numpy().astype(np.int32),
        names,
        {"reach5": join_records(parts, len(x))},
        json.dumps({"model": "", "data": "", "conditions": [["reach5", {"type": "Reachability"}]]}),
    )
    share, expected = (
        found.reach("reach5"),
        reach_matrix(reach(model, x, y, attack=SMALL, noise=noise_for(x)), y).numpy(),
    )
    assert share is not None and np.allclose(share, expected, equal_nan=True)
    again = parse_evidence(found.to_bytes(), Path("x"))
    assert np.array_equal(again.conditions["reach5"].reached, counts.numpy())
    plain = make_record(model(x).detach(), y, x, outcome=ATTACK.run(model, x, y, noise_for(x)))
    assert plain.reached.shape == (0, 0)
