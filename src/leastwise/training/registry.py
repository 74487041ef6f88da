"""Training methods and class-wise policies by name: the tables that `leastwise list methods` prints."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

from leastwise.attacks.goals import CE, KL
from leastwise.attacks.pgd import PGD, Gaussian, Uniform
from leastwise.attacks.threats import Ball, Radius
from leastwise.core.text import did_you_mean
from leastwise.training.averaging import AVERAGINGS
from leastwise.training.base import Objective, Policy
from leastwise.training.methods.avmixup import AVmixup
from leastwise.training.methods.bat import BAT
from leastwise.training.methods.hypersphere import HE
from leastwise.training.methods.mart import MART
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.single_class import SingleClassAT, TargetedAT
from leastwise.training.methods.standard import Standard
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.cfa import CFA
from leastwise.training.policies.cfol import CFOL
from leastwise.training.policies.dafa import DAFA
from leastwise.training.policies.faal import FAAL
from leastwise.training.policies.frl import FRL
from leastwise.training.policies.regularisers import Confusion, Similarity
from leastwise.training.policies.wat import WAT
from leastwise.training.policies.weighting import LDAM, Balanced, EffectiveNumber, FairWeighting, ImportantClass


class Method(NamedTuple):
    """A row of the method table; `make` takes the inner attack's ball, step and number of steps."""

    make: Callable[[Ball, Radius, int], Objective]
    equation: str
    paper: str
    adds: str  # forward-backward passes of the batch per step; n is the number of attack steps


class ClassWise(NamedTuple):
    """A row of the policy table."""

    policy: Policy
    equation: str
    paper: str
    adds: str


def on_ce(ball: Ball, step: Radius, steps: int) -> PGD:
    return PGD(ball, CE(), step, steps, Uniform())


def beside(ball: Ball, step: Radius, steps: int) -> PGD:
    """From a Gaussian start, as the TRADES line of code has it."""
    return PGD(ball, CE(), step, steps, Gaussian(0.001))


def on_kl(ball: Ball, step: Radius, steps: int) -> PGD:
    return PGD(ball, KL(), step, steps, Gaussian(0.001))


def friendly(ball: Ball, step: Radius, steps: int) -> PGD:
    return PGD(ball, CE(), step, steps, Uniform(), keep="fooled", patience=min(3, steps))


def fast(ball: Ball) -> PGD:
    return PGD(ball, CE(), 1.25 * ball.eps, 1, Uniform())


ME_PAPER = "on rethinking robust fairness, ICLR 2022 submission"

METHODS: dict[str, Method] = {
    "standard": Method(lambda *_: Standard(), "CE(f(x), y)", "", "1"),
    "label-smoothing": Method(
        lambda *_: Standard(smoothing=0.1), "CE(f(x), (1-a)·y + a/k), a = 0.1", "Szegedy et al. 2016", "1"
    ),
    "max-entropy": Method(lambda *_: Standard(entropy=1.0), "CE(f(x), y) - β·H(p(x))", "Pereyra et al. 2017", "1"),
    "fgsm-rs": Method(
        lambda ball, *_: PGDAT(fast(ball)), "CE(f(x'), y), x' one step of 1.25 eps", "Wong et al. 2020", "2"
    ),
    "pgd-at": Method(lambda *a: PGDAT(on_ce(*a)), "CE(f(x'), y), x' by PGD on CE", "Madry et al. 2018", "n + 1"),
    "fat": Method(
        lambda *a: PGDAT(friendly(*a)),
        "CE(f(x'), y), x' by PGD that stops 3 steps after the first mistake",
        "Zhang et al. 2020",
        "at most n + 2",
    ),
    "trades": Method(
        lambda *a: TRADES(on_kl(*a)),
        "CE(f(x), y) + β_y·KL(p(x) || p(x')), x' by PGD on KL",
        "Zhang et al. 2019; β per class: Tian et al. 2021",
        "n + 2, a clean forward",
    ),
    "mart": Method(
        lambda *a: MART(beside(*a)),
        "BCE(p(x'), y) + β·KL(p(x) || p(x'))·(1 - p_y(x))",
        "Wang et al. 2020",
        "n + 2",
    ),
    "pgd-he": Method(
        lambda *a: HE(on_ce(*a)),
        "CE(s·(cos θ(x') - m·e_y), y); needs a cosine head",
        "Pang et al. 2020",
        "n + 1",
    ),
    "trades-he": Method(
        lambda *a: HE(on_kl(*a), scale=15.0, beta=6.0),
        "CE(s·(cos θ(x) - m·e_y), y) + β·KL; needs a cosine head",
        "Pang et al. 2020",
        "n + 2, a clean forward",
    ),
    "me-at": Method(
        lambda *a: PGDAT(on_ce(*a), entropy=0.5),
        "CE(f(x'), y) - β·H(p(x'))",
        ME_PAPER,
        "n + 1",
    ),
    "me-trades": Method(
        lambda *a: TRADES(on_kl(*a), beta=15.0, entropy=1.0),
        "TRADES - β·H(p(x))",
        ME_PAPER,
        "n + 2, a clean forward",
    ),
    "avmixup": Method(
        lambda *a: AVmixup(on_ce(*a)), "soft CE on the line from x to x + γ(x' - x)", "Lee et al. 2020", "n + 1"
    ),
    "bat": Method(
        lambda *a: BAT(on_kl(*a)),
        "CE(x_lc, y) + β·KL(p(x) || p(x_fa)) + KL(p(x_lc) || u) + KL(p(x_fa) || u)",
        "Sun et al. 2023",
        "n + 3, two forwards",
    ),
    "single-class-at": Method(
        lambda *a: SingleClassAT(on_ce(*a)),
        "CE(f(x'), y), x' attacked for some classes only",
        ME_PAPER,
        "1, and n for those classes",
    ),
    "targeted-at": Method(
        lambda *a: TargetedAT(on_ce(*a)),
        "CE(f(x'), y), x' towards one class",
        "proposed by Benz et al. 2021; formula ours",
        "n + 1",
    ),
}

