"""The attack loop: Temperature-PGD's identities, the contract every attack keeps, examples that leave the batch."""

from dataclasses import replace
from functools import cache
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.base import BROKEN, FINE, FLAT, NEVER, Attack, Clean
from leastwise.attacks.choices import Keep
from leastwise.attacks.combine import Cascade, Grid, Restarts
from leastwise.attacks.fab.fab import FAB
from leastwise.attacks.goals import CE, DLR, KL, Goal, Margin, Targeted
from leastwise.attacks.min_norm.cw import CWL2, CWInf
from leastwise.attacks.min_norm.hop_skip_jump import HopSkipJump
from leastwise.attacks.naming import AttackName, Threat
from leastwise.attacks.nattack import NAttack
from leastwise.attacks.one_step import fgsm, r_fgsm
from leastwise.attacks.pgd import PGD
from leastwise.attacks.registry import NAMES, make_attack
from leastwise.attacks.square import Square
from leastwise.attacks.surrogate import Surrogate, make_surrogate
from leastwise.attacks.threats import L1, L2, Ball, Gaussian, Linf, Start, Uniform, Zero
from leastwise.core.losses import kl, margin
from leastwise.core.noise import Noise
from leastwise.models.classifier import Classifier, inference
from leastwise.models.zoo.registry import build
from tests.attacks.contract import check_contract
from tests.attacks.networks_to_attack import mixed, noise_for
from tests.conftest import SHAPE, B, K

# P1–P3: Temperature-PGD


def textbook(model: nn.Module, x: torch.Tensor, y: torch.Tensor, attack: PGD, noise: Noise, k: float) -> torch.Tensor:
    """PGD on cross-entropy of k·z, written the plain way, from the same start."""
    eps, alpha = attack.ball.eps, attack.step
    x_adv = (x + eps * (2 * noise.fork("start").uniform(tuple(x.shape[1:]), x.dtype) - 1)).clamp(0, 1)
    for _ in range(attack.steps):
        x_adv = x_adv.detach().requires_grad_()
        loss = nn.functional.cross_entropy(k * model(x_adv), y, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x_adv)
        x_adv = torch.minimum(torch.maximum(x_adv + alpha * gradient.sign(), x - eps), x + eps).clamp(0, 1)
    return x_adv.detach()


@pytest.mark.parametrize("k", [1.0, 5.0])
def test_p1_temperature_one_is_textbook_pgd(k: float) -> None:
    model, x, y = mixed()
    attack = PGD(Linf(0.05), CE(k), step=0.0125, steps=6)
    ours = attack.run(model, x, y, noise_for(x)).x_adv
    assert torch.allclose(ours, textbook(model, x, y, attack, noise_for(x), k), atol=1e-12)
    # The comparison can tell temperatures apart.
    assert not torch.allclose(ours, textbook(model, x, y, attack, noise_for(x), 25.0), atol=1e-3)


@pytest.mark.parametrize("keep", ["last", "fooled"])
def test_p1_temperature_one_is_pgd_bit_for_bit(keep: str) -> None:
    """The T-PGD of the attack table at 1/T = 1 is the table's PGD: same bits in float32."""
    model, x, y = mixed(torch.float32)
    threat = Threat(Linf(0.05), 0.0125, keep)
    a, b = (make_attack(name, threat).run(model, x, y, noise_for(x)) for name in ("pgd5", "tpgd5@1"))
    assert torch.equal(a.x_adv, b.x_adv) and torch.equal(a.fooled, b.fooled)


@pytest.mark.parametrize("k", [0.1, 2.0, 5.0, 10.0, 50.0])
def test_p2_with_two_classes_the_temperature_does_not_matter(k: float) -> None:
    model = build("small", SHAPE, 2, seed=1).eval()
    x = torch.rand(B, *SHAPE, generator=torch.Generator().manual_seed(0))
    y = torch.arange(B) % 2
    plain, sharpened = PGD(steps=5), PGD(goal=CE(k), steps=5)
    assert torch.equal(plain.run(model, x, y, noise_for(x)).x_adv, sharpened.run(model, x, y, noise_for(x)).x_adv)


