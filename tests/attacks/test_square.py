"""Square: the same pixels as a plain loop over examples, the schedule, and what a linear model allows."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leastwise.attacks.base import BROKEN, FINE, NEVER
from leastwise.attacks.goals import KL, Goal, Margin, Targeted
from leastwise.attacks.square import BLOCK, HALVINGS, Square, bump, share_of_image, side_of_square, square_places
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.core.losses import margin
from leastwise.core.noise import Noise
from leastwise.core.recipe import recipe_key
from leastwise.models.classifier import Classifier
from tests.attacks.networks_to_attack import Partly, linear, mixed, noise_for
from tests.conftest import SHAPE, B, K, random_linear

BALLS = (Linf(0.05), L2(0.5))


def few(b: int = 30) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    model, x, y = mixed()
    return model, x[:b], y[:b]


# A plain form: one example at a time, slices in place of gathers, the paper's order of operations.


def plain_repaint(x: torch.Tensor, best: torch.Tensor, eps: float, draw: torch.Tensor, s: int) -> torch.Tensor:
    _, h, w = x.shape
    top, left = (int(u * (n - s + 1)) for u, n in zip(draw[:2].tolist(), (h, w), strict=True))
    delta = torch.zeros_like(x)
    delta[:, top : top + s, left : left + s] = 2 * eps * sign(draw[2:]).view(-1, 1, 1)
    return torch.minimum(torch.maximum(best + delta, x - eps), x + eps).clamp(0, 1)


def plain_rearrange(x: torch.Tensor, best: torch.Tensor, eps: float, draw: torch.Tensor, s: int) -> torch.Tensor:
    c, h, w = x.shape
    delta = best - x
    window = torch.zeros(2, h, w, dtype=torch.bool)
    corners = []
    for number in (0, 1):
        top, left = (int(u * (n - s + 1)) for u, n in zip(draw[2 * number :][:2].tolist(), (h, w), strict=True))
        window[number, top : top + s, left : left + s] = True
        corners.append((slice(None), slice(top, top + s), slice(left, left + s)))
    shape = plain_bump(s)
    shape = shape.T if draw[4] < 0.5 else shape
    spent = delta.norm()
    new = torch.zeros(c, s, s, dtype=x.dtype)
    for channel in range(c):
        old = delta[corners[0]][channel]
        mix = sign(draw[5:])[channel] * shape + old / max(float(old.norm()), 1e-12)
        both = delta[channel][window.any(0)].norm()
        new[channel] = mix / mix.norm() * (max(eps**2 - float(spent) ** 2, 0) / c + both**2).sqrt()
    delta[corners[1]] = 0
    delta[corners[0]] = new
    return (x + eps * delta / delta.norm()).clamp(0, 1)


@cache
def plain_bump(s: int) -> torch.Tensor:
    """Rings around the middle of each half, drawn one over the other."""
    halves = []
    for h in (s // 2, s - s // 2):
        half = torch.zeros(h, s, dtype=torch.float64)
        for ring in range(max(h, s) // 2 + 1):
            for i in range(h):
                for j in range(s):
                    if max(abs(i - h // 2), abs(j - s // 2)) <= ring:
                        half[i, j] += 1 / (ring + 1) ** 2
        halves.append(half / max(float(half.norm()), 1e-12))
    both = torch.cat((halves[0], -halves[1]))
    return both / both.norm()


def plain_start(ball: Ball, x: torch.Tensor, noise: Noise) -> torch.Tensor:
    c, h, w = x.shape
    if isinstance(ball, Linf):
        return (x + ball.eps * sign(noise.fork("stripes").uniform((c, 1, w))[0])).clamp(0, 1)
    s = max(1, min(h, w) // 5)
    turned = noise.fork("orientations").uniform((h // s, w // s))[0] < 0.5
    signs = sign(noise.fork("tiles").uniform((c, h // s, w // s))[0])
    delta = torch.zeros_like(x)
    for i in range(h // s):
        for j in range(w // s):
            top, left = (h % s) // 2 + i * s, (w % s) // 2 + j * s
            shape = plain_bump(s).T if turned[i, j] else plain_bump(s)
            delta[:, top : top + s, left : left + s] = shape * signs[:, i, j, None, None]
    return (x + ball.eps * delta / delta.norm()).clamp(0, 1)


def sign(drawn: torch.Tensor) -> torch.Tensor:
    return torch.where(drawn < 0.5, 1.0, -1.0).double()


def plain(attack: Square, model: nn.Module, x: torch.Tensor, y: int, noise: Noise) -> tuple[torch.Tensor, int]:
    """Where one example ends, and after how many queries."""
    label = torch.tensor([y])
    if int(model(x[None]).argmax()) != y:
        return x, 0
    c, h, w = x.shape
    noise = noise.fork("restart")
    best = plain_start(attack.ball, x, noise)
    least = float(margin(model(best[None]), label))
    if least <= 0:
        return best, 1
    linf = isinstance(attack.ball, Linf)
    propose: Callable[..., torch.Tensor] = plain_repaint if linf else plain_rearrange
    blocks = range(attack.queries // BLOCK + 1)
    draws = torch.cat([noise.fork("squares", n).uniform((BLOCK, (2 if linf else 5) + c))[0] for n in blocks])
    for i in range(attack.queries):
        point = propose(x, best, attack.ball.eps, draws[i], side_of_square(attack, i, h=h, w=w))
        now = float(margin(model(point[None]), label))
        if now < least:
            best, least = point, now
        if least <= 0:
            return best, i + 2
    return best, NEVER


@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_a14_the_batched_search_is_the_plain_one(ball: Ball) -> None:
    """Examples that leave on the way included: those that stay go where they would have gone."""
    model, x, y = few()
    attack = Square(replace(ball, eps=ball.eps / 2), queries=BLOCK + 5)
    with torch.no_grad():
        found = attack.run(model, x, y, noise_for(x))
        for row in range(0, len(x), 3):
            rows = torch.tensor([row])
            end, step = plain(attack, model, x[row], int(y[row]), noise_for(x).pick(rows))
            assert int(found.step[row]) == step
            assert torch.allclose(found.x_adv[row], end, atol=1e-9)
    steps = found.step[::3]
    assert bool((steps == 0).any() and (steps > 1).any() and (steps == NEVER).any())


@pytest.mark.parametrize("s", [1, 2, 3, 4, 5, 6, 9, 14])
def test_a14_bump_is_rings_of_inverse_squares(s: int) -> None:
    assert torch.allclose(bump(s, torch.float64, torch.device("cpu")), plain_bump(s), atol=1e-12)


def test_a14_share_halves_as_published() -> None:
    attack = Square()
    bounds = (0, *HALVINGS, 12_000)
    for number, (low, high) in enumerate(pairwise(bounds)):
        for i in (low + 1, high):
            assert share_of_image(attack, i) == 0.8 / 2**number
    assert share_of_image(attack, 0) == 0.8
    stretched = Square(queries=1000, rescale=True)
    assert [share_of_image(stretched, i) for i in (1, 2, 5, 6)] == [0.8, 0.4, 0.4, 0.2]
    assert share_of_image(stretched, 999) == 0.8 / 512


def test_a14_sides_of_a_cifar_image() -> None:
    # round(sqrt(0.8 · 2^-j · 1024)): 28.6, 20.2, 14.3, 10.1, 7.2, 5.06, 3.6, 2.5, 1.8, 1.3
    at = (0, 11, 51, 201, 501, 1001, 2001, 4001, 6001, 8001)
    assert [side_of_square(Square(), i, h=32, w=32) for i in at] == [29, 20, 14, 10, 7, 5, 4, 3, 2, 1]
    assert [side_of_square(Square(L2(0.5)), i, h=32, w=32) for i in at] == [29, 21, 15, 11, 7, 5, 5, 3, 3, 3]
    assert side_of_square(Square(), 0, h=1, w=1) == side_of_square(Square(L2(1.0)), 0, h=1, w=1) == 1
    assert side_of_square(Square(), 0, h=4, w=60) == 4  # never longer than the shorter side
    assert side_of_square(Square(L2(1.0)), 0, h=2, w=9) == 2


@pytest.mark.parametrize(("s", "h", "w"), [(1, 1, 1), (3, 5, 7), (5, 5, 9), (4, 224, 224), (1, 1, 300)])
def test_a14_every_offset_is_equally_likely(s: int, h: int, w: int) -> None:
    n = 2520 * 20  # most of the counts of offsets divide it
    even = (torch.arange(n) + 0.5) / n
    top = square_places(torch.stack((even, torch.full((n,), 0.3)), 1), s, h=h, w=w)[:, 0] // w
    counts = torch.bincount(top)
    assert len(counts) == h - s + 1
    assert int(counts.max() - counts.min()) <= 1
    largest = torch.full((1, 2), 1 - 2.0**-24)  # of Noise.uniform
    assert square_places(largest, s, h=h, w=w).max() == h * w - 1


@given(
    norm=st.sampled_from([Linf, L2]),
    eps=st.floats(0, 1),
    k=st.integers(2, 7),
    b=st.integers(1, 5),
    shape=st.tuples(st.sampled_from([1, 3]), st.integers(1, 12), st.integers(1, 12)),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    queries=st.integers(0, 25),
    each=st.booleans(),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=40, deadline=None)
def test_p15_square_stays_in_its_ball(
    norm: type[Linf] | type[L2],
    eps: float,
    k: int,
    b: int,
    shape: tuple[int, int, int],
    dtype: torch.dtype,
    queries: int,
    each: bool,
    seed: int,
) -> None:
    model = linear(shape, k, seed % 1000, dtype)
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(b, *shape, generator=g, dtype=dtype).mul(1.5).sub(0.25).clamp(0, 1)  # some at 0 and at 1
    y = torch.randint(0, k, (b,), generator=g)
    radius = torch.linspace(0, eps, b, dtype=dtype) if each else eps
    x_before, generator_before = x.clone(), torch.random.get_rng_state()
    attack = Square(norm(radius), queries=queries, p_init=0.5)

    found = attack.run(model, x, y, noise_for(x, seed))

    assert bool(attack.allows(x, found.x_adv).all())
    assert bool((attack.ball.norm(found.x_adv - x) <= torch.as_tensor(radius) + 1e-6).all())
    assert found.x_adv.shape == x.shape and found.x_adv.dtype == dtype and not found.x_adv.requires_grad
    assert float(found.x_adv.min()) >= 0 and float(found.x_adv.max()) <= 1
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(x, x_before) and torch.equal(torch.random.get_rng_state(), generator_before)
    assert torch.equal(found.fooled, found.step != NEVER) and int(found.step.max()) <= queries + 1
    assert torch.equal(found.fooled, model(found.x_adv).argmax(1) != y)  # a point that fools is kept, others do not


def test_p15_l2_stays_in_its_ball_at_imagenet_size() -> None:
    shape = (3, 224, 224)
    x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    model = linear(shape, K, 0, torch.float32)
    y = model(x).argmax(1)
    attack = Square(L2(3.0), Targeted((y + 1) % K), queries=20)
    found = attack.run(model, x, y, noise_for(x))
    assert bool(attack.allows(x, found.x_adv).all())
    assert bool((L2(3.0).norm(found.x_adv - x) > 2.5).all())  # the pixel range took a little


def test_p25_square_succeeds_when_eps_exceeds_margin_over_the_l1_norm_and_never_below() -> None:
    model = random_linear(2, seed=5)
    weight = model.net.weight.detach()
    g = torch.Generator().manual_seed(9)
    x = 0.5 + 0.1 * (torch.rand(40, *SHAPE, generator=g, dtype=torch.float64) - 0.5)
    y = model(x).argmax(1)
    needed = margin(model(x), y).detach() / (weight[0] - weight[1]).norm(p=1)
    attack = Square(queries=600, rescale=True)
    assert bool(attack.at(1.2 * needed).run(model, x, y, noise_for(x)).fooled.all())
    below = replace(attack, queries=150).at(0.999 * needed).run(model, x, y, noise_for(x))
    assert not bool(below.fooled.any()) and below.forwards == len(x) * 152


def test_p25_square_l2_comes_near_what_a_linear_model_allows() -> None:
    """The margin can fall by eps·|w| and never by more; white noise is the worst case for squares of 3 pixels."""
    model = random_linear(2, seed=5)
    weight = model.net.weight.detach()
    x = torch.full((10, *SHAPE), 0.5, dtype=torch.float64)
    y = model(x).argmax(1)
    eps = 0.5 * margin(model(x), y).detach() / (weight[0] - weight[1]).norm()
    found = Square(L2(eps), queries=300, rescale=True).run(model, x, y, noise_for(x))
    fall = (margin(model(x), y) - margin(model(found.x_adv), y)).detach() / (eps * (weight[0] - weight[1]).norm())
    assert bool((fall < 1 + 1e-9).all())
    assert float(fall.mean()) > 0.4


@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_fewer_queries_are_the_first_of_many(ball: Ball) -> None:
    model, x, y = few()
    short, long = (Square(ball, queries=n).run(model, x, y, noise_for(x)) for n in (30, 80))
    assert torch.equal(short.fooled, long.fooled & (long.step <= 31))
    assert torch.equal(short.step[short.fooled], long.step[short.fooled])
    still = ~long.fooled
    before, after = (margin(model(found.x_adv), y)[still] for found in (short, long))
    assert bool((after <= before).all() and (after < before).any())


@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_an_example_meets_the_same_squares_in_any_batch(ball: Ball) -> None:
    model, x, y = few()
    eps = torch.linspace(0, 1, len(x), dtype=x.dtype) * ball.eps
    attack = Square(ball, queries=30)
    together = attack.at(eps).run(model, x, y, noise_for(x))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    for rows in (order[:17], order[17:18]):
        alone = attack.at(eps[rows]).run(model, x[rows], y[rows], noise_for(x).pick(rows))
        assert torch.allclose(alone.x_adv, together.x_adv[rows], atol=1e-9)
        assert torch.equal(alone.step, together.step[rows])
    assert 0 < int(together.fooled.sum()) < len(x)
    again = attack.at(eps).run(model, x, y, noise_for(x))
    assert torch.equal(again.x_adv, together.x_adv)
    assert not torch.equal(attack.at(eps).run(model, x, y, noise_for(x, 1)).x_adv, together.x_adv)


def test_only_the_undecided_cost_queries() -> None:
    model, x, y = few()
    for keep in ("last", "fooled"):
        found = Square(Linf(0.05), queries=50, keep=keep).run(model, x, y, noise_for(x))
        assert found.forwards == len(x) + sum(t if t != NEVER else 51 for t in found.step.tolist())
        assert found.backwards == 0
        wrong_at_once = model(x).argmax(1) != y
        assert torch.equal(found.x_adv[wrong_at_once], x[wrong_at_once])


def test_a_target_is_reached_and_nothing_else_counts() -> None:
    model, x, y = few()
    target = (y + 2) % K
    found = Square(Linf(0.15), Targeted(target), queries=80).run(model, x, y, noise_for(x))
    assert torch.equal(found.fooled, model(found.x_adv).argmax(1) == target)
    assert 0 < int(found.fooled.sum()) < len(x)


@pytest.mark.parametrize("goal", [Margin(0.0), Margin(50.0)], ids=str)
def test_kappa_is_past_the_end_of_the_search(goal: Goal) -> None:
    model, x, y = few()
    default, other = Square(Linf(0.05), queries=30), Square(Linf(0.05), goal, queries=30)
    assert torch.equal(default.run(model, x, y, noise_for(x)).x_adv, other.run(model, x, y, noise_for(x)).x_adv)


def test_a_goal_that_looks_at_the_clean_image_pays_for_it() -> None:
    model, x, y = few()
    assert Square(goal=KL(), queries=0).run(model, x[:1], y[:1] * 0 - 1, noise_for(x[:1])).forwards == 2


def test_restarts_attack_what_survived_with_other_squares() -> None:
    model, x, y = few()
    once = Square(Linf(0.04), queries=15)
    one, three = once.run(model, x, y, noise_for(x)), replace(once, restarts=3).run(model, x, y, noise_for(x))
    assert torch.equal(one.x_adv[one.fooled], three.x_adv[one.fooled])
    assert bool(three.fooled[one.fooled].all()) and int(three.fooled.sum()) > int(one.fooled.sum())
    assert one.forwards < three.forwards < one.forwards + 2 * 16 * int((~one.fooled).sum()) + 1


@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_numbers_that_are_not_finite_are_never_robustness(ball: Ball) -> None:
    model, x, y = few()
    found = Square(ball, queries=40).run(Partly(model), x, y, noise_for(x))
    assert bool(model(found.x_adv)[found.fooled].isfinite().all())
    assert bool((found.x_adv[found.fooled].flatten(1).mean(1) <= 0.5).all())
    bad = x.flatten(1).mean(1) > 0.5
    assert bool((found.fooled | (found.trouble == BROKEN))[bad].all())
    assert bool((found.fooled & bad).any())  # a finite point beside a broken image is searched from
    assert bool((found.trouble[found.fooled] == FINE).all())
    everywhere = Square(ball, queries=3).run(Partly(nn.Flatten()), x.clamp_min(0.6), y, noise_for(x))
    assert not bool(everywhere.fooled.any()) and bool((everywhere.trouble == BROKEN).all())


def test_the_model_never_sees_an_empty_batch() -> None:
    model, x, y = few()

    class Strict(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert len(x) > 0
            return model(x)

    attack = Square(Linf(0.3), queries=30, restarts=2)
    for labels in (y, (model(x).argmax(1) + 1) % K):
        attack.at(0.9).run(Strict(), x, labels, noise_for(x))
    found = attack.run(Strict(), x, labels, noise_for(x))
    assert bool(found.fooled.all()) and torch.equal(found.x_adv, x) and found.forwards == len(x)


def test_a_black_box_without_gradients_will_do() -> None:
    model, x, y = few()

    class BlackBox(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(model(x).detach().numpy().copy())

    attack = Square(Linf(0.05), queries=20)
    assert not attack.gradients
    boxed = attack.run(BlackBox(), x, y, noise_for(x))
    assert torch.equal(boxed.x_adv, attack.run(model, x, y, noise_for(x)).x_adv)


def test_channels_last_images_give_the_same_points(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, y = batch
    model = Classifier(linear(SHAPE, K, 0, torch.float32), K)
    y = model(x).argmax(1)
    for ball in (Linf(0.01), L2(0.05)):
        attack = Square(ball, queries=30)
        turned = attack.run(model, x.contiguous(memory_format=torch.channels_last), y, noise_for(x))
        assert torch.allclose(turned.x_adv, attack.run(model, x, y, noise_for(x)).x_adv, atol=1e-6)
    assert attack(model, x[:1], y[:1]).shape == (1, *SHAPE) and B > 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ball": L1(1.0)}, "Linf and L2"),
        ({"queries": -1}, "number of queries"),
        ({"p_init": 0.0}, "share of the image"),
        ({"p_init": 1.5}, "share of the image"),
        ({"restarts": 0}, "at least once"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Square(**wrong)


def test_it_says_what_it_does_and_has_a_key() -> None:
    assert str(Square(Linf(0.25), Margin(50.0), 100)) == (
        "Square with 100 queries on the margin with kappa = 50, Linf eps 0.25, any query counts"
    )
    assert recipe_key(Square()) != recipe_key(Square(queries=5001))
