"""Examples that leave the batch change nothing but the cost, on a real network in float32.

Batch size moves the last bits of a convolution, so verdicts are compared, not bits.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.pgd import PGD
from leastwise.attacks.square import Square
from leastwise.attacks.threats import Linf
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask
from leastwise.data.loading import load
from tests.oracles.networks import cifar_network

IMAGES, EPS = 1000, 2 / 255

Points = tuple[torch.nn.Module, Images, Labels, Noise]


@pytest.fixture(scope="module")
def points(test_data: Path) -> Points:
    x, y, ids = load(str(test_data / "cifar10_test_first2000.npz")).batch(np.arange(IMAGES))
    return cifar_network(test_data, "cifar_resnet2b").eval().requires_grad_(False), x, y, Noise(0, ids, "/test")


def agree(a: Mask, b: Mask) -> None:
    assert (a == b).float().mean() >= 0.998
    assert 0.2 < a.float().mean() < 0.8


@pytest.mark.slow
def test_pgd_in_float32(points: Points) -> None:
    """Against the plain way: nobody leaves, and all iterates are looked at afterwards."""
    model, x, y, noise = points
    attack = PGD(Linf(EPS), step=EPS / 4, steps=20, keep="fooled")
    whole = [x] + [replace(attack, keep="last", steps=t).run(model, x, y, noise).x_adv for t in range(21)]
    with torch.no_grad():
        ever = torch.stack([model(at).argmax(1) != y for at in whole]).any(0)
    agree(attack.run(model, x, y, noise).fooled, ever)


@pytest.mark.slow
def test_apgd_in_float32(points: Points) -> None:
    """With `keep="last"` nobody leaves, and a mistake at any iterate counts too."""
    model, x, y, noise = points
    attack = APGD(Linf(EPS), steps=50, keep="fooled")
    with torch.no_grad():
        wrong = model(x).argmax(1) != y
    agree(attack.run(model, x, y, noise).fooled, wrong | replace(attack, keep="last").run(model, x, y, noise).fooled)


@pytest.mark.slow
def test_square_in_float32(points: Points) -> None:
    """Square has no mode in which the fooled stay: the same images one small batch at a time."""
    model, x, y, noise = points
    attack = Square(Linf(EPS), queries=300, keep="fooled")
    parts = torch.arange(IMAGES).split(20)
    small = torch.cat([attack.run(model, x[rows], y[rows], noise.pick(rows)).fooled for rows in parts])
    agree(attack.run(model, x, y, noise).fooled, small)
