"""Attacks of other libraries beside ours, and what the adapter guards."""

import random
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from leastwise.attacks.base import BROKEN, FINE, NEVER
from leastwise.attacks.external import MISSING, ExternalAttack, from_art, from_foolbox, seed_generators
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import L2, Ball, Linf, Zero
from leastwise.core.recipe import canonical_json, recipe_key
from leastwise.models.classifier import Classifier
from leastwise.models.zoo.registry import build
from tests.attacks.contract import check_contract
from tests.attacks.networks_to_attack import mixed, noise_for
from tests.conftest import SHAPE, B, K

EPS, STEP, STEPS = 0.05, 0.0125, 10

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own


def installed(name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


def of_torchattacks(random_start: bool) -> ExternalAttack:
    torchattacks = installed("torchattacks")

    def craft(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torchattacks.PGD(model, eps=EPS, alpha=STEP, steps=STEPS, random_start=random_start)(x, y)

    return ExternalAttack("torchattacks pgd", craft, Linf(EPS), torchattacks.__version__)


def of_foolbox(random_start: bool) -> ExternalAttack:
    foolbox = installed("foolbox")
    attack = foolbox.attacks.LinfPGD(abs_stepsize=STEP, steps=STEPS, random_start=random_start)
    return from_foolbox(attack, Linf(EPS), foolbox.__version__)


def of_art(random_start: bool) -> ExternalAttack:
    evasion = installed("art.attacks.evasion")

    def make(classifier: Any) -> Any:
        return evasion.ProjectedGradientDescent(
            classifier,
            eps=EPS,
            eps_step=STEP,
            max_iter=STEPS,
            num_random_init=int(random_start),
            batch_size=500,
            verbose=False,
        )

    return from_art(make, Linf(EPS), "1")


PEERS = pytest.mark.parametrize("peer", [of_torchattacks, of_foolbox, of_art])


@PEERS
def test_without_a_random_start_the_peers_pgd_is_ours(peer: Callable[[bool], ExternalAttack]) -> None:
    """In float64 point by point; ART, which has float32 only, but for pixels whose gradient is nearly zero."""
    dtype = torch.float32 if peer is of_art else torch.float64
    model, x, _ = mixed(dtype)
    y = model(x).argmax(1)
    ours = PGD(Linf(EPS), step=STEP, steps=STEPS, start=Zero()).run(model, x, y, noise_for(x))
    theirs = peer(False).run(model, x, y, noise_for(x))
    # Foolbox and torchattacks add their numbers in another order, so a pixel may differ by rounding.
    same = ((ours.x_adv - theirs.x_adv).abs() < 1e-6).double().mean()
    assert float(same) > (0.98 if dtype == torch.float32 else 0.9999)
    assert int((ours.fooled != theirs.fooled).sum()) <= (1 if dtype == torch.float32 else 0)
    assert 0 < int(theirs.fooled.sum()) < len(x)


@PEERS
def test_with_a_random_start_robust_accuracy_is_ours_within_a_few_per_cent(
    peer: Callable[[bool], ExternalAttack],
) -> None:
    model, x, y = mixed(torch.float32)
    ours = PGD(Linf(EPS), step=STEP, steps=STEPS).run(model, x, y, noise_for(x))
    theirs = peer(True).run(model, x, y, noise_for(x))
    assert abs(float(ours.fooled.double().mean() - theirs.fooled.double().mean())) <= 0.04
    assert torch.equal(theirs.fooled, model(theirs.x_adv).argmax(1) != y)
    assert theirs.step.tolist() == [1 if fooled else NEVER for fooled in theirs.fooled.tolist()]


@PEERS
def test_p15_peers_stay_in_their_ball_and_leave_the_model_alone(peer: Callable[[bool], ExternalAttack]) -> None:
    check_contract(peer(True), K, B, SHAPE, 0)


@PEERS
def test_p26_the_callers_random_numbers_and_the_model_are_as_before(peer: Callable[[bool], ExternalAttack]) -> None:
    model, x, y = mixed(torch.float32)
    attack = peer(True)
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    a = attack.run(model, x, y, noise_for(x))
    assert torch.equal(torch.random.get_rng_state(), before[0]) and np.array_equal(np.random.get_state()[1], before[1])
    # The same noise gives the same points whatever the global generators say; other noise gives others.
    assert torch.equal(a.x_adv, attack.run(model, x, y, noise_for(x)).x_adv)
    assert not torch.equal(a.x_adv, attack.run(model, x, y, noise_for(x, seed=1)).x_adv)


@PEERS
def test_passes_through_the_model_are_counted(peer: Callable[[bool], ExternalAttack]) -> None:
    model, x, y = mixed(torch.float32)
    found = peer(False).run(model, x, y, noise_for(x))
    assert found.backwards == STEPS * len(x)
    assert found.forwards >= (STEPS + 1) * len(x)
    if peer is of_torchattacks:
        assert found.forwards == (STEPS + 1) * len(x)


def test_foolbox_attacks_that_look_for_the_nearest_mistake_fit_too() -> None:
    foolbox = installed("foolbox")
    model, x, y = mixed(torch.float32)
    attack = from_foolbox(foolbox.attacks.L2DeepFoolAttack(steps=20), L2(0.3), "1")
    found = attack.run(model, x, y, noise_for(x))
    assert bool(attack.allows(x, found.x_adv).all()) and 0 < int(found.fooled.sum()) < len(x)
    assert attack.name == "foolbox L2DeepFoolAttack"


def test_p26_inside_the_global_generators_follow_the_seed_and_outside_nothing_changed() -> None:
    """Python's own is looked at here: in a test run the shape checks draw from it, too."""

    def draws() -> tuple[float, float, float]:
        return float(torch.rand(())), float(np.random.rand()), random.random()

    before = random.getstate()
    with seed_generators(7):
        inside = draws()
    assert random.getstate() == before
    with pytest.raises(RuntimeError, match="stop"), seed_generators(7):
        assert draws() == inside
        raise RuntimeError("stop")
    assert random.getstate() == before
    with seed_generators(8):
        assert all(a != b for a, b in zip(draws(), inside, strict=True))


# What the adapter guards, with functions made up for it


def made_up(function: Callable[..., Any], ball: Ball | None = None, **settings: Any) -> ExternalAttack:
    return ExternalAttack("made-up", function, ball or Linf(0.1), **settings)


def test_gradients_flags_and_modes_are_restored_even_after_an_error() -> None:
    model = build("small", SHAPE, K, seed=0).train()
    frozen = next(m for m in model.modules() if isinstance(m, nn.BatchNorm2d))
    frozen.eval()
    first, second, *_ = model.parameters()
    second.requires_grad_(False)
    first.grad = torch.ones_like(first)
    mine = first.grad
    modes = [m.training for m in model.modules()]
    flags = [p.requires_grad for p in model.parameters()]
    x, y = torch.rand(3, *SHAPE), torch.zeros(3, dtype=torch.int64)

    def careless(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for p in net.parameters():
            p.requires_grad_(True)
        net.eval()
        nn.functional.cross_entropy(net(x), y).backward()
        for p in net.parameters():
            p.requires_grad_(False)
        if int(y[0]) == 1:
            raise RuntimeError("stop")
        return x

    made_up(careless).run(model, x, y, noise_for(x))
    with pytest.raises(RuntimeError, match="stop"):
        made_up(careless).run(model, x, y + 1, noise_for(x))
    assert [m.training for m in model.modules()] == modes and [p.requires_grad for p in model.parameters()] == flags
    assert first.grad is mine and bool((mine == 1).all())
    assert all(p.grad is None for p in list(model.parameters())[1:])
    assert not model._forward_hooks


def test_the_function_works_on_copies_and_has_gradients() -> None:
    model, x, y = mixed()
    before = x.clone()

    def writes(_: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        assert torch.is_grad_enabled() and not x.requires_grad
        y.zero_()
        return x.mul_(0.99)

    with torch.no_grad():
        made_up(writes).run(model, x, y.clone(), noise_for(x))
    assert torch.equal(x, before)


@pytest.mark.parametrize("ball", [Linf(0.1), L2(0.5), Linf(torch.full((80,), 0.1))], ids=["Linf", "L2", "each its own"])
def test_rounding_outside_is_put_back_and_points_inside_keep_their_bits(ball: Ball) -> None:
    model, x, y = mixed()
    g = torch.Generator().manual_seed(0)
    d = ball.project(torch.randn(x.shape, generator=g, dtype=x.dtype))
    stretched = x + d * (1 + 1e-6 + 4e-6 * torch.rand(len(x), 1, 1, 1, generator=g, dtype=x.dtype))
    points = torch.where((torch.arange(len(x)) % 2 == 0).view(-1, 1, 1, 1), x + 0.9 * d, stretched).clamp(
        -1e-6, 1 + 1e-6
    )
    attack = made_up(lambda *_: points, ball)
    found = attack.run(model, x, y, noise_for(x)).x_adv
    assert bool((ball.norm(found - x) <= torch.as_tensor(ball.eps) + 1e-6).all())
    assert float(found.min()) >= 0 and float(found.max()) <= 1 and float((found - points).abs().max()) < 1e-5
    assert torch.equal(found[::2], points[::2].clamp(0, 1))


def test_a_mistake_in_units_is_refused_with_the_distance() -> None:
    model, x, y = mixed()
    everywhere = made_up(lambda net, x, y: (x + 8).clamp(0, 1), Linf(8 / 255))
    beyond = f"{1 - float(x.min()) - 8 / 255:.3g}"
    with pytest.raises(ValueError, match=rf"80 of 80 points outside Linf eps 0.03137 or \[0, 1\], by up to {beyond}: "):
        everywhere.run(model, x, y, noise_for(x))
    with pytest.raises(ValueError, match=r"by up to 0\.05: give it the same eps"):
        made_up(lambda net, x, y: torch.where(x == x.amax(), 1.05, x), Linf(0.9)).run(model, x, y, noise_for(x))


def test_nearest_mistakes_further_away_than_eps_can_be_dropped() -> None:
    model, x, y = mixed()
    y = model(x).argmax(1)
    far = x.clone()
    far[::2] = 1 - x[::2]
    found = made_up(lambda *_: far, outside="drop").run(model, x, y, noise_for(x))
    assert torch.equal(found.x_adv, x) and not bool(found.fooled.any()) and bool((found.trouble == FINE).all())


def test_points_that_are_not_finite_are_trouble_and_never_robustness() -> None:
    model, x, y = mixed()
    y = model(x).argmax(1)
    broken = x.clone()
    broken[3, 0, 0, 0] = torch.nan
    broken[5] = torch.inf
    found = made_up(lambda *_: broken).run(model, x, y, noise_for(x))
    assert found.trouble.nonzero().flatten().tolist() == [3, 5] and int(found.trouble[3]) == BROKEN
    assert torch.equal(found.x_adv, x)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda net, x, y: None, "a tensor or an array, but returned NoneType"),
        (lambda net, x, y: (x, y), "a tensor or an array, but returned tuple"),
        (lambda net, x, y: x[:-1], r"of shape \(80, 3, 8, 6\), but returned torch.float64 of shape \(79, 3, 8, 6\)"),
        (lambda net, x, y: (255 * x).to(torch.uint8), "floating-point images .* but returned torch.uint8"),
    ],
)
def test_answers_that_are_no_images_are_refused(answer: Callable[..., Any], message: str) -> None:
    model, x, y = mixed()
    with pytest.raises(ValueError, match=message):
        made_up(answer).run(model, x, y, noise_for(x))


def test_arrays_of_another_precision_are_taken() -> None:
    model, x, y = mixed()
    found = made_up(lambda net, x, y: x.numpy().astype(np.float32)).run(model, x, y, noise_for(x))
    assert found.x_adv.dtype == x.dtype and torch.equal(found.x_adv, x.float().double())


def test_a_recipe_needs_a_version_and_sees_no_function() -> None:
    one = made_up(lambda *_: None, version="2.0")
    assert one == made_up(lambda *_: 0, version="2.0") and recipe_key(one) == recipe_key(
        made_up(lambda *_: 0, version="2.0")
    )
    assert recipe_key(one) != recipe_key(made_up(lambda *_: None, version="2.1"))
    assert "function" not in canonical_json(one)
    with pytest.raises(ValueError, match=r"a recipe .* but saw MissingVersion"):
        recipe_key(made_up(lambda *_: None))
    assert made_up(lambda *_: None).version is MISSING
    assert str(one) == "made-up (2.0), Linf eps 0.1, the returned point counts"


def test_mistakes_are_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = made_up(lambda *_: None, gradients=False)
    assert not attack.gradients and made_up(lambda *_: None).gradients
    with pytest.raises(ValueError, match="holds its own radius"):
        attack.at(0.2)
    with pytest.raises(ValueError, match="one eps for all examples"):
        installed("foolbox")
        from_foolbox(None, Linf(torch.zeros(3)))
    installed("art")
    model, x, y = mixed()
    with pytest.raises(ValueError, match="ART works in float32"):
        of_art(False).run(model, x, y, noise_for(x))
    monkeypatch.setitem(sys.modules, "foolbox", None)
    with pytest.raises(ValueError, match="needs the library foolbox, which is not installed"):
        from_foolbox(None, Linf(0.1))


def test_the_short_call_and_a_single_image() -> None:
    model, x, y = mixed()
    assert isinstance(model, Classifier)
    half = made_up(lambda net, x, y: x / 2, Linf(0.5))
    assert torch.equal(half(model, x[:1], y[:1]), x[:1] / 2)
