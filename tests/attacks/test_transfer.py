"""Points crafted on one network and tried on another."""

import json
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

from leastwise.attacks.base import BROKEN, NEVER, Outcome, pick_rows
from leastwise.attacks.choices import Keep
from leastwise.attacks.combine import Cascade, Restarts
from leastwise.attacks.goals import CE, DLR, KL, Targeted
from leastwise.attacks.pgd import PGD
from leastwise.attacks.surrogate import Surrogate, make_surrogate
from leastwise.attacks.threats import L2, Gaussian, Linf
from leastwise.attacks.transfer import Ensemble, Transfer
from leastwise.core.recipe import canonical_json, recipe_key
from leastwise.models.classifier import Classifier, wrap
from leastwise.models.zoo.registry import build
from tests.attacks.contract import check_contract
from tests.attacks.networks_to_attack import mixed, noise_for
from tests.conftest import SHAPE, B, K

ATTACK = PGD(Linf(0.06), step=0.015, steps=6)


@cache
def relative(seed: int, dtype: torch.dtype = torch.float64, k: int = K) -> Classifier:
    """A copy of the network of `mixed` (for k = K) with other noise in its weights: its points transfer, not always."""
    target, _, _ = mixed(dtype)
    model = build("small", SHAPE, k, seed=3).to(dtype).eval()
    if k == K:
        model.load_state_dict(target.state_dict())
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p += 0.3 * p.std(correction=0) * torch.randn(p.shape, generator=g, dtype=torch.float64).to(dtype)
    return model


def equal(a: Outcome, b: Outcome) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a, b, strict=True) if isinstance(p, torch.Tensor))


