"""APGD beside its authors' code, on networks that others trained."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.apgd.l1 import project_onto_ball_and_box
from leastwise.attacks.base import Outcome
from leastwise.attacks.goals import DLR
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask
from leastwise.models.classifier import Classifier
from tests.oracles.networks import points

peer = pytest.importorskip("pyautoattack.autopgd_base")

BATCH = 100


def ours(attack: APGD, model: Classifier, x: Images, y: Labels, ids: Labels) -> tuple[Outcome, float]:
    """What was found, and the processor's seconds."""
    begun, found = time.process_time(), []
    for rows in torch.arange(len(x)).split(BATCH):
        found.append(attack.run(model, x[rows], y[rows], Noise(0, ids[rows], "/test")))
    seconds = time.process_time() - begun
    columns = zip(*(one[:-1] for one in found), strict=True)  # all but `reached`, which is another attack's
    parts = [torch.cat(part) if isinstance(part[0], torch.Tensor) else sum(part) for part in columns]
    return Outcome(*parts), seconds


def theirs(attack: APGD, model: Classifier, x: Images, y: Labels) -> tuple[Mask, float]:
    """Who is fooled, and the processor's seconds. The settings are those of the standard suite for one restart."""
    settings = {
        "n_iter": attack.steps,
        "norm": type(attack.ball).__name__,
        "eps": attack.ball.eps,
        "use_largereps": isinstance(attack.ball, L1),
        "device": "cpu",
    }
    if attack.targets:
        port = peer.APGDAttack_targeted(model, n_target_classes=attack.targets, **settings)
    else:
        port = peer.APGDAttack(model, loss="dlr" if isinstance(attack.goal, DLR) else "ce", **settings)
    begun, found = time.process_time(), []
    with torch.random.fork_rng(devices=[]):
        for rows in torch.arange(len(x)).split(BATCH):
            found.append(port.perturb(x[rows].clone(), y[rows].clone()))
    seconds = time.process_time() - begun
    with torch.no_grad():
        return model(torch.cat(found)).argmax(1) != y, seconds


def compare(attack: APGD, test_data: Path, name: str, number: int) -> tuple[float, float, float]:
    """Percent that survive ours, that survive theirs, and with the same verdict."""
    model, x, y, ids = points(test_data, name, number)
    found, seconds = ours(replace(attack, keep="fooled"), model, x, y, ids)
    fooled, port_seconds = theirs(attack, model, x, y)
    with torch.no_grad():
        assert torch.equal(found.fooled, model(found.x_adv).argmax(1) != y)
    assert bool(attack.allows(x, found.x_adv).all())
    mine, port = (100 * (1 - float(part.double().mean())) for part in (found.fooled, fooled))
    agree = 100 * float((found.fooled == fooled).double().mean())
    print(
        f"{name}, {attack}: {mine:.1f} % survive ours ({seconds:.0f} s), {port:.1f} % theirs ({port_seconds:.0f} s); "
        f"same verdict for {agree:.1f} %"
    )
    return mine, port, agree


@pytest.mark.parametrize("eps", [0.5, 5.0, 30.0])
def test_l1_projection_is_theirs(eps: float) -> None:
    """Up to their rounding: at eps 0.5 their sum comes to 0.5001, and ours differs from float64 by 1e-6."""
    g = torch.Generator().manual_seed(0)
    x, d = torch.rand(20, 3, 16, 16, generator=g), torch.randn(20, 3, 16, 16, generator=g)
    port = x + d + peer.L1_projection(x, d, eps)
    assert torch.allclose(project_onto_ball_and_box(x, d, torch.full((20,), eps)), port, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("targets", [0, 9], ids=["APGD-CE", "APGD-T"])
@pytest.mark.parametrize(("name", "eps"), [("cifar_resnet2b", 2 / 255), ("mnist_cnn_a_adv", 0.3)])
def test_a10_apgd_is_as_strong_as_its_authors(test_data: Path, name: str, eps: float, targets: int) -> None:
    """1000 images, 100 steps; the random starts differ."""
    mine, port, agree = compare(APGD(Linf(eps), targets=targets), test_data, name, 1000)
    assert mine == pytest.approx(port, abs=0.5) and agree > 98


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    [
        APGD(L2(0.25)),
        APGD(L2(0.25), targets=3),
        APGD(L1(3.0)),
        APGD(L1(3.0), targets=3),
        APGD(Linf(2 / 255), DLR()),
    ],
    ids=str,
)
def test_a10_other_balls_and_goals_are_as_strong(test_data: Path, attack: APGD) -> None:
    """200 images, so that 1.5 points are three of them. In L1 another start changes up to four verdicts."""
    mine, port, agree = compare(attack, test_data, "cifar_resnet2b", 200)
    assert mine == pytest.approx(port, abs=1.5) and agree >= 97


@pytest.mark.slow
@pytest.mark.parametrize("ball", [Linf(2 / 255), L2(0.25)], ids=str)
def test_verdicts_in_float32_do_not_depend_on_who_left(test_data: Path, ball: Ball) -> None:
    model, x, y, ids = points(test_data, "cifar_resnet2b", 1000)
    right = model(x).argmax(1) == y
    x, y, ids = x[right], y[right], ids[right]
    stays, leaves = (ours(APGD(ball, steps=50, keep=keep), model, x, y, ids)[0] for keep in ("last", "fooled"))
    agree = float((stays.fooled == leaves.fooled).double().mean())
    print(f"{ball}: same verdict for {100 * agree:.2f} % of {len(x)} images")
    assert agree >= 0.998