class Scaled(nn.Module):
    def __init__(self, model: nn.Module, k: float) -> None:
        super().__init__()
        self.model, self.k = model, k

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.k * self.model(x)


@pytest.mark.parametrize("k", [2.0, 5.0, 10.0, 50.0])
def test_p3_temperature_pgd_is_pgd_on_scaled_logits(
    network: Classifier, batch: tuple[torch.Tensor, torch.Tensor], k: float
) -> None:
    x, y = batch
    a = PGD(goal=CE(k), steps=5).run(network, x, y, noise_for(x)).x_adv
    b = PGD(goal=CE(), steps=5).run(Scaled(network, k).eval(), x, y, noise_for(x)).x_adv
    assert torch.equal(a, b)


@pytest.mark.parametrize("gap", [1.0, 8.0, 30.0])
def test_p3_float32_signs_equal_float64_up_to_fifty(gap: float) -> None:
    """Where softmax has long underflowed, the climbed log-odds still point the right way."""
    g = torch.Generator().manual_seed(0)
    z = torch.randn(200, 10, generator=g, dtype=torch.float64)
    y = torch.zeros(200, dtype=torch.int64)
    z[:, 0] = z[:, 1:].amax(1) + gap
    weight = torch.randn(10, 30, generator=g, dtype=torch.float64)

    def pulled_back(dtype: torch.dtype) -> torch.Tensor:
        logits = z.to(dtype).requires_grad_()
        (gradient,) = torch.autograd.grad(CE(50.0).score(logits, y).sum(), logits)
        return gradient.double() @ weight

    exact, rounded = pulled_back(torch.float64), pulled_back(torch.float32)
    assert bool((exact.abs().amax(1) > 0).all())
    clear = exact.abs() > 1e-5 * exact.abs().amax(1, keepdim=True)  # a sum that cancels to nothing has no sign
    assert torch.equal(exact.sign()[clear], rounded.sign()[clear])


def test_a3_log_odds_climb_where_cross_entropy_does() -> None:
    """CE = softplus(log-odds), so its gradient is a positive multiple per example."""
    g = torch.Generator().manual_seed(0)
    z = torch.randn(50, K, generator=g, dtype=torch.float64, requires_grad=True)
    y = torch.randint(0, K, (50,), generator=g)
    (ours,) = torch.autograd.grad(CE(2.0).score(z, y).sum(), z)
    (theirs,) = torch.autograd.grad(nn.functional.cross_entropy(2 * z, y, reduction="sum"), z)
    assert torch.allclose(nn.functional.normalize(ours), nn.functional.normalize(theirs), atol=1e-12)


def test_literal_cross_entropy_is_the_loop_of_published_code_and_stands_still_where_that_does() -> None:
    """x ← clip(x + step · sign ∇CE) by torch's own loss, step by step; with p_y = 1 in float32 there is no gradient."""
    net = build("convnet", SHAPE, K, seed=2).double().eval()  # in float32 the sign of a tiny slope is the processor's
    x, y = torch.rand(B, *SHAPE, generator=torch.Generator().manual_seed(1), dtype=torch.float64), torch.arange(B) % K
    attack = make_attack("pgd6-ce", Threat(Linf(0.1), 0.03, "last"))
    assert attack == PGD(Linf(0.1), CE(literal=True), 0.03, 6)
    attack = replace(attack, start=Zero())
    at = x.clone()
    for _ in range(6):
        at.requires_grad_()
        (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(net(at), y, reduction="sum"), at)
        at = (x + (at.detach() + 0.03 * gradient.sign() - x).clamp(-0.1, 0.1)).clamp(0, 1)
    assert torch.allclose(attack(net, x, y), at, rtol=0, atol=1e-12)

    sure = nn.Sequential(nn.Flatten(), nn.Linear(12, 2, bias=False))
    with torch.no_grad():
        sure[1].weight.copy_(torch.stack([torch.full((12,), 60.0), torch.full((12,), -60.0)]))
    image, label = torch.full((1, 3, 2, 2), 0.5), torch.tensor([0])
    one_step = PGD(Linf(0.9), CE(literal=True), 0.9, 1, Zero())
    assert torch.equal(one_step(sure, image, label), image)
    assert one_step.run(sure, image, label, noise_for(image)).trouble.tolist() == [FLAT]
    assert replace(one_step, goal=CE())(sure, image, label).max() == 0


