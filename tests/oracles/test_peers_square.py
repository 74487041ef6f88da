"""Square beside the PyTorch port of its authors, on networks that others trained."""

import time
from pathlib import Path

import pytest
import torch

from leastwise.attacks.square import Square, bump, share_of_image
from leastwise.attacks.threats import L2, Ball, Linf
from leastwise.core.noise import Noise
from leastwise.models.classifier import Classifier
from tests.oracles.networks import points

peer = pytest.importorskip("pyautoattack.square")


def theirs(model: Classifier, ball: Ball, queries: int) -> object:
    norm = type(ball).__name__
    return peer.SquareAttack(model, norm=norm, n_queries=queries, eps=ball.eps, seed=0, resc_schedule=False)


@pytest.mark.parametrize("queries", [37, 500, 5000, 10_000])
@pytest.mark.parametrize("rescale", [False, True])
def test_a14_schedule_is_the_ports(queries: int, rescale: bool) -> None:
    ours = Square(queries=queries, rescale=rescale)
    port = peer.SquareAttack(None, n_queries=queries, resc_schedule=rescale)
    assert [share_of_image(ours, i) for i in range(queries)] == [port.p_selection(i) for i in range(queries)]


@pytest.mark.parametrize("s", [1, 2, 3, 5, 6, 7, 11, 15, 29])
def test_a14_bump_is_the_ports(s: int) -> None:
    port = peer.SquareAttack(None, norm="L2", device="cpu")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        drawn = [port.eta(s) for _ in range(8)]  # turned at random
    ours = bump(s, torch.float32, torch.device("cpu"))
    assert any(torch.allclose(ours, one, atol=1e-6) for one in drawn)
    assert any(torch.allclose(ours.T, one, atol=1e-6) for one in drawn)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ball", "images", "queries"),
    [
        ("cifar_resnet2b", Linf(2 / 255), 1000, 1000),
        ("mnist_cnn_a_adv", Linf(0.3), 1000, 1000),
        ("cifar_resnet2b", L2(0.25), 500, 500),
    ],
    ids=str,
)
def test_a14_square_is_as_strong_as_the_port(test_data: Path, name: str, ball: Ball, images: int, queries: int) -> None:
    """The same images, number of queries and schedule, but other squares: at most half a point more survive.

    Seen: 60.5 % survive ours and 61.2 % the port's (CIFAR-10, Linf), 75.8 % and 75.8 % (MNIST), 63.0 % and 63.0 % (L2).
    """
    model, x, y, ids = points(test_data, name, images)
    found = Square(ball, queries=queries).run(model, x, y, Noise(0, ids, "/test"))
    with torch.random.fork_rng(), torch.no_grad():
        fooled = model(theirs(model, ball, queries).perturb(x, y)).argmax(1) != y
    ours, port = (100 * (1 - float(part.double().mean())) for part in (found.fooled, fooled))
    agree = 100 * float((found.fooled == fooled).double().mean())
    print(f"{name}, {ball}: {ours:.1f} % survive ours, {port:.1f} % the port's; same verdict for {agree:.1f} %")
    assert torch.equal(found.fooled, model(found.x_adv).argmax(1) != y)
    assert bool(Square(ball).allows(x, found.x_adv).all())
    assert ours <= port + 0.5 and agree > 96


@pytest.mark.slow
@pytest.mark.parametrize("ball", [Linf(2 / 255), L2(0.25)], ids=str)
def test_a14_square_is_not_slower_than_the_port(test_data: Path, ball: Ball) -> None:
    """200 images, 500 queries, seconds of the processor.

    Here every call of ours is type-checked as well, which left a ratio of 1.1 (Linf) and 1.3 (L2); without, it is
    1.4 to 1.5 and 1.6 to 1.8. The rest is the network's.
    """
    model, x, y, ids = points(test_data, "cifar_resnet2b", 200)
    attack, port = Square(ball, queries=500), theirs(model, ball, 500)
    seconds = [0.0, 0.0]
    for _ in range(3):  # in turn, so that a busy machine slows both
        begun = time.process_time()
        found = attack.run(model, x, y, Noise(0, ids, "/test"))
        between = time.process_time()
        with torch.random.fork_rng(), torch.no_grad():
            port.perturb(x, y)
        ended = time.process_time()
        seconds = [seconds[0] + between - begun, seconds[1] + ended - between]
    print(f"{ball}: {seconds[0]:.1f} s ours, {seconds[1]:.1f} s the port's, ratio {seconds[1] / seconds[0]:.2f}")
    assert found.forwards > 200 * 100
    assert seconds[0] < seconds[1]