POLICIES: dict[str, ClassWise] = {
    "fair-weighting": ClassWise(
        FairWeighting(), "γ_y·loss, γ_c ± α by class accuracy against overall", "Benz et al. 2021", "nothing"
    ),
    "important-class": ClassWise(ImportantClass(), "γ_y·loss, γ fixed for one class", "Benz et al. 2021", "nothing"),
    "confusion": ClassWise(
        Confusion(), "loss + w·Σ_j M[y,j]·p_j, M last epoch's confusion", "Benz et al. 2021; formula ours", "nothing"
    ),
    "similarity": ClassWise(
        Similarity(), "loss + w·mean max(0, cos(m_c, m_d))", "Benz et al. 2021; formula ours", "nothing"
    ),
    "balanced": ClassWise(Balanced(), "every class drawn equally often", "", "nothing"),
    "effective-number": ClassWise(EffectiveNumber(), "w_y·loss, w_c ∝ (1-β)/(1-β^n_c)", "Cui et al. 2019", "nothing"),
    "ldam": ClassWise(LDAM(), "CE(z - Δ_y·e_y, y), Δ_c ∝ n_c^(-1/4)", "Cao et al. 2019", "nothing"),
    "frl": ClassWise(
        FRL(),
        "w0_y·CE + β·w1_y·KL, weights follow validation errors above their bound",
        "Xu et al. 2021 (reweight)",
        "validation per epoch",
    ),
    "frl-remargin": ClassWise(
        FRL(boundary=False, margin_rate=0.1, limit=0.3, cap=2.5),
        "w0_y·CE + β·KL, eps_c grows with the boundary error above its bound",
        "Xu et al. 2021 (remargin, code of 2021)",
        "validation per epoch",
    ),
    "frl-both": ClassWise(
        FRL(tau=0.07, margin_rate=0.2, step_of_largest=True),
        "both",
        "Xu et al. 2021 (reweight + remargin)",
        "validation per epoch",
    ),
    "cfa": ClassWise(
        CFA(), "eps_c = (λ1 + t_c)·eps; (CE + β_y·KL)/(1 + β_y), β_c = (λ2 + t_c)·β", "Wei et al. 2023", "nothing"
    ),
    "dafa": ClassWise(DAFA(), "W_y·CE + β·KL, eps_c = W_c·eps, W from class to class", "Lee et al. 2024", "nothing"),
    "wat": ClassWise(
        WAT(), "(w_y + w_0)·loss, w ∝ exp(η·Σ validation loss)", "Li and Liu 2023", "validation per epoch"
    ),
    "faal": ClassWise(
        FAAL(), "k·w_y·loss, w worst within KL(u || w) <= r, per batch", "Zhang et al. 2024", "a bisection"
    ),
    "cfol": ClassWise(
        CFOL(),
        "classes drawn from γ/k + (1-γ)·softmax(η·Σ error)",
        "Pethick et al. 2023, by epochs; not checked against its code",
        "nothing",
    ),
}


def method(name: str) -> Method:
    if name in POLICIES:
        raise ValueError(f"{name} treats classes differently within a method: write `train trades --fair {name}`")
    if name in AVERAGINGS:
        raise ValueError(f"{name} averages the weights of a method: write `train trades --average {name}`")
    if name not in METHODS:
        raise ValueError(f"there is no training method {name!r}: {did_you_mean(name, METHODS)}")
    return METHODS[name]


def policy(name: str) -> Policy:
    if name not in POLICIES:
        raise ValueError(f"there is no class-wise policy {name!r}: {did_you_mean(name, POLICIES)}")
    return POLICIES[name].policy


def defaults(value: Any) -> str:
    """The settings of a method that are its own, as `--set` takes them."""
    own = {f.name: getattr(value, f.name) for f in fields(value) if f.name != "attack"}
    return " ".join(f"{name}={shown(held)}" for name, held in own.items())


def shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
