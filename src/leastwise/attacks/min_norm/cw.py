"""Carlini and Wagner's attacks (IEEE S&P 2017): the nearest mistake as an unconstrained minimum.

    minimise over w   D(x'(w) - x) + c · max(z_y - max_{j != y} z_j + confidence, 0),   x'(w) = (tanh w + 1) / 2

by Adam, where D is |d|_2² for `CWL2` and sum_i max(|d_i| - tau, 0) with a falling tau for `CWInf`. The factor c is
multiplied by ten until one succeeds and bisected from then on; `cw_search` has the loop.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from leastwise.attacks.base import Passes
from leastwise.attacks.choices import Keep
from leastwise.attacks.min_norm.cw_search import CarliniWagner, Descent, restart_adam, take_next_c
from leastwise.attacks.min_norm.search import (
    check_search,
    describe_search,
)
from leastwise.attacks.naming import NUMBER, AttackName, ball_in_norm
from leastwise.attacks.threats import L2, Ball, Linf, column
from leastwise.core.types import Images, Labels, Mask, PerExample


@dataclass(frozen=True)
class CWL2(CarliniWagner):
    """D = |d|_2². Each c starts at the image, and succeeds if any of its iterates is misclassified.

    As in the authors' code a c is given up when its loss has not fallen by 0.01 % over a tenth of the iterations; here
    each example has its own loss, there it is the batch's. Departures: 1,000 iterations where theirs are 10,000; no
    second run of the smallest successful c; eight bisections toward the image at the end. These matter near the
    boundary, where the first step of any c crosses it, since Adam's first step has the size lr in every pixel.
    """

    recipe_name: ClassVar[str] = "CWL2"

    ball: Ball = L2(0.5)
    iterations: int = 1000
    searches: int = 9
    lr: float = 0.01
    c: float = 1e-3  # the first
    confidence: float = 0.0
    patience: float = 0.1  # the share of the iterations over which the loss must fall
    bisections: int = 8  # at the end, between the image and the nearest mistake
    keep: Keep = "last"
    target: Labels | None = None
    adam_eps: ClassVar[float] = 1e-8

    def __post_init__(self) -> None:
        check_settings(self, L2)

    def __str__(self) -> str:
        return f"CW-2, {describe_budget(self)}, {self.ball}, {describe_search(self.keep, self.target)}"

    def cost(self, k: int) -> Passes:
        n, searches = self.iterations, self.searches
        return Passes(2 + searches * (n + 1) + self.bisections, searches * n)

    def size(self, d: Images, tau: PerExample) -> tuple[PerExample, Images]:
        return d.flatten(1).square().sum(dim=1), 2 * d

    def stalled(self, loss: PerExample, checked: PerExample) -> Mask:
        return ~(loss <= 0.9999 * checked)  # also where the loss is not a number

    def advance(self, now: Descent, at: Images, *, hit: Mask, distance: PerExample, over: Mask) -> Descent:
        return take_next_c(replace(now, won=now.won | hit), over)


@dataclass(frozen=True)
class CWInf(CarliniWagner):
    """D = sum_i max(|d_i| - tau, 0), as Carmon et al. (NeurIPS 2019) wrote it and Tian et al. (KDD 2021) used it.

    tau starts at 1; when a misclassified point has all its pixels within tau, tau becomes `tau_decay` times its
    distance and Adam starts anew from this point, until tau is at `tau_least`. Adam is given up after `iterations`, or
    when the loss has not fallen by 1e-4 over a tenth of them; then the next c starts at the image, with the tau where
    the last one failed. A c with at least one such point succeeds. The true label decides what is misclassified.

    Departures: in Carmon's code any misclassified iterate is a success at its tau, so a misclassified warm start always
    is one and every tau down to 1/256 gets a run, and a run goes on at loss zero. With these rules thirty CIFAR-10
    images took 10 times the passes for a median distance 4 % shorter. Eight bisections toward the image, which that
    code does not have, gain as much for eight forward passes.
    """

    recipe_name: ClassVar[str] = "CWInf"

    ball: Ball = Linf(0.031)
    iterations: int = 1000
    searches: int = 5
    lr: float = 0.005
    c: float = 0.01  # the first
    confidence: float = 0.0
    tau_decay: float = 0.9
    tau_least: float = 1 / 256
    patience: float = 0.1  # the share of the iterations over which the loss must fall
    bisections: int = 8  # at the end, between the image and the nearest mistake
    keep: Keep = "last"
    target: Labels | None = None
    adam_eps: ClassVar[float] = 1e-7

    def __post_init__(self) -> None:
        check_settings(self, Linf)
        if not 0 < self.tau_decay < 1:
            raise ValueError(f"tau_decay must be between 0 and 1, but saw {self.tau_decay}")
        if not self.tau_least > 0:
            raise ValueError(f"tau_least must be positive, or tau falls forever, but saw {self.tau_least}")

    def __str__(self) -> str:
        return f"CW-inf, {describe_budget(self)}, {self.ball}, {describe_search(self.keep, self.target)}"

    def cost(self, k: int) -> Passes:
        n = self.iterations
        # Adam begins anew with every c and with every tau, and a later c goes on with the tau of the one before.
        rounds = self.searches + math.ceil(math.log(self.tau_least) / math.log(self.tau_decay))
        return Passes(2 + rounds * (n + 1) + self.bisections, rounds * n)

    def size(self, d: Images, tau: PerExample) -> tuple[PerExample, Images]:
        excess = (d.abs() - column(tau, d)).clamp_min_(0)
        return excess.flatten(1).sum(dim=1), d.sign() * (excess > 0)

    def stalled(self, loss: PerExample, checked: PerExample) -> Mask:
        return ~(checked - loss > 1e-4)  # also where the loss is not a number

    def advance(self, now: Descent, at: Images, *, hit: Mask, distance: PerExample, over: Mask) -> Descent:
        solved = hit & (distance <= now.tau)
        tau = torch.where(solved, self.tau_decay * distance, now.tau)
        now = restart_adam(replace(now, tau=tau, won=now.won | solved), solved, at)
        finished = tau <= self.tau_least
        return take_next_c(replace(now, search=now.search.masked_fill(finished, self.searches)), over & ~solved)


def check_settings(attack: CarliniWagner, kind: type) -> None:
    """Refuse settings that make no sense."""
    counts = {"the number of iterations": attack.iterations, "the number of searches": attack.searches}
    positive = {"lr": attack.lr, "c": attack.c, "patience": attack.patience}
    check_search(attack.ball, (kind,), keep=attack.keep, counts=counts, positive=positive)
    if attack.bisections < 0 or not attack.confidence >= 0:
        raise ValueError(
            f"bisections and confidence must be zero or more, but saw {attack.bisections} and {attack.confidence}"
        )


def describe_budget(attack: CarliniWagner) -> str:
    """The part of an attack's description that says how long it searches."""
    sure = f" with confidence {attack.confidence:g}" if attack.confidence else ""
    return f"{attack.searches} searches of {attack.iterations} iterations of lr {attack.lr:g}{sure}"


CW_LINF = AttackName(
    CWInf,
    "cwinf[:N]",
    "cwinf:20",
    rf"cwinf(?::{NUMBER})?",
    lambda threat, n: CWInf(ball_in_norm(threat, Linf, "cwinf"), iterations=int(n or 1000), keep=threat.keep),
    "the smallest Linf distance by Carlini and Wagner's search; N Adam steps a round, 1000 unless given",
    "Carlini & Wagner 2017; settings of Tian et al. 2021",
    "up to N forwards and backwards × 5 values of c × values of tau; black and white pixels move slowly",
)
CW_L2 = AttackName(
    CWL2,
    "cwl2[:N]",
    "cwl2:20",
    rf"cwl2(?::{NUMBER})?",
    lambda threat, n: CWL2(ball_in_norm(threat, L2, "cwl2"), iterations=int(n or 1000), keep=threat.keep),
    "the smallest L2 distance by Carlini and Wagner's search; N Adam steps a round, 1000 unless given",
    "Carlini & Wagner 2017",
    "up to N forwards and backwards × 9 values of c; black and white pixels move slowly",
)