def test_a4_margin_goal_has_the_gradient_of_the_margin_until_kappa() -> None:
    z = torch.tensor([[3.0, 1.0, 0.0], [0.0, 4.0, 1.0], [0.0, 60.0, 1.0]], requires_grad=True)
    y = torch.zeros(3, dtype=torch.int64)
    (wide,) = torch.autograd.grad(Margin(kappa=50.0).score(z, y).sum(), z)
    assert wide.tolist() == [[-1, 1, 0], [-1, 1, 0], [0, 0, 0]]
    (narrow,) = torch.autograd.grad(Margin(kappa=0.0).score(z, y).sum(), z)
    assert narrow.tolist() == [[-1, 1, 0], [0, 0, 0], [0, 0, 0]]


# P15: the contract


@st.composite
def attacks(draw: st.DrawFn) -> Attack:
    eps = draw(st.floats(0, 1))
    ball: Ball = draw(st.sampled_from([Linf(eps), L2(5 * eps), L1(20 * eps)]))
    goal: Goal = draw(st.sampled_from([CE(), CE(inverse_temperature=50.0), KL(), Margin(), DLR()]))
    start: Start = draw(st.sampled_from([Zero(), Uniform(), Gaussian(0.001), Gaussian(3.0)]))
    step = draw(st.floats(0, 2))
    keep = draw(st.sampled_from(get_args(Keep)))
    patience = draw(st.integers(0, 2)) if keep == "fooled" else 0
    return PGD(ball, goal, step, draw(st.integers(0, 4)), start, keep, draw(st.sampled_from([0.0, 1.0])), patience)


@given(
    attack=attacks(),
    k=st.integers(2, 7),
    b=st.integers(1, 5),
    shape=st.tuples(st.sampled_from([1, 3]), st.integers(5, 12), st.integers(5, 12)),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=60, deadline=None)
def test_p15_every_attack_stays_in_its_ball_and_leaves_the_model_alone(
    attack: PGD, k: int, b: int, shape: tuple[int, int, int], seed: int
) -> None:
    check_contract(attack, k, b, shape, seed)


@cache
def surrogate(name: str) -> Surrogate:
    return make_surrogate(name, build("small", (3, 8, 8), 5, seed=1 + int(name)).eval())


def short(row: AttackName, ball: Ball, keep: str) -> Attack:
    """The attack of a row of the table, with little to do."""
    threat = Threat(ball, 0.25 * ball.eps, keep, surrogate)
    return brief(make_attack(row.example or "transfer:0+1", threat))


def brief(attack: Attack) -> Attack:
    """The same attack with a smaller budget, so that hypothesis can try many."""
    match attack:
        case Cascade() | Grid():
            return replace(attack, members=tuple(brief(member) for member in attack.members))
        case APGD():
            return replace(attack, steps=8, restarts=min(attack.restarts, 2), eot=min(attack.eot, 2))
        case FAB():
            return replace(attack, steps=4, restarts=min(attack.restarts, 2))
        case Square():
            return replace(attack, queries=15)
        case HopSkipJump():
            return replace(attack, queries=60, probes=10)
        case NAttack():
            return replace(attack, steps=3, population=10)
        case CWInf() | CWL2():
            return replace(attack, iterations=6, searches=2)
    return attack


@pytest.mark.parametrize("row", NAMES, ids=lambda row: row.spelling)
@given(
    kind=st.sampled_from([Linf, L2, L1]),
    eps=st.floats(0.001, 0.5),
    keep=st.sampled_from(get_args(Keep)),
    k=st.integers(2, 6),
    b=st.integers(1, 4),
    shape=st.tuples(st.sampled_from([1, 3]), st.integers(8, 12), st.integers(8, 12)),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=6, deadline=None)
