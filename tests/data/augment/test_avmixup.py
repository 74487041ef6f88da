"""AVmixup: printed labels, the limits of alpha, and one alpha for image and label."""

import pytest
import torch
from scipy import stats

from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels
from leastwise.data.augment.avmixup import adversarial_vertex, mix, mix_at, soften_labels
from tests.conftest import B, K


def noise(n: int) -> Noise:
    return Noise(0, torch.arange(n), "/test")


def adversary(x: Images) -> Images:
    return (x + 0.03 * torch.randn(x.shape, generator=torch.Generator().manual_seed(4))).clamp(0, 1)


def test_g11_the_label_of_the_vertex(batch: tuple[Images, Labels]) -> None:
    x, y = batch
    at_vertex = torch.zeros(B)
    _, ten = mix_at(at_vertex, x, x, y=y, k=10, gamma=2.0, clean=1.0, vertex=0.1)
    assert torch.allclose(ten, torch.full((B, 10), 0.1), atol=1e-8)
    _, hundred = mix_at(at_vertex, x, x, y=y, k=100, gamma=2.0, clean=1.0, vertex=0.1)
    true = torch.zeros(B, 100, dtype=torch.bool).scatter(1, y[:, None], True)
    assert torch.allclose(hundred[true], torch.tensor(0.1)) and torch.allclose(hundred[~true], torch.tensor(0.0090909))


def test_p10_alpha_one_is_the_clean_example_with_its_label(batch: tuple[Images, Labels]) -> None:
    x, y = batch
    images, labels = mix_at(torch.ones(B), x, adversary(x), y=y, k=K, gamma=2.0, clean=1.0, vertex=0.1)
    assert torch.equal(images, x) and torch.equal(labels, torch.eye(K)[y])


def test_p10_alpha_zero_gamma_one_is_the_adversarial_example_with_its_label(batch: tuple[Images, Labels]) -> None:
    x, y = batch
    x_adv = adversary(x)
    images, labels = mix_at(torch.zeros(B), x, x_adv, y=y, k=K, gamma=1.0, clean=1.0, vertex=1.0)
    assert torch.allclose(images, x_adv, atol=1e-7) and torch.equal(labels, torch.eye(K)[y])


@pytest.mark.parametrize("k", [2, 5, 10, 100])
def test_smoothed_labels(k: int) -> None:
    y = torch.arange(k)
    assert torch.equal(soften_labels(y, k, 1.0), torch.eye(k))
    assert torch.allclose(soften_labels(y, k, 1 / k), torch.full((k, k), 1 / k))
    soft = soften_labels(y, k, 0.3)
    assert torch.allclose(soft.sum(dim=1), torch.ones(k)) and torch.allclose(soft.diagonal(), torch.tensor(0.3))
    assert torch.allclose(soft[0, 1:], torch.tensor(0.7 / (k - 1)))


def test_smoothed_labels_refuse_nonsense() -> None:
    with pytest.raises(ValueError, match=r"but saw 1 and 0\.5"):
        soften_labels(torch.zeros(1, dtype=torch.long), 1, 0.5)
    with pytest.raises(ValueError, match=r"but saw 3 and 1\.5"):
        soften_labels(torch.zeros(1, dtype=torch.long), 3, 1.5)


def test_vertex_is_gamma_times_as_far_and_only_clipped_to_the_pixel_range() -> None:
    x = torch.tensor([0.5, 0.5, 0.02]).view(1, 1, 1, 3)
    x_adv = torch.tensor([0.53, 0.47, 0.0]).view(1, 1, 1, 3)
    assert torch.allclose(adversarial_vertex(x, x_adv, 2.0).flatten(), torch.tensor([0.56, 0.44, 0.0]))


def test_image_and_label_share_one_uniform_alpha_per_example() -> None:
    n, k, h = 3000, 4, 3
    x, x_adv, y = torch.full((n, 1, h, h), 0.4), torch.full((n, 1, h, h), 0.5), torch.arange(n) % k
    images, labels = mix(x, x_adv, y, k=k, noise=noise(n), gamma=2.0, clean=1.0, vertex=0.1)
    assert torch.allclose(labels.sum(dim=1), torch.ones(n))
    from_label = (labels.gather(1, y[:, None]).squeeze(1) - 0.1) / 0.9
    from_image = (0.6 - images.flatten(1)) / 0.2
    assert torch.allclose(from_image, from_label[:, None].expand(n, h * h), atol=1e-5)
    assert stats.kstest(from_label.double().clamp(0, 1), "uniform").pvalue > 0.001


def test_an_examples_mix_does_not_depend_on_its_batch(batch: tuple[Images, Labels]) -> None:
    x, y = batch
    together = mix(x, adversary(x), y, k=K, noise=noise(B))
    rows = torch.tensor([7, 2])
    apart = mix(x[rows], adversary(x)[rows], y[rows], k=K, noise=noise(B).pick(rows))
    assert all(torch.equal(a[rows], b) for a, b in zip(together, apart, strict=True))
