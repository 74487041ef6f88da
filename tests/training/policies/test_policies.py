"""Policies: identities with the plain method, closed forms, and slow references of what they compute."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from leastwise.core.counts import Tally
from leastwise.core.losses import ce
from leastwise.training.base import Epoch, Objective, Policy, Seen, Terms
from leastwise.training.compose import apply_radii, apply_terms, class_shares
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.standard import Standard
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.cfa import CFA
from leastwise.training.policies.cfol import CFOL
from leastwise.training.policies.dafa import DAFA, class_weights
from leastwise.training.policies.distilling import LOSSES, SURVIVED
from leastwise.training.policies.faal import FAAL, worst_weights
from leastwise.training.policies.fixed import ClassRadii, ClassWeights
from leastwise.training.policies.frl import FRL, margin_radii, multiplier_weights, project_multipliers
from leastwise.training.policies.margins import SPREAD
from leastwise.training.policies.regularisers import ConfusionPenalty, SimilarityPenalty
from leastwise.training.policies.unbalanced import LDAM, Balanced, EffectiveNumber
from leastwise.training.policies.wat import WAT
from leastwise.training.policies.weighting import FairWeighting, ImportantClass
from leastwise.training.registry import POLICIES
from tests.conftest import B, K
from tests.training.batches_and_losses import ON_CE, ON_KL, agree, batch, fresh, gradient, terms_of, under

N = torch.tensor([20, 3, 0, 9, 1])


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def seen_with(
    accuracy: tuple[float, ...], n: int = 100, number: int = 1, of: int = 10, clean: tuple[float, ...] | None = None
) -> Epoch:
    """An epoch whose classes had these robust accuracies, in training and in validation alike."""
    k = len(accuracy)
    counts = torch.full((k,), n)
    right = (torch.tensor(accuracy) * n).round().long()
    natural = right if clean is None else (torch.tensor(clean) * n).round().long()
    confusion = torch.diag(right)
    confusion[:, 0] += counts - right  # mistakes go to the first class, its own count as its second column
    confusion[0] = 0
    confusion[0, 0], confusion[0, 1] = right[0], n - right[0]
    seen = replace(
        Seen.empty(k),
        clean=Tally(counts, natural),
        robust=Tally(counts, right),
        confusion=confusion,
        loss=vector(*range(k)),
    )
    return Epoch(number, of, 0.1, seen, seen)


@pytest.mark.parametrize("base", [Standard(), PGDAT(ON_CE), TRADES(ON_KL)], ids=lambda o: type(o).__name__)
@pytest.mark.parametrize(
    "policy", [FairWeighting(), ImportantClass(2, 1.0), DAFA(), ConfusionPenalty(), FRL(), FAAL(radius=0.0)], ids=str
)
def test_policies_that_have_not_moved_yet_are_the_plain_method(base: Objective, policy: Policy) -> None:
    model = fresh()
    assert agree(gradient(under(base, policy, model), model), gradient(terms_of(base, model), model))


def test_p14_fair_weighting_moves_by_alpha_with_ties_up_and_stops_at_its_floor() -> None:
    policy = FairWeighting()
    s = policy.update(policy.init(N), seen_with((0.9, 0.2, 0.5, 0.5, 0.4)))  # overall 0.5
    assert s["weight"].tolist() == pytest.approx([0.95, 1.05, 1.05, 1.05, 1.05])
    equal = policy.update(policy.init(N), seen_with((0.5,) * K))
    assert equal["weight"].tolist() == pytest.approx([1.05] * K)
    literal = replace(policy, floor=-math.inf)
    for count in range(1, 26):
        s = literal.update(s if count > 1 else literal.init(N), seen_with((0.9, 0.2, 0.5, 0.5, 0.4)))
        if count == 20:
            assert s["weight"][0].item() == pytest.approx(0, abs=1e-12)  # then it would maximise the loss of the class
    assert s["weight"][0] < 0
    for _ in range(30):
        s = policy.update(s, seen_with((0.9, 0.2, 0.5, 0.5, 0.4)))
    assert s["weight"].min().item() == 0.05


def test_t8_an_important_class_counts_as_often_as_its_weight() -> None:
    model = fresh()
    _, y, _ = batch()
    ours, plain = under(Standard(), ImportantClass(3, 50.0), model), terms_of(Standard(), model)
    assert torch.allclose(ours.per_example, torch.where(y == 3, 50.0, 1.0) * plain.per_example)
    with pytest.raises(ValueError, match="no class 9 to weigh: choose 0 to 4"):
        ImportantClass(9).init(N)


def test_effective_numbers_are_cuis_and_one_on_average() -> None:
    w = EffectiveNumber(0.9).init(N)["weight"]
    raw = [0.1 / (1 - 0.9**n) for n in (20, 3, 9, 1)]
    assert w[[0, 1, 3, 4]].tolist() == pytest.approx([4 * r / sum(raw) for r in raw]) and w[2] == 0


def test_ldams_margins_follow_the_fourth_root_and_shift_the_label() -> None:
    s = LDAM(largest=0.5).init(N)
    assert s["margin"].tolist() == pytest.approx([0.5 / 20**0.25, 0.5 / 3**0.25, 0.0, 0.5 / 9**0.25, 0.5])
    model = fresh()
    _, y, _ = batch()
    terms = under(Standard(), LDAM(), model, {"margin": vector(0.1, 0.2, 0.3, 0.4, 0.5)})
    moved = terms.clean.clone()
    for i, t in enumerate(y.tolist()):
        moved[i, t] -= 0.1 * (t + 1)
    assert torch.allclose(terms.label, ce(moved, y))


def test_balanced_sampling_draws_present_classes_alike() -> None:
    policy = Balanced()
    assert class_shares(((policy, policy.init(N)),)).tolist() == [0.25, 0.25, 0.0, 0.25, 0.25]
    assert class_shares(((FairWeighting(), FairWeighting().init(N)),)) is None


def test_g9_frl_weights_for_one_multiplier_at_the_limit() -> None:
    w = multiplier_weights(vector(0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    assert w.tolist() == pytest.approx([0.1 + 0.5 * 0.9] + [0.05] * 9) and w.sum().item() == pytest.approx(1)


def test_p8_frl_at_rest_is_trades_and_its_old_code_half_of_it() -> None:
    model = fresh()
    plain = gradient(terms_of(TRADES(ON_KL, beta=1.5), model), model)
    assert agree(gradient(under(TRADES(ON_KL, beta=1.5), FRL(), model), model), plain)
    old = under(TRADES(ON_KL, beta=1.5), FRL(normaliser="both"), model)
    assert agree(gradient(old, model), plain, factor=0.5)


def test_p8_frl_normalises_each_term_by_its_own_weights() -> None:
    """Against Σ w0·CE / Σ w0 + β Σ w1·KL / Σ w1, written out."""
    model = fresh()
    _, y, _ = batch()
    state = {"natural": vector(0.3, 0, 0.1, 0, 0), "boundary": vector(0, 0.2, 0, 0, 0.3)}
    terms, plain = under(TRADES(ON_KL, beta=1.5), FRL(), model, state), terms_of(TRADES(ON_KL, beta=1.5), model)
    w0, w1 = multiplier_weights(state["natural"])[y], multiplier_weights(state["boundary"])[y]
    wanted = (w0 * plain.label).sum() / w0.sum() + 1.5 * (w1 * plain.divergence).sum() / w1.sum()
    assert terms.per_example.mean().item() == pytest.approx(wanted.item(), rel=1e-12)


def test_p8_frl_projection_and_weights() -> None:
    g = torch.Generator().manual_seed(0)
    for _ in range(50):
        phi = torch.randn(K, generator=g, dtype=torch.float64)
        p = project_multipliers(phi, 0.5)
        assert (p >= 0).all() and p.sum() <= 0.5 + 1e-12 and torch.allclose(project_multipliers(p, 0.5), p)
        assert torch.equal(p.argsort(stable=True)[(phi > 0).logical_not().sum() :], phi.argsort()[(phi <= 0).sum() :])
        assert multiplier_weights(phi).sum().item() == pytest.approx(1)
    factors = margin_radii(torch.linspace(-2, 2, 41, dtype=torch.float64), 3.0)
    assert (
        factors.min() == 0.98
        and factors.max() == 3.0
        and (factors.diff() >= 0).all()
        and factors[20].item() == pytest.approx(1)
    )


def test_frl_one_update_by_hand_and_the_signs_of_its_multipliers() -> None:
    policy = FRL(tau=0.0, rate=0.05)
    # Natural errors 0.3, 0.1, …: gaps +0.1 and -0.1 from an overall error of 0.2.
    seen = seen_with((0.6, 0.8, 0.7, 0.7, 0.7), clean=(0.7, 0.9, 0.8, 0.8, 0.8))
    s = policy.update(policy.init(N), seen)
    assert s["natural"].tolist() == pytest.approx([0.005, 0, 0, 0, 0])
    assert s["boundary"].tolist() == pytest.approx([0] * K, abs=1e-12)
    both = FRL(tau=0.0, margin_rate=0.2)
    harder = both.update(both.init(N), seen_with((0.3, 0.8, 0.7, 0.7, 0.7), clean=(0.8,) * 5))
    assert harder["boundary"].argmax() == 0 and harder["margin"][0] > 0 > harder["margin"][1]
    assert margin_radii(harder["margin"], 3.0)[0] > 1 >= margin_radii(harder["margin"], 3.0)[1]
    # Equal errors below the bound: multipliers decay to zero and stay.
    s = {name: vector(0.2, 0.1, 0, 0, 0) for name in ("natural", "boundary", "margin")}
    for _ in range(60):
        s = FRL(halve_every=1000).update(s, seen_with((0.5,) * K))
    assert s["natural"].sum() == 0 and s["boundary"].sum() == 0


def test_frl_enlarges_radii_and_takes_one_step_for_all() -> None:
    _, y, _ = batch()
    state = {**FRL().init(N), "margin": vector(1.0, 0, 0, 0, 0)}
    wide = apply_radii(TRADES(ON_KL), ((FRL(margin_rate=0.2, step_of_largest=True), state),), y).attack
    assert torch.allclose(
        wide.ball.eps, torch.where(y == 0, 0.3, 0.1).double()
    ) and wide.step.tolist() == pytest.approx([0.075] * B)
    assert apply_radii(TRADES(ON_KL), ((FRL(), state),), y).attack is ON_KL


def test_g10_cfa_margins_and_regularisation() -> None:
    policy = CFA()
    s = policy.update(policy.init(N), seen_with((0.5, 0.0, 1.0, 0.5, 0.5)))
    assert s["radius"].tolist() == pytest.approx([1.0, 0.5, 1.5, 1.0, 1.0])
    one = Terms(torch.ones(B).double(), None, torch.zeros(B, K).double(), torch.ones(B).double(), 6.0)
    terms = apply_terms(one, ((policy, s),), torch.zeros(B, dtype=torch.int64))
    assert (terms.beta * terms.divergence).tolist() == pytest.approx([6 / 7] * B)
    assert terms.per_example.tolist() == pytest.approx([1.0] * B)  # 1/(1+β_y) + β_y/(1+β_y)


def test_p9_cfa_with_t_equal_one_minus_lambda_uses_eps_and_constant_t_is_trades_scaled() -> None:
    policy, model = CFA(lambda1=0.4, lambda2=0.5), fresh()
    s = policy.update(policy.init(N), seen_with((0.6,) * K))
    ours = under(TRADES(ON_KL, beta=6.0), policy, model, dict(s))
    scaled = gradient(terms_of(TRADES(ON_KL, beta=6.0 * 1.1), model), model)
    assert agree(gradient(ours, model), scaled, factor=1 / (1 + 6.6), rtol=1e-8)
    before = replace(policy, begin=5)
    assert before.update(before.init(N), seen_with((0.6,) * K, number=4))["radius"].tolist() == [1.0] * K


def test_cfa_moves_radii_towards_easy_classes() -> None:
    _, y, _ = batch()
    policy = CFA()
    s = policy.update(policy.init(N), seen_with((0.9, 0.1, 0.5, 0.5, 0.5)))
    eps = apply_radii(PGDAT(ON_CE), ((policy, s),), y).attack.ball.eps
    assert torch.allclose(eps[y == 0], vector(0.14)) and torch.allclose(eps[y == 1], vector(0.06))
    assert apply_radii(Standard(), ((policy, s),), y) == Standard()


def dafa_slowly(p: np.ndarray, scale: float) -> list[float]:
    found = []
    for i in range(len(p)):
        total = 1.0
        for j in range(len(p)):
            if j != i:
                total += scale * (p[i, j] * p[j, j] if p[i, i] < p[j, j] else -p[j, i] * p[i, i])
        found.append(total)
    return found


def test_p20_dafas_weights_add_up_to_the_classes_and_move_from_easy_to_hard() -> None:
    g = torch.Generator().manual_seed(2)
    for _ in range(20):
        p = torch.rand(K, K, generator=g, dtype=torch.float64).softmax(1)
        w = class_weights(p, 1.0)
        assert w.tolist() == pytest.approx(dafa_slowly(p.numpy(), 1.0)) and w.sum().item() == pytest.approx(K)
        assert w[p.diagonal().argmin()] > 1 > w[p.diagonal().argmax()]
        assert class_weights(p, 0.0).tolist() == [1.0] * K


def test_dafa_waits_for_its_warm_up_and_then_stays() -> None:
    policy = DAFA(warmup=0.5)
    early, then = (replace(seen_with((0.9, 0.1, 0.5, 0.5, 0.5), number=n)) for n in (4, 5))
    sums = torch.full((K, K), 0.1, dtype=torch.float64) + torch.diag(vector(0.8, 0.1, 0.4, 0.3, 0.2))
    then = replace(then, train=replace(then.train, probability=100 * sums))
    assert policy.update(policy.init(N), early)["weight"].tolist() == [1.0] * K
    s = policy.update(policy.init(N), then)
    assert s["weight"].tolist() == pytest.approx(dafa_slowly(sums.numpy(), 1.0))
    assert policy.update(s, replace(early, number=6)) is s
    _, y, _ = batch()
    attack = apply_radii(TRADES(ON_KL), ((policy, s),), y).attack
    assert torch.allclose(attack.ball.eps, 0.1 * s["weight"][y]) and torch.allclose(attack.step, 0.05 * s["weight"][y])
    model = fresh()
    ours, plain = under(TRADES(ON_KL), replace(policy, scale=0.0), model, dict(s)), None
    plain = replace(TRADES(ON_KL), attack=attack)
    terms = terms_of(plain, model)
    assert torch.allclose(ours.label, s["weight"][y] * terms.label) and torch.allclose(
        ours.divergence, terms.divergence
    )


def test_p20_wat_without_a_rate_is_a_multiple_of_trades() -> None:
    model, policy = fresh(), WAT(eta=0.0)
    plain = gradient(terms_of(TRADES(ON_KL), model), model)
    assert agree(gradient(under(TRADES(ON_KL), policy, model), model), plain, factor=2.0)  # the first epoch
    s = policy.update(policy.init(N), seen_with((0.5,) * K))
    assert agree(gradient(under(TRADES(ON_KL), policy, model, dict(s)), model), plain, factor=2 * K / (K + 1))


def test_wat_sharpens_with_added_costs_and_ignores_a_constant() -> None:
    policy = WAT(eta=0.1)
    seen = seen_with((0.5,) * K)
    s = policy.update(policy.init(N), seen)
    cost = torch.cat([vector(*range(K)) / 100, vector(sum(range(K)) / (100 * K))])
    assert torch.allclose(s["weight"], K * (0.1 * cost).softmax(0)) and s["weight"].sum().item() == pytest.approx(K)
    shifted = K * (0.1 * (cost + 7)).softmax(0)
    assert torch.allclose(shifted, s["weight"])
    assert policy.update(s, seen)["weight"].std() > s["weight"].std()


@pytest.mark.parametrize("radius", [0.01, 0.1, 0.5, 1.0])
def test_faals_closed_form_against_a_general_solver(radius: float) -> None:
    g = np.random.default_rng(0)
    for _ in range(5):
        gain = g.normal(size=6)
        ours = worst_weights(torch.from_numpy(gain), radius).numpy()
        divergence = np.mean(np.log(1 / (6 * ours)))
        assert ours.sum() == pytest.approx(1) and divergence == pytest.approx(radius, rel=1e-6)
        assert (np.argsort(ours) == np.argsort(gain)).all()
        found = minimize(
            lambda w, gain=gain: -w @ gain,
            np.full(6, 1 / 6),
            bounds=[(1e-6, 1)] * 6,
            constraints=[
                {"type": "eq", "fun": lambda w: w.sum() - 1},
                {"type": "ineq", "fun": lambda w: radius - np.mean(np.log(1 / (6 * w)))},
            ],
            tol=1e-12,
        )
        assert ours @ gain >= found.x @ gain - 1e-6


def test_p20_faal_of_radius_zero_is_uniform_and_larger_ones_favour_small_margins() -> None:
    gain = vector(-0.5, 0.3, -0.1, 0.0, -0.9)
    assert (
        worst_weights(gain, 0.0).tolist() == [0.2] * K
        and worst_weights(torch.zeros(K).double(), 0.5).tolist() == [0.2] * K
    )
    model = fresh()
    _, y, _ = batch()
    ours, plain = under(PGDAT(ON_CE), FAAL(), model), terms_of(PGDAT(ON_CE), model)
    weight = ours.per_example / plain.per_example
    p = plain.adversarial.softmax(1).detach()
    margin = p.scatter(1, y[:, None], -1).amax(1) - p.gather(1, y[:, None]).squeeze(1)
    gains = torch.zeros(K).double().index_add(0, y, margin) * K / B
    present = [c for c in range(K) if (y == c).any()]
    by_class = [weight[y == c][0].item() for c in present]
    assert np.argsort(by_class).tolist() == gains[present].argsort().tolist()


def test_cfol_draws_the_classes_that_fail() -> None:
    policy = CFOL(eta=1.0, gamma=0.5)
    s = policy.init(N)
    assert policy.sampling(s).tolist() == pytest.approx([0.25, 0.25, 0, 0.25, 0.25])
    s = policy.update(s, seen_with((0.9, 0.1, 0.5, 0.5, 0.5)))
    q = policy.sampling(s)
    e = np.exp([0.1, 0.9, 0.5, 0.5])
    assert q[[0, 1, 3, 4]].tolist() == pytest.approx((0.125 + 0.5 * e / e.sum()).tolist()) and q[2] == 0


def test_the_confusion_regulariser_by_hand() -> None:
    policy, model = ConfusionPenalty(weight=2.0), fresh()
    s = policy.update(policy.init(N), seen_with((0.9, 0.2, 0.5, 0.5, 1.0)))
    m = s["confused"]
    assert m.diagonal().sum() == 0 and m.sum(1).tolist() == [1, 1, 1, 1, 0] and m[1, 0] == 1
    _, y, _ = batch()
    ours, plain = under(Standard(), policy, model, dict(s)), terms_of(Standard(), model)
    extra = torch.stack(
        [sum(m[t, j] * p[j] for j in range(K)) for t, p in zip(y.tolist(), plain.clean.softmax(1), strict=True)]
    )
    assert torch.allclose(ours.per_example, plain.per_example + 2 * extra)


def test_the_similarity_regulariser_by_hand() -> None:
    model = fresh()
    _, y, _ = batch()
    ours, plain = under(Standard(), SimilarityPenalty(0.5), model), terms_of(Standard(), model)
    z, classes = plain.clean, sorted(set(y.tolist()))
    means = [z[y == c].mean(0) for c in classes]
    pairs = [
        max(0.0, torch.nn.functional.cosine_similarity(means[i], means[j], dim=0).item())
        for i in range(len(means))
        for j in range(i)
    ]
    assert torch.allclose(ours.per_example, plain.per_example + 0.5 * sum(pairs) / len(pairs))


@pytest.mark.parametrize("name", POLICIES)
def test_p17_relabelling_permutes_every_policys_update(name: str) -> None:
    policy = POLICIES[name].policy
    if isinstance(policy, ImportantClass | ClassWeights | ClassRadii):
        pytest.skip("it names classes")
    accuracy, order = (0.9, 0.1, 0.6, 0.5, 0.3), [2, 4, 1, 0, 3]
    g = torch.Generator().manual_seed(0)
    confusion = torch.randint(1, 50, (K, K), generator=g)
    p = torch.rand(K, K, generator=g, dtype=torch.float64)
    counts = confusion.sum(1)
    right = confusion.diagonal()
    natural = (right + 3).minimum(counts)
    seen = Seen(Tally(counts, natural), Tally(counts, right), confusion, p, vector(*accuracy), vector(*accuracy))
    moved = Seen(
        Tally(counts[order], natural[order]), Tally(counts[order], right[order]), confusion[order][:, order],
        p[order][:, order], seen.entropy[order], seen.loss[order],
    )  # fmt: skip
    warm = 6 if isinstance(policy, DAFA) else 1
    n = torch.tensor([20, 3, 5, 9, 1])
    looked = {name: vector(1.5, 0.3, 2.0, 1.1, 0.7) for name in (SURVIVED, SPREAD, *LOSSES)}
    a = policy.update(policy.init(n), Epoch(warm, 10, 0.1, seen, seen, observed=looked))
    looked = {name: value[order] for name, value in looked.items()}
    b = policy.update(policy.init(n[order]), Epoch(warm, 10, 0.1, moved, moved, observed=looked))
    for key, value in a.items():
        rows = [*order, K] if len(value) == K + 1 else order
        wanted = value[rows][:, order] if value.dim() == 2 else value[rows]
        assert torch.allclose(wanted.double(), b[key].double()), key