def test_p15_p26_every_named_attack_keeps_the_contract(
    row: AttackName, kind: type[Ball], eps: float, keep: str, k: int, b: int, shape: tuple[int, int, int], seed: int
) -> None:
    if row.spelling.startswith("transfer"):  # its surrogates are for these
        k, shape = 5, (3, 8, 8)
    if row.spelling.startswith("CORRUPTION"):
        shape = (3, *shape[1:])
    try:
        attack = short(row, kind(eps if kind is Linf else 10 * eps), keep)
    except ValueError as refused:  # some attacks know one norm or two, and say so
        assert kind is not Linf or row.spelling.startswith(("cwl2", "ddn"))
        assert "norm" in str(refused) or "Linf" in str(refused)
        return
    check_contract(attack, k, b, shape, seed)


def test_p15_the_check_itself_notices_a_point_outside() -> None:
    x = torch.full((3, *SHAPE), 0.5)
    outside = x.clone()
    outside[0, 0, 0, 0] += 0.1001
    outside[1] = 0.6
    assert PGD(Linf(0.1)).allows(x, outside).tolist() == [False, True, True]
    assert PGD(Linf(9.0)).allows(x, x - 0.6).tolist() == [False] * 3  # below 0
    assert Clean().allows(x, outside).tolist() == [False, False, True]


