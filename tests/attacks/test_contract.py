"""The contract of attacks: what is final cannot be overridden, and a misspelt hook is refused with the nearest name."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import nn

from leastwise.attacks.base import Attack, BallAttack, Clean, Outcome, Passes, make_outcome
from leastwise.attacks.choices import Keep
from leastwise.attacks.combine import Cascade
from leastwise.attacks.goals import Toward
from leastwise.attacks.min_norm.ddn_fmn import FMN
from leastwise.attacks.pgd import PGD
from leastwise.attacks.surrogate import Surrogate
from leastwise.attacks.threats import Ball, Linf
from leastwise.attacks.transfer import Transfer
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels
from tests.conftest import SHAPE, random_linear


@dataclass(frozen=True)
class Brighter(BallAttack):
    """An attack of one's own: two fields, a pass and what it costs."""

    PASSES = 1

    ball: Ball = Linf(0.1)
    keep: Keep = "last"
    share: float = field(default=1.0)

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        x_adv = self._bright(x)
        with torch.no_grad():
            fooled = model(x_adv).argmax(dim=1) != y
        return make_outcome(x_adv, fooled, torch.ones_like(y), forwards=len(x), backwards=0)

    def cost(self, k: int) -> Passes:
        return Passes(self.PASSES)

    def _bright(self, x: Images) -> Images:
        return (x + self.share * float(self.ball.eps)).clamp(0, 1)


def test_an_attack_of_ones_own_gets_the_rest_from_the_contract() -> None:
    model = random_linear(3, torch.float32)
    x, y = torch.full((4, *SHAPE), 0.5), torch.zeros(4, dtype=torch.int64)
    attack = Brighter().at(0.2)
    assert attack.ball == Linf(0.2) and attack.last_step == 1 and attack.gradients and attack.notes(3) == ()
    assert torch.equal(attack(model, x, y), x + 0.2) and torch.equal(attack.perturb(model, x, y, noise(x)), x + 0.2)
    assert bool(attack.allows(x, x + 0.2).all()) and not bool(attack.allows(x, x + 0.3).any())
    assert not bool(Brighter(Linf(9.0)).allows(x, x + 0.6).any())  # the pixel range holds whatever the ball
    with pytest.raises(ValueError, match="with a goal, such as PGD, but saw Brighter"):
        attack.toward(y)


def noise(x: Images) -> Noise:
    return Noise(0, torch.arange(len(x)))


@pytest.mark.parametrize(
    ("name", "meant"),
    [("with_radios", "with_radius"), ("note", "notes"), ("to_end", "to_the_end"), ("gradient", "gradients")],
)
def test_a_misspelt_hook_is_refused_with_the_nearest_name(name: str, meant: str) -> None:
    for value in (lambda self: (), property(lambda self: ())):
        with pytest.raises(TypeError, match=rf"Mine\.{name} is no hook of an attack: did you mean {meant}\?"):
            type("Mine", (PGD,), {name: value})


def test_a_misspelt_class_attribute_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Mine\.need is no hook of an attack: did you mean needs\?"):
        type("Mine", (PGD,), {"need": "queries"})
    with pytest.raises(TypeError, match="did you mean recipe_name"):
        type("Mine", (PGD,), {"recipe_names": "Mine", "__annotations__": {"recipe_names": "ClassVar[str]"}})


@pytest.mark.parametrize("name", ["__call__", "at", "allows"])
def test_what_is_final_cannot_be_overridden(name: str) -> None:
    with pytest.raises(TypeError, match=f"Mine.{name} is the same for all attacks: write "):
        type("Mine", (PGD,), {name: lambda self: None})
    with pytest.raises(TypeError, match=f"Mine.{name} is the same for all attacks"):
        type("Mine", (Attack,), {"__annotations__": {name: float}})


def test_an_attack_without_run_or_cost_cannot_be_made() -> None:
    class Half(BallAttack):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]


def test_attacks_say_what_ball_they_stay_in_and_whether_any_mistake_counts() -> None:
    pgd, elsewhere, towards = PGD(Linf(0.1)), PGD(Linf(0.2)), PGD(Linf(0.1), goal=Toward(1))
    assert pgd.common_ball == Cascade((pgd, towards)).common_ball == Linf(0.1)
    assert Cascade((pgd, elsewhere)).common_ball is Clean().common_ball is Cascade((pgd, Clean())).common_ball is None
    assert Clean().any_mistake and Cascade((pgd, elsewhere)).any_mistake
    assert not towards.any_mistake and not Cascade((pgd, towards)).any_mistake
    assert FMN(Linf(0.1)).any_mistake and not FMN(Linf(0.1), target=torch.zeros(2, dtype=torch.int64)).any_mistake
    network = Surrogate("other", "digest", nn.Flatten())
    assert Cascade((pgd, Transfer(pgd, (network,)))).other_networks == (network,) and pgd.other_networks == ()
