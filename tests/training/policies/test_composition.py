"""Policies beside each other: by rule, in any order, or refused with the reason."""

from itertools import combinations

import pytest
import torch
from torch.nn import functional as F

from leastwise.core.losses import ce, entropy, kl
from leastwise.training.base import Objective, Policy, PolicyState
from leastwise.training.compose import adjust_logits, apply_radii, apply_terms, check_policies
from leastwise.training.methods.bat import BAT
from leastwise.training.methods.mart import MART
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.standard import Standard
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.cfa import CFA
from leastwise.training.policies.dafa import DAFA
from leastwise.training.policies.frl import FRL
from leastwise.training.policies.regularisers import ConfusionPenalty
from leastwise.training.policies.unbalanced import LDAM
from leastwise.training.policies.weighting import FairWeighting
from leastwise.training.registry import METHODS, POLICIES
from tests.conftest import B, K
from tests.training.batches_and_losses import ON_CE, ON_KL, batch, fresh, terms_of, under, under_all, with_numbers

MARGIN = {"margin": torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5], dtype=torch.float64)}


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


# A state for each policy, under which it does something to every class.
MOVED: dict[str, PolicyState] = {
    "weight": {"weight": vector(1.1, 0.9, 1.2, 0.7, 1.05)},
    "WAT": {"weight": vector(1.1, 0.9, 1.2, 0.7, 1.05, 0.8)},
    "FRL": {
        "natural": vector(0.3, 0, 0.1, 0, 0),
        "boundary": vector(0, 0.2, 0, 0, 0.3),
        "margin": vector(0.3, 0.1, 0, 0.2, 0.05),
    },
    "CFA": {"radius": vector(0.6, 0.9, 1.2, 1.0, 0.7), "beta": vector(0.7, 0.8, 1.1, 1.0, 0.6)},
    "Confusion": {"confused": torch.full((K, K), 0.25, dtype=torch.float64).fill_diagonal_(0)},
    "LDAM": MARGIN,
    "CSR": {"cost": torch.linspace(0.01, 2.01, K * K, dtype=torch.float64).view(K, K)},
    "FAIR-TAT": {"score": vector(0.3, 0.1, 0.0, 0.2, 0.4)},
}


def moved(policy: Policy) -> PolicyState:
    s = policy.init(torch.tensor([20, 3, 4, 9, 1]))
    own = MOVED.get(policy.recipe_name, MOVED["weight"] if "weight" in s else {})
    return {**s, **own}


PAIRS = [
    pair for pair in combinations(POLICIES, 2) if type(POLICIES[pair[0]].policy) is not type(POLICIES[pair[1]].policy)
]


@pytest.mark.parametrize("base", [TRADES(ON_KL), PGDAT(ON_CE)], ids=["trades", "pgd-at"])
@pytest.mark.parametrize("pair", PAIRS, ids=",".join)
def test_the_order_of_two_policies_changes_nothing(base: Objective, pair: tuple[str, str]) -> None:
    """Bit for bit it may: products are taken in another order. So to twelve digits."""
    policies = [with_numbers(POLICIES[name].policy) for name in pair]
    try:
        check_policies(base, policies)
    except ValueError:
        with pytest.raises(ValueError):
            check_policies(base, policies[::-1])
        return
    model, held = fresh(), [(policy, moved(policy)) for policy in policies]
    one, other = under_all(base, held, model), under_all(base, held[::-1], model)
    assert torch.allclose(one.per_example, other.per_example, rtol=1e-12, atol=0)
    _, y, _ = batch()
    eps, spe = (torch.as_tensor(apply_radii(base, some, y).attack.ball.eps) for some in (held, held[::-1]))
    assert torch.allclose(eps, spe, rtol=1e-12, atol=0)