@pytest.mark.parametrize("shape", [(3, 224, 224), (3, 64, 64)])
def test_p15_l2_stays_in_its_ball_at_imagenet_size(shape: tuple[int, int, int]) -> None:
    model = build("convnet", shape, K, seed=0)
    x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    for eps in (0.5, 3.0, 5.0):
        attack = PGD(L2(eps), step=eps / 4, steps=3)
        found = attack.run(model, x, torch.zeros(2, dtype=torch.int64), noise_for(x))
        assert bool(attack.allows(x, found.x_adv).all())
        assert bool((L2(eps).norm(found.x_adv - x) > 0.9 * eps).all())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": -1}, "number of steps"),
        ({"step": -0.1}, "step must be zero or more"),
        ({"step": torch.tensor([0.1, -0.1])}, "step must be zero or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PGD(**settings)


def test_a_gradient_that_is_not_finite_is_never_robustness(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, y = batch

    class Roots(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x - x.detach()).sqrt().flatten(1)[:, :K] + x.flatten(1)[:, :K]

    for ball in (Linf(0.1), L2(0.1)):
        for keep in get_args(Keep):
            found = PGD(ball, steps=1, keep=keep).run(Roots(), x, y, noise_for(x))
            assert found.trouble.tolist() == [FINE if fooled else BROKEN for fooled in found.fooled.tolist()]
            assert not bool(found.fooled.all())


def test_zero_step_from_the_image_returns_it(network: Classifier, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, y = batch
    assert torch.equal(PGD(step=0.0, start=Zero()).run(network, x, y, noise_for(x)).x_adv, x)


def test_p18_crafting_in_train_mode_moves_batchnorm_and_in_eval_mode_does_not(
    batch: tuple[torch.Tensor, torch.Tensor],
) -> None:
    x, y = batch
    model = build("small", SHAPE, K, seed=0).train()
    statistics = [b for name, b in model.named_buffers() if "running" in name]
    before = [b.clone() for b in statistics]
    with inference(model):
        PGD(steps=2).run(model, x, y, noise_for(x))
    assert all(torch.equal(a, b) for a, b in zip(before, statistics, strict=True))
    PGD(steps=2)(model, x, y)  # the short call also uses evaluation mode
    assert all(torch.equal(a, b) for a, b in zip(before, statistics, strict=True))
    PGD(steps=2).run(model, x, y, noise_for(x))
    assert not any(torch.equal(a, b) for a, b in zip(before, statistics, strict=True))


def test_p18_inference_restores_the_mode_of_every_submodule() -> None:
    model = build("small", SHAPE, K).train()
    frozen = next(m for m in model.modules() if isinstance(m, nn.BatchNorm2d))
    frozen.eval()
    modes = [m.training for m in model.modules()]
    with pytest.raises(RuntimeError, match="stop"), inference(model):
        assert not any(m.training for m in model.modules())
        raise RuntimeError("stop")
    assert [m.training for m in model.modules()] == modes


# keep="fooled"


@pytest.mark.parametrize("start", [Zero(), Uniform(), Gaussian(0.01)], ids=str)
@pytest.mark.parametrize("goal", [CE(), CE(5.0), KL(), Margin()], ids=str)
@pytest.mark.parametrize("ball", [Linf(0.04), L2(0.25)], ids=str)
def test_fooled_survivors_are_right_on_the_clean_image_the_start_and_every_iterate(
    ball: Ball, goal: Goal, start: Start
) -> None:
    model, x, y = mixed()
    attack = PGD(ball, goal, step=ball.eps / 4, steps=5, start=start, keep="fooled")
    found = attack.run(model, x, y, noise_for(x))
    points = [
        replace(attack, steps=t, keep="last").run(model, x, y, noise_for(x)).x_adv for t in range(attack.steps + 1)
    ] + [x]
    right = torch.stack([model(point).argmax(1) == y for point in points])
    assert torch.equal(~found.fooled, right.all(0))
    # The reported step and point are those of the first mistake; the start, and the image itself, asked last, are 0.
    first = (~right).int().argmax(0)
    assert torch.equal(found.step, torch.where(right.all(0), NEVER, first % (attack.steps + 1)))
    wanted = torch.stack(points)[torch.where(right.all(0), attack.steps, first), torch.arange(len(x))]
    assert torch.allclose(found.x_adv, wanted, atol=1e-9)
    assert 0 < int(found.fooled.sum()) < len(x)


def test_fooled_examples_cost_nothing_more() -> None:
    model, x, y = mixed()
    attack = PGD(Linf(0.06), step=0.015, steps=8, keep="fooled")
    found = attack.run(model, x, y, noise_for(x))
    # Each example is passed forward at every point up to its first mistake; survivors at the image itself too.
    later = torch.where(found.fooled, found.step, attack.steps)
    assert found.backwards == int(sum(min(t + 1, attack.steps) for t in later.tolist()))
    assert found.forwards == int(sum(t + 1 for t in later.tolist())) + int((~found.fooled).sum())
    assert found.backwards < len(x) * attack.steps
    everyone = replace(attack, keep="last").run(model, x, y, noise_for(x))
    assert (everyone.forwards, everyone.backwards) == (len(x) * 9, len(x) * 8)


def test_kl_goal_counts_its_clean_forward() -> None:
    model, x, y = mixed()
    assert PGD(goal=KL(), steps=2, start=Gaussian()).run(model, x, y, noise_for(x)).forwards == 4 * len(x)


def test_an_example_meets_the_same_attack_in_any_batch() -> None:
    model, x, y = mixed()
    attack = PGD(Linf(0.06), step=0.015, steps=5)
    together = attack.run(model, x, y, noise_for(x)).x_adv
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    for rows in order.split(17):
        alone = attack.run(model, x[rows], y[rows], noise_for(x).pick(rows)).x_adv
        assert torch.allclose(alone, together[rows], atol=1e-12)


@pytest.mark.parametrize("kind", [Cascade, Grid])
def test_a_combination_is_the_per_example_worst_of_its_members(kind: type[Cascade] | type[Grid]) -> None:
    model, x, y = mixed()
    threat = Threat(Linf(0.06), 0.015)
    grid = make_attack("tpgd4-grid", threat)
    members = [make_attack(f"tpgd4@{t}", threat) for t in (2, 5, 10, 50)]
    assert isinstance(grid, Grid) and list(grid.members) == members
    alone = [member.run(model, x, y, noise_for(x)) for member in members]
    found = kind(grid.members).run(model, x, y, noise_for(x))
    assert torch.equal(found.fooled, torch.stack([a.fooled for a in alone]).any(0))
    firsts = torch.stack([a.fooled for a in alone]).int().argmax(0)
    assert torch.equal(found.by[found.fooled], firsts[found.fooled])
    assert bool((model(found.x_adv).argmax(1) != y)[found.fooled].all())
    if kind is Cascade:
        assert found.forwards < sum(a.forwards for a in alone)
        assert torch.equal(found.each, torch.where(found.fooled, 1 << found.by, 0))
    else:  # a grid also knows each member's verdict on everyone
        assert found.forwards == sum(a.forwards for a in alone)
        for number, member in enumerate(alone):
            assert torch.equal((found.each >> number) & 1, member.fooled.long())


def test_kl_goal_climbs_the_divergence() -> None:
    model, x, y = mixed()
    attack = PGD(Linf(0.05), KL(), step=0.0125, steps=5, start=Gaussian(0.001))
    clean = model(x)
    start = replace(attack, steps=0).run(model, x, y, noise_for(x)).x_adv
    end = attack.run(model, x, y, noise_for(x)).x_adv
    assert bool((kl(clean, model(end)) > kl(clean, model(start))).all())


def test_linf_and_l2_attacks_lower_the_margin() -> None:
    model, x, y = mixed()
    y = model(x).argmax(1)
    for ball in (Linf(0.03), L2(0.3)):
        end = PGD(ball, Margin(), step=ball.eps / 4, steps=10, start=Zero()).run(model, x, y, noise_for(x)).x_adv
        assert bool((margin(model(end), y) < margin(model(x), y)).all())


def test_named_attacks_resolve_to_the_documented_values() -> None:
    threat = Threat(Linf(0.1), 0.025)
    assert make_attack("pgd20", threat) == PGD(Linf(0.1), CE(), 0.025, 20, Uniform(), "fooled")
    assert make_attack("tpgd20", threat) == PGD(Linf(0.1), CE(5.0), 0.025, 20, Uniform(), "fooled")
    assert make_attack("tpgd20@50", threat) == PGD(Linf(0.1), CE(50.0), 0.025, 20, Uniform(), "fooled")
    assert make_attack("cw20", threat) == PGD(Linf(0.1), Margin(50.0), 0.025, 20, Uniform(), "fooled")
    assert make_attack("fgsm", threat) == fgsm(Linf(0.1), keep="fooled")
    assert make_attack("clean", threat) == Clean()


@pytest.mark.parametrize(
    "name",
    [
        "pgd",
        "pgd0",
        "pgd-3",
        "tpgd20@",
        "tpgd20@-1",
        "tpgd20@5-grid",
        "PGD20",
        "",
        "banana",
        "fog:6",
        "fog:",
        "square:0",
    ],
)
def test_unknown_names_are_refused_with_the_list(name: str) -> None:
    with pytest.raises(ValueError, match=r"there is no attack .*choose from clean, fgsm, fgsm-rs"):
        make_attack(name, Threat(Linf(0.1), 0.025))


def test_restarts_begin_with_the_attack_alone_and_only_add() -> None:
    model, x, y = mixed()
    attack = PGD(Linf(0.05), step=0.01, steps=1, keep="fooled")
    once, thrice = attack.run(model, x, y, noise_for(x)), Restarts(attack, 3).run(model, x, y, noise_for(x))
    assert torch.equal(thrice.fooled[once.fooled], once.fooled[once.fooled])
    assert torch.equal(thrice.x_adv[once.fooled], once.x_adv[once.fooled])
    # Each later start is another one: what it found is what the attack finds with that noise.
    later = thrice.fooled & (thrice.by == 1)
    second = attack.run(model, x, y, noise_for(x).fork("restart", 1))
    assert torch.equal(second.fooled & ~once.fooled, later) and bool(later.any())
    with pytest.raises(ValueError, match="at least once"):
        Restarts(attack, 0)


@pytest.mark.parametrize("ball", [Linf(0.05), L2(0.3)], ids=str)
def test_momentum_is_that_of_the_paper(ball: Ball) -> None:
    """g_{t+1} = mu g_t + grad / |grad|_1, a step along it, one example at a time (Dong et al. 2018)."""
    model, x, y = mixed()
    attack = PGD(ball, step=ball.eps / 4, steps=5, start=Zero(), momentum=0.9)
    ours = attack.run(model, x, y, noise_for(x)).x_adv
    for i in range(0, len(x), 16):
        at, pull = x[i : i + 1], torch.zeros_like(x[:1])
        for _ in range(5):
            at = at.detach().requires_grad_()
            (g,) = torch.autograd.grad(nn.functional.cross_entropy(model(at), y[i : i + 1]), at)
            pull = 0.9 * pull + g / g.abs().sum()
            way = pull.sign() if isinstance(ball, Linf) else pull / pull.norm()
            d = at.detach() + ball.eps / 4 * way - x[i : i + 1]
            d = d.clamp(-ball.eps, ball.eps) if isinstance(ball, Linf) else d * min(1.0, ball.eps / float(d.norm()))
            at = (x[i : i + 1] + d).clamp(0, 1)
        assert torch.allclose(ours[i : i + 1], at, atol=1e-9)
    plain = replace(attack, momentum=0.0).run(model, x, y, noise_for(x)).x_adv
    assert not torch.allclose(ours, plain, atol=1e-3)


def test_friendly_pgd_goes_on_for_its_patience_after_the_first_mistake() -> None:
    """FAT: with tau = 0 the first misclassified iterate; with tau steps more, the last misclassified one until then."""
    model, x, y = mixed()
    attack = PGD(Linf(0.06), step=0.01, steps=8, keep="fooled")
    first = attack.run(model, x, y, noise_for(x))
    points = [replace(attack, steps=t, keep="last").run(model, x, y, noise_for(x)).x_adv for t in range(9)]
    for patience in (1, 3):
        friendly = replace(attack, patience=patience).run(model, x, y, noise_for(x))
        assert torch.equal(friendly.fooled, first.fooled) and torch.equal(friendly.step, first.step)
        seen = 0
        for i in (first.fooled & (first.step > 0)).nonzero().squeeze(1).tolist():
            wrong = [t for t in range(9) if int(model(points[t][i : i + 1]).argmax()) != int(y[i])]
            last = wrong[min(patience, len(wrong) - 1)]
            assert torch.allclose(friendly.x_adv[i], points[last][i], atol=1e-9)
            seen += last > int(first.step[i])
        assert seen > 0
    with pytest.raises(ValueError, match="patience is a number of steps"):
        PGD(patience=2)


def test_r_fgsm_goes_half_way_at_random_and_half_way_uphill() -> None:
    model, x, y = mixed()
    attack = r_fgsm(Linf(0.04))
    corner = (x + 0.02 * noise_for(x).fork("start").normal(tuple(x.shape[1:]), x.dtype).sign()).clamp(0, 1)
    at = corner.requires_grad_()
    (g,) = torch.autograd.grad(nn.functional.cross_entropy(model(at), y, reduction="sum"), at)
    wanted = (x + (at.detach() + 0.02 * g.sign() - x).clamp(-0.04, 0.04)).clamp(0, 1)
    assert torch.allclose(attack.run(model, x, y, noise_for(x)).x_adv, wanted, atol=1e-12)


@pytest.mark.parametrize("keep", get_args(Keep))
def test_a9_a_targeted_attack_succeeds_only_at_its_target(keep: str) -> None:
    model, x, y = mixed()
    target = (y + 2) % K
    found = PGD(Linf(0.15), Targeted(target), step=0.02, steps=20, keep=keep).run(model, x, y, noise_for(x))
    assert torch.equal(found.fooled, model(found.x_adv).argmax(1) == target)
    assert 0 < int(found.fooled.sum()) < len(x)


def test_examples_without_a_gradient_are_reported_unless_they_fall_anyway() -> None:
    """A network that looks at rounded pixels has no gradient: it is not robust, it is blind."""
    inside, x, y = mixed()

    class Rounded(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return inside((4 * x).round() / 4) + 0 * x.sum()

    for keep in get_args(Keep):
        found = PGD(Linf(0.02), steps=3, step=0.01, keep=keep).run(Rounded(), x, y, noise_for(x))
        assert found.trouble.tolist() == [FINE if fooled else FLAT for fooled in found.fooled.tolist()]
        assert not bool(found.fooled.all())
