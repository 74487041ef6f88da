"""Noise: known answers of the generator, addresses that do not depend on the batch, and the right distributions."""

import numpy as np
import pytest
import torch
from scipy import stats

from leastwise.core.noise import Noise, philox, random_order

# Known answers of Philox4x32-10 published with its reference implementation (Random123).
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_known_answers(
    counter: tuple[int, int, int, int], key: tuple[int, int], answer: tuple[int, int, int, int]
) -> None:
    words = philox(tuple(torch.tensor([c]) for c in counter), key)
    assert tuple(int(w) for w in words) == answer


def noise(ids: list[int], seed: int = 0, draw: int = 0) -> Noise:
    return Noise(seed, torch.tensor(ids), "/test", draw)


@pytest.mark.parametrize("draw", ["uniform", "normal", "words"])
def test_an_examples_noise_does_not_depend_on_batch_size_or_position(draw: str) -> None:
    ids = [5, 2**40 + 1, 17, 0, 99]
    together = getattr(noise(ids), draw)((3, 4, 5))
    for place, example in enumerate(ids):
        assert torch.equal(getattr(noise([example]), draw)((3, 4, 5))[0], together[place])
    assert torch.equal(getattr(noise(ids[::-1]), draw)((3, 4, 5)), together.flip(0))
    assert torch.equal(getattr(noise(ids).pick(torch.tensor([3, 1])), draw)((3, 4, 5)), together[[3, 1]])


def test_seed_id_purpose_and_draw_each_change_it() -> None:
    base = noise([7]).uniform((50,))
    others = [
        noise([7], seed=1),
        noise([8]),
        noise([7 + 2**32]),
        noise([7], draw=1),
        noise([7]).fork("start"),
        noise([7]).fork("start", 3),
    ]
    drawn = [base] + [other.uniform((50,)) for other in others]
    assert len({tuple(d.flatten().tolist()) for d in drawn}) == len(drawn)
    assert torch.equal(base, noise([7]).uniform((50,)))


def test_a_fork_depends_on_the_draw_it_forks_from() -> None:
    """A restart inside an epoch differs from the same restart in another epoch."""
    a, b = (noise([7], draw=epoch).fork("restart", 2).uniform((9,)) for epoch in (0, 1))
    assert not torch.equal(a, b)


def test_seed_and_purpose_are_kept_apart() -> None:
    a, b = (Noise(seed, torch.tensor([0]), purpose).words((4,)) for seed, purpose in ((1, "2/a"), (12, "/a")))
    assert not torch.equal(a, b)


def test_float32_and_float64_draw_the_same_numbers() -> None:
    a, b = noise([3]).uniform((999,)), noise([3]).uniform((999,), torch.float64)
    assert torch.equal(a.double(), b)


def test_uniform_is_uniform_and_never_touches_the_ends() -> None:
    u = noise(list(range(200))).uniform((1000,)).flatten().double().numpy()
    assert u.min() > 0 and u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 0.001
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.01


def test_normal_is_normal() -> None:
    z = noise(list(range(200))).normal((1000,)).flatten().double().numpy()
    assert stats.kstest(z, "norm").pvalue > 0.001


def test_neighbouring_ids_and_draws_are_uncorrelated() -> None:
    a = noise(list(range(100))).normal((500,)).flatten()
    for other in (noise(list(range(1, 101))), noise(list(range(100)), draw=1), noise(list(range(100)), seed=1)):
        b = other.normal((500,)).flatten()
        assert abs(float((a * b).mean())) < 0.02


def test_the_global_generator_is_untouched() -> None:
    before = torch.random.get_rng_state()
    noise([1, 2]).normal((3, 3))
    random_order(torch.arange(10), 0, "order")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_shuffled_is_a_permutation_that_belongs_to_the_ids() -> None:
    ids = torch.arange(100, 400)
    order = random_order(ids, 0, "order")
    assert sorted(order.tolist()) == list(range(300)) and order.tolist() != list(range(300))
    kept = torch.arange(0, 300, 3)
    fewer = random_order(ids[kept], 0, "order")
    assert ids[kept][fewer].tolist() == [i for i in ids[order].tolist() if i in set(ids[kept].tolist())]
    assert order.tolist() != random_order(ids, 0, "order", draw=1).tolist()
    assert order.tolist() != random_order(ids, 1, "order").tolist()
