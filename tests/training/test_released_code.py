"""Surroundings of methods as their released code has them, each against a few lines written from that code's rules."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from leastwise.attacks.threats import Gaussian, Linf
from leastwise.core.counts import Tally
from leastwise.training.averaging import FAWA
from leastwise.training.awp import AWP
from leastwise.training.base import Epoch, Seen
from leastwise.training.loop import fit
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.standard import Standard
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.cfa import CFA
from leastwise.training.policies.faal import FAAL
from leastwise.training.policies.frl import FRL
from leastwise.training.recipe import Adam, AdamW, Training
from leastwise.training.registry import METHODS, POLICIES, apply_settings
from leastwise.training.schedules import SCHEDULES, Constant
from tests.conftest import B, K
from tests.training.batches_and_losses import ON_CE, ON_KL, agree, batch, blobs, fresh, gradient, terms_of, under


def rates_from_one(epochs: int, peak: float, drops: tuple[int, ...]) -> list[float]:
    """`for epoch in range(1, epochs + 1)`, divided by ten `if epoch >=` each of the drops."""
    return [peak / 10 ** sum(epoch >= drop for drop in drops) for epoch in range(1, epochs + 1)]


@pytest.mark.parametrize(
    ("name", "epochs", "peak", "drops"),
    [("trades", 76, 0.1, (75, 90, 100)), ("mart", 120, 0.01, (75, 90, 100)), ("dafa", 110, 0.1, (100, 105))],
)
def test_schedules_count_epochs_as_the_code_does(name: str, epochs: int, peak: float, drops: tuple[int, ...]) -> None:
    steps = 391
    middles = [(epoch * steps + steps // 2 + 1) / (epochs * steps + 1) for epoch in range(epochs)]
    assert [SCHEDULES[name].rate(at) for at in middles] == pytest.approx(rates_from_one(epochs, peak, drops))


def test_the_wide_networks_of_tian_have_as_many_low_epochs_as_the_code() -> None:
    """Madry and TRADES 2, HE 3, MART 16; the second drop of MART is in its last epoch."""
    from leastwise.papers.jobs import make_schedule
    from leastwise.papers.tian2021.exhibits import DEFENCES

    for name, epochs, low in (("Madry", 76, 2), ("TRADES", 76, 2), ("HE", 77, 3), ("MART", 90, 16)):
        t = DEFENCES[name]
        found = [make_schedule(t).rate((epoch + 0.5) / t.epochs) for epoch in range(t.epochs)]
        assert t.epochs == epochs and found == pytest.approx(rates_from_one(epochs, 0.1, (75, 90, 100)))
        assert sum(rate < 0.09 for rate in found) == low


def test_fast_imagenet_peaks_after_one_epoch() -> None:
    """Wong et al.'s configuration: 0 at epoch 0, 0.4 at 1, 0.04 at 6, 0.004 at 12, 0.0004 at 15."""
    found = [SCHEDULES["fast-imagenet"].rate(epoch / 15) for epoch in (0, 0.5, 1, 3.5, 6, 12, 15)]
    assert found == pytest.approx([0, 0.2, 0.4, 0.22, 0.04, 0.004, 0.0004])