def test_five_policies_at_once_by_hand() -> None:
    """Weights multiply, part by part; the margin is in the cross-entropy alone; the penalty is on top, unweighted."""
    x, y, _ = batch()
    model = fresh()
    held = [(p, moved(p)) for p in (ConfusionPenalty(2.0), LDAM(), CFA(margin=False), FairWeighting(), FRL())]
    crafted = x + 0.05
    terms = apply_terms(TRADES(ON_KL).loss(model, x, y, crafted, adjust=adjust_logits(held, y)), held, y)
    z, z_adv = model(x), model(crafted)
    shifted = z - F.one_hot(y, K) * MARGIN["margin"][y][:, None]
    beta = 6 * MOVED["CFA"]["beta"][y]
    fair = MOVED["weight"]["weight"][y]
    w0, w1 = ((0.2 + phi - phi.mean())[y] for phi in (MOVED["FRL"]["natural"], MOVED["FRL"]["boundary"]))
    label = fair * w0 / w0.mean() / (1 + beta) * -shifted.log_softmax(1)[torch.arange(B), y]
    divergence = fair * w1 / w1.mean() * beta / (1 + beta) * kl(z, z_adv)
    penalty = 2 * 0.25 * (1 - z_adv.softmax(1)[torch.arange(B), y])
    assert torch.allclose(terms.per_example, label + divergence + penalty, rtol=1e-10)


def test_radii_multiply_and_steps_only_where_a_policy_moves_them() -> None:
    _, y, _ = batch()
    held = [(CFA(), moved(CFA())), (DAFA(), moved(DAFA()))]
    attack = apply_radii(TRADES(ON_KL), held, y).attack
    w = MOVED["weight"]["weight"][y]
    assert torch.allclose(attack.ball.eps, 0.1 * MOVED["CFA"]["radius"][y] * w) and torch.allclose(
        attack.step, 0.05 * w
    )


def shift(z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return z - F.one_hot(y, K) * MARGIN["margin"][y][:, None]


def test_ldam_erases_no_loss() -> None:
    """Under LDAM every method keeps what makes it itself: entropy, smoothing, boosting, and all terms of BAT."""
    _, y, _ = batch()
    model = fresh()
    max_entropy = PGDAT(ON_CE, entropy=0.5)
    plain, bonus = under(PGDAT(ON_CE), LDAM(), model, MARGIN), under(max_entropy, LDAM(), model, MARGIN)
    assert torch.allclose(plain.label - bonus.label, 0.5 * entropy(bonus.adversarial))
    smooth = under(Standard(smoothing=0.1), LDAM(), model, MARGIN)
    wanted = F.cross_entropy(shift(smooth.clean, y), y, label_smoothing=0.1, reduction="none")
    assert torch.allclose(smooth.label, wanted)
    mart = under(MART(ON_CE), LDAM(), model, MARGIN)
    p = shift(mart.adversarial, y).softmax(1)
    own = p[torch.arange(B), y]
    runner_up = p.scatter(1, y[:, None], -1).amax(1)
    assert torch.allclose(mart.label, -own.log() - (1 - runner_up).log()) and mart.divergence is not None
    bat, without = under(BAT(ON_KL), LDAM(), model, MARGIN), terms_of(BAT(ON_KL), model)
    assert torch.equal(bat.divergence, without.divergence)
    trades = under(TRADES(ON_KL), LDAM(), model, MARGIN)
    assert torch.allclose(trades.label, ce(shift(trades.clean, y), y))
    assert torch.equal(trades.divergence, terms_of(TRADES(ON_KL), model).divergence)


@pytest.mark.parametrize(
    ("method", "fair", "reason"),
    [
        ("standard", "cfa", "CFA changes radii and the weight of the divergence, and Standard leaves it neither"),
        ("standard", "dafa", "DAFA changes radii, and Standard does not attack"),
        ("pgd-at", "frl", "FRL weighs cross-entropy and divergence apart, and PGDAT has no divergence: use trades"),
        ("pgd-he", "frl-both", "HE has no divergence"),
    ],
)
def test_a_policy_that_cannot_act_is_refused(method: str, fair: str, reason: str) -> None:
    from leastwise.attacks.threats import Linf

    with pytest.raises(ValueError, match=reason):
        check_policies(METHODS[method].make(Linf(0.1), 0.05, 2), [POLICIES[fair].policy])


def test_a_policy_is_given_once_and_two_that_change_logits_are_refused() -> None:
    with pytest.raises(ValueError, match="FRL would act twice"):
        check_policies(TRADES(ON_KL), [FRL(), FRL(margin_rate=0.2)])

    class Other(Policy):
        def label_logits(self, z, y, s):
            return 2 * z

    with pytest.raises(ValueError, match="LDAM and Other both change the logits of the label's loss"):
        check_policies(TRADES(ON_KL), [LDAM(), Other()])
