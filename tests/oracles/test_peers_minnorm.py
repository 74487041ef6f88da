"""Searches for the nearest mistake beside Foolbox's, on networks that others trained: same images, same budget."""

from functools import cache
from pathlib import Path

import foolbox
import numpy as np
import pytest
import torch
from torch import nn

from leastwise.attacks.min_norm.cw import CWL2, CWInf
from leastwise.attacks.min_norm.ddn_fmn import DDN, FMN, median_distance
from leastwise.attacks.min_norm.hop_skip_jump import HopSkipJump
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.core.noise import Noise
from leastwise.data.loading import load
from leastwise.models.classifier import Classifier
from tests.attacks.networks_to_attack import Watched, mixed
from tests.oracles.networks import cifar_network, mnist_cnn

PER_CLASS = 10

PAIRS = {
    "DDN": (DDN(L2(1.0)), foolbox.attacks.DDNAttack(steps=100)),
    "FMN Linf": (FMN(Linf(1.0)), foolbox.attacks.LInfFMNAttack(steps=100)),
    "FMN L2": (FMN(L2(1.0)), foolbox.attacks.L2FMNAttack(steps=100)),
    "FMN L1": (FMN(L1(1.0)), foolbox.attacks.L1FMNAttack(steps=100)),
    "CW L2": (CWL2(L2(1.0), iterations=200), foolbox.attacks.L2CarliniWagnerAttack(steps=200)),
}


@cache
def network(folder: Path, name: str) -> tuple[Classifier, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The network and the first images of each class that it gets right."""
    file, model = {
        "mnist": ("mnist_test.npz", lambda: mnist_cnn(folder)),
        "cifar": ("cifar10_test_first2000.npz", lambda: cifar_network(folder, "cifar_resnet2b")),
    }[name]
    net = model().eval().requires_grad_(False)
    data = load(str(folder / file)).take(2 * PER_CLASS)
    x, y, ids = data.batch(np.arange(len(data.labels)))
    right = net(x).argmax(1) == y
    rows = torch.cat([(right & (y == c)).nonzero().flatten()[:PER_CLASS] for c in range(10)])
    return net, x[rows], y[rows], ids[rows]


def foolbox_distance(
    attack: foolbox.attacks.base.Attack, net: nn.Module, x: torch.Tensor, y: torch.Tensor, ball: Ball
) -> torch.Tensor:
    """Infinity where it found none: it then returns the image, or for CW a black one, which is no finding either."""
    torch.manual_seed(0)
    x_adv, _, _ = attack(foolbox.models.PyTorchModel(net, bounds=(0, 1), device="cpu"), x, y, epsilons=None)
    found = (net(x_adv).argmax(1) != y) & (x_adv.flatten(1).abs().amax(1) > 0)
    return torch.where(found, ball.norm(x_adv - x).double(), torch.inf)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", ["mnist", "cifar"])
def test_median_distance_is_at_most_foolboxs(test_data: Path, name: str, pair: str) -> None:
    """Within 3 %, overall and over the ten classes.

    Foolbox 3.3.4 divides a norm by itself in the projection of its L2FMNAttack, so that nothing is projected: on the
    CIFAR network its median is three times ours, and DDN's agrees with ours (the test below).
    """
    ours, theirs = PAIRS[pair]
    net, x, y, ids = network(test_data, name)
    mine = ours.closest(net, x, y, Noise(0, ids, "/test")).distance
    other = foolbox_distance(theirs, net, x, y, ours.ball)
    medians = (
        median_distance(mine, torch.zeros_like(y), 1).item(),
        median_distance(other, torch.zeros_like(y), 1).item(),
    )
    lost = int(mine.isinf().sum()), int(other.isinf().sum())
    nearer = float((mine <= 1.001 * other).double().mean())
    print(f"{name} {pair}: median {medians[0]:.4f} / {medians[1]:.4f}, none found {lost}, as near {nearer:.2f}")
    assert medians[0] <= 1.03 * medians[1]
    assert lost[0] <= lost[1]
    classes = median_distance(mine, y, 10) / median_distance(other, y, 10)
    finite = classes.isfinite()
    assert int(finite.sum()) >= 8 and float(classes[finite].mean()) <= 1.03


@pytest.mark.slow
def test_three_searches_agree_on_the_l2_distance(test_data: Path) -> None:
    net, x, y, ids = network(test_data, "cifar")
    attacks = (DDN(L2(1.0), steps=200), FMN(L2(1.0), steps=200), CWL2(L2(1.0), iterations=100, c=1.0, searches=5))
    ddn, fmn, cw = (a.closest(net, x, y, Noise(0, ids, "/test")).distance.median().item() for a in attacks)
    print(f"DDN {ddn:.4f}, FMN {fmn:.4f}, CW {cw:.4f}")
    assert fmn == pytest.approx(ddn, rel=0.05) and cw == pytest.approx(ddn, rel=0.05)


@pytest.mark.slow
def test_cw_inf_is_a_quarter_farther_than_fmn_on_a_real_network(test_data: Path) -> None:
    """Its rules settle on a small c, with which tau soon fails; with the authors' own it was a quarter farther too."""
    net, x, y, ids = network(test_data, "cifar")
    x, y, ids = x[::2], y[::2], ids[::2]
    cw, fmn = (
        a.closest(net, x, y, Noise(0, ids, "/test")).distance
        for a in (CWInf(iterations=200), FMN(Linf(1.0), steps=200))
    )
    ratio = cw / fmn
    print(f"CW-inf / FMN: {ratio.min():.3f}, {ratio.median():.3f}, {ratio.max():.3f}")
    assert float(ratio.min()) > 0.97
    assert 1.0 < float(ratio.median()) < 1.35


@pytest.mark.parametrize(("ball", "norm"), [(L2(1.0), "l2"), (Linf(1.0), "linf")])
def test_hop_skip_jump_is_as_near_as_foolboxs_with_as_many_queries(ball: Ball, norm: str) -> None:
    """Theirs counted by a hook; the median over the images at most 5 % farther, since both are random."""
    net, x, _ = mixed(torch.float32)
    x = x[:12]
    y = net(x).argmax(dim=1)
    watched = Watched(net).eval()
    theirs = foolbox_distance(foolbox.attacks.HopSkipJumpAttack(steps=4, constraint=norm), watched, x, y, ball)
    queries = sum(len(shown) for shown in watched.shown) // len(x) - 1  # one judged the result
    ours = HopSkipJump(ball, queries=queries).closest(net, x, y, Noise(0, torch.arange(len(x))))
    assert float(ours.distance.median()) <= 1.05 * float(theirs.median()) and ours.forwards <= queries * len(x)
