"""FAB beside its authors' code, on networks that others trained."""

import time
from pathlib import Path

import pytest
import torch

from leastwise.attacks.fab.fab import FAB
from leastwise.attacks.fab.hyperplane import step_onto
from leastwise.attacks.threats import L1, L2, Ball, Linf, is_in_ball, is_in_pixel_range
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask
from leastwise.models.classifier import Classifier
from tests.oracles.networks import points

peer = pytest.importorskip("pyautoattack.fab_pt")
projections = pytest.importorskip("pyautoattack.fab_projections")

BATCH = 100


def ours(attack: FAB, model: Classifier, x: Images, y: Labels, ids: Labels) -> tuple[Mask, float]:
    """Who is fooled, and the processor's seconds."""
    begun, found = time.process_time(), []
    for rows in torch.arange(len(x)).split(BATCH):
        found.append(attack.run(model, x[rows], y[rows], Noise(0, ids[rows], "/test")))
    seconds = time.process_time() - begun
    x_adv, fooled = (torch.cat([getattr(part, name) for part in found]) for name in ("x_adv", "fooled"))
    assert bool(attack.allows(x, x_adv).all()) and torch.equal(fooled, model(x_adv).argmax(1) != y)
    return fooled, seconds


def theirs(attack: FAB, model: Classifier, x: Images, y: Labels) -> tuple[Mask, float]:
    port = peer.FABAttack_PT(
        model,
        norm=type(attack.ball).__name__,
        n_iter=attack.steps,
        eps=attack.ball.eps,
        targeted=attack.targets > 0,
        n_target_classes=attack.targets,
        device="cpu",
    )
    begun, found = time.process_time(), []
    with torch.random.fork_rng(devices=[]):
        for rows in torch.arange(len(x)).split(BATCH):
            found.append(port.perturb(x[rows].clone(), y[rows].clone()))
    seconds = time.process_time() - begun
    x_adv = torch.cat(found)
    return is_in_ball(attack.ball, x, x_adv) & is_in_pixel_range(x_adv) & (model(x_adv).argmax(1) != y), seconds


@pytest.mark.parametrize("ball", [Linf(1.0), L2(1.0), L1(1.0)], ids=str)
def test_a13_the_step_onto_a_hyperplane_is_the_ports(ball: Ball) -> None:
    """300 rows, a third of them with pixels at their bounds; gaps from nothing to more than the box allows."""
    g = torch.Generator().manual_seed(0)
    points = torch.rand(300, 200, generator=g)
    points[::3] = (points[::3] * 2 - 0.5).clamp(0, 1)
    w = torch.randn(300, 200, generator=g)
    gap = 40 * torch.randn(300, generator=g)
    project = {Linf: projections.projection_linf, L2: projections.projection_l2, L1: projections.projection_l1}[
        type(ball)
    ]
    port = project(points, w, (w * points).sum(1) - gap)
    step = step_onto(ball, points[None], w, gap=gap[None])[0]
    assert torch.allclose(step, port, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ball", "targets", "number"),
    [
        ("cifar_resnet2b", Linf(2 / 255), 9, 1000),
        ("mnist_cnn_a_adv", Linf(0.3), 9, 1000),
        ("cifar_resnet2b", L2(0.25), 9, 200),
        ("cifar_resnet2b", Linf(2 / 255), 0, 200),
        ("mnist_cnn_a_adv", Linf(0.3), 0, 200),
    ],
    ids=str,
)
def test_a13_fab_is_as_strong_as_the_port(test_data: Path, name: str, ball: Ball, targets: int, number: int) -> None:
    """100 steps, FAB-T and FAB: robust accuracy within half a point."""
    model, x, y, ids = points(test_data, name, number)
    attack = FAB(ball, targets=targets, keep="fooled")
    (fooled, mine), (port, other) = ours(attack, model, x, y, ids), theirs(attack, model, x, y)
    survive = [100 * (1 - float(part.double().mean())) for part in (fooled, port)]
    agree = 100 * float((fooled == port).double().mean())
    print(f"{name}, {attack}: {survive[0]:.1f} % survive ours, {survive[1]:.1f} % the port's; same for {agree:.1f} %")
    print(f"{mine:.0f} s ours, {other:.0f} s the port's, ratio {other / mine:.2f}")
    assert survive[0] <= survive[1] + 0.5 and agree > 98
    assert mine < other


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cifar_resnet2b", "mnist_cnn_a_adv"])
def test_a13_fab_t_takes_less_time_than_the_port(test_data: Path, name: str) -> None:
    """50 images, seconds of the processor, in turn. Only ours is type-checked here."""
    model, x, y, ids = points(test_data, name, 50)
    attack = FAB(Linf(2 / 255 if name == "cifar_resnet2b" else 0.3), steps=30, keep="fooled")
    seconds = [0.0, 0.0]
    for _ in range(3):
        seconds[0] += ours(attack, model, x, y, ids)[1]
        seconds[1] += theirs(attack, model, x, y)[1]
    print(f"{name}: {seconds[0]:.1f} s ours, {seconds[1]:.1f} s the port's, ratio {seconds[1] / seconds[0]:.2f}")
    assert 1.2 * seconds[0] < seconds[1]