def gaps(number: int) -> Epoch:
    """Validation in which the first class of five has an error 0.5 above the others'."""
    counts, right = torch.full((K,), 100), torch.tensor([40, 90, 90, 90, 90])
    seen = replace(Seen.empty(K), clean=Tally(counts, right), robust=Tally(counts, right // 2))
    return Epoch(number, 120, 0.001, Seen.empty(K), seen)


def test_frl_halves_its_rate_for_the_look_before_epoch_forty() -> None:
    """A plain loop: `if epoch % 40 == 0: rate /= 2`, then the update, then the epoch."""
    policy = FRL(limit=100.0, tau=0.0)
    s, phi, rate = policy.init(torch.full((K,), 100)), 0.0, 0.05
    for epoch in range(1, 121):
        if epoch % 40 == 0:
            rate /= 2
        phi = max(0.0, phi + rate * (0.6 - 0.2))  # R_nat(c) - R_nat, R_nat = 20 % of five classes of 100
        s = policy.update(s, gaps(epoch - 1))
        assert s["natural"][0].item() == pytest.approx(phi), epoch


def test_frl_remargin_is_the_loss_of_the_code_of_2021() -> None:
    """(Σ w0·CE + β Σ w1·KL) / Σ (w0 + w1), over the images of the batch."""
    model = fresh()
    _, y, _ = batch()
    natural = torch.tensor([0.2, 0, 0.1, 0, 0], dtype=torch.float64)
    policy = POLICIES["frl-remargin"].policy
    ours = under(TRADES(ON_KL, beta=1.0), policy, model, {"natural": natural})
    plain = terms_of(TRADES(ON_KL, beta=1.0), model)
    w0, w1 = (0.2 + natural - natural.mean())[y], torch.full((B,), 0.2, dtype=torch.float64)
    wanted = ((w0 * plain.label).sum() + (w1 * plain.divergence).sum()) / (w0 + w1).sum()
    assert ours.per_example.mean().item() == pytest.approx(wanted.item(), rel=1e-12)


def test_cfa_without_its_regularisation_still_divides_by_one_plus_beta() -> None:
    model = fresh()
    ours = gradient(under(TRADES(ON_KL, beta=6.0), CFA(regularisation=False), model), model)
    assert agree(ours, gradient(terms_of(TRADES(ON_KL, beta=6.0), model), model), factor=1 / 7)


def test_faals_absent_classes_have_no_part_in_the_objective() -> None:
    """Against a general solver of max Σ_i w_{y_i} m_{y_i} over the images of the batch."""
    from scipy.optimize import minimize

    model = fresh()
    _, y, _ = batch()
    y = torch.where(y == 4, 0, y)  # the last class is absent
    terms = PGDAT(ON_CE).loss(model, batch()[0], y, batch()[0])
    found = FAAL(radius=0.3).part_weights(terms, y, {}).label / K
    p = terms.attacked.detach().softmax(1)
    own = p[torch.arange(B), y]
    margin = (p.scatter(1, y[:, None], -1).amax(1) - own).numpy()
    means = np.array([margin[y.numpy() == c].mean() if (y == c).any() else 0.0 for c in range(K)])
    solved = minimize(
        lambda w: -sum(w[t] * means[t] for t in y.tolist()),
        np.full(K, 1 / K),
        bounds=[(1e-6, 1)] * K,
        constraints=[
            {"type": "eq", "fun": lambda w: w.sum() - 1},
            {"type": "ineq", "fun": lambda w: 0.3 - np.mean(np.log(1 / (K * w)))},
        ],
        tol=1e-12,
    )
    assert found.numpy() == pytest.approx(solved.x[y.numpy()], abs=2e-4)


def test_faal_with_awp_perturbs_by_the_unweighted_loss() -> None:
    """A hand-written step: v from the plain loss, the gradient of the weighted one at w + v, one SGD step."""
    data = blobs((4, 4, 4, 4, 4), shape=(3, 8, 6))
    training = Training(
        PGDAT(replace(ON_CE, steps=1)), 1, 20, Constant(0.1), policies=(FAAL(),), awp=AWP(0.05, warmup=0.0)
    )
    weights = {}
    for weighs in (False, True):
        policy = type("Weighing", (FAAL,), {"weighs_perturbation": weighs})()
        model = fresh(seed=4)
        for _ in fit(model, data, replace(training, policies=(policy,))):
            pass
        weights[weighs] = torch.cat([p.flatten() for p in model.parameters()])
    model = fresh(seed=4)
    for _ in fit(model, data, training):
        pass
    ours = torch.cat([p.flatten() for p in model.parameters()])
    assert torch.equal(ours, weights[False]) and not torch.allclose(ours, weights[True])


def test_all_methods_smooth_labels_alike() -> None:
    """torch's own convention, 1 - a + a/k on the label, unless the other is asked for."""
    model = fresh()
    _, y, _ = batch()
    for objective in (Standard(smoothing=0.2), PGDAT(ON_CE, smoothing=0.2), TRADES(ON_KL, smoothing=0.2)):
        terms = terms_of(objective, model)
        z = terms.adversarial if isinstance(objective, PGDAT) else terms.clean
        assert torch.allclose(terms.label, F.cross_entropy(z, y, label_smoothing=0.2, reduction="none"))


def test_pgd_he_starts_from_gaussian_noise() -> None:
    assert METHODS["pgd-he"].make(Linf(0.1), 0.02, 5).attack.start == Gaussian(0.001)


@pytest.mark.parametrize(("optimiser", "decoupled"), [(Adam(weight_decay=0.1), False), (AdamW(weight_decay=0.1), True)])
def test_adam_and_adamw_by_hand(optimiser: Adam | AdamW, decoupled: bool) -> None:
    """Two steps of Kingma and Ba on a parabola; the decay is in the gradient, or apart from it."""
    layer = torch.nn.Linear(1, 1, bias=False).double()
    w = start = 2.0
    torch.nn.init.constant_(layer.weight, start)
    made, m, v = optimiser.make(layer, 0.01), 0.0, 0.0
    for t in (1, 2):
        g = 2 * w + (0.0 if decoupled else 0.1 * w)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = (w * (1 - 0.01 * 0.1) if decoupled else w) - 0.01 * (m / (1 - 0.9**t)) / (
            math.sqrt(v / (1 - 0.999**t)) + 1e-8
        )
        made.zero_grad()
        layer.weight.square().sum().backward()
        made.step()
        assert layer.weight.item() == pytest.approx(w, rel=1e-9)


def test_fawas_threshold_is_for_the_worst_class_of_many() -> None:
    """Twenty classes: the worst at 10 %, the next at 40 %, so that the worst two average 25 %."""
    right = torch.tensor([10, 40] + [60] * 18)
    seen = replace(Seen.empty(20), robust=Tally(torch.full((20,), 100), right), confusion=torch.diag(right))
    seen = replace(seen, confusion=seen.confusion + torch.diag(100 - right).roll(1, 1))
    epoch = Epoch(5, 10, 0.1, Seen.empty(20), seen)
    strict, relative = FAWA(threshold=0.2, start=0.0), FAWA(start=0.0)
    assert strict.tail(epoch) == pytest.approx(0.1) and relative.tail(epoch) == pytest.approx(0.25)
    assert strict.share(0, 0.5, (strict.tail(epoch),)) is None
    assert relative.share(0, 0.5, (relative.tail(epoch),)) == 1.0


def test_parts_of_an_attack_are_set_by_words() -> None:
    parts = {"method": PGDAT(ON_CE)}
    found = apply_settings(parts, ("attack.start=gaussian", "attack.goal=margin", "attack.goal.kappa=3"))["method"]
    assert found.attack.start == Gaussian(0.001) and found.attack.goal.kappa == 3
    with pytest.raises(ValueError, match=r"attack\.start must be zero or uniform or gaussian, but saw 'nowhere'"):
        apply_settings(parts, ("attack.start=nowhere",))
    with pytest.raises(ValueError, match=r"attack\.start is .*, which has no settings: size cannot be set"):
        apply_settings(parts, ("attack.start=zero", "attack.start.size=1"))