@pytest.mark.parametrize("keep", ["last", "fooled"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("ensemble", ["worst", "mean"])
def test_a6_with_the_target_as_surrogate_it_is_white_box_pgd(
    ensemble: Ensemble, dtype: torch.dtype, keep: Keep
) -> None:
    model, x, _ = mixed(dtype)
    y = model(x).argmax(1)
    attack = replace(ATTACK, keep=keep)
    found = Transfer(attack, (make_surrogate("itself", model),), ensemble).run(model, x, y, noise_for(x))
    white = replace(ATTACK, keep="last").run(model, x, y, noise_for(x))
    assert equal(found, white) and 0 < int(white.fooled.sum()) < len(x)
    # The clean image and the crafted one are looked at by the target too.
    assert (found.forwards, found.backwards) == (white.forwards + 2 * len(x), white.backwards)


def test_images_the_target_gets_wrong_count_as_they_are() -> None:
    model, x, y = mixed()
    wrong = model(x).argmax(1) != y
    found = Transfer(ATTACK, (make_surrogate("itself", model),)).run(model, x, y, noise_for(x))
    assert 0 < int(wrong.sum()) < len(x)
    assert (
        bool(found.fooled[wrong].all()) and found.step[wrong].eq(0).all() and torch.equal(found.x_adv[wrong], x[wrong])
    )
    rows = (~wrong).nonzero().squeeze(1)
    white = ATTACK.run(model, x[rows], y[rows], noise_for(x).pick(rows))
    assert torch.equal(found.x_adv[rows], white.x_adv) and torch.equal(found.step[rows], white.step)


def test_a6_every_point_is_what_the_attack_leaves_on_the_surrogate() -> None:
    target, x, _ = mixed()
    y, other = target(x).argmax(1), relative(1)
    found = Transfer(ATTACK, (make_surrogate("other", other),)).run(target, x, y, noise_for(x))
    crafted = ATTACK.run(other, x, y, noise_for(x)).x_adv
    assert torch.equal(found.x_adv, crafted)
    assert torch.equal(found.fooled, target(crafted).argmax(1) != y) and 0 < int(found.fooled.sum()) < len(x)
    # Stopping at the surrogate's first mistake would leave other points, which transfer less.
    early = replace(ATTACK, keep="fooled").run(other, x, y, noise_for(x)).x_adv
    assert int((target(early).argmax(1) != y).sum()) < int(found.fooled.sum())


def test_worst_is_the_per_example_worst_of_the_surrogates_alone() -> None:
    target, x, y = mixed()
    others = tuple(make_surrogate(str(seed), relative(seed)) for seed in (1, 2, 3))
    found = Transfer(ATTACK, others).run(target, x, y, noise_for(x))
    alone = [Transfer(ATTACK, (one,)).run(target, x, y, noise_for(x)) for one in others]
    fooled = torch.stack([a.fooled for a in alone])
    assert torch.equal(found.fooled, fooled.any(0))
    assert torch.equal(found.by[found.fooled], fooled.int().argmax(0)[found.fooled])
    assert len(found.by[found.fooled].unique()) > 1  # more than one of them is of use
    picked = torch.stack([a.x_adv for a in alone])[found.by, torch.arange(len(x))]
    assert torch.allclose(found.x_adv, picked, atol=1e-9)
    assert bool((target(found.x_adv).argmax(1) != y)[found.fooled].all())
    # Everyone is looked at once; each surrogate costs its steps and looks only for those that came so far.
    came = int((found.step != 0).sum()), *(int((~fooled[:n].any(0)).sum()) for n in (1, 2))
    assert found.forwards == len(x) + sum(came) * (ATTACK.steps + 2) and found.backwards == sum(came) * ATTACK.steps


def test_mean_is_one_attack_on_the_mean_of_the_logits() -> None:
    target, x, _ = mixed()
    y = target(x).argmax(1)
    a, b = relative(1), relative(2)

    class Mean(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (a(x) + b(x)) / 2

    found = Transfer(ATTACK, (make_surrogate("a", a), make_surrogate("b", b)), "mean").run(target, x, y, noise_for(x))
    assert torch.allclose(found.x_adv, ATTACK.run(Mean(), x, y, noise_for(x)).x_adv, atol=1e-9)
    assert found.forwards == len(x) * (2 * (ATTACK.steps + 1) + 2) and found.backwards == 2 * len(x) * ATTACK.steps


def test_a_black_box_is_a_target_but_no_surrogate() -> None:
    model, x, y = mixed()
    box = wrap(lambda images: model(images.double()), K)
    attack = Transfer(ATTACK, (make_surrogate("other", relative(1)),))
    assert not attack.gradients and not box.gradients
    assert equal(attack.run(box, x, y, noise_for(x)), attack.run(model, x, y, noise_for(x)))
    with pytest.raises(ValueError, match="the surrogate box gives no gradients"):
        Transfer(ATTACK, (make_surrogate("box", box),))


def test_p15_a_transfer_attack_stays_in_its_ball_and_leaves_the_models_alone() -> None:
    other = build("small", SHAPE, K, seed=5).train()
    before = {name: value.clone() for name, value in other.state_dict().items()}
    for ensemble in ("worst", "mean"):
        attack = Transfer(PGD(L2(0.5), step=0.1, steps=3), (make_surrogate("other", other),) * 2, ensemble)
        check_contract(attack, K, B, SHAPE, 0)
    assert all(module.training for module in other.modules())
    assert all(torch.equal(before[name], value) for name, value in other.state_dict().items())
    assert all(p.grad is None for p in other.parameters())


def test_radii_steps_and_targets_go_with_their_examples() -> None:
    target, x, y = mixed()
    eps = torch.linspace(0.0, 0.1, len(x), dtype=x.dtype)
    others = (make_surrogate("1", relative(1)), make_surrogate("2", relative(2)))
    goal = Targeted((y + 1) % K)
    attack = Transfer(replace(ATTACK, goal=goal), others).at(eps, step=eps / 4)
    found = attack.run(target, x, y, noise_for(x))
    assert bool(attack.allows(x, found.x_adv).all()) and bool((found.x_adv != x).flatten(1).any(1)[1:].sum() > 60)
    assert torch.equal(found.fooled, target(found.x_adv).argmax(1) == goal.target) and bool(found.fooled.any())
    for row in (1, 40, 79):
        only = torch.tensor([row])
        alone = pick_rows(attack, only).run(target, x[only], y[only], noise_for(x).pick(only))
        assert torch.allclose(alone.x_adv, found.x_adv[only], atol=1e-9) and alone.step == found.step[row]


def test_rows_of_an_attack_reach_everything_in_it() -> None:
    eps = torch.arange(5.0)
    whole = Cascade((PGD(Linf(eps), Targeted(torch.arange(5))), Restarts(PGD(L2(1.0), step=2 * eps), 2)))
    part = pick_rows(whole, torch.tensor([3, 1]))
    first, again = part.members
    assert first.ball.eps.tolist() == [3, 1] and first.goal.target.tolist() == [3, 1]
    assert again.attack.step.tolist() == [6, 2] and again.attack.ball == L2(1.0) and again.times == 2
    plain = Cascade((PGD(), Restarts(PGD())))
    assert pick_rows(plain, torch.tensor([0])) == plain


@pytest.mark.parametrize(
    "attack", [replace(ATTACK, goal=KL(), start=Gaussian()), Restarts(ATTACK, 2), Cascade((ATTACK,))]
)
def test_any_attack_can_be_transferred(attack: object) -> None:
    """What is said to be fooled is; for goals with a clean pass and for combined attacks too."""
    target, x, y = mixed()
    found = Transfer(attack, (make_surrogate("other", relative(1)),)).run(target, x, y, noise_for(x))
    assert torch.equal(found.fooled, target(found.x_adv).argmax(1) != y) and torch.equal(
        found.fooled, found.step != NEVER
    )
    assert 0 < int(found.fooled.sum()) < len(x)


@pytest.mark.parametrize("b", [1, 13])
def test_an_example_meets_the_same_attack_in_any_batch(b: int) -> None:
    target, x, y = mixed()
    attack = Transfer(ATTACK, (make_surrogate("1", relative(1)), make_surrogate("2", relative(2))))
    together = attack.run(target, x, y, noise_for(x))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[: 10 * b]
    for rows in order.split(b):
        alone = attack.run(target, x[rows], y[rows], noise_for(x).pick(rows))
        assert torch.allclose(alone.x_adv, together.x_adv[rows], atol=1e-9)
        assert torch.equal(alone.fooled, together.fooled[rows])


def test_recipes_know_a_surrogate_by_name_and_digest() -> None:
    model = relative(1)
    attack = Transfer(PGD(Linf(0.1)), (make_surrogate("other", model),), "mean")
    assert json.loads(canonical_json(attack))["surrogates"] == [
        {"type": "Surrogate", "name": "other", "digest": model.digest()}
    ]
    assert attack == Transfer(PGD(Linf(0.1)), (Surrogate("other", model.digest(), nn.Identity()),), "mean")
    assert recipe_key(attack) != recipe_key(Transfer(PGD(Linf(0.1)), (make_surrogate("other", relative(2)),), "mean"))


@pytest.mark.parametrize("broken", ["surrogate", "target"])
def test_numbers_that_are_not_finite_are_never_robustness(broken: str) -> None:
    model, x, _ = mixed()
    y = model(x).argmax(1)

    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return model(x) * torch.nan

    crafter, target = (Broken(), model) if broken == "surrogate" else (model, Broken())
    found = Transfer(ATTACK, (Surrogate("other", "", crafter),)).run(target, x, y, noise_for(x))
    assert bool((found.trouble[~found.fooled] == BROKEN).all()) and not bool(found.fooled.all())
    assert broken == "surrogate" or not bool(found.fooled.any())


def test_mistakes_are_refused_in_one_sentence() -> None:
    model, x, y = mixed()
    with pytest.raises(ValueError, match="at least one surrogate"):
        Transfer(ATTACK, ())
    with pytest.raises(ValueError, match="worst or mean, but saw 'median'"):
        with_word("median").__post_init__()
    with pytest.raises(ValueError, match="the surrogate other has 7 classes and the target 5"):
        Transfer(ATTACK, (make_surrogate("other", relative(1, k=7)),)).run(model, x, y, noise_for(x))


def with_word(ensemble: str) -> Transfer:
    """A transfer attack with a word that the type hook would refuse before we can."""
    attack = Transfer(ATTACK, (make_surrogate("other", relative(1)),))
    object.__setattr__(attack, "ensemble", ensemble)
    return attack


def test_it_says_what_it_does() -> None:
    one, two = make_surrogate("one", relative(1)), make_surrogate("two", relative(2))
    friendly = PGD(Linf(0.06), step=0.015, steps=6, keep="fooled", patience=2)
    assert str(Transfer(friendly, (one,))) == f"{ATTACK}, crafted on one"
    assert str(Transfer(ATTACK, (one, two))).endswith("the last iterate counts, crafted on one and two (worst of)")
    assert str(Transfer(ATTACK, (one, two), "mean")).endswith("one and two (mean logits)")
    assert Transfer(replace(ATTACK, goal=DLR()), (one,)).notes(2) == DLR().notes(2) != ()
    assert Transfer(replace(ATTACK, goal=CE()), (one,)).notes(2) == ()
